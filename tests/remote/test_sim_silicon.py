"""Heat and energy of the simulated chip over time."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from remote import boards
from remote.sim.machine import Machine
from remote.sim.physics import Activity
from remote.sim.process import Action, Busy, Context
from remote.sim.silicon import fair_share
from tests.remote.sim_board import CLOCK, FREQ, Shell, machine, steady

HARD = Activity(flops_per_s=2e11, bytes_per_s=1e10, gpu_load=1.0, cpu_load=4.0)
_DIE = "/sys/class/thermal/thermal_zone1/temp"


def hard(context: Context) -> Generator[Action, None, int]:
    """Works hard for ten minutes."""
    yield Busy(600.0, HARD)
    return 0


def _in_a_hot_room(release: str) -> Shell:
    twin = boards.load("tx1").twin
    hot = {**steady(twin), "heat": {**twin["heat"], "ambient_c": 75.0}}
    return Shell(Machine("tx1", release, hot, programs={"hard": hard}))


def _celsius(board: Shell) -> float:
    return board.number(_DIE) / 1000


def test_the_die_warms_under_load_and_cools_after_it() -> None:
    board = Shell(machine("r32.7", {"hard": hard}))
    cold = _celsius(board)
    board.system.spawn(["hard"], {}, "")
    board.sleep(599.0)
    warm = _celsius(board)
    board.sleep(7200.0)
    assert warm > cold + 5.0
    assert _celsius(board) == pytest.approx(cold, abs=0.5)


@pytest.mark.parametrize("release", ["r23.1", "r32.7"])
def test_a_hot_board_takes_operating_points_away_and_gives_them_back(release: str) -> None:
    board = _in_a_hot_room(release)
    if release == "r23.1":
        board.put(f"{CLOCK}/override.gbus/state", 1)
    process = board.system.spawn(["hard"], {}, "")
    full = board.board.clocks()
    board.sleep(300.0)
    throttled = board.board.clocks()
    assert throttled.gpu_hz < full.gpu_hz
    assert throttled.cpu_hz < full.cpu_hz
    assert throttled.gpu_hz in board.board.twin["gpu_hz"]
    assert board.number(f"{FREQ}/scaling_max_freq") == 1734000
    if release == "r23.1":
        assert board.number(f"{CLOCK}/gbus/rate") == throttled.gpu_hz
        assert board.number(f"{CLOCK}/override.gbus/rate") == 998_400_000
    process.kill()
    board.sleep(7200.0)
    assert board.board.clocks(activity=HARD).gpu_hz == full.gpu_hz


def test_no_time_is_lost_on_a_long_wait_of_a_cool_board() -> None:
    board = Shell(machine("r24.2"))
    board.sleep(30 * 86400.0)
    assert board.board.now_s == 120.0 + 30 * 86400.0


def test_a_lower_locked_clock_saves_energy_even_at_idle() -> None:
    energies = []
    for rate in (998_400_000, 230_400_000):
        board = Shell(machine("r23.1", {"hard": hard}))
        board.put(f"{CLOCK}/override.gbus/rate", rate)
        board.put(f"{CLOCK}/override.gbus/state", 1)
        before_j = board.board.energy_j("VDD_IN")
        board.sleep(10.0)
        energies.append(board.board.energy_j("VDD_IN") - before_j)
    assert energies[0] > energies[1]


@pytest.mark.parametrize(
    ("loads", "share"),
    [([], 1.0), ([0.3], 0.7), ([1.0], 0.5), ([0.9, 1.0], 1 / 3), ([0.1, 1.0], 0.45), ([0.2, 0.2], 0.6)],
)
def test_programs_share_the_gpu_alike_but_for_those_that_ask_for_less(loads: list[float], share: float) -> None:
    assert fair_share(loads) == pytest.approx(share)
