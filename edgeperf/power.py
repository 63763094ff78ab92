"""Watts of a run from the samples of its rails, cut by the run's own start and stop marks. Pure.

Idle power is the same measurement over an idle window. It is reported beside the run's; what is left after it is
subtracted is a figure of its own.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, hypot, pi, sqrt

from edgeperf.sensors import UNKNOWN, Accuracy, accuracy, lag_s, settling_s, step_share, step_w
from edgeperf.stats import Estimate, half_width
from remote.boards import Total
from remote.types import Rail, Series

_FEWEST_SAMPLES = 2
_MOST_SETTLING = 0.5
_STEADY_SHARE = 0.02
_COARSE_STEPS = 2.5


@dataclass(frozen=True)
class Power:
    """Mean watts over the window, and energy in joules.

    ``total`` is the sum of the total's rails and covers ``scope``; ``rails_w`` has every rail that could be measured.
    Their intervals say how well the figures repeat on this board; ``accuracy`` of the total's rails says how far from
    the truth their sensors may be. ``settling_s`` of the window were left out, the sensors still showing the load
    before. ``achieved_hz`` is how often a rail was read with success and ``longest_gap_s`` the longest time without a
    reading; of the total's rails the worst counts. ``fresh_share`` is the share of readings that differ from the one
    before, of the rails weighted by their watts: a small steady rail that its sensor rounds to one value is not stale.
    For the same reason rails that stay within three neighbouring steps of their sensor are left out, unless all do:
    then the readings are ``coarse``, and cannot tell whether they are fresh as long as any of them ever changes.
    ``rounding_share`` is what the steps of the sensors add to half the interval of the total, as a share of it.
    """

    total: Estimate
    rails_w: Mapping[str, Estimate]
    accuracy: Mapping[str, Accuracy]
    energy_j: float
    scope: str
    leaves_out: str
    settling_s: float
    achieved_hz: float
    fresh_share: float
    coarse: bool
    rounding_share: float
    longest_gap_s: float

    @property
    def absolute(self) -> Estimate:
        """The total with the interval that should contain the truth: repeatability and the sensors' errors together."""
        sensors = hypot(*(known.half_w(self.rails_w[name].value) for name, known in self.accuracy.items()))
        return _widened(self.total, sensors)

    def net_of(self, idle: Power) -> tuple[Estimate, Estimate]:
        """Returns what the run drew beyond ``idle``: once with the interval of repeatability, once with both.

        The offset of a sensor is in both and goes out; its share of the difference stays.
        """
        value, half = self.total.value - idle.total.value, hypot(self.total.half, idle.total.half)
        net = Estimate(value, value - half, value + half)
        apart = {name: self.rails_w[name].value - idle.rails_w[name].value for name in self.accuracy}
        return net, _widened(net, hypot(*(self.accuracy[name].share * apart[name] for name in apart)))


@dataclass(frozen=True)
class Missing:
    """There is no watt figure, and ``why``."""

    why: str


@dataclass(frozen=True)
class _Measured:
    """One rail: its energy, the readings inside the window, and two parts of half the interval of its mean.

    ``rounding_w`` is what the steps of the sensor add, ``edges_w`` what is not known of the window's two ends.
    """

    energy_j: float
    mean_w: float
    inside: Sequence[float]
    rounding_w: float
    edges_w: float
    achieved_hz: float
    fresh_share: float
    coarse: bool
    longest_gap_s: float


def choose_total(totals: Sequence[Total], rails: Iterable[str]) -> Total | None:
    """Returns the first total whose rails are all among ``rails``, None where the board has none."""
    known = set(rails)
    return next((total for total in totals if set(total.rails) <= known), None)


