"""Watts of a run from the samples of its rails, cut by the run's own start and stop marks. Pure.

Idle power is the same measurement over an idle window. It is reported beside the run's, never subtracted.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import hypot, sqrt

from edgeperf.stats import Estimate, half_width
from remote.boards import Total
from remote.types import Series

_FEWEST_SAMPLES = 2


@dataclass(frozen=True)
class Power:
    """Mean watts over the window, and energy in joules.

    ``total`` is the sum of the total's rails and covers ``scope``; ``rails_w`` has every rail that could be measured.
    ``achieved_hz`` is how often a rail was read with success and ``longest_gap_s`` the longest time without a reading;
    of the total's rails the worst counts. ``fresh_share`` is the share of readings that differ from the one before, of
    the rails weighted by their watts: a small steady rail that its sensor rounds to one value is not stale.
    """

    total: Estimate
    rails_w: Mapping[str, Estimate]
    energy_j: float
    scope: str
    leaves_out: str
    achieved_hz: float
    fresh_share: float
    longest_gap_s: float


@dataclass(frozen=True)
class Missing:
    """There is no watt figure, and ``why``."""

    why: str


@dataclass(frozen=True)
class _Measured:
    mean: Estimate
    energy_j: float
    achieved_hz: float
    fresh_share: float
    longest_gap_s: float


def choose_total(totals: Sequence[Total], rails: Sequence[str]) -> Total | None:
    """Returns the first total whose rails are all among ``rails``, None where the board has none."""
    return next((total for total in totals if set(total.rails) <= set(rails)), None)


def measure(
    series: Sequence[Series],
    total: Total | None,
    start_s: float,
    stop_s: float,
    step_w: Mapping[str, float] | None = None,
) -> Power | Missing:
    """Returns the mean power between two marks of the board's clock, or why there is none.

    ``series`` are rails in watts; ``step_w`` is what one count of a rail's sensor is worth, where that is known.
    A total of one rail that reads 0 has failed: a module that runs draws power; one of several may be gated. The
    interval of the total is the sum of its rails' intervals, since rails of one load rise and fall together. Raises
    ValueError unless start_s < stop_s.
    """
    if not start_s < stop_s:
        raise ValueError(f"no window: it starts at {start_s:g} s and stops at {stop_s:g} s")
    if total is None:
        return Missing("no power rails are known whose sum is this board's power")
    measured: dict[str, _Measured] = {}
    for rail in series:
        points = _points(rail, zero_is_missing=total.rails == (rail.id,))
        found = _measure(points, start_s, stop_s, (step_w or {}).get(rail.id, 0.0))
        if found:
            measured[rail.id] = found
    lost = [name for name in total.rails if name not in measured]
    if lost:
        return Missing(_why_lost(lost[0], series))
    parts = [measured[name] for name in total.rails]
    if sum(part.energy_j for part in parts) <= 0:
        return Missing("all rails of the total read 0: their sensors are off")
    return Power(
        total=_sum([part.mean for part in parts]),
        rails_w={name: part.mean for name, part in measured.items()},
        energy_j=sum(part.energy_j for part in parts),
        scope=total.scope,
        leaves_out=total.leaves_out,
        achieved_hz=min(part.achieved_hz for part in parts),
        fresh_share=sum(part.fresh_share * part.energy_j for part in parts) / sum(part.energy_j for part in parts),
        longest_gap_s=max(part.longest_gap_s for part in parts),
    )


def energy_j(times_s: Sequence[float], values_w: Sequence[float], start_s: float, stop_s: float) -> float:
    """Returns the joules between two marks by trapezoids; values at the marks are interpolated.

    Before the first sample and after the last, the nearest one holds. Times ascend; at least one sample is needed.
    """
    inside = range(bisect_right(times_s, start_s), bisect_left(times_s, stop_s))
    times = [start_s, *times_s[inside.start : inside.stop], stop_s]
    values = [_at(times_s, values_w, start_s), *values_w[inside.start : inside.stop], _at(times_s, values_w, stop_s)]
    return sum((t2 - t1) * (v1 + v2) / 2 for (t1, t2), (v1, v2) in zip(pairwise(times), pairwise(values), strict=True))


def _points(rail: Series, *, zero_is_missing: bool) -> tuple[list[float], list[float]]:
    pairs = [
        (time, value)
        for time, value in zip(rail.times_s, rail.values, strict=True)
        if value is not None and not (zero_is_missing and value == 0)
    ]
    return [time for time, _ in pairs], [value for _, value in pairs]


def _measure(points: tuple[list[float], list[float]], start_s: float, stop_s: float, step_w: float) -> _Measured | None:
    times, values = points
    first, last = bisect_left(times, start_s), bisect_right(times, stop_s)
    inside = values[first:last]
    if len(inside) < _FEWEST_SAMPLES:
        return None
    wall_s = stop_s - start_s
    energy = energy_j(times, values, start_s, stop_s)
    mean = energy / wall_s
    half = hypot(half_width(inside), _quantisation(inside, step_w))
    moments = [start_s, *times[first:last], stop_s]
    return _Measured(
        mean=Estimate(mean, mean - half, mean + half),
        energy_j=energy,
        achieved_hz=len(inside) / wall_s,
        fresh_share=sum(a != b for a, b in pairwise(inside)) / (len(inside) - 1),
        longest_gap_s=max(b - a for a, b in pairwise(moments)),
    )


def _quantisation(values: Sequence[float], step_w: float) -> float:
    """Returns what rounding to steps adds to half the interval, in watts.

    Noise of more than a step's width averages the rounding away. Below that it may be the same error in every sample,
    so averaging does not help: 1.96 times step/sqrt(12), the spread of a uniform error, stays in full.
    """
    mean = sum(values) / len(values)
    spread = sqrt(sum((value - mean) ** 2 for value in values) / len(values))
    return 0.0 if spread > step_w else 1.96 * step_w / sqrt(12)


def _at(times: Sequence[float], values: Sequence[float], moment_s: float) -> float:
    after = bisect_left(times, moment_s)
    if after == 0:
        return values[0]
    if after == len(times):
        return values[-1]
    t1, t2, v1, v2 = times[after - 1], times[after], values[after - 1], values[after]
    return v1 + (v2 - v1) * (moment_s - t1) / (t2 - t1)


def _sum(parts: Sequence[Estimate]) -> Estimate:
    return Estimate(
        sum(part.value for part in parts), sum(part.low for part in parts), sum(part.high for part in parts)
    )


def _why_lost(name: str, series: Sequence[Series]) -> str:
    rail = next((rail for rail in series if rail.id == name), None)
    if rail is None:
        return f"the rail {name} was not sampled"
    good = len(_points(rail, zero_is_missing=True)[0])
    if good < _FEWEST_SAMPLES:
        return f"the rail {name} gave {good} readings in {len(rail.values)} attempts"
    return f"the rail {name} has fewer than {_FEWEST_SAMPLES} readings between the run's start and stop"
