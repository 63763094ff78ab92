"""Leases that survive the loss of a connection: of the on-board programs as child processes, their pipes cut."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from remote import boards, bundle
from remote.channel import ChannelTransport, Pulse
from remote.errors import LeaseHeld
from remote.onboard.agent import Agent
from remote.onboard.system import Handle, System
from remote.types import Apply, Job, Line, Step, Undo
from tests.contract.backends import Backend

if os.name != "posix":
    pytest.skip("boards are POSIX machines", allow_module_level=True)

from remote.local import ProcessLink
from tests.contract.backends import local

MAX = "sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq"
LOWER = 1_036_800_000
PULSE = Pulse(beat_s=0.1, silence_s=1.0, grace_s=1.0)


class Cut(ProcessLink):
    """A line that can be cut without a word."""

    def cut(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()

    def reap(self) -> None:
        """Waits for the end of the program."""
        self._process.wait(20)

    @property
    def pid(self) -> int:
        return self._process.pid


def within(happens: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Says whether something comes true in time; looks every now and then."""
    until_s = time.monotonic() + seconds
    while not happens() and time.monotonic() < until_s:
        time.sleep(0.02)
    return happens()


class Rig:
    """A tree of files as a board, and transports to it whose lines can be cut."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.backend: Backend = local(folder)
        self.root = folder / "tree"
        self._zip = folder / "onboard.zip"
        self._zip.write_bytes(bundle.programs().data)
        # The cache, where a lost program waits, must have a short path: sockets have at most 108 bytes for it.
        monkeypatch.setenv("XDG_CACHE_HOME", "/c")
        self.links: list[Cut] = []
        self.all: list[Cut] = []

    def open(self, *, resume: bool = False, pulse: Pulse = PULSE) -> ChannelTransport:
        self.links = []
        for name in ("agent", "clockd"):
            words = ["relay", "--to", name] if resume else [name, *pulse.options(), "--guard", "yes"]
            self.links.append(Cut([sys.executable, "-I", "-S", str(self._zip), *words, "--root", str(self.root)]))
        self.all += self.links
        return ChannelTransport(self.links[0], self.links[1], bundle.build_id(), pulse=None if resume else pulse)

    def cut(self) -> None:
        for link in self.links:
            link.cut()

    def rate(self) -> str:
        return (self.root / MAX).read_text().strip()

    def becomes(self, rate: str) -> bool:
        """Says whether the rate becomes ``rate`` in time."""
        return within(lambda: self.rate() == rate)


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    rig = Rig(tmp_path, monkeypatch)
    yield rig
    assert rig.becomes("1734000"), "the board was not put back"
    for link in rig.all:
        link.reap()


def lease(ttl_s: float = 0.0) -> Apply:
    return Apply((Step("cpu0.max", LOWER, None, ""),), "me", lease=True, ttl_s=ttl_s)


def test_a_lease_outlives_its_line_for_the_grace_and_no_longer(rig: Rig) -> None:
    board = rig.open()
    board.write(lease())
    rig.cut()
    assert within((rig.root / "run/edgeperf/clockd.sock").exists)
    assert rig.rate() == "1036800"


def test_a_host_that_says_nothing_is_lost(rig: Rig) -> None:
    board = rig.open()
    board.write(lease())
    board._stopped.set()  # the heartbeat ends, the line stays
    assert rig.becomes("1734000")
    rig.cut()


def test_a_job_goes_on_without_its_host_and_is_picked_up_whole(rig: Rig) -> None:
    board = rig.open(pulse=Pulse(beat_s=0.1, silence_s=1.0, grace_s=20.0))
    board.write(lease())
    stream = board.stream(Job(argv=("sh", "-c", "echo one; sleep 1; echo two"), note="what for"))
    first = next(stream)
    assert isinstance(first, Line)
    assert first.text == "one"
    rig.cut()
    assert within((rig.root / "run/edgeperf/clockd.sock").exists)
    assert within((rig.root / "c/edgeperf/agent.sock").exists)
    with rig.open(resume=True) as again:
        assert again.note == "what for"
        assert again.journal.lease is not None
        assert again.run(Job(resume=True)).text() == "one\ntwo\n"
        assert rig.rate() == "1036800"
        again.write(Undo(lease="lease"))


def test_what_a_job_says_before_it_is_picked_up_answers_nobody(rig: Rig, tmp_path: Path) -> None:
    board = rig.open(pulse=Pulse(beat_s=0.1, silence_s=1.0, grace_s=20.0))
    board.write(lease())
    wait = f"while ! test -e {tmp_path}/go; do sleep 0.02; done"
    stream = board.stream(Job(argv=("sh", "-c", f"echo one; {wait}; echo two; touch {tmp_path}/said")))
    next(stream)
    number = board._agent._number
    rig.cut()
    assert within((rig.root / "run/edgeperf/clockd.sock").exists)
    assert within((rig.root / "c/edgeperf/agent.sock").exists)
    again = rig.open(resume=True)
    with again:
        (tmp_path / "go").touch()
        assert within((tmp_path / "said").exists)
        for _ in range(2):  # by then the board has seen it
            again.read(["/sys/devices/system/cpu/present"])
        again._agent._number = number - 1
        assert again.run(Job(resume=True)).text() == "one\ntwo\n"
        again.write(Undo(lease="lease"))


class Late(System):
    """A machine on which the host takes leave and hangs up just after a program has looked for what it says."""

    def __init__(self) -> None:
        (heard, says), (listens, said) = os.pipe(), os.pipe()
        os.write(says, b'{"id":2,"verb":"bye"}\n')
        os.close(says)
        os.close(listens)
        super().__init__("", heard, said)
        self._looked = False

    def wait(self, handles: list[Handle], until_s: float | None) -> list[Handle]:
        looked, self._looked = self._looked, True
        return super().wait(handles, until_s) if looked else []


def test_a_goodbye_counts_though_the_line_is_found_broken_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    agent = Agent(Late(), boards.table(), "", beat_s=60.0, grace_s=60.0)
    job = {"id": 1, "verb": "stream", "argv": ["sleep", "60"], "timeout_s": 60.0}
    agent._feed(json.dumps(job).encode() + b"\n")
    running = agent._job
    assert running is not None
    assert running.process is not None
    agent.turn()
    assert agent.closed
    running.process._popen.communicate(timeout=60)  # it was killed


@pytest.mark.parametrize("which", [0, 1], ids=["agent", "clockd"])
def test_a_program_that_is_killed_leaves_nothing_behind(rig: Rig, which: int) -> None:
    board = rig.open()
    board.write(lease())
    os.kill(rig.links[which].pid, signal.SIGKILL)
    rig.cut()


def test_a_guard_that_is_killed_is_replaced(rig: Rig) -> None:
    board = rig.open()
    board.write(lease())
    guards = [pid for pid in children(rig.links[1].pid) if b"guard" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert len(guards) == 1
    os.kill(guards[0], signal.SIGKILL)
    assert within(lambda: bool(set(children(rig.links[1].pid)) - set(guards)))
    os.kill(rig.links[1].pid, signal.SIGKILL)
    rig.cut()


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_lease_ends_with_its_time(rig: Rig) -> None:
    with rig.open() as board:
        board.write(lease(ttl_s=0.5))
        assert rig.becomes("1734000")


def test_what_is_applied_for_a_time_is_put_back_though_nobody_is_there(rig: Rig) -> None:
    with rig.open() as board:
        board.write(Apply((Step("cpu0.max", LOWER, None, ""),), "me", ttl_s=1.0))
    assert rig.rate() == "1036800"
    assert rig.becomes("1734000")


def test_a_board_that_is_held_is_not_taken_and_its_holder_is_named(rig: Rig) -> None:
    with rig.open() as holder:
        holder.write(lease())
        first = rig.links
        with rig.open() as other:
            with pytest.raises(LeaseHeld, match="me"):
                other.write(lease())
            assert other.journal.lease is not None
            assert other.write(Undo(others=True)).outcomes[0].result == "restored"
        rig.links = first


def hold(rig: Rig, holder: str) -> None:
    """Leaves a board as one of whom ``holder`` holds a lease."""
    entry = {"knob": "cpu0.max", "was": 1_734_000_000, "set": LOWER}
    layer = {"kind": "lease", "owner": "x", "since": 1, "holder": holder, "until": None, "entries": [entry]}
    (rig.root / MAX).write_text("1036800\n")
    (rig.root / "run/edgeperf").mkdir(parents=True)
    (rig.root / "run/edgeperf/journal.json").write_text(json.dumps({"boot": "boot-1", "layers": [layer]}))


def test_a_process_that_has_got_the_number_of_a_dead_holder_holds_nothing(rig: Rig) -> None:
    hold(rig, f"{os.getpid()}@1")
    with rig.open() as board:
        assert board.journal.lease is None
        assert board.journal.notes == ("what x had set was left behind; 1 settings were put back",)
        assert rig.rate() == "1734000"
        board.write(lease())


def test_a_holder_that_lives_keeps_the_board(rig: Rig) -> None:
    hold(rig, System().identity())
    with rig.open() as board:
        assert rig.rate() == "1036800"
        with pytest.raises(LeaseHeld, match="x"):
            board.write(lease())
        board.write(Undo(others=True))
