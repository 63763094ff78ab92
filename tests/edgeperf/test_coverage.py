"""The stated intervals against the truth of simulated boards, which draw their sensors' errors and a load per seed."""

from __future__ import annotations

import os
from math import ceil

import pytest

from edgeperf.stats import Estimate
from tests.edgeperf.loads import drawn, run

SOAK = os.environ.get("EDGEPERF_SOAK") == "1"
SEEDS = 1000 if SOAK else 40
LEAST = 0.93 if SOAK else 0.88
"""Of 40 seeds a coverage of 95 % shows itself to within 7 %."""

BOARDS = ("agx-orin", "orin-nx", "nano")
"""Coarse sensors that average, fine ones that average, fine ones that do not."""


def intervals(board: str, *, perfect: bool = False) -> list[tuple[Estimate, Estimate, float]]:
    """Returns of each seed the watts with their repeatability, with their absolute interval, and the true ones."""
    found = []
    for seed in range(SEEDS):
        load = drawn(seed)
        ran = run(board, [(10.0, load)], before=[(2.0, load)], seed=seed, perfect=perfect)
        power = ran.power(steady=True)
        found.append((power.total, power.absolute, ran.true_w))
    return found


def covered(pairs: list[tuple[Estimate, float]]) -> float:
    return sum(estimate.low <= truth <= estimate.high for estimate, truth in pairs) / len(pairs)


def needed(pairs: list[tuple[Estimate, float]]) -> float:
    """Returns the half width that would just have covered the truth in 95 %."""
    return sorted(abs(estimate.value - truth) for estimate, truth in pairs)[ceil(0.95 * len(pairs)) - 1]


@pytest.mark.parametrize("board", BOARDS)
def test_the_absolute_interval_covers_the_truth_and_is_no_wider_than_need_be(board: str) -> None:
    pairs = [(absolute, truth) for _, absolute, truth in intervals(board)]
    assert covered(pairs) >= LEAST
    assert sum(estimate.half for estimate, _ in pairs) / len(pairs) <= 1.5 * needed(pairs)


@pytest.mark.parametrize("board", BOARDS)
def test_what_steps_hide_is_in_the_interval_of_repeatability(board: str) -> None:
    pairs = [(total, truth) for total, _, truth in intervals(board, perfect=True)]
    # Without noise and errors there is nothing but rounding, and over so few steps loads do not spread evenly.
    assert covered(pairs) >= LEAST - 0.01
    assert sum(estimate.half for estimate, _ in pairs) / len(pairs) <= 1.5 * needed(pairs)
