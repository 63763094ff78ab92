from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeperf.power import Missing, Power, choose_total, energy_j, measure
from remote.boards import Total
from remote.types import Rail, Sensor, Series

MODULE = Total("module_in", ("VDD_IN",), "the carrier")
LAB = Total("ap_dram", ("CPU", "GPU"), "the rest of the module")


def rail(name: str, values: Sequence[float | None], period_s: float = 0.05, start_s: float = 0.0) -> Series:
    return Series(name, tuple(start_s + i * period_s for i in range(len(values))), tuple(values))


def noisy(count: int, mean: float = 10.0, spread: float = 0.1, seed: int = 0) -> list[float]:
    noise = random.Random(seed)
    return [noise.gauss(mean, spread) for _ in range(count)]


def power(
    *series: Series,
    total: Total = MODULE,
    start_s: float = 1.0,
    stop_s: float = 9.0,
    steady: bool = True,
    **sensor: Any,
) -> Power:
    rails = {item.id: Rail(item.id, "", sensor=Sensor(**sensor)) for item in series}
    found = measure(series, total, start_s, stop_s, rails, steady=steady)
    assert isinstance(found, Power)
    return found


# One count is 40 mW.
FINE: Mapping[str, Any] = {"kind": "ina3221", "shunt_ohm": 0.005, "volts": 5.0}


@given(st.floats(0, 4), st.floats(0.5, 5), st.floats(-3, 3), st.floats(1, 20))
def test_the_energy_of_a_ramp_is_exact_wherever_the_marks_fall(
    start_s: float, length_s: float, slope: float, base: float
) -> None:
    times = [0.1 * i + 0.02 * math.sin(i) for i in range(120)]
    values = [base + slope * t for t in times]
    stop_s = start_s + length_s
    expected = base * length_s + slope * (stop_s**2 - start_s**2) / 2
    assert energy_j(times, values, start_s, stop_s) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_outside_the_samples_the_nearest_one_holds() -> None:
    assert energy_j([1.0, 2.0], [4.0, 8.0], 0.0, 3.0) == pytest.approx(4 + 6 + 8)


@given(st.floats(0.5, 9.5))
def test_energy_before_and_after_a_cut_is_the_whole(cut_s: float) -> None:
    times, values = [0.3 * i for i in range(40)], [math.sin(i) + 2 for i in range(40)]
    parts = energy_j(times, values, 0.0, cut_s) + energy_j(times, values, cut_s, 10.0)
    assert parts == pytest.approx(energy_j(times, values, 0.0, 10.0))


def test_only_what_lies_between_the_marks_counts() -> None:
    values = [2.0] * 60 + [10.0] * 80 + [2.0] * 60
    found = power(rail("VDD_IN", values), start_s=3.5, stop_s=6.5)
    assert found.total.value == pytest.approx(10.0)
    assert found.energy_j == pytest.approx(30.0)


def test_mean_power_is_energy_over_time_and_its_interval_holds_the_truth() -> None:
    hits = 0
    for seed in range(100):
        found = power(rail("VDD_IN", noisy(200, seed=seed)))
        assert found.energy_j == pytest.approx(found.total.value * 8.0)
        hits += found.total.low <= 10.0 <= found.total.high
    assert hits >= 90


def test_the_total_is_the_sum_of_its_rails_and_of_nothing_else() -> None:
    found = power(
        rail("CPU", noisy(200, 2.0)), rail("GPU", noisy(200, 6.0)), rail("VDD_IN", noisy(200, 11.0)), total=LAB
    )
    assert found.total.value == pytest.approx(8.0, abs=0.1)
    # The same noise in both: they rise and fall together.
    assert found.total.half == pytest.approx(found.rails_w["CPU"].half + found.rails_w["GPU"].half, rel=0.01)
    assert found.rails_w["VDD_IN"].value == pytest.approx(11.0, abs=0.1)
    assert (found.scope, found.leaves_out) == (LAB.scope, LAB.leaves_out)


