"""Figures from samples, each with how far it can be trusted. Pure, and quick for some 100 000 samples.

Samples of a board are correlated in time: heat, governors and averaging sensors have memory. Nothing here divides a
standard deviation by the root of a count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import hypot, inf, isfinite, sqrt
from statistics import median

CONFIDENCE = 0.99
"""How sure a percentile must be before it is given."""

_MOST_BATCHES = 32
_FEWEST_BATCHES = 8
_STEADY_GROUPS = 1000
_SMALLEST_GROUP = 5
_NOTABLE = 0.01
_FAR = 5.0

# 97.5 % points of Student's t for 1, 2, ... 31 degrees of freedom, from the usual tables.
_STUDENT_T = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120),
    *(2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042, 2.040),
)  # fmt: skip


@dataclass(frozen=True)
class Estimate:
    """A figure and its 95 % interval, in the figure's own unit. An interval that nothing is known of is infinite."""

    value: float
    low: float
    high: float

    @property
    def half(self) -> float:
        """Half the width of the interval: the figure after ``+-``."""
        return (self.high - self.low) / 2

    @property
    def ci95(self) -> tuple[float, float] | None:
        """The interval as a result record keeps it: None where nothing is known of it."""
        return (self.low, self.high) if isfinite(self.half) else None


def throughput(images: int, start_s: float, stop_s: float, durations_s: Sequence[float] = ()) -> Estimate:
    """Returns images per second of wall time, its interval from the spread of ``durations_s`` of the iterations.

    Raises ValueError where there are no images or no time.
    """
    wall_s = stop_s - start_s
    if images <= 0 or not wall_s > 0:
        raise ValueError(f"no throughput: {images} images in {wall_s:g} s")
    rate = images / wall_s
    half = half_width(durations_s)
    mean_s = sum(durations_s) / len(durations_s) if durations_s else 0.0
    share = half / mean_s if mean_s > 0 else inf
    # Time per image is what was averaged; its reciprocal is skewed, so the upper end lies further away.
    return Estimate(rate, rate / (1 + share), rate / (1 - share) if share < 1 else inf)


def interval(samples: Sequence[float]) -> tuple[float, float]:
    """Returns the 95 % interval of the mean of evenly spaced samples, correlated or not; see `half_width`."""
    mean = sum(samples) / len(samples) if samples else 0.0
    half = half_width(samples)
    return mean - half, mean + half


def half_width(samples: Sequence[float]) -> float:
    """Returns half the 95 % interval of the mean, by batch means; infinite for fewer than two samples.

    The samples are cut into 32 batches in order of time (or into single samples where there are fewer). While the
    means of neighbouring batches are still alike (lag-1 autocorrelation, corrected for its bias of -1/b, above
    0.5/sqrt(b)) and at least 8 would be left, the number b of batches is halved. Student's t with b - 1 degrees of
    freedom gives the width. What correlation is left then widens it as for a first-order process, by
    sqrt((1 + r)/(1 - r)). In trials on such processes this covers 93 to 97 % where the memory is under a tenth of the
    samples, and 89 % where it is a fifth.
    """
    count = min(_MOST_BATCHES, len(samples))
    if count < 2:
        return inf
    while True:
        means = _batch_means(samples, count)
        alike = _lag_one(means) + 1 / count
        if alike <= 0.5 / sqrt(count) or count // 2 < _FEWEST_BATCHES:
            break
        count //= 2
    centre = sum(means) / count
    spread = sqrt(sum((mean - centre) ** 2 for mean in means) / (count - 1))
    alike = min(max(alike, 0.0), 0.9)
    return _STUDENT_T[count - 2] * spread / sqrt(count) * sqrt((1 + alike) / (1 - alike))


def student_t(freedom: int) -> float:
    """Returns the 97.5 % point of Student's t; above 31 degrees of freedom that of 31, which is at most 4 % wide."""
    return _STUDENT_T[min(freedom, len(_STUDENT_T)) - 1]


def samples_needed(share: float, over: int = 0) -> int:
    """Returns how many samples show, `CONFIDENCE` sure, that ``share`` of all keeps a limit which ``over`` exceeded.

    The smallest n for which a binomial count of n trials at 1 - ``share`` is at most ``over`` with probability 0.01:
    459 for p99 with none over, 662 with one. Raises ValueError unless 0 < share < 1.
    """
    _check_share(share)
    low, high = over, over + 1
    while _chance_of_at_most(over, high, 1 - share) > 1 - CONFIDENCE:
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _chance_of_at_most(over, middle, 1 - share) <= 1 - CONFIDENCE else (middle, high)
    return high


def claimable(count: int) -> float:
    """Returns the highest share whose percentile ``count`` samples can carry: 0.99 for 459 of them, 0 for none."""
    return float((1 - CONFIDENCE) ** (1 / count)) if count > 0 else 0.0


