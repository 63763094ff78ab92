"""What dies or breaks in the middle of a measurement over SSH: the board is as before, and its holder is told."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.ssh import sshd
from tests.ssh.proxy import Proxy
from tests.ssh.rig import NODES, Ended, Rig, pending, stop, within
from tests.ssh.sshd import Sshd

ATTACH = "edgeperf attach --host board"
SILENCE = "2s"
"""How long a line that is cut without a word may be silent: how long its test takes, too."""


@pytest.fixture(params=["free"])
def rig(request: pytest.FixtureRequest, server: Sshd, tmp_path: Path) -> Iterator[Rig]:
    """A board whose user, unless another is asked for, becomes root through sudo."""
    rig = Rig(server, request.param, tmp_path)
    try:
        yield rig
        assert rig.left() == []
    finally:
        rig.close()


def whole(ended: Ended) -> dict[str, Any]:
    """Returns the record of a measurement that nothing is missing from."""
    assert ended.out, ended.err
    record: dict[str, Any] = json.loads(ended.out)
    assert ended.code == 0, record["verdict"]
    assert record["clocks"]["profile"] == "maxperf"
    assert len(record["samples_s"]) >= 48  # up to where it was held: all but those that warm up
    return record


# The tool is killed


def test_a_killed_edgeperf_leaves_the_board_as_it_was_once_the_grace_is_over(rig: Rig) -> None:
    rig.measuring(grace="1s").process.kill()


def test_a_killed_edgeperf_can_be_followed_by_another_one_that_gets_the_whole_result(rig: Rig) -> None:
    rig.measuring().process.kill()
    assert rig.is_left()
    rig.go_on()
    assert within(lambda: not rig.jobs())
    whole(rig.attach())


# The line is cut


@pytest.mark.parametrize("rig", ["root", "free"], indirect=True)
@pytest.mark.parametrize("cut", [Proxy.stall, Proxy.reset], ids=["silent", "reset"])
def test_a_line_cut_for_less_than_the_grace_costs_nothing(rig: Rig, cut: Callable[[Proxy], None]) -> None:
    lost = rig.measuring(silence=SILENCE)
    cut(rig.proxy)
    ended = lost.end()
    assert ended.code == 3
    assert ATTACH in ended.err
    assert rig.is_left()
    whole(rig.attach(held=True))


@pytest.mark.parametrize("cut", [Proxy.stall, Proxy.reset], ids=["silent", "reset"])
def test_a_line_cut_for_longer_than_the_grace_ends_the_measurement(rig: Rig, cut: Callable[[Proxy], None]) -> None:
    lost = rig.measuring(grace="0.5s", silence=SILENCE)
    cut(rig.proxy)
    ended = lost.end()
    assert ended.code == 3
    assert ATTACH in ended.err


def test_what_is_over_is_not_picked_up(rig: Rig) -> None:
    late = rig.attach()
    assert late.code == 4
    assert "nothing is running" in late.err


def test_a_line_that_stalls_for_a_moment_is_not_lost(rig: Rig) -> None:
    command = rig.measuring()
    rig.proxy.stall()
    assert within(rig.proxy.holds)
    rig.proxy.go_on()
    rig.go_on()
    whole(command.end())


def test_a_killed_sshd_does_not_end_a_measurement(tmp_path: Path) -> None:
    sshd.server()  # skips where there can be none
    server = sshd.start()
    rig = Rig(server, "free", tmp_path)
    try:
        lost = rig.measuring()
        for pid in _family(server.process.pid):
            with suppress(OSError):  # one that ends with another
                if "sshd" in Path(f"/proc/{pid}/comm").read_text():
                    os.kill(pid, signal.SIGKILL)
        ended = lost.end()
        assert ended.code == 3
        assert ATTACH in ended.err
        server.process.wait()
        rig.server = server = sshd.again(server)
        assert rig.is_left()
        whole(rig.attach(held=True))
        assert rig.left() == []
    finally:
        rig.close()
        sshd.stop(server)


def _family(pid: int) -> list[int]:
    """Returns a process and all that came from it."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(one for child in children for one in _family(int(child)))]


# A program on the board is killed


@pytest.mark.parametrize("name", ["agent", "clockd"])
def test_a_killed_program_ends_the_measurement(rig: Rig, name: str) -> None:
    command = rig.measuring()
    rig.kill(name)
    ended = command.end()
    assert ended.code == 3
    assert "board: " in ended.err


def test_a_killed_guard_is_replaced_and_the_measurement_goes_on(rig: Rig) -> None:
    command = rig.measuring()
    guards = rig.programs("guard")
    assert len(guards) == 1
    rig.kill("guard")
    assert within(lambda: rig.programs("guard") not in ([], guards))
    rig.go_on()
    whole(command.end())


# What cannot be written