def measure(
    series: Sequence[Series],
    total: Total | None,
    start_s: float,
    stop_s: float,
    rails: Mapping[str, Rail] | None = None,
    *,
    steady: bool = False,
) -> Power | Missing:
    """Returns the mean power between two marks of the board's clock, or why there is none.

    ``series`` are rails in watts; ``rails`` says what their sensors are, where that is known. A ``steady`` load began
    at ``start_s``, if not before: what sensors that average show of the load before is left out, up to half the window,
    and the intervals are those of the load's mean. Of a load that may change nothing is left out; where it does change,
    the intervals are those of what it took in this window, whatever it may take the next time.

    A total of one rail that reads 0 or less has failed: a module that runs draws power; one of several may be gated.
    Raises ValueError unless start_s < stop_s.
    """
    if not start_s < stop_s:
        raise ValueError(f"no window: it starts at {start_s:g} s and stops at {stop_s:g} s")
    if total is None:
        return Missing("no power rails are known whose sum is this board's power")
    known = {item.id: (rails or {}).get(item.id, Rail(item.id, "")) for item in series}
    settling = max([settling_s(known[name]) for name in total.rails if name in known], default=0.0) if steady else 0.0
    settling = min(settling, _MOST_SETTLING * (stop_s - start_s))
    measured: dict[str, _Measured] = {}
    for item in series:
        points = _points(item, zero_is_missing=total.rails == (item.id,))
        found = _measure(points, start_s + settling, stop_s, known[item.id])
        if found:
            measured[item.id] = found
    lost = [name for name in total.rails if name not in measured]
    if lost:
        return Missing(_why_lost(lost[0], series))
    parts = [measured[name] for name in total.rails]
    energy = sum(part.energy_j for part in parts)
    if energy <= 0:
        return Missing("all rails of the total read 0: their sensors are off")
    half = half_width if steady else _as_it_comes
    fine = [part for part in parts if not part.coarse]
    return Power(
        total=_estimate(parts, half),
        rails_w={name: _estimate([part], half) for name, part in measured.items()},
        accuracy={name: accuracy(known[name]) if rails else UNKNOWN for name in total.rails},
        energy_j=energy,
        scope=total.scope,
        leaves_out=total.leaves_out,
        settling_s=settling,
        achieved_hz=min(part.achieved_hz for part in parts),
        fresh_share=_fresh_share(fine or parts),
        coarse=not fine and any(part.fresh_share for part in parts),
        rounding_share=hypot(*(part.rounding_w for part in parts)) * (stop_s - start_s - settling) / energy,
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
        if value is not None and not (zero_is_missing and value <= 0)
    ]
    return [time for time, _ in pairs], [value for _, value in pairs]


def _measure(points: tuple[list[float], list[float]], start_s: float, stop_s: float, rail: Rail) -> _Measured | None:
    times, values = points
    first, last = bisect_left(times, start_s), bisect_right(times, stop_s)
    inside = values[first:last]
    if len(inside) < _FEWEST_SAMPLES:
        return None
    wall_s = stop_s - start_s
    lag = lag_s(rail)
    # What went in but does not show yet at the end, less what still shows at the start: exact for a first-order lag.
    hidden = lag * (_at(times, values, stop_s) - _at(times, values, start_s))
    energy = energy_j(times, values, start_s, stop_s) + hidden
    moments = [start_s, *times[first:last], stop_s]
    return _Measured(
        energy_j=energy,
        mean_w=energy / wall_s,
        inside=inside,
        rounding_w=1.96 * hypot(_rounding(inside, step_w(rail)), step_share(rail) * energy / wall_s / sqrt(12)),
        edges_w=1.96 * hypot(_edge(points, start_s), _edge(points, stop_s), lag * _jitter(inside)) / wall_s,
        achieved_hz=len(inside) / wall_s,
        fresh_share=sum(a != b for a, b in pairwise(inside)) / (len(inside) - 1),
        coarse=max(inside) - min(inside) < _COARSE_STEPS * step_w(rail),
        longest_gap_s=max(b - a for a, b in pairwise(moments)),
    )


def _fresh_share(parts: Sequence[_Measured]) -> float:
    energy = sum(part.energy_j for part in parts)
    return sum(part.fresh_share * part.energy_j for part in parts) / energy if energy > 0 else 0.0


