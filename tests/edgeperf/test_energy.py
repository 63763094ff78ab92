"""Energy of known loads on simulated boards whose sensors have steps but no errors."""

from __future__ import annotations

from statistics import mean

import pytest

from remote.sim.physics import Activity
from tests.edgeperf.loads import Ran, Span, run

FINE = ("nano", "tx1", "orin-nx@r35.4", "orin-nx@r36.4")
"""Converting when read; averaging a little; averaging over half a second."""


def at(share: float) -> Activity:
    """Returns a load between almost nothing and a busy GPU."""
    return Activity(gpu_load=0.1 + 0.9 * share, flops_per_s=1e10 + 1.9e11 * share, bytes_per_s=1e9 + 7e9 * share)


def square(hz: float, seconds: float) -> list[Span]:
    return [(0.5 / hz, at(number % 2)) for number in range(round(2 * hz * seconds))]


def measured(board: str, spans: list[Span], **options: float) -> Ran:
    seed = int(options.pop("seed", 0))
    return run(board, spans, before=[(3.0, spans[0][1])], seed=seed, perfect=True, **options)


@pytest.mark.parametrize("board", FINE)
@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_a_constant_load_lies_within_the_stated_interval(board: str, share: float) -> None:
    ran = measured(board, [(10.0, at(share))], rate_hz=100.0)
    found = ran.power(steady=True)
    # A rounding error that is evenly spread ends at 1.05 times the half width of its 95 %.
    assert abs(found.total.value - ran.true_w) <= 1.1 * found.total.half
    assert found.total.half < 0.015 * ran.true_w


@pytest.mark.parametrize("board", FINE)
@pytest.mark.parametrize("hz", [0.3, 1.0, 7.0])
def test_a_square_wave_is_integrated_within_one_percent_at_100_hz(board: str, hz: float) -> None:
    ran = measured(board, square(hz, 20.0), rate_hz=100.0)
    assert abs(ran.error()) < 0.01
    assert ran.power().total.half < 0.02 * ran.true_w


@pytest.mark.parametrize("board", FINE)
def test_a_ramp_is_integrated_within_one_percent(board: str) -> None:
    ran = measured(board, [(0.1, at(number / 100)) for number in range(101)], rate_hz=100.0)
    assert abs(ran.error()) < 0.01


@pytest.mark.parametrize("board", FINE)
def test_a_load_that_drops_in_the_middle_is_integrated_within_one_percent(board: str) -> None:
    ran = measured(board, [(7.3, at(1.0)), (5.2, at(0.3))], rate_hz=100.0)
    assert abs(ran.error()) < 0.01


@pytest.mark.parametrize(("board", "celsius"), [("nano", 36.0), ("tx1", 40.0), ("orin-nx@r35.4", 32.0)])
def test_a_board_that_throttles_in_the_middle_is_integrated_within_one_percent(board: str, celsius: float) -> None:
    free = measured(board, [(20.0, at(1.0))], rate_hz=100.0)
    held = measured(board, [(20.0, at(1.0))], rate_hz=100.0, throttle_c=celsius)
    assert held.true_w < 0.98 * free.true_w
    assert abs(held.error()) < 0.01


def test_energy_that_an_averaging_sensor_does_not_show_yet_is_added() -> None:
    ran = measured("orin-nx@r36.4", [(1.0, at(0.0)), (1.0, at(1.0))], rate_hz=100.0)
    assert abs(ran.error()) < 0.01


def test_of_a_steady_load_the_time_in_which_its_sensor_still_shows_the_one_before_is_left_out() -> None:
    ran = run("orin-nx@r36.4", [(10.0, at(1.0))], before=[(3.0, at(0.0))], perfect=True)
    assert ran.power(steady=True).settling_s == pytest.approx(2.1, abs=0.2)
    assert abs(ran.error(steady=True)) < 0.01
    fast = run("nano", [(10.0, at(1.0))], before=[(3.0, at(0.0))], perfect=True)
    assert fast.power(steady=True).settling_s == 0.0


def test_coarse_steps_are_in_the_interval_where_they_cost_more_than_one_percent() -> None:
    ran = measured("agx-orin", square(1.0, 10.0), rate_hz=100.0)
    found = ran.power().total
    assert found.half > 0.01 * ran.true_w
    assert found.low <= ran.true_w <= found.high


def test_a_load_in_step_with_the_samples_is_not_biased() -> None:
    # A batch of 50 ms, half of it busy, sampled at 20 Hz: samples in step would see only one half.
    errors = [measured("nano", square(20.0, 10.0), rate_hz=20.0, seed=seed).error() for seed in range(16)]
    spread = (sum((error - mean(errors)) ** 2 for error in errors) / 15) ** 0.5
    assert abs(mean(errors)) < 2.5 * spread / 16**0.5
    assert spread < 0.04