def test_zero_on_a_total_rail_is_a_failed_reading_not_a_watt_figure() -> None:
    good = noisy(200)
    values = [*good[:100], *[0.0] * 10, *[None] * 10, *good[120:]]
    found = power(rail("VDD_IN", values))
    assert found.total.value == pytest.approx(10.0, abs=0.1)
    assert found.achieved_hz == pytest.approx(140 / 8, abs=0.3)
    assert found.longest_gap_s == pytest.approx(1.05)
    none = measure([rail("VDD_IN", [0.0] * 200)], MODULE, 1.0, 9.0)
    assert none == Missing("the rail VDD_IN gave 0 readings in 200 attempts")


def test_zero_on_a_nested_rail_is_a_gated_block() -> None:
    found = power(rail("VDD_IN", noisy(200)), rail("VDD_GPU", [0.0] * 200))
    assert found.rails_w["VDD_GPU"].value == 0.0


@pytest.mark.parametrize(
    ("series", "total", "why"),
    [
        ((), None, "no power rails are known"),
        ((), MODULE, "the rail VDD_IN was not sampled"),
        ((rail("VDD_IN", noisy(200)),), LAB, "the rail CPU was not sampled"),
        ((rail("VDD_IN", noisy(10)),), MODULE, "fewer than 2 readings between the run's start and stop"),
        ((rail("VDD_IN", []),), MODULE, "gave 0 readings in 0 attempts"),
    ],
)
def test_what_cannot_be_measured_is_missing_with_its_reason(
    series: tuple[Series, ...], total: Total | None, why: str
) -> None:
    found = measure(series, total, 1.0, 9.0)
    assert isinstance(found, Missing)
    assert why in found.why


def test_an_empty_window_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="no window"):
        measure([rail("VDD_IN", noisy(200))], MODULE, 2.0, 2.0)


def test_a_sensor_that_holds_its_value_shows_in_the_fresh_share() -> None:
    held = [value for value in noisy(50) for _ in range(4)]
    assert power(rail("VDD_IN", held)).fresh_share == pytest.approx(0.25, abs=0.02)
    assert power(rail("VDD_IN", noisy(200))).fresh_share == 1.0


def test_a_sensor_that_holds_its_value_does_not_make_the_interval_narrower() -> None:
    hits = 0
    for seed in range(100):
        held = [value for value in noisy(50, seed=seed) for _ in range(4)]
        found = power(rail("VDD_IN", held))
        hits += found.total.low <= 10.0 <= found.total.high
    assert hits >= 90


def test_rounding_without_noise_stays_in_the_interval_and_with_noise_averages_out() -> None:
    steady, lively = rail("VDD_IN", [10.0] * 200), rail("VDD_IN", noisy(200, spread=0.3))
    # Half a step at most, evenly spread; the steps of the voltage, 8 mV of 5 V, likewise.
    assert power(steady, **FINE).total.half == pytest.approx(1.96 * math.hypot(0.04, 0.016) / math.sqrt(12))
    assert power(lively, **FINE).total.half == pytest.approx(power(lively).total.half, rel=0.02)


def test_readings_that_share_two_steps_are_known_best_when_they_do_so_evenly() -> None:
    def half(share: int) -> float:
        values = [10.0 + 0.04 * (i % 10 < share) for i in range(200)]
        return power(rail("VDD_IN", values), **FINE).total.half

    assert half(5) < half(3) < half(1)


@pytest.mark.parametrize("spread", [0.0, 0.1, 0.2, 0.3, 0.5, 1.0])
def test_the_interval_of_rounded_readings_holds_the_truth_whatever_the_noise(spread: float) -> None:
    hits = 0
    for seed in range(100):
        true_w = 10.0 + 0.04 * random.Random(f"level {seed}").random()
        values = [round(value / 0.04) * 0.04 for value in noisy(200, true_w, spread * 0.04, seed)]
        found = power(rail("VDD_IN", values), **FINE).total
        hits += found.low <= true_w <= found.high
    assert hits >= 93


def test_the_absolute_interval_adds_what_the_sensors_may_be_off_by() -> None:
    found = power(rail("VDD_IN", noisy(200)), **FINE)
    assert found.absolute.value == found.total.value
    assert found.absolute.half == pytest.approx(
        math.hypot(found.total.half, 0.08, found.total.value * math.hypot(0.01, 0.0025, 0.0025, 0.0032))
    )
    assert power(rail("VDD_IN", noisy(200))).absolute.ci95 is None


