"""A twin that hosts reach over a network: what one of them breaks or leaves behind is not the others' trouble."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from remote import hosts, ssh
from remote.access import Access
from remote.channel import Pulse
from remote.errors import BoardError, LeaseHeld, LinkLost
from remote.hosts import Twin
from remote.sim.files import home
from remote.sim.live import LiveBoard
from remote.sim.process import Action, Context, Out, Sleep
from remote.sim.serve import Served
from remote.transport import Transport
from remote.types import Apply, Job, Step, Undo
from tests.ssh import twins
from tests.ssh.proxy import Proxy

GOVERNOR = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
HOLD = Apply((Step("cpu0.governor", "userspace", None, ""),), "someone", lease=True)
TICKS = Job(("tegrastats", "--interval", "1000"), duration_s=20.0, note="kept")


def wrong(context: Context) -> Generator[Action, None, int]:
    """A program with a mistake in it."""
    yield Out("so far\n")
    yield Sleep(1.0)
    raise ZeroDivisionError("a mistake")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with twins.served("sim:nano", tmp_path / "server", {"wrong": wrong}) as one:
        yield one


@pytest.fixture
def proxy(served: Served) -> Iterator[Proxy]:
    """A line to the board that can be cut."""
    cut = Proxy(served.port)
    config = Path.home() / ".ssh/config"
    config.write_text(config.read_text().replace(f"Port {served.port}", f"Port {cut.port}"))
    yield cut
    cut.close()


def connected(served: Served, access: Access | None = None) -> Transport:
    return ssh.connect(hosts.ssh(served.name), access or Access())


def governor(served: Served) -> str:
    return served.board.call(lambda: served.board.machine.read(GOVERNOR, "root")).strip()


def within(seconds: float, holds: Callable[[], bool]) -> bool:
    """Says whether something becomes true in time; each look waits for the board's thread."""
    until_s = time.monotonic() + seconds
    while not (held := holds()) and time.monotonic() < until_s:
        pass
    return held


def test_a_mistake_on_the_board_ends_its_own_line_alone_and_is_told(served: Served) -> None:
    with connected(served) as other:
        with connected(served) as one, pytest.raises(LinkLost) as lost:
            one.run(Job(("wrong",)))
        assert "ZeroDivisionError: a mistake" in lost.value.what
        assert other.run(Job(("echo", "here"))).text() == "here\n"
    with connected(served) as again:
        assert again.run(Job(("echo", "here"))).text() == "here\n"


def test_what_a_lost_host_had_set_is_put_back_after_a_mistake(served: Served) -> None:
    before = governor(served)
    with connected(served) as one:
        one.write(HOLD)
        assert governor(served) == "userspace"
        with pytest.raises(LinkLost):
            one.run(Job(("wrong",)))
    assert within(5.0, lambda: governor(served) == before)


def test_a_measurement_outlives_its_line_and_can_be_picked_up_whole(served: Served, proxy: Proxy) -> None:
    before = governor(served)
    one = connected(served)
    one.write(HOLD)
    events = one.stream(TICKS)
    first = next(events)
    proxy.reset()
    with connected(served, Access(resume=True)) as again:
        assert again.note == "kept"
        assert governor(served) == "userspace"
        done = again.run(Job(resume=True))
        assert done.lines[0] == first
        assert (len(done.lines), done.reason) == (20, "duration")
        again.write(Undo(lease="lease"))
        assert governor(served) == before
    with pytest.raises(BoardError, match="nothing is running"):
        connected(served, Access(resume=True))


def test_what_nobody_picks_up_ends_with_its_grace(served: Served, proxy: Proxy) -> None:
    before = governor(served)
    one = connected(served, Access(pulse=Pulse(grace_s=0.3)))
    one.write(HOLD)
    next(one.stream(TICKS))
    proxy.reset()
    assert within(5.0, lambda: governor(served) == before)
    with connected(served) as other:
        assert other.journal.lease is None


def test_a_board_that_waits_for_its_host_is_held_against_others(served: Served, proxy: Proxy) -> None:
    one = connected(served)
    one.write(HOLD)
    next(one.stream(TICKS))
    proxy.reset()
    with connected(served) as other, pytest.raises(LeaseHeld, match="someone"):
        other.write(HOLD)


def test_what_was_set_for_a_while_is_put_back_when_that_is_over_with_nobody_there(served: Served) -> None:
    before = governor(served)
    with connected(served) as one:
        one.write(Apply(HOLD.steps, "someone", ttl_s=60.0))
    assert governor(served) == "userspace"
    board = served.board
    line = board.call(lambda: board.open_line("agent", "nvidia", 0.0, lambda data: None, lambda lost, failure: None))
    job = {"id": 1, "verb": "stream", "argv": ["sleep", "61"], "timeout_s": 100}
    board.call(lambda: line.hear(json.dumps(job).encode() + b"\n"))
    assert within(5.0, lambda: governor(served) == before)  # by the guard: no program of root is there


def test_no_file_of_this_machine_is_reached_by_its_path(served: Served, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("nobody's business")
    asked = {"id": 1, "verb": "put", "sha256": "a" * 64, "name": "x", "size": 1000, "source": str(secret)}
    said: list[bytes] = []
    board = served.board
    line = board.call(lambda: board.open_line("agent", "nvidia", 0.0, said.append, lambda lost, failure: None))
    board.call(lambda: line.hear(json.dumps(asked).encode() + b"\n"))
    assert within(5.0, lambda: board.call(lambda: any(b'"error"' in data for data in said)))
    assert (
        board.call(lambda: board.machine.files.match(f"{home('nvidia')}/.cache/edgeperf/files/{'a' * 32}/*", "root"))
        == []
    )


def test_state_is_kept_while_the_board_lives(tmp_path: Path) -> None:
    file = tmp_path / "twin.json"
    twin = hosts.parse(f"sim:nano,state={file}")
    assert isinstance(twin, Twin)
    board = LiveBoard(twin, {})
    try:
        board.call(lambda: board.machine.write(GOVERNOR, "userspace", "root"))
        assert within(10.0, lambda: file.exists() and "userspace" in board.call(file.read_text))
    finally:
        board.close()


def test_in_real_time_others_are_answered_while_a_job_waits() -> None:
    twin = hosts.parse("sim:nano,speed=1")
    assert isinstance(twin, Twin)
    board = LiveBoard(twin, {})
    said: list[bytes] = []
    try:
        line = board.call(lambda: board.open_line("agent", "nvidia", 0.0, said.append, lambda lost, failure: None))
        job = {"id": 1, "verb": "stream", "argv": ["sleep", "5"], "timeout_s": 60}
        board.call(lambda: line.hear(json.dumps(job).encode() + b"\n"))
        since_s = time.monotonic()
        for _ in range(50):
            board.call(lambda: board.machine.read(GOVERNOR, "root"))
        assert time.monotonic() - since_s < 1.0  # less than two of the steps in which it waits for each
    finally:
        board.close()