def percentile(samples: Sequence[float], share: float) -> float | None:
    """Returns the value that ``share`` (such as 0.99) of the samples do not exceed, None where there are too few.

    Interpolates between neighbours. Samples in ascending order cost no sorting, so sort once for several shares.
    Raises ValueError unless 0 < share < 1.
    """
    if len(samples) < samples_needed(share):
        return None
    ordered = sorted(samples)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def steady_start(samples: Sequence[float]) -> int | None:
    """Returns the index from which the samples look steady, None where they do not settle within their first half.

    Of all starts it takes the one whose rest has the smallest squared standard error (the MSER rule of White, 1997),
    after averaging over groups of five or, for long series, of a thousandth.
    """
    size = max(_SMALLEST_GROUP, len(samples) // _STEADY_GROUPS)
    groups = len(samples) // size
    if groups < 4:
        return None
    means = _batch_means(samples[: groups * size], groups)
    centre = sum(means) / groups
    best, best_score = 0, inf
    total = squares = 0.0
    for start in range(groups - 1, -1, -1):
        value = means[start] - centre
        total += value
        squares += value * value
        left = groups - start
        score = (squares - total * total / left) / (left * left)
        # The last few groups are alike by chance; they prove nothing.
        if left >= 3 and score <= best_score:
            best, best_score = start, score
    return best * size if best <= groups // 2 else None


def drift(samples: Sequence[float]) -> float | None:
    """Returns by what share the mean of the last third differs from the first: 0.02 is 2 % more. None if not known."""
    third = len(samples) // 3
    if third == 0:
        return None
    first = sum(samples[:third]) / third
    last = sum(samples[-third:]) / third
    return (last - first) / abs(first) if first else None


def beginning(samples: Sequence[float]) -> tuple[int | None, float]:
    """Returns how many samples at the start are not yet steady, and by what share their mean exceeds the rest's.

    (0, 0.0) where nothing sets the beginning apart: where it differs by less than 1 % or by no more than chance brings,
    or where there are too few samples to tell. Single outliers are no beginning. (None, share) where the series does
    not settle within its first half; the share is then by how much the last third lies below the first.
    """
    samples = _without_spikes(samples)
    start = steady_start(samples)
    if start is None:
        change = drift(samples) if len(samples) >= 4 * _SMALLEST_GROUP else None
        return (None, -change) if change is not None and abs(change) > _NOTABLE else (0, 0.0)
    first, rest = samples[:start], samples[start:]
    if not first or not any(rest):
        return 0, 0.0
    mean = sum(rest) / len(rest)
    above = sum(first) / len(first) - mean
    # The mean of so few samples of the rest lies within half of this, 95 % sure; the start was picked to differ most.
    chance = 2 * half_width(rest) * sqrt(len(rest) / len(first))
    return (start, above / mean) if abs(above) > max(_NOTABLE * abs(mean), chance) else (0, 0.0)


def variation(samples: Sequence[float]) -> float:
    """Returns the coefficient of variation: standard deviation / mean. 0 for fewer than two samples or a mean of 0."""
    mean = sum(samples) / len(samples) if samples else 0.0
    if len(samples) < 2 or mean == 0:
        return 0.0
    return sqrt(sum((sample - mean) ** 2 for sample in samples) / (len(samples) - 1)) / abs(mean)


def outliers(samples: Sequence[float]) -> list[float]:
    """Returns how far from the median, as a share of it, those samples lie that are far from it. They stay in use.

    Far is five standard deviations and 1 %; the deviation is taken from the median distance (x 1.4826 for a normal
    distribution), which outliers do not move.
    """
    if not samples:
        return []
    middle = median(samples)
    limit = max(_FAR * 1.4826 * median([abs(sample - middle) for sample in samples]), _NOTABLE * abs(middle))
    return [(sample - middle) / middle for sample in samples if abs(sample - middle) > limit] if middle else []


def product(*factors: tuple[Estimate, int]) -> Estimate:
    """Returns the product of estimates, each to its power; relative errors add as squares.

    With images/s and W to the powers 1, -1: images/s/W; -1, 1: J per image; -2, 1: the energy-delay product in J s.
    Speed and watts of one run move together, if at all, so for their quotients this errs on the wide side.
    Raises ValueError where something that may be 0 is divided by.
    """
    value, share = 1.0, 0.0
    for estimate, power in factors:
        if estimate.value == 0:
            raise ValueError("no relative error of a figure that is 0")
        value *= estimate.value**power
        share = hypot(share, power * estimate.half / abs(estimate.value))
    half = abs(value) * share
    return Estimate(value, value - half, value + half)


def _without_spikes(samples: Sequence[float]) -> list[float]:
    """Returns the samples, each as the median of itself and its two neighbours to either side."""
    near = (sorted(samples[max(0, i - 2) : i + 3]) for i in range(len(samples)))
    return [around[len(around) // 2] for around in near]


def _batch_means(samples: Sequence[float], count: int) -> list[float]:
    edges = [i * len(samples) // count for i in range(count + 1)]
    return [sum(samples[a:b]) / (b - a) for a, b in pairwise(edges)]


def _lag_one(values: Sequence[float]) -> float:
    """Returns the lag-1 autocorrelation, 0 where nothing varies."""
    centre = sum(values) / len(values)
    away = [value - centre for value in values]
    whole = sum(d * d for d in away)
    return sum(a * b for a, b in pairwise(away)) / whole if whole > 0 else 0.0


def _chance_of_at_most(over: int, count: int, share: float) -> float:
    """Returns the binomial probability of at most ``over`` in ``count`` trials of probability ``share``."""
    term = (1 - share) ** count
    total = term
    for k in range(1, min(over, count) + 1):
        term *= (count - k + 1) / k * share / (1 - share)
        total += term
    return total


def _check_share(share: float) -> None:
    if not 0 < share < 1:
        raise ValueError(f"a percentile is a share between 0 and 1, not {share:g}")
