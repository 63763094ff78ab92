"""How a long run went over time: its parts, each with its speed, watts, heat and lowest clocks. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise

from edgeperf import heat, power
from edgeperf.record import Part
from engines.toolchains import EngineRun
from remote.boards import Total
from remote.types import Series

_PART_S = 60.0
_FEWEST_PARTS = 10


def over_time(
    run: EngineRun, series: Sequence[Series], rails: Sequence[str], totals: Sequence[Total]
) -> tuple[Part, ...]:
    """Returns the parts of a run, minutes or a tenth of it where it is shorter than ten; none of one without a window.

    Speed is that of the whole run, shared out by the batches that ended in each part: what lies between two batches is
    taken to be the same throughout.
    """
    wall_s = run.stop_s - run.start_s
    if wall_s <= 0:
        return ()
    count = max(_FEWEST_PARTS, round(wall_s / _PART_S))
    edges = [wall_s * number / count for number in range(count + 1)]
    speeds, total = _speeds(run, edges), power.choose_total(totals, rails)
    watts = [row for row in series if row.id in rails]
    return tuple(
        Part(
            start_s=start,
            stop_s=stop,
            throughput_per_s=speed,
            power_w=_watts(watts, total, run.start_s + start, run.start_s + stop),
            hottest_c=heat.hottest_c(_within(series, heat.zones(row.id for row in series), run.start_s, start, stop)),
            lowest_hz=_lowest(series, run.start_s, start, stop),
        )
        for (start, stop), speed in zip(pairwise(edges), speeds, strict=True)
    )


def _speeds(run: EngineRun, edges: Sequence[float]) -> list[float | None]:
    rate, spent_s = run.images_per_s, sum(run.latencies_s)
    if not rate or not spent_s:
        return [None] * (len(edges) - 1)
    # Latencies may leave out what lies between batches; stretched, they fill the window.
    ends = list(accumulate(s * edges[-1] / spent_s for s in run.latencies_s))
    places = [bisect_left(ends, edge) for edge in edges[:-1]] + [len(ends)]
    speeds: list[float | None] = []
    for first, last in pairwise(places):
        part_s = sum(run.latencies_s[first:last])
        speeds.append(rate * (spent_s / len(ends)) / (part_s / (last - first)) if part_s else None)
    return speeds


def _watts(series: Sequence[Series], total: Total | None, start_s: float, stop_s: float) -> float | None:
    found = power.measure(series, total, start_s, stop_s)
    return found.total.value if isinstance(found, power.Power) else None


def _within(
    series: Sequence[Series], names: Sequence[str], origin_s: float, start_s: float, stop_s: float
) -> list[float]:
    """Returns what some readings were in a part."""
    return [
        value
        for row in series
        if row.id in names
        for moment_s, value in zip(row.times_s, row.values, strict=True)
        if value is not None and start_s <= moment_s - origin_s < stop_s
    ]


def _lowest(series: Sequence[Series], origin_s: float, start_s: float, stop_s: float) -> Mapping[str, float]:
    clocks = {row.id.removesuffix(".hz"): [row.id] for row in series if row.id.endswith(".hz")}
    found = {name: _within(series, ids, origin_s, start_s, stop_s) for name, ids in clocks.items()}
    return {name: min(values) for name, values in found.items() if values}
