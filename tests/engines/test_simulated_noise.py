from __future__ import annotations

import statistics

from hypothesis import given
from hypothesis import strategies as st

from engines.simulated.noise import Noise


@given(st.integers(0, 1 << 62), st.floats(1e-4, 2.0))
def test_the_mean_stays_near_what_was_asked_for(seed: int, mean_s: float) -> None:
    noise = Noise(seed)
    noise.batches(mean_s, 0.0, 1)
    drawn = noise.batches(mean_s, 1e9, 2000)
    assert len(drawn) == 2000
    assert abs(statistics.mean(drawn) / mean_s - 1) < 0.05
    assert min(drawn) > 0


@given(st.integers(0, 99), st.floats(1e-3, 0.1), st.floats(0.0, 2.0), st.integers(1, 500))
def test_a_piece_fills_its_room_or_has_all_that_were_asked_for(
    seed: int, mean_s: float, room_s: float, most: int
) -> None:
    drawn = Noise(seed).batches(mean_s, room_s, most)
    assert 1 <= len(drawn) <= most
    assert len(drawn) == most or sum(drawn) >= room_s
    assert len(drawn) == 1 or sum(drawn[:-1]) < room_s


def test_the_same_seed_gives_the_same_times_and_another_does_not() -> None:
    first, again, other = (Noise(seed).batches(0.01, 1.0, 100) for seed in (1, 1, 2))
    assert first == again != other


def test_the_first_batches_are_slower() -> None:
    drawn = [Noise(seed).batches(0.01, 1.0, 30) for seed in range(20)]
    assert statistics.mean(d[0] / d[-1] for d in drawn) > 1.05
    assert abs(statistics.mean(d[8] / d[-1] for d in drawn) - 1) < 0.02


def test_neighbours_are_correlated_as_on_a_real_board() -> None:
    drawn = Noise(3).batches(0.005, 1e9, 4000)[20:]
    assert statistics.correlation(drawn[:-1], drawn[1:]) > 0.3
