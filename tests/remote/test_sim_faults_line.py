"""What the line, the start of programs and sudo do to whoever is connected to a simulated board, and to the board."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import pytest

from remote import boards
from remote.channel import Pulse
from remote.errors import BoardError, HostError, LinkLost
from remote.hosts import Twin
from remote.hosts import parse as host
from remote.sim import state
from remote.sim.link import TwinTransport
from remote.sim.machine import Machine
from remote.sim.physics import Activity
from remote.sim.process import Action, Busy, Context, Out
from remote.sim.system import TwinSystem
from remote.types import Apply, Job, Sampling, Step, Undo

GRACE_S = Pulse().grace_s
LOWER = 460_800_000
HELD = "/sys/devices/57000000.gpu/devfreq/57000000.gpu/max_freq"
LOAD = "/sys/devices/57000000.gpu/load"
JOURNAL = "/run/edgeperf/journal.json"
CUTS = ["link-drop@5s", "link-drop@5s:3s", "link-reset@5s", "link-stall@5s:30s"]


def work(context: Context) -> Generator[Action, None, int]:
    """Says something each second, and keeps the GPU busy."""
    for second in range(200):
        yield Out(f"{second}\n")
        yield Busy(1.0, Activity(flops_per_s=1e10, gpu_load=1.0, cpu_load=0.5))
    return 0


def opened(text: str, machine: Machine | None = None) -> TwinTransport:
    twin = host(text)
    assert isinstance(twin, Twin)
    return TwinTransport(twin, {"work": work}, state.Fleeting(machine) if machine else None)


def lease() -> Apply:
    return Apply((Step("gpu.max", LOWER, None, ""),), "me", lease=True)


def lose(transport: TwinTransport) -> LinkLost:
    """Works under a lease until the line is lost; returns what is said of that."""
    transport.write(lease())
    with pytest.raises(LinkLost) as caught:
        transport.run(Job(("work",), timeout_s=500.0, sampling=Sampling(rails=("POM_5V_IN",), rate_hz=10.0)))
    return caught.value


def read(machine: Machine, path: str) -> str:
    return TwinSystem(machine, "root").read(path).strip()


@pytest.mark.parametrize("fault", CUTS)
def test_what_was_said_before_a_line_was_lost_is_kept_and_nothing_works_on_it_any_more(fault: str) -> None:
    with closing(opened(f"sim:nano,fault={fault}")) as transport:
        lost = lose(transport)
        assert [line.text for line in lost.said] == ["0", "1", "2", "3", "4", "5"][: len(lost.said)]
        assert len(lost.said) >= 5
        assert lost.transient
        assert lost.hint
        for attempt in (lambda: transport.read([HELD]), lambda: transport.write(Undo(lease="lease"))):
            with pytest.raises(LinkLost):
                attempt()


@pytest.mark.parametrize("fault", ["link-drop@5s", "link-reset@5s", "reboot@5s"])
def test_a_line_is_lost_when_it_breaks_though_nothing_else_happens_on_the_board(fault: str) -> None:
    with closing(opened(f"sim:nano,fault={fault}")) as transport:
        began_s = transport.machine.now_s
        with pytest.raises(LinkLost):
            transport.run(Job(duration_s=60.0))
        assert transport.machine.now_s - began_s == pytest.approx(5.0)


@pytest.mark.parametrize("fault", CUTS)
def test_a_lost_host_leaves_the_board_as_it_was_when_the_grace_is_over(fault: str) -> None:
    transport = opened(f"sim:nano,fault={fault}")
    machine, before = transport.machine, transport.found.nodes()
    lose(transport)
    lost_s = machine.now_s
    assert read(machine, HELD) == str(LOWER)
    assert int(read(machine, LOAD)) > 500
    transport.close()
    assert machine.now_s == pytest.approx(lost_s + GRACE_S, abs=2.0)
    assert read(machine, LOAD) == "0"
    assert not TwinSystem(machine, "root").exists(JOURNAL)
    machine.reach.refuses = False
    with closing(opened("sim:nano", machine)) as later:
        assert later.found.nodes() == before
        assert later.journal.lease is None
        assert not later.journal.notes


def test_somebody_who_comes_during_the_grace_is_told_who_holds_the_board() -> None:
    with closing(opened("sim:nano,fault=link-reset@5s")) as transport:
        lost = lose(transport)
        assert "reset" in lost.what
        with closing(transport.again()) as other:
            assert other.journal.lease is not None
            assert other.facts.boot_id == transport.facts.boot_id
            with pytest.raises(BoardError, match="held by a measurement of me"):
                other.write(Apply((Step("gpu.max", LOWER, None, ""),), "you"))


def test_what_was_applied_outlives_the_line() -> None:
    transport = opened("sim:nano,fault=link-drop@5s")
    transport.write(Apply((Step("gpu.max", LOWER, None, ""),), "me"))
    with pytest.raises(LinkLost, match="was lost"):
        transport.run(Job(("work",), timeout_s=500.0))
    transport.close()
    assert read(transport.machine, HELD) == str(LOWER)
    assert TwinSystem(transport.machine, "root").exists(JOURNAL)


def test_new_connections_are_refused_until_the_drop_is_over() -> None:
    with closing(opened("sim:nano,fault=link-drop@5s:3s")) as transport:
        lose(transport)
        with pytest.raises(HostError, match="refuses connections"):
            transport.again()
        transport.machine.wait(TwinSystem(transport.machine), [], transport.machine.now_s + 3.0)
        transport.again().close()


def test_a_board_that_cannot_be_reached_is_kept_as_it_was(tmp_path: Path) -> None:
    text = f"sim:nano,state={tmp_path}/board"
    with closing(opened(text)) as transport:
        before = transport.found.nodes()
    with pytest.raises(HostError, match="refuses connections"):
        opened(f"{text},fault=link-drop@0")
    with closing(opened(text)) as transport:
        assert transport.found.nodes() == before


def test_the_grace_of_a_line_that_nobody_waits_for_any_more_takes_no_real_time() -> None:
    slept: list[float] = []
    twin = boards.load("nano").twin
    machine = Machine(
        "nano", "r32.7", twin, speed="1", faults=["link-drop@2s"], programs={"work": work}, sleep=slept.append
    )
    transport = opened("sim:nano", machine)
    began_s = machine.now_s
    lose(transport)
    assert sum(slept) == pytest.approx(machine.now_s - began_s)
    transport.close()
    assert sum(slept) == pytest.approx(2.0, abs=0.2)


def test_a_slow_line_makes_each_answer_late_and_costs_no_samples() -> None:
    with closing(opened("sim:nano,fault=link-slow@0::0.5")) as transport:
        began_s = transport.machine.now_s
        for _ in range(3):
            transport.read([HELD])
        assert transport.machine.now_s - began_s == pytest.approx(3 * 2 * 0.5)
        done = transport.run(Job(duration_s=4.0, sampling=Sampling(rails=("POM_5V_IN",), rate_hz=10.0)))
    assert done.ended_s - done.started_s == pytest.approx(4.0)
    assert len(done.series[0].values) >= 39


def test_a_line_is_fast_again_when_the_fault_is_over() -> None:
    with closing(opened("sim:nano,fault=link-slow@0:1s")) as transport:
        transport.run(Job(duration_s=1.0))
        began_s = transport.machine.now_s
        transport.read([HELD])
        assert transport.machine.now_s == began_s


def test_a_line_that_is_too_slow_cannot_be_opened() -> None:
    with pytest.raises(HostError, match="does not answer in time"):
        opened("sim:nano,fault=link-slow@0::6")


def test_sudo_that_asks_leaves_one_without_root_and_says_why() -> None:
    with closing(opened("sim:nano,fault=sudo-asks@0")) as transport:
        assert not transport.facts.root
        assert "not root: sudo: a password is required" in transport.journal.notes
        with pytest.raises(BoardError, match="nothing was changed"):
            transport.write(lease())
        assert read(transport.machine, HELD) != str(LOWER)
        assert transport.run(Job(("work",), duration_s=1.0)).lines


def test_sudo_that_asks_later_does_not_stop_who_has_connected_before() -> None:
    with closing(opened("sim:nano,fault=sudo-asks@1s")) as transport:
        transport.run(Job(duration_s=2.0))
        assert transport.facts.root
        transport.write(lease())
        with closing(transport.again()) as other:
            assert not other.facts.root


def test_a_slow_python_makes_the_board_answer_late() -> None:
    with closing(opened("sim:nano")) as plain, closing(opened("sim:nano,fault=slow-python@0")) as slow:
        assert slow.machine.now_s - plain.machine.now_s == pytest.approx(8.0)
        assert slow.found == plain.found


def test_a_python_slower_than_the_patience_is_a_board_that_did_not_start() -> None:
    with pytest.raises(HostError, match="did not start: it said nothing") as caught:
        opened("sim:nano,fault=slow-python@0::31")
    assert caught.value.exit_code == 3


@pytest.mark.parametrize("fault", ["reboot@4s", "link-reset@4s"])
def test_a_line_that_breaks_while_the_programs_start_is_lost(fault: str) -> None:
    with pytest.raises(LinkLost, match="before its programs had started"):
        opened(f"sim:nano,fault=slow-python@0,fault={fault}")


def test_lines_that_come_late_have_the_times_that_the_board_gave_them() -> None:
    with closing(opened("sim:nano,fault=link-slow@0::2")) as transport:
        done = transport.run(Job(("work",), duration_s=5.5))
    assert [round(line.t_s - done.started_s) for line in done.lines] == [0, 1, 2, 3, 4, 5]
