"""Virtual time, processes, files: the simulated machine as the on-board programs see it."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Generator
from typing import Any, cast

import pytest

from remote import boards
from remote.errors import UsageError
from remote.onboard.agent import Agent
from remote.onboard.clockd import Clockd
from remote.onboard.system import System
from remote.sim.files import Files
from remote.sim.machine import Machine
from remote.sim.physics import Activity
from remote.sim.process import Action, Busy, Context, Err, Out, Sleep
from remote.sim.processes import Pipe, SimProcess
from remote.sim.system import TwinSystem
from tests.remote.sim_board import CLOCK, RELEASES, Shell, machine, shell

BUSY = Activity(flops_per_s=2e11, bytes_per_s=5e9, gpu_load=1.0, cpu_load=0.5)


def worker(context: Context) -> Generator[Action, None, int]:
    """Works for ten simulated seconds in two parts."""
    yield Out("start\n")
    yield Busy(4.0, BUSY)
    yield Out("half")
    yield Err("oops\n")
    yield Busy(6.0, BUSY)
    yield Out("way\n")
    return 3


def hungry(context: Context) -> Generator[Action, None, int]:
    """Takes memory until there is none."""
    while True:
        context.allocate(1 << 30)
        yield Sleep(1.0)


def careful(context: Context) -> Generator[Action, None, int]:
    """Ends in its own way on Ctrl-C."""
    try:
        yield Sleep(100.0)
    except KeyboardInterrupt:
        yield Out("bye\n")
        return 7
    return 0


PROGRAMS = {"worker": worker, "runner.zip": worker, "hungry": hungry, "careful": careful}


def _drain(system: TwinSystem, process: SimProcess) -> tuple[str, str]:
    """Reads both outputs to their ends."""
    texts = {process.stdout: b"", process.stderr: b""}
    open_pipes: list[Pipe] = list(texts)
    while open_pipes:
        for pipe in system.wait(open_pipes, None):
            data = pipe.read()
            texts[pipe] += data
            if not data:
                open_pipes.remove(pipe)
    return texts[process.stdout].decode(), texts[process.stderr].decode()


def test_a_program_prints_when_its_simulated_time_has_come() -> None:
    board = shell(programs=PROGRAMS)
    start_s = board.board.now_s
    process = board.system.spawn(["worker"], {}, "")
    seen = []
    while pipes := board.system.wait([process.stdout], None):
        data = pipes[0].read()
        seen.append((board.board.now_s - start_s, data))
        if not data:
            break
    assert seen == [(0.0, b"start\n"), (4.0, b"half"), (10.0, b"way\n"), (10.0, b"")]
    assert process.exit_code() == 3


def test_waiting_ends_at_its_time_when_nothing_happens_and_never_runs_past_it() -> None:
    board = shell(programs=PROGRAMS)
    process = board.system.spawn(["worker"], {}, "")
    board.system.wait([process.stdout], None)
    process.stdout.read()
    until_s = board.board.now_s + 1.5
    assert board.system.wait([process.stdout], until_s) == []
    assert board.board.now_s == until_s
    assert board.system.wait([process.stdout], until_s - 1.0) == []
    assert board.board.now_s == until_s


def test_waiting_for_what_can_never_come_returns_at_once() -> None:
    board = shell()
    before_s = board.board.now_s
    assert board.system.wait([board.system.input], None) == []
    assert board.board.now_s == before_s


@pytest.mark.parametrize("argv", [["/usr/local/bin/worker"], ["python3", "-I", "/opt/x/runner.zip", "tensorrt"]])
def test_programs_are_known_by_the_name_of_the_file_or_of_the_script(argv: list[str]) -> None:
    board = shell(programs=PROGRAMS)
    assert _drain(board.system, board.system.spawn(argv, {}, ""))[0] == "start\nhalfway\n"


@pytest.mark.parametrize("argv", [["nothing"], ["python3", "-c"], []])
def test_an_unknown_program_is_enoent(argv: list[str]) -> None:
    with pytest.raises(FileNotFoundError):
        shell().system.spawn(argv, {}, "")


def test_a_killed_process_ends_with_both_outputs_and_stops_being_busy() -> None:
    board = shell(programs=PROGRAMS)
    process = board.system.spawn(["worker"], {}, "")
    board.sleep(1.0)
    assert board.board.clocks().gpu_hz == 998_400_000
    process.kill()
    process.kill()
    assert board.board.clocks().gpu_hz == 76_800_000
    _drain(board.system, process)
    assert process.exit_code() == -9


def test_an_interrupted_process_may_say_goodbye() -> None:
    board = shell(programs=PROGRAMS)
    polite, other = (board.system.spawn([name], {}, "") for name in ("careful", "worker"))
    board.sleep(1.0)
    polite.interrupt()
    other.interrupt()
    assert _drain(board.system, polite)[0] == "bye\n"
    assert (polite.exit_code(), other.exit_code()) == (7, -2)


def test_a_process_that_takes_too_much_memory_is_killed_and_its_memory_comes_back() -> None:
    board = shell(programs=PROGRAMS)
    free = board.board.free_bytes()
    process = board.system.spawn(["hungry"], {}, "")
    board.sleep(1.5)
    assert board.board.free_bytes() == free - 2 * (1 << 30)
    _drain(board.system, process)
    assert process.exit_code() == -9
    assert board.board.free_bytes() == free


@pytest.mark.parametrize("release", RELEASES)
def test_energy_is_power_times_time_whatever_happens_in_between(release: str) -> None:
    board = shell(release, programs=PROGRAMS)
    machine = board.board
    idle_w, start_j = machine.watts("VDD_IN"), machine.energy_j("VDD_IN")
    board.sleep(0.25)
    process = board.system.spawn(["worker"], {}, "")
    busy_w = machine.watts("VDD_IN")
    for _ in range(4):
        board.sleep(0.05)
        machine.energy_j("VDD_IN")
    process.kill()
    board.sleep(0.0)
    assert busy_w > idle_w
    assert machine.energy_j("VDD_IN") - start_j == pytest.approx(0.25 * idle_w + 0.2 * busy_w)


def test_a_locked_gpu_is_seen_by_a_program_through_its_context() -> None:
    seen = []

    def look(context: Context) -> Generator[Action, None, int]:
        seen.append((context.clocks().gpu_hz, context.clocks(BUSY).gpu_hz))
        yield from ()
        return 0

    board = shell("r23.1", programs={"look": look})
    for rate in (None, 691_200_000):
        if rate:
            board.put(f"{CLOCK}/override.gbus/rate", rate)
            board.put(f"{CLOCK}/override.gbus/state", 1)
        board.system.spawn(["look"], {}, "")
        board.sleep(0.0)
    assert seen == [(76_800_000, 998_400_000), (691_200_000, 691_200_000)]


def test_two_on_board_programs_share_the_machine_and_its_time() -> None:
    board = machine(programs=PROGRAMS)
    user, root = TwinSystem(board), TwinSystem(board, "root")
    agent, clockd = (
        Agent(cast(System, user), boards.table(), "build"),
        Clockd(cast(System, root), boards.table(), "build"),
    )
    for program, system in ((agent, user), (clockd, root)):
        board.attach(program, system)
        program.start()
        system.outbox.clear()
    sampling = {"rails": ["VDD_IN"], "rate_hz": 20.0, "readings": [], "watch_hz": 1.0, "seed": 1}
    request = {"id": 1, "verb": "stream", "argv": ["worker"], "timeout_s": 60.0, "sampling": sampling}
    user.input.feed(json.dumps(request).encode() + b"\n")
    root.input.feed(b'{"id": 2, "verb": "settings"}\n')
    answers: list[dict[str, object]] = []
    while not any(answer["kind"] == "end" for answer in answers):
        agent.turn()
        answers += [json.loads(line) for line in b"".join(user.outbox).splitlines()]
        user.outbox.clear()
    assert any(json.loads(line)["kind"] == "end" for line in b"".join(root.outbox).splitlines())
    assert answers[-1]["exit_code"] == 3
    (series,) = [answer["series"] for answer in answers if "series" in answer]
    assert isinstance(series, dict)
    assert len(series["values"]) == pytest.approx(200, abs=2)
    assert None not in series["values"]


def test_the_same_seed_and_commands_give_the_same_texts() -> None:
    def text(seed: int) -> str:
        board = shell("r32.7", seed=seed, programs=PROGRAMS)
        board.system.spawn(["worker"], {}, "")
        tool = board.system.spawn(["tegrastats", "--interval", "500"], {}, "")
        board.sleep(12.0)
        return tool.stdout.read().decode() + board.get("/proc/device-tree/serial-number")

    assert text(1) == text(1)
    assert text(1) != text(2)


def test_time_can_be_real_and_then_every_wait_is_short_enough_for_ctrl_c() -> None:
    slept: list[float] = []
    board = Shell(machine(speed="1", sleep=slept.append))
    start_s = board.board.now_s
    while board.board.now_s < start_s + 2.5:
        before_s = board.board.now_s
        board.sleep(2.5)
        assert board.board.now_s <= before_s + 0.11
    assert sum(slept) == pytest.approx(2.5, abs=0.11)


@pytest.mark.parametrize("options", [{"cores": 0}, {"cores": 5}, {"probe": "desk"}, {"speed": "2"}])
def test_options_that_make_no_sense_are_usage_errors(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        machine(**options)


def test_an_unknown_release_is_a_usage_error_that_names_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"r23\.1"):
        Machine("tx1", "r99", boards.load("tx1").twin)


def test_files_belong_to_who_made_them() -> None:
    board = machine()
    user, root = TwinSystem(board), TwinSystem(board, "root")
    user.make_folder(user.cache() + "/files")
    user.append(user.cache() + "/files/a", b"one")
    user.append(user.cache() + "/files/a", b"two")
    user.rename(user.cache() + "/files/a", user.cache() + "/files/b")
    assert (root.load(user.cache() + "/files/b"), user.size(user.cache() + "/files/b")) == (b"onetwo", 6)
    assert user.glob(user.cache() + "/files/*") == [user.cache() + "/files/b"]
    root.make_folder("/run/edgeperf")
    root.save("/run/edgeperf/journal", b"{}")
    assert not user.exists("/run/edgeperf/journal")
    with pytest.raises(PermissionError):
        user.load("/run/edgeperf/journal")
    with pytest.raises(PermissionError):
        user.make_folder("/run/mine")
    root.remove("/run/edgeperf/journal")
    root.remove("/run/edgeperf/journal")
    assert not root.exists("/run/edgeperf/journal")


def test_a_full_disk_takes_no_more() -> None:
    board = machine()
    system = TwinSystem(board)
    board.files = Files(100, ("nvidia",))
    system.save("/tmp/a", bytes(60))
    with pytest.raises(OSError, match="No space") as caught:
        system.save("/tmp/b", bytes(60))
    assert caught.value.errno == errno.ENOSPC


def test_kernel_files_cannot_be_made_or_removed() -> None:
    system = TwinSystem(machine(), "root")
    changes: list[Callable[[], None]] = [
        lambda: system.save("/proc/meminfo", b""),
        lambda: system.remove("/proc/meminfo"),
        lambda: system.rename("/proc/meminfo", "/tmp/x"),
    ]
    for change in changes:
        with pytest.raises(PermissionError):
            change()
