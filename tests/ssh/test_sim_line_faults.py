"""What faults of the line are over SSH: a simulated board behind its server, whose host is told as on a real one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from remote import hosts, ssh
from remote.access import DEFAULT, Access
from remote.channel import Pulse
from remote.errors import BoardError, HostError, LinkLost
from remote.sim.serve import Served
from remote.sim.system import TwinSystem
from remote.ssh import SshTransport
from remote.types import Apply, Job, Sampling, Step
from tests.ssh import twins
from tests.ssh.rig import within

HELD = "/sys/devices/57000000.gpu/devfreq/57000000.gpu/max_freq"
LOWER = 460_800_000
SAMPLED = Job(duration_s=4.0, sampling=Sampling(rails=("POM_5V_IN",), rate_hz=10.0))
CUTS = ["link-drop@5s:300ms", "link-reset@5s", "link-stall@5s:30s"]
SHORT = Access(pulse=Pulse(grace_s=0.5))
"""A host whose board waits for it no longer than a test may take."""


@contextmanager
def board(fault: str, folder: Path) -> Iterator[Served]:
    with twins.served(f"sim:nano,fault={fault}", folder / "server") as one:
        yield one


def connect(one: Served, access: Access = DEFAULT) -> SshTransport:
    return ssh.connect(hosts.ssh(one.name), access)


def held(one: Served) -> bool:
    """Says whether the clock is still as the lease set it."""
    return one.board.call(lambda: TwinSystem(one.board.machine, "root").read(HELD)).strip() == str(LOWER)


def becomes_free(one: Served) -> bool:
    return within(lambda: not held(one))


def lose(transport: SshTransport) -> LinkLost:
    """Measures under a lease until the line is lost; returns what is said of that."""
    transport.write(Apply((Step("gpu.max", LOWER, None, ""),), "me", lease=True))
    with pytest.raises(LinkLost) as caught:
        transport.run(replace(SAMPLED, duration_s=60.0))
    return caught.value


@pytest.mark.parametrize("fault", CUTS)
def test_a_lost_host_is_told_and_the_board_is_as_before_once_the_grace_is_over(fault: str, tmp_path: Path) -> None:
    with board(fault, tmp_path) as one:
        with closing(connect(one, SHORT)) as transport:
            lost = lose(transport)
        assert "connection to the board was lost" in lost.what
        assert "edgeperf attach" in lost.hint
        assert becomes_free(one)


def test_a_line_that_was_reset_can_be_taken_up_again_while_the_board_still_holds_the_clocks(tmp_path: Path) -> None:
    with board("link-reset@5s", tmp_path) as one:
        with closing(connect(one)) as transport:
            lose(transport)
        assert held(one)
        with closing(connect(one, Access(resume=True))) as again:
            assert again.journal.lease is not None
            done = again.run(Job(resume=True))
        assert done.ended_s - done.started_s == pytest.approx(60.0)
        assert len(done.series[0].values) >= 590
        assert becomes_free(one)


def test_new_connections_are_turned_away_until_the_drop_is_over(tmp_path: Path) -> None:
    with board("link-drop@0:1s", tmp_path) as one:
        with pytest.raises(HostError) as caught:
            connect(one)
        assert caught.value.exit_code == 3
        assert caught.value.hint
        assert within(lambda: not one.board.machine.reach.refuses)
        connect(one).close()


def test_a_slow_line_makes_each_answer_late_and_costs_no_samples(tmp_path: Path) -> None:
    with board("link-slow@0::0.5", tmp_path) as one, closing(connect(one)) as transport:
        began_s = one.board.machine.now_s
        for _ in range(3):
            transport.read([HELD])
        assert one.board.machine.now_s - began_s == pytest.approx(3 * 2 * 0.5, abs=0.2)
        done = transport.run(SAMPLED)
        assert done.ended_s - done.started_s == pytest.approx(4.0)
        assert len(done.series[0].values) >= 39


def test_sudo_that_asks_is_told_as_on_a_board_and_leaves_one_without_root(tmp_path: Path) -> None:
    with board("sudo-asks@0", tmp_path) as one, closing(connect(one)) as transport:
        assert not transport.facts.root
        assert "not root: sudo: a password is required" in transport.journal.notes
        with pytest.raises(BoardError, match="nothing was changed"):
            transport.write(Apply((Step("gpu.max", LOWER, None, ""),), "me"))
        assert len(transport.run(SAMPLED).series[0].values) >= 39


def test_no_password_is_the_right_one(tmp_path: Path) -> None:
    with board("sudo-asks@0", tmp_path) as one, pytest.raises(HostError, match="sudo did not accept the password"):
        connect(one, Access(sudo_password="nvidia"))


def test_a_slow_python_takes_its_time_on_the_board(tmp_path: Path) -> None:
    with board("slow-python@0", tmp_path) as one:
        began_s = one.board.machine.now_s
        connect(one).close()
        assert one.board.machine.now_s - began_s >= 8.0


def test_a_python_slower_than_the_patience_is_a_board_that_did_not_start(tmp_path: Path) -> None:
    with board("slow-python@0::31", tmp_path) as one, pytest.raises(HostError, match="did not start: it said nothing"):
        connect(one)


def test_a_restart_ends_the_line_and_the_next_one_meets_a_board_as_after_switching_on(tmp_path: Path) -> None:
    with board("reboot@5s", tmp_path) as one:
        with closing(connect(one)) as transport:
            boot, found = transport.facts.boot_id, transport.found
            lose(transport)
        with closing(connect(one)) as later:
            assert later.facts.boot_id != boot
            assert later.found.nodes() == found.nodes()
            assert later.journal.lease is None
