"""How the clocks of a simulated board follow a load when nobody holds them."""

from __future__ import annotations

import statistics
from collections.abc import Generator

import pytest

from remote import boards
from remote.sim.machine import Machine
from remote.sim.physics import Activity
from remote.sim.process import Action, Busy, Context
from tests.remote.sim_board import Shell

HARD = Activity(flops_per_s=1e11, bytes_per_s=1e10, gpu_load=0.95, cpu_load=0.3)
DEVFREQ = "/sys/class/devfreq/57000000.gpu"


def work(context: Context) -> Generator[Action, None, int]:
    """Works hard for a minute."""
    yield Busy(60.0, HARD)
    return 0


def _board(seed: int = 0) -> Shell:
    twin = boards.load("nano").twin
    return Shell(Machine("nano", "r32.7", twin, seed=seed, programs={"work": work}))


def _gpu_mhz(board: Shell, count: int, step_s: float = 0.1) -> list[float]:
    seen = []
    for _ in range(count):
        seen.append(board.board.clocks().gpu_hz / 1e6)
        board.sleep(step_s)
    return seen


def test_clocks_rise_within_half_a_second_and_fall_later_when_the_load_is_gone() -> None:
    board = _board()
    process = board.system.spawn(["work"], {}, "")
    rising = _gpu_mhz(board, 5)
    assert rising[0] == 76.8
    assert 76.8 < rising[1] < 921.6
    assert rising[4] > 700
    board.sleep(5.0)
    process.kill()
    falling = _gpu_mhz(board, 30)
    assert falling[2] > 300
    assert falling[-1] == 76.8


def test_under_a_steady_load_the_clocks_go_to_and_fro_and_the_same_seed_alike() -> None:
    runs = []
    for seed in (1, 1, 2):
        board = _board(seed)
        board.system.spawn(["work"], {}, "")
        board.sleep(2.0)
        runs.append(_gpu_mhz(board, 300))
    assert runs[0] == runs[1] != runs[2]
    assert len(set(runs[0])) > 2
    assert statistics.mean(runs[0]) < 921.6
    assert statistics.mean(runs[0]) > 850


def test_power_follows_the_clocks() -> None:
    board = _board()
    board.system.spawn(["work"], {}, "")
    first_w = board.board.watts("POM_5V_IN")
    board.sleep(2.0)
    assert board.board.watts("POM_5V_IN") > first_w + 0.5


def test_locked_clocks_stay_and_take_no_looks() -> None:
    board = _board()
    board.put("/sys/devices/57000000.gpu/devfreq/57000000.gpu/min_freq", 921_600_000)
    board.put("/sys/devices/system/cpu/cpu0/cpufreq/scaling_min_freq", 1_479_000)
    board.put("/sys/kernel/debug/clk/override.emc/clk_state", 1)
    assert board.board.kernel.due_s() == float("inf")
    board.system.spawn(["work"], {}, "")
    assert set(_gpu_mhz(board, 50)) == {921.6}


@pytest.mark.parametrize("idle_s", [10.0, 30 * 86400.0])
def test_an_idle_board_has_nothing_to_look_at(idle_s: float) -> None:
    board = _board()
    board.system.spawn(["work"], {}, "").kill()
    board.sleep(idle_s)
    assert board.board.kernel.due_s() == float("inf")