def test_rails_of_their_own_sensors_are_off_independently_of_each_other() -> None:
    both = power(rail("CPU", [5.0] * 200), rail("GPU", [5.0] * 200), total=LAB, **FINE)
    one = power(rail("VDD_IN", [5.0] * 200), **FINE)
    assert both.absolute.half == pytest.approx(math.sqrt(2) * one.absolute.half)


def test_what_is_drawn_beyond_idle_is_free_of_the_sensor_s_offset() -> None:
    run, idle = power(rail("VDD_IN", noisy(200)), **FINE), power(rail("VDD_IN", noisy(200, 4.0)), **FINE)
    repeatable, absolute = run.net_of(idle)
    assert repeatable.value == pytest.approx(6.0, abs=0.1)
    assert repeatable.half == pytest.approx(math.hypot(run.total.half, idle.total.half))
    assert absolute.half == pytest.approx(math.hypot(repeatable.half, 0.0112 * repeatable.value), rel=0.01)


def test_the_beginning_of_a_steady_load_is_left_out_while_its_sensor_still_shows_the_one_before() -> None:
    lagging = [10.0 - 8.0 * math.exp(-max(0.0, 0.05 * i - 1.0) / 0.4) for i in range(240)]
    found = power(rail("VDD_IN", lagging), stop_s=11.0, conversion_s=0.4, mode="continuous")
    assert found.settling_s == pytest.approx(2.0)
    assert found.total.value == pytest.approx(10.0, abs=0.01)
    short = power(rail("VDD_IN", lagging), stop_s=3.0, conversion_s=0.4, mode="continuous")
    assert short.settling_s == pytest.approx(1.0)


def test_of_any_other_load_all_counts_and_what_its_sensor_does_not_show_yet_is_added() -> None:
    lagging = [10.0 - 8.0 * math.exp(-max(0.0, 0.05 * i - 1.0) / 0.4) for i in range(240)]
    found = power(rail("VDD_IN", lagging), stop_s=3.0, steady=False, conversion_s=0.4, mode="continuous")
    assert found.settling_s == 0.0
    assert found.energy_j == pytest.approx(20.0, rel=0.005)


def test_a_load_that_changes_is_known_for_its_window_however_much_the_next_one_may_differ() -> None:
    waves = rail("VDD_IN", [10.0 if i // 40 % 2 else 2.0 for i in range(200)])
    once, lasting = power(waves, steady=False).total, power(waves).total
    assert once.half < 0.05 * once.value < lasting.half
    even = rail("VDD_IN", noisy(200))
    assert power(even, steady=False).total == power(even).total


def test_the_window_s_edges_are_as_uncertain_as_the_load_changes_there() -> None:
    values = [2.0] * 20 + [10.0] * 160 + [2.0] * 20
    inside, across = (power(rail("VDD_IN", values), start_s=start_s, stop_s=8.5).total.half for start_s in (1.2, 0.975))
    assert inside < 1e-9
    assert across == pytest.approx(1.96 * 0.05 * 8.0 / math.sqrt(12) / 7.525, rel=0.01)


def test_coarse_steps_do_not_make_a_sensor_stale_but_a_dead_stop_does() -> None:
    coarse = power(rail("VDD_IN", [10.0 + 0.04 * (i % 50 == 0) for i in range(200)]), **FINE)
    assert coarse.coarse
    assert not power(rail("VDD_IN", [10.0] * 200), **FINE).coarse
    assert not power(rail("VDD_IN", noisy(200)), **FINE).coarse


def test_the_first_total_whose_rails_are_there_is_the_boards() -> None:
    assert choose_total((LAB, MODULE), ("VDD_IN", "CPU", "GPU")) is LAB
    assert choose_total((LAB, MODULE), ("VDD_IN", "GPU")) is MODULE
    assert choose_total((LAB, MODULE), ("GPU",)) is None


@given(st.lists(st.none() | st.floats(-1, 50), max_size=60), st.floats(0, 2), st.floats(0.1, 3))
def test_no_series_whatever_gives_a_zero_for_an_unknown(
    values: list[float | None], start_s: float, length_s: float
) -> None:
    found = measure([rail("VDD_IN", values)], MODULE, start_s, start_s + length_s)
    assert isinstance(found, Missing) or any(found.rails_w)
    if isinstance(found, Power):
        good = [value for value in values if value]
        assert min(good) - 1e-9 <= found.total.value <= max(good) + 1e-9
