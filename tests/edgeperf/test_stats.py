from __future__ import annotations

import os
import random
from math import comb, exp, inf, sqrt
from time import process_time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeperf.stats import (
    Estimate,
    beginning,
    claimable,
    drift,
    interval,
    outliers,
    percentile,
    product,
    samples_needed,
    steady_start,
    throughput,
    variation,
)

TRIALS = 4000 if os.environ.get("EDGEPERF_SOAK") == "1" else 300
NUMBERS = st.floats(1e-3, 1e3)


def process(count: int, memory: float, seed: int, mean: float = 0.0) -> list[float]:
    """A first-order process of unit variance that keeps ``memory`` of its last value."""
    noise = random.Random(seed)
    value, found = noise.gauss(0, 1), []
    for _ in range(count):
        value = memory * value + sqrt(1 - memory**2) * noise.gauss(0, 1)
        found.append(mean + value)
    return found


@pytest.mark.parametrize(
    ("count", "memory", "at_least"),
    [(5, 0.0, 0.93), (50, 0.0, 0.93), (300, 0.0, 0.93), (200, 0.8, 0.92), (1000, 0.9, 0.90), (200, 0.95, 0.82)],
)
def test_the_interval_covers_the_mean_of_correlated_samples(count: int, memory: float, at_least: float) -> None:
    hits = 0
    for seed in range(TRIALS):
        low, high = interval(process(count, memory, seed))
        hits += low <= 0 <= high
    # Three standard errors of the trial itself.
    assert at_least - 3 * sqrt(0.05 / TRIALS) <= hits / TRIALS <= 0.995


def test_the_interval_of_independent_samples_is_as_wide_as_students() -> None:
    widths = [(high - low) / 2 for low, high in (interval(process(1000, 0.0, seed)) for seed in range(100))]
    assert np.median(widths) == pytest.approx(2.04 / sqrt(1000), rel=0.1)


def test_the_interval_of_nothing_is_not_known_and_of_equal_samples_has_no_width() -> None:
    assert interval([3.0]) == (-inf, inf)
    assert Estimate(3.0, -inf, inf).ci95 is None
    assert interval([3.0] * 50) == (3.0, 3.0)


@given(st.lists(NUMBERS, min_size=2, max_size=100), st.floats(0.1, 10))
def test_an_interval_holds_the_mean_and_scales_with_the_unit(samples: list[float], scale: float) -> None:
    low, high = interval(samples)
    assert low <= sum(samples) / len(samples) <= high
    scaled = interval([scale * sample for sample in samples])
    assert scaled == pytest.approx((scale * low, scale * high), rel=1e-6, abs=1e-6 * scale * max(samples))


def test_throughput_is_images_over_wall_time_not_over_latency() -> None:
    found = throughput(640, 100.0, 104.0, [0.19, 0.2, 0.21, 0.2])
    assert found.value == 160.0
    assert found.low < 160 < found.high
    assert found.high - 160 > 160 - found.low


@pytest.mark.parametrize(("images", "stop_s"), [(0, 1.0), (10, 0.0), (10, -1.0)])
def test_no_images_or_no_time_give_no_throughput(images: int, stop_s: float) -> None:
    with pytest.raises(ValueError, match="no throughput"):
        throughput(images, 0.0, stop_s)


def test_a_single_iteration_has_a_throughput_of_unknown_interval() -> None:
    assert throughput(64, 0.0, 2.0, [2.0]).ci95 is None


@pytest.mark.parametrize(
    ("share", "over", "needed"), [(0.99, 0, 459), (0.99, 1, 662), (0.5, 0, 7), (0.9, 0, 44), (0.95, 0, 90)]
)
def test_samples_needed_by_the_binomial_rule(share: float, over: int, needed: int) -> None:
    assert samples_needed(share, over) == needed


@given(st.floats(0.05, 0.995), st.integers(0, 3))
def test_one_sample_less_would_not_do(share: float, over: int) -> None:
    def chance(count: int) -> float:
        return sum(comb(count, k) * (1 - share) ** k * share ** (count - k) for k in range(over + 1))

    needed = samples_needed(share, over)
    assert chance(needed) <= 0.01 + 1e-12
    assert needed == over + 1 or chance(needed - 1) > 0.01 - 1e-12


def test_a_percentile_is_given_only_by_enough_samples() -> None:
    assert percentile([1.0] * 458, 0.99) is None
    assert percentile([1.0] * 459, 0.99) == 1.0
    assert claimable(459) >= 0.99 > claimable(458)
    assert claimable(0) == 0.0


@given(st.lists(NUMBERS, min_size=44, max_size=200), st.sampled_from([0.25, 0.5, 0.9]))
def test_a_percentile_is_the_usual_one(samples: list[float], share: float) -> None:
    assert percentile(samples, share) == pytest.approx(np.quantile(samples, share))


@pytest.mark.parametrize("share", [0.0, 1.0, 99.0])
def test_a_percentile_is_asked_as_a_share(share: float) -> None:
    with pytest.raises(ValueError, match="share between 0 and 1"):
        percentile([1.0], share)