@contextmanager
def small_memory(rig: Rig, *, full: bool) -> Iterator[None]:
    """Gives a board one page to remember what it found, or none. To replace a journal takes a second one."""
    folder = rig.tree / "run/edgeperf"
    folder.mkdir(parents=True)
    enter = ["nsenter", "--mount", "--target", str(rig.server.process.pid)]
    subprocess.run([*enter, "mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", folder], check=True)
    try:
        if full:
            (rig.memory() / "full").write_bytes(bytes(4096))
        yield
        assert rig.left() == []
    finally:
        subprocess.run([*enter, "umount", "--lazy", folder], check=True)


def is_unfinished(rig: Rig) -> bool:
    """Says whether the journal is as before the first write: what became of it was not saved any more."""
    (layer,) = json.loads(rig.journal().read_text())["layers"]
    return all(entry["set"] is None for entry in layer["entries"])


def test_nothing_is_changed_when_the_state_found_cannot_be_remembered(rig: Rig) -> None:
    before = rig.written()
    with small_memory(rig, full=True):
        ended = rig.bench().end()
    assert ended.code == 4
    assert "No space left" in ended.err
    assert "nothing was changed" in ended.err
    assert rig.written() == before


def test_settings_are_restored_though_memory_was_full_after_the_first_of_them(rig: Rig) -> None:
    with small_memory(rig, full=False):
        assert rig.run("maxperf").end().code == 0
        assert (rig.tree / NODES / "scaling_governor").read_text() == "performance"
        assert is_unfinished(rig)
        again = rig.run("apply", "stock").end()
        assert again.code == 4
        assert "nothing was changed" in again.err
        assert rig.run("restore").end().code == 0


def test_a_measurement_is_put_back_though_memory_was_full_after_its_first_setting(rig: Rig) -> None:
    with small_memory(rig, full=False):
        command = rig.measuring()
        assert is_unfinished(rig)
        rig.go_on()
        whole(command.end())


@pytest.mark.parametrize("names", [["clockd"], ["clockd", "guard"]], ids=["clockd", "clockd-and-guard"])
def test_killed_programs_are_made_up_for_though_memory_was_full(rig: Rig, names: list[str]) -> None:
    with small_memory(rig, full=False):
        command = rig.measuring()
        assert is_unfinished(rig)
        if "guard" in names:
            rig.cut_power()
            assert command.end().code == 3
            assert rig.run("status").end().code == 0
        else:
            rig.kill("clockd")
            assert command.end().code == 3


@pytest.mark.parametrize("rig", ["plain"], indirect=True)
def test_what_was_set_before_a_write_was_refused_is_put_back(rig: Rig) -> None:
    for path in (rig.tree, *rig.tree.rglob("*")):
        if path.name != "scaling_min_freq" and not path.is_symlink():
            os.chown(path, sshd.USERS["plain"], sshd.USERS["plain"])
    ended = rig.bench("--require-lock").end()
    assert ended.code == 4
    assert "cpu0.min" in ended.err
    assert "EACCES" in ended.err


# Two at once, another boot, Ctrl-C


def test_the_second_of_two_is_told_who_holds_the_board(rig: Rig) -> None:
    first = rig.measuring()
    second = rig.bench().end()
    assert second.code == 4
    assert "the board is held by a measurement of" in second.err
    assert "lease break" in second.err
    rig.go_on()
    whole(first.end())


def test_a_journal_of_an_earlier_boot_is_dropped_and_that_is_said(rig: Rig) -> None:
    command = rig.measuring()
    rig.cut_power()
    command.process.kill()
    for path, text in rig.found.items():
        Path(path).write_text(text)
    (rig.tree / "proc/sys/kernel/random/boot_id").write_text("boot-2\n")
    before = rig.written()
    shown = rig.run("status").end()
    assert shown.code == 0
    assert "a journal of an earlier boot was dropped" in shown.out + shown.err
    assert rig.written() == before


def test_ctrl_c_ends_a_measurement_and_keeps_what_was_measured(rig: Rig) -> None:
    command = rig.measuring()
    command.interrupt()
    ended = command.end()
    assert ended.code == 130
    record = json.loads(ended.out)
    assert record["verdict"]["reasons"][0]["code"] == "interrupted"
    assert len(record["samples_s"]) >= 48


def test_a_second_ctrl_c_waits_for_nothing(rig: Rig) -> None:
    command = rig.measuring()
    (job,), (agent,) = rig.jobs(), rig.programs("agent")
    stop(job)  # it takes no notice of the first
    command.interrupt()
    assert within(lambda: pending(job))
    stop(agent)  # nor will anybody say any more what became of it
    command.interrupt()
    ended = command.end()
    os.kill(agent, signal.SIGCONT)
    assert ended.code == 130
    assert ended.out == ""
