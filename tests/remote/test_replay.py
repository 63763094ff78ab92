"""A recording keeps what a board said, and a replay says it again: bit for bit, and only when asked the same."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from inspect import signature
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remote.errors import BoardError, EngineError, HostError, LeaseHeld, LinkLost, UsageError
from remote.recording import Recording, Tape, plain, record
from remote.replay import Replay, is_recording, load
from remote.transport import Transport
from remote.types import Apply, Blob, Completed, Ended, Event, Job, Line, Outcome, Sampling, Series, Step, Written
from tests.contract import test_transport
from tests.contract.backends import BACKENDS
from tests.ssh import sshd

PROMISES = {
    name: promise
    for name, promise in vars(test_transport).items()
    if name.startswith("test_") and set(signature(promise).parameters) <= {"board", "tmp_path"}
}
NODE = "/sys/devices/system/cpu/online"

finite = st.floats(allow_nan=False)
text = st.text(max_size=20)
lines = st.builds(Line, finite, st.sampled_from(["stdout", "stderr", "beside"]), text)
series = st.lists(st.tuples(finite, st.none() | finite | st.integers()), max_size=5).map(
    lambda pairs: Series("a", tuple(t for t, _ in pairs), tuple(v for _, v in pairs))
)
answers = st.builds(
    Completed,
    st.lists(text, max_size=3).map(tuple),
    st.integers(),
    st.lists(lines, max_size=3).map(tuple),
    st.lists(series, max_size=3).map(tuple),
    finite,
    finite,
) | st.builds(
    Written,
    st.lists(st.builds(Outcome, text, text, st.none() | st.integers(), st.just("applied")), max_size=3).map(tuple),
)


@contextmanager
def recording(path: Path, kind: str = "twin", host: str = "sim:tx1@r23.1") -> Iterator[Transport]:
    with closing(Tape(path)) as tape, BACKENDS[kind](path.parent).connect() as board:
        yield Recording(board, tape, host, "1.2.3")


def replayed(path: Path) -> Replay:
    return Replay(load(path))


@pytest.mark.parametrize("promise", PROMISES.values(), ids=list(PROMISES))
def test_a_replay_keeps_every_promise_that_its_board_kept(promise: Callable[..., None], tmp_path: Path) -> None:
    more = {"tmp_path": tmp_path} if "tmp_path" in signature(promise).parameters else {}
    with recording(tmp_path / "board.jsonl") as board:
        promise(board=board, **more)
    promise(board=replayed(tmp_path / "board.jsonl"), **more)


@given(answers)
def test_what_is_kept_comes_back_bit_for_bit(answer: Completed | Written) -> None:
    back = record(json.loads(json.dumps(plain(answer))))
    assert back == answer
    assert repr(back) == repr(answer)  # 1 is not 1.0


@pytest.mark.parametrize("name", ["board.jsonl", "board.jsonl.gz"])
def test_a_replay_answers_as_the_board_did(tmp_path: Path, name: str) -> None:
    asked = Job(duration_s=0.5, sampling=Sampling(("VDD_IN",), readings=("gpu.hz",)))
    with recording(tmp_path / name) as board:
        told = (board.facts, board.rails, board.found, board.read([NODE], settings=True), board.run(asked))
    again = replayed(tmp_path / name)
    assert (again.facts, again.rails, again.found, again.read([NODE], settings=True), again.run(asked)) == told
    assert (tmp_path / name).read_bytes().startswith(b"\x1f\x8b" if name.endswith(".gz") else b"{")


@pytest.mark.parametrize(
    ("ask", "named"),
    [
        (lambda board: board.run(Job(("echo", "b"))), r"job\.argv\[1\] was 'a', now it is 'b'"),
        (lambda board: board.run(Job(("echo", "a"), stdin="x")), r"job\.stdin was '', now it is 'x'"),
        (lambda board: board.run(Job(("echo", "a"), stdin="x" * 100_000)), r"job\.stdin was"),
        (lambda board: board.run(Job(("echo", "a"), env={"B": "1"})), r"job\.env"),
        (lambda board: board.run(Job(("echo", "a"), sampling=Sampling(rate_hz=5))), r"job\.sampling"),
        (lambda board: board.read([NODE]), "verb was 'run', now it is 'read'"),
    ],
)
def test_what_was_not_asked_then_is_refused_with_the_first_difference_and_the_version(
    tmp_path: Path, ask: Callable[[Transport], Any], named: str
) -> None:
    with recording(tmp_path / "board.jsonl") as board:
        board.run(Job(("echo", "a"), env={"A": "1"}) if "env" in named else Job(("echo", "a")))
    with pytest.raises(HostError, match=f"call 1 of .*{named}") as caught:
        ask(replayed(tmp_path / "board.jsonl"))
    assert "1.2.3" in caught.value.hint
    assert caught.value.exit_code == 3


def test_more_than_was_asked_then_is_refused(tmp_path: Path) -> None:
    with recording(tmp_path / "board.jsonl") as board:
        board.read([NODE])
    again = replayed(tmp_path / "board.jsonl")
    again.read([NODE])
    with pytest.raises(HostError, match="ends after 1 calls"):
        again.read([NODE])


def test_a_file_is_known_by_name_and_content_and_a_program_of_edgeperf_by_name_alone(tmp_path: Path) -> None:
    with recording(tmp_path / "board.jsonl") as board:
        paths = board.put(Blob("runner.zip", b"one")), board.put(Blob("model.onnx", b"one"))
    assert b"b25l" not in (tmp_path / "board.jsonl").read_bytes()
    again = replayed(tmp_path / "board.jsonl")
    assert again.put(Blob("runner.zip", b"another")) == paths[0]
    with pytest.raises(HostError, match="blob"):
        again.put(Blob("model.onnx", b"two"))
    assert again.put(Blob("model.onnx", b"one")) == paths[1]


def test_errors_are_raised_again_as_they_were(tmp_path: Path) -> None:
    with recording(tmp_path / "board.jsonl") as board, pytest.raises(EngineError) as then:
        board.run(Job(("no-such-program",)))
    with pytest.raises(EngineError) as now:
        replayed(tmp_path / "board.jsonl").run(Job(("no-such-program",)))
    assert (now.value.what, now.value.hint) == (then.value.what, then.value.hint)


class Telling(Transport):
    """A board of which nothing is true but what a test needs."""

    def __init__(self, like: Transport, error: BaseException | None = None, other: Transport | None = None) -> None:
        vars(self).update({name: getattr(like, name) for name in Transport.__annotations__})
        self.error = error
        self.other = other

    def read(self, paths: Any = (), *, settings: bool = False) -> Any:
        if self.error:
            raise self.error
        raise AssertionError

    write = run = put = read  # type: ignore[assignment]  # not to be reached

    def stream(self, job: Job) -> Any:
        for number in range(3):
            try:
                yield Line(float(number), "stdout", str(number))
            except KeyboardInterrupt:
                yield Line(float(number), "stdout", "broken")
        yield Ended(0, 0.0, 1.0)

    def again(self) -> Transport | None:
        return self.other

    def close(self) -> None:
        pass


@pytest.fixture
def quiet(tmp_path: Path) -> Transport:
    with recording(tmp_path / "quiet.jsonl"):
        pass
    return replayed(tmp_path / "quiet.jsonl")


@pytest.mark.parametrize("error", [LinkLost("gone", "wait"), LeaseHeld("held"), BoardError("no"), KeyboardInterrupt()])
def test_every_kind_of_error_comes_back(tmp_path: Path, quiet: Transport, error: BaseException) -> None:
    with closing(Tape(tmp_path / "board.jsonl")) as tape, pytest.raises(type(error)):
        Recording(Telling(quiet, error), tape, "here", "1").read([NODE])
    with pytest.raises(type(error)) as caught:
        replayed(tmp_path / "board.jsonl").read([NODE])
    assert str(caught.value) == str(error)


def test_ctrl_c_that_is_thrown_into_a_stream_goes_to_the_board_and_is_kept(tmp_path: Path, quiet: Transport) -> None:
    def listen(board: Transport) -> list[Event]:
        stream = board.stream(Job(("echo",)))
        return [next(stream), stream.throw(KeyboardInterrupt()), *stream]

    with closing(Tape(tmp_path / "board.jsonl")) as tape:
        told = listen(Recording(Telling(quiet), tape, "here", "1"))
    assert [event.text for event in told if isinstance(event, Line)] == ["0", "broken", "1", "2"]
    assert listen(replayed(tmp_path / "board.jsonl")) == told


def test_a_second_connection_says_again_who_was_there(tmp_path: Path, quiet: Transport) -> None:
    with closing(Tape(tmp_path / "board.jsonl")) as tape:
        board = Recording(Telling(quiet, other=quiet), tape, "here", "1")
        assert board.again() is quiet
    other = replayed(tmp_path / "board.jsonl").again()
    assert other is not None
    assert other.facts == quiet.facts


def test_what_a_listener_left_unheard_is_left_out(tmp_path: Path) -> None:
    with recording(tmp_path / "board.jsonl") as board:
        stream = board.stream(Job(("echo", "a")))
        first = next(stream)
        stream.close()
        board.read([NODE])
    again = replayed(tmp_path / "board.jsonl")
    stream = again.stream(Job(("echo", "a")))
    assert next(stream) == first
    with pytest.raises(HostError, match="breaks off"):
        next(stream)
    again.read([NODE])


@pytest.mark.parametrize("name", ["board.jsonl", "board.jsonl.gz"])
def test_a_recording_that_was_broken_off_anywhere_is_used_up_to_there(tmp_path: Path, name: str) -> None:
    with recording(tmp_path / name) as board:
        for number in range(3):
            board.run(Job(("echo", str(number))))
    whole = (tmp_path / name).read_bytes()
    known = []
    for size in range(0, len(whole), max(1, len(whole) // 60)):
        (tmp_path / "cut").write_bytes(whole[:size])
        try:
            recorded = load(tmp_path / "cut")
        except HostError:
            continue
        known.append(sum(call.end is not None for call in recorded.calls))
    assert all(a <= b for a, b in pairwise(known))
    assert {0, 1, 2} <= set(known)


def test_what_was_said_by_the_time_a_program_dies_is_in_the_file(tmp_path: Path) -> None:
    for name in ("board.jsonl", "board.jsonl.gz"):
        with recording(tmp_path / name) as board:
            board.run(Job(("echo", "a")))
            (tmp_path / "now").write_bytes((tmp_path / name).read_bytes())
        assert replayed(tmp_path / "now").run(Job(("echo", "a"))).text() == "a\n"


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]\n", b"\xff\xfe\n", b"\x1f\x8b broken", b'{"format":"edgeperf recording"}\n', b"null\n"]
)
def test_a_file_that_is_no_recording_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(HostError, match="x "):
        load(tmp_path / "x")
    assert is_recording(tmp_path / "x") is (b"recording" in content)


def test_a_recording_of_another_schema_names_the_version_that_made_it(tmp_path: Path) -> None:
    with recording(tmp_path / "x"):
        pass
    header = json.loads((tmp_path / "x").read_text().splitlines()[0])
    (tmp_path / "x").write_text(json.dumps({**header, "schema": 99}) + "\n")
    with pytest.raises(HostError, match="99") as caught:
        load(tmp_path / "x")
    assert "1.2.3" in caught.value.hint


def test_values_of_the_environment_are_not_kept(tmp_path: Path) -> None:
    with recording(tmp_path / "board.jsonl") as board:
        board.run(Job(("echo", "a"), env={"TOKEN": "hush-hush"}))
    kept = (tmp_path / "board.jsonl").read_text()
    assert "TOKEN" in kept
    assert "hush" not in kept


@pytest.mark.skipif("ssh-sudo-password" not in BACKENDS, reason="needs a POSIX system")
def test_the_sudo_password_is_not_kept(tmp_path: Path) -> None:
    with recording(tmp_path / "board.jsonl", "ssh-sudo-password", "me@board") as board:
        board.write(Apply((Step("cpu0.governor", "userspace", None, ""),), "me"))
        board.read([NODE], settings=True)
        board.run(Job(("echo", "a")))
    kept = (tmp_path / "board.jsonl").read_text()
    assert "userspace" in kept
    assert sshd.PASSWORD not in kept


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_costs_the_recording_and_not_the_measurement(quiet: Transport) -> None:
    tape = Tape(Path("/dev/full"))
    board = Recording(Telling(quiet), tape, "here", "1")
    assert len(list(board.stream(Job(("echo",))))) == 4
    tape.close()
    assert "space" in tape.failed


def test_a_file_that_cannot_be_written_is_told_before_anything_is_done(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nowhere/x.jsonl", tmp_path / "nowhere/x.gz"):
        with pytest.raises(UsageError, match="cannot be written"):
            Tape(path)


def test_a_compressed_recording_is_told_by_its_content_not_its_name(tmp_path: Path) -> None:
    with recording(tmp_path / "x.jsonl"):
        pass
    (tmp_path / "y").write_bytes(gzip.compress((tmp_path / "x.jsonl").read_bytes()))
    assert load(tmp_path / "y").host == "sim:tx1@r23.1"