def test_the_steady_start_is_where_the_warm_up_has_faded() -> None:
    noise = process(1000, 0.0, 7)
    start = steady_start([1 + 3 * exp(-i / 40) + 0.05 * noise[i] for i in range(1000)])
    assert start is not None
    assert 80 <= start <= 350


def test_a_steady_series_starts_early_and_a_rising_one_never() -> None:
    early = steady_start(process(500, 0.0, 3, mean=10.0))
    assert early is not None
    assert early <= 250
    assert steady_start([1.0] * 100) == 0
    assert steady_start([float(i) for i in range(200)]) is None
    assert steady_start([1.0] * 10) is None


def test_drift_is_last_third_against_first() -> None:
    assert drift([1.0] * 10 + [5.0] * 10 + [1.02] * 10) == pytest.approx(0.02)
    assert drift([2.0, 1.9, 1.8]) == pytest.approx(-0.1)
    assert drift([1.0, 2.0]) is None
    assert drift([0.0, 1.0, 2.0]) is None


def test_a_beginning_that_is_not_warm_is_named_with_how_much_slower_it_was() -> None:
    noise = process(1000, 0.0, 7)
    start, slower = beginning([1 + 3 * exp(-i / 40) + 0.05 * noise[i] for i in range(1000)])
    assert start is not None
    assert 80 <= start <= 350
    assert 0.3 < slower < 2.0


def test_a_steady_series_has_no_beginning_of_its_own() -> None:
    for seed in range(30):
        assert beginning([10 + 0.1 * value for value in process(300, 0.5, seed)]) == (0, 0.0)
    assert beginning([1.0] * 100) == beginning([1.0, 9.0]) == beginning([]) == (0, 0.0)


def test_a_single_outlier_is_no_beginning() -> None:
    for place in (0, 150, 299):
        samples = [10 + 0.1 * value for value in process(300, 0.0, 2)]
        samples[place] = 60.0
        assert beginning(samples) == (0, 0.0)


def test_a_series_that_never_settles_says_how_far_it_went() -> None:
    start, slower = beginning([100.0 + i for i in range(200)])
    assert start is None
    assert slower == pytest.approx(-1.0, rel=0.02)


def test_outliers_are_named_with_their_distance_and_stay() -> None:
    samples = [10 + 0.1 * value for value in process(300, 0.0, 1)]
    samples[17], samples[90] = 14.0, 7.0
    assert outliers(samples) == pytest.approx([0.4, -0.3], abs=0.01)
    assert outliers([5.0] * 50) == outliers([]) == []
    # Equal but for a tick of a coarse clock: that is no outlier.
    assert outliers([5.0] * 50 + [5.04]) == []


def test_variation_is_deviation_over_mean() -> None:
    assert variation([8.0, 12.0]) == pytest.approx(sqrt(8) / 10)
    assert variation([10.0]) == variation([]) == variation([0.0, 0.0]) == 0.0


def test_relative_errors_of_a_quotient_add_as_squares() -> None:
    speed, watts = Estimate(100.0, 97.0, 103.0), Estimate(10.0, 9.6, 10.4)
    per_watt = product((speed, 1), (watts, -1))
    assert per_watt.value == pytest.approx(10.0)
    assert per_watt.half == pytest.approx(10.0 * 0.05)


def test_the_energy_delay_product_counts_time_twice() -> None:
    edp = product((Estimate(10.0, 10.0, 10.0), 1), (Estimate(100.0, 99.0, 101.0), -2))
    assert edp.value == pytest.approx(10 / 100 / 100)
    assert edp.half / edp.value == pytest.approx(0.02)


@given(NUMBERS, NUMBERS, st.floats(0, 0.02), st.floats(0, 0.02))
def test_a_propagated_interval_is_that_of_many_draws(a: float, b: float, share_a: float, share_b: float) -> None:
    spread = np.random.default_rng(0).standard_normal((2, 4000)) / 1.96
    draws = (a * (1 + share_a * spread[0])) / (b * (1 + share_b * spread[1]))
    found = product(
        (Estimate(a, a * (1 - share_a), a * (1 + share_a)), 1), (Estimate(b, b * (1 - share_b), b * (1 + share_b)), -1)
    )
    assert found.half == pytest.approx(1.96 * draws.std(), rel=0.06, abs=1e-9 * a / b)


def test_an_unknown_interval_stays_unknown_and_a_zero_is_refused() -> None:
    known, unknown, zero = Estimate(2.0, 1.9, 2.1), Estimate(2.0, -inf, inf), Estimate(0.0, -0.1, 0.1)
    assert product((known, 1), (unknown, -1)).ci95 is None
    with pytest.raises(ValueError, match="is 0"):
        product((known, 1), (zero, -1))


def test_a_ten_minute_run_is_analysed_in_a_moment() -> None:
    samples = process(150_000, 0.5, 1, mean=10.0)
    began = process_time()
    interval(samples)
    steady_start(samples)
    drift(samples)
    ordered = sorted(samples)
    assert all(percentile(ordered, share) is not None for share in (0.5, 0.9, 0.95, 0.99))
    # Some 60 ms on a laptop: room for a slow machine, none for a square law.
    assert process_time() - began < 1.0