def _estimate(parts: Sequence[_Measured], half: Callable[[Sequence[float]], float]) -> Estimate:
    """Returns the sum of the rails' means; ``half`` gives half the interval of the mean of readings.

    It is given the rails' sum at each moment, as one load moves them together. Where a reading failed, moments do not
    match; the sum of the rails' intervals is then never too small. Roundings and edges do not depend on each other.
    """
    value = sum(part.mean_w for part in parts)
    if len({len(part.inside) for part in parts}) == 1:
        spread = half([sum(at_once) for at_once in zip(*(part.inside for part in parts), strict=True)])
    else:
        spread = sum(half(part.inside) for part in parts)
    width = hypot(spread, *(part.rounding_w for part in parts), *(part.edges_w for part in parts))
    return Estimate(value, value - width, value + width)


def _as_it_comes(values: Sequence[float]) -> float:
    """Returns half the interval of a load that may change: of its mean if it is all but steady, else of what it took.

    Between two readings of a changing load, what it took is uncertain by their difference: in trials with square waves
    twice as wide as need be, and as wide as for independent samples where the readings are nothing but noise.
    """
    lasting = half_width(values)
    if lasting <= _STEADY_SHARE * abs(sum(values)) / len(values):
        return lasting
    return 1.96 * _jitter(values) / sqrt(2 * len(values))


def _rounding(values: Sequence[float], step: float) -> float:
    """Returns the standard deviation of the error that rounding to steps leaves in the mean, in watts.

    Of readings that share two neighbouring steps, the mean may be right, or the power may lie all but on the border
    between them: off by up to ``border`` either way, evenly spread. Readings beyond the two show noise, which averages
    rounding away: an error of one harmonic of the step fades as exp(-2 pi^2 variance) (Widrow and Kollar, Quantization
    Noise, 2008). The variance beyond that of two steps is less than the noise's; with it twice, intervals cover 97 to
    100 % in trials, whatever the noise.
    """
    if step <= 0:
        return 0.0
    # Steps are counted from a reading: their worth was taken at another voltage, so multiples of it drift away.
    away = [(value - values[0]) / step for value in values]
    mean = sum(away) / len(away)
    variance = sum((steps - mean) ** 2 for steps in away) / len(away)
    border = abs(mean % 1 - 0.5)
    beyond = max(0.0, variance - (0.25 - border**2))
    return step * border / sqrt(3) * exp(-((2 * pi) ** 2) * beyond)


def _edge(points: tuple[list[float], list[float]], moment_s: float) -> float:
    """Returns the standard deviation, in joules, of what the readings to both sides of a mark leave open there.

    Where between them the load changed is anybody's guess: evenly spread over the gap.
    """
    times, values = points
    after = bisect_left(times, moment_s)
    if not 0 < after < len(times):
        return 0.0
    return (times[after] - times[after - 1]) * abs(values[after] - values[after - 1]) / sqrt(12)


def _jitter(values: Sequence[float]) -> float:
    """Returns the root mean square difference of neighbouring readings: that of two readings of one load."""
    return sqrt(sum((b - a) ** 2 for a, b in pairwise(values)) / (len(values) - 1))


def _widened(estimate: Estimate, by: float) -> Estimate:
    half = hypot(estimate.half, by)
    return Estimate(estimate.value, estimate.value - half, estimate.value + half)


def _at(times: Sequence[float], values: Sequence[float], moment_s: float) -> float:
    after = bisect_left(times, moment_s)
    if after == 0:
        return values[0]
    if after == len(times):
        return values[-1]
    t1, t2, v1, v2 = times[after - 1], times[after], values[after - 1], values[after]
    return v1 + (v2 - v1) * (moment_s - t1) / (t2 - t1)


def _why_lost(name: str, series: Sequence[Series]) -> str:
    rail = next((rail for rail in series if rail.id == name), None)
    if rail is None:
        return f"the rail {name} was not sampled"
    good = len(_points(rail, zero_is_missing=True)[0])
    if good < _FEWEST_SAMPLES:
        return f"the rail {name} gave {good} readings in {len(rail.values)} attempts"
    return f"the rail {name} has fewer than {_FEWEST_SAMPLES} readings between the run's start and stop"
