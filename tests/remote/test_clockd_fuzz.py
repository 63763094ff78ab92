"""The program of root against a host that sends anything: it sets what its own table names, and nothing else."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from remote import boards, bundle
from remote.onboard.clockd import Clockd
from remote.onboard.journal import FOLDER, KEPT_FOLDER
from remote.onboard.system import Handle, System
from remote.sim.machine import Machine
from remote.sim.processes import SimProcess
from remote.sim.system import TwinSystem
from tests.conftest import SOAK
from tests.contract.backends import tree

SECRET = "/etc/shadow"
CPU = "/sys/devices/system/cpu/cpu0"
MOST_TURNS = 2000
TRIALS = 5000 if SOAK else 100


class Line(Handle):
    """What the host has sent and the program has not read yet."""

    def __init__(self) -> None:
        super().__init__(-1)
        self.data = b""

    def read(self) -> bytes:
        data, self.data = self.data[:65536], self.data[65536:]
        return data


class Folder(System):
    """The real system on a folder that holds a small board."""

    def __init__(self, root: Path) -> None:
        tree(root)
        secret = root / SECRET.lstrip("/")
        secret.parent.mkdir()
        secret.write_text("root:*\n")
        super().__init__(str(root))
        self.input: Handle = Line()
        self._said: list[bytes] = []

    def say(self, data: bytes) -> None:
        cast(Line, self.input).data += data

    def unread(self) -> bool:
        return bool(cast(Line, self.input).data)

    def said(self) -> list[bytes]:
        return self._said

    def send(self, data: bytes) -> None:
        self._said.append(data)

    def wait(self, handles: list[Handle], until_s: float | None) -> list[Handle]:
        return [handle for handle in handles if isinstance(handle, Line) and handle.data]

    def state(self) -> dict[str, str]:
        """Returns every file but those of edgeperf itself."""
        files = {
            str(path)[len(self.root) :]: path.read_text().strip()
            for path in Path(self.root).rglob("*")
            if path.is_file()
        }
        return {path: text for path, text in files.items() if not path.startswith((FOLDER, KEPT_FOLDER))}


class Twin(TwinSystem):
    """A simulated board that notes what it is made to do."""

    def __init__(self, board: str) -> None:
        spec = boards.load(board)
        super().__init__(Machine(board, spec.release(""), spec.twin), "root")
        self.paths: set[str] = set()
        self.started: list[tuple[str, ...]] = []

    def say(self, data: bytes) -> None:
        self.input.feed(data)

    def unread(self) -> bool:
        return self.input.ready

    def said(self) -> list[bytes]:
        return self.outbox

    def write(self, path: str, text: str) -> None:
        self.paths.add(path)
        super().write(path, text)

    def save(self, path: str, data: bytes) -> None:
        assert path.startswith((FOLDER, KEPT_FOLDER))
        super().save(path, data)

    def spawn(self, argv: Sequence[str], env: Mapping[str, str], stdin: str) -> SimProcess:
        self.started.append(tuple(argv))
        return super().spawn(argv, env, stdin)


Board = TypeVar("Board", Folder, Twin)


class Host(Generic[Board]):
    """Says anything to a `Clockd` on a board."""

    def __init__(self, board: Board) -> None:
        self.board: Board = board
        self.clockd = Clockd(cast(System, board), boards.table(), "build")
        self.clockd.start()
        (hello,) = self.heard()
        self.knobs = {knob["id"]: knob for knob in hello["settings"]["knobs"]}

    def heard(self) -> list[dict[str, Any]]:
        """Returns what the program said since the last time; all of it must be JSON."""
        said = b"".join(self.board.said())
        self.board.said().clear()
        return [json.loads(line) for line in said.splitlines()]

    def tell(self, data: bytes) -> list[dict[str, Any]]:
        """Sends bytes and returns the answers, once all was read."""
        self.board.say(data)
        for _ in range(MOST_TURNS):
            if not self.board.unread() or self.clockd.closed:
                return self.heard()
            self.clockd.turn()
        raise AssertionError("it does not come to an end")

    def ask(self, **request: object) -> dict[str, Any]:
        """Returns the one answer to a request."""
        (answer,) = self.tell(json.dumps({"id": 7, **request}).encode() + b"\n")
        return answer


def folder_host() -> Host[Folder]:
    """Returns a host of a fresh small board."""
    home = Path.home()  # the test's own
    home.mkdir(exist_ok=True)
    return Host(Folder(Path(tempfile.mkdtemp(dir=home))))


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
paths = st.sampled_from(
    [SECRET, "/sys/../etc/shadow", f"{CPU}/cpufreq/scaling_governor", "../online", "cpu0.governor/../../x", "/", "."]
)
ids = st.sampled_from(["cpu0.governor", "cpu0.min", "cpu0.max", "cpu1.online", "nvpmodel.mode", "gpu.max", "fan.pwm"])
words = st.sampled_from(
    ["userspace", "performance", "userspace\n", "$(reboot)", ";id", "a b", "", "x" * 65, "\0", SECRET, "\ud800", "MAXN"]
)
rates = st.sampled_from([0, 1, 2, 102_000_000, 518_400_000, 1_734_000_000, 2**63, -1, 1.0, True, 10**30])
steps = st.fixed_dictionaries({"knob": ids | paths | anything, "value": words | rates | anything})
whole = st.fixed_dictionaries(
    {
        "id": st.integers(0, 9) | anything,
        "verb": st.sampled_from(["settings", "write", "undo", "break", "sample", "collect"]) | anything,
    },
    optional={
        "steps": st.lists(steps, max_size=4) | anything,
        "owner": st.just("me") | anything,
        "lease": st.booleans() | anything,
        "ttl_s": st.just(60.0) | anything,
        "force": anything,
        "reboot": st.booleans() | anything,
        "sampling": st.fixed_dictionaries(
            {"rails": anything, "rate_hz": st.just(20.0) | anything, "watch_hz": st.just(1.0) | anything},
            optional={"readings": anything, "seed": anything},
        )
        | anything,
        "path": paths,
    },
)
good = st.fixed_dictionaries(
    {
        "id": st.integers(0, 9),
        "verb": st.just("write"),
        "steps": st.lists(st.fixed_dictionaries({"knob": ids, "value": words | rates}), max_size=4),
        "owner": st.just("me"),
        "lease": st.booleans(),
    }
)


def line(request: object) -> bytes:
    return json.dumps(request).encode()


def one_answer_each(host: Host[Board], lines: Sequence[bytes]) -> None:
    """Says every line, with exactly one end or error to each."""
    for said in lines:
        kinds = [answer["kind"] for answer in host.tell(said + b"\n")]
        assert kinds in (["end"], ["error"])
    assert not host.clockd.closed
    assert host.ask(verb="settings")["kind"] == "end"


def put_back(host: Host[Board]) -> None:
    host.ask(verb="break")
    host.ask(verb="undo", lease=False, force=True)


@settings(max_examples=TRIALS)
@given(st.lists(whole | good | anything, max_size=8))
def test_whatever_a_host_asks_for_only_the_boards_own_settings_change_and_all_can_be_undone(
    requests: list[object],
) -> None:
    host = folder_host()
    before = host.board.state()
    one_answer_each(host, [line(request) for request in requests])
    after = host.board.state()
    settable = {knob["path"] for knob in host.knobs.values()}
    changed = {path for path in before | after if before.get(path) != after.get(path)}
    assert changed <= settable
    for path in changed:
        assert re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", after[path])
    put_back(host)
    assert host.board.state() == before


@settings(max_examples=TRIALS)
@given(st.lists(whole | good, max_size=5), st.sampled_from(["agx-orin", "tx1"]))
def test_on_a_jetson_nothing_is_written_or_started_beyond_its_table(requests: list[object], board: str) -> None:
    twin = Twin(board)
    host = Host(twin)
    one_answer_each(host, [line(request) for request in requests])
    assert twin.paths <= {knob["path"] for knob in host.knobs.values()}
    for argv in twin.started:
        assert argv[0] == "/usr/sbin/nvpmodel"
        assert argv[1:] == ("-q",) or (argv[1] == "-m" and argv[2].isdigit() and len(argv) == 3)


@settings(max_examples=TRIALS)
@given(st.lists(st.binary(max_size=80).filter(lambda data: b"\n" not in data), max_size=12))
def test_whatever_bytes_come_every_line_is_answered_and_the_program_goes_on(lines: list[bytes]) -> None:
    host = folder_host()
    before = host.board.state()
    one_answer_each(host, lines)
    assert host.board.state() == before


@settings(max_examples=TRIALS)
@given(good, st.data())
def test_a_request_with_a_damaged_byte_does_no_more_than_a_whole_one(request: object, data: st.DataObject) -> None:
    host = folder_host()
    said = bytearray(line(request))
    place = data.draw(st.integers(0, len(said) - 1))
    said[place] = data.draw(st.integers(0, 255).filter(lambda byte: byte != 10))
    assume(b'"ping"' not in said and b'"bye"' not in said)
    one_answer_each(host, [bytes(said)])
    put_back(host)


@pytest.mark.parametrize(
    "said",
    [
        b"[" * 500_000,
        b'{"a":' * 200_000,
        b'{"id":1,"verb":"write","owner":"me","lease":false,"steps":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"id":' + b"9" * 100_000 + b',"verb":"settings"}',
        b'{"id":' + b"[" * 900 + b"]" * 900 + b',"verb":"settings"}',
        b'{"id":1,"verb":"sample","sampling":{"rails":[],"rate_hz":NaN,"watch_hz":1}}',
        b'{"id":1,"verb":"sample","sampling":{"rails":[],"rate_hz":1e308,"watch_hz":1}}',
        b'{"id":1,"verb":"sample","sampling":{"rails":[],"rate_hz":20,"watch_hz":-Infinity}}',
        b'{"id":1,"verb":"write","owner":"me","lease":true,"steps":[],"ttl_s":NaN}',
        b'{"id":1,"verb":"write","owner":"me","lease":true,"steps":[],"ttl_s":1e999}',
        b'{"id":1,"verb":"write","owner":"\\u001b]0;me","lease":true,"steps":[]}',
        b'{"id":1,"verb":"write","owner":"%s","lease":true,"steps":[]}' % (b"m" * 1000),
        b"\xff\xfe\x00",
        b"",
        b"null",
    ],
    ids=range(15),
)
def test_a_request_made_to_break_the_program_is_refused_in_few_words(said: bytes) -> None:
    host = folder_host()
    answers = host.tell(said + b"\n")
    assert {answer["kind"] for answer in answers} == {"error"}
    assert all(len(answer["what"]) < 3000 for answer in answers)
    assert host.ask(verb="settings")["kind"] == "end"
    assert host.clockd.deadline() is None


def test_a_line_without_an_end_does_not_fill_the_memory() -> None:
    host = folder_host()
    for _ in range(5):
        host.tell(b"x" * host.clockd.longest_bytes)
        assert len(host.clockd._partial) <= host.clockd.longest_bytes + 65536
    assert [answer["kind"] for answer in host.tell(b"\n")] == ["error"]
    assert host.ask(verb="settings")["kind"] == "end"


@pytest.mark.parametrize("knob", [SECRET, f"{CPU}/online", "cpu0", "cpu9.governor", "cpu0.governor\n", "*", ""])
def test_a_setting_that_is_not_in_the_table_is_absent_and_nothing_is_written(knob: str) -> None:
    host = folder_host()
    before = host.board.state()
    answer = host.ask(verb="write", owner="me", lease=False, steps=[{"knob": knob, "value": 1}])
    assert [outcome["result"] for outcome in answer["outcomes"]] == ["absent"]
    assert host.board.state() == before


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        ("cpu0.governor", "userspace\n"),
        ("cpu0.governor", "user space"),
        ("cpu0.governor", "$(reboot)"),
        ("cpu0.governor", "../x"),
        ("cpu0.governor", 1),
        ("cpu0.governor", None),
        ("cpu0.governor", ["userspace"]),
        ("cpu0.max", "1734000"),
        ("cpu0.max", 1.0),
        ("cpu0.max", True),
        ("cpu0.max", -1),
        ("cpu0.max", 2**63),
        ("cpu1.online", 2),
        ("cpu1.online", False),
        ("cpu1.online", "1"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_and_no_step_of_its_request_is_taken(knob: str, value: object) -> None:
    host = folder_host()
    before = host.board.state()
    first = {"knob": "cpu0.governor", "value": "performance"}
    answer = host.ask(verb="write", owner="me", lease=False, steps=[first, {"knob": knob, "value": value}])
    assert (answer["kind"], answer["error"]) == ("error", "usage")
    assert host.board.state() == before


def test_a_journal_that_remembers_a_value_in_another_form_does_not_stop_the_program() -> None:
    host = folder_host()
    host.ask(verb="write", owner="me", lease=False, steps=[{"knob": "cpu0.governor", "value": "performance"}])
    journal = Path(host.board.root + FOLDER + "/journal.json")
    journal.write_text(journal.read_text().replace('"ondemand"', "17"))
    (row,) = host.ask(verb="undo", lease=False, force=True)["outcomes"]
    assert (row["result"], row["now"]) == ("refused", "performance")


def test_the_program_as_it_runs_on_a_board_takes_the_same(tmp_path: Path) -> None:
    tree(tmp_path / "tree")
    (tmp_path / "programs.zip").write_bytes(bundle.programs().data)
    lines = [b"\xff\0", b"[" * 300_000, b'{"id":1,"verb":[]}', b'{"id":2,"verb":"settings"}']
    argv = [sys.executable, "-I", "-S", str(tmp_path / "programs.zip"), "clockd", "--root", str(tmp_path / "tree")]
    ran = subprocess.run(argv, input=b"\n".join(lines) + b"\nno end", capture_output=True, timeout=20, check=True)
    assert ran.stderr == b""
    kinds = [json.loads(line)["kind"] for line in ran.stdout.splitlines()]
    assert kinds == ["hello", "error", "error", "error", "end"]
