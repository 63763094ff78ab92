"""Several runs of one measurement as one result: the means of their figures, and how the runs differ. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from math import hypot, sqrt

from edgeperf import figures, stats
from edgeperf.record import Bench, Figure, Power, Repeat, Spread
from edgeperf.verdict import Reason, Verdict

FEWEST_RUNS = 3
"""From so many runs on, their spread is the interval of a figure; of two it would be a matter of luck."""

_CUT_SHORT = ("interrupted", "link-lost", "rebooted", "run-failed")

_FIGURES: Mapping[str, Callable[[Bench], Figure | None]] = {
    "throughput_per_s": lambda run: run.throughput_per_s,
    "power_w": lambda run: _watts(run),
    "images_per_s_per_w": lambda run: run.images_per_s_per_w,
    "energy_j_per_image": lambda run: run.energy_j_per_image,
    "edp": lambda run: run.edp,
}


def combined(runs: Sequence[Bench], asked: int) -> Bench:
    """Returns the one record of ``runs``, of ``asked`` that there were to be; of a single one asked for, that one.

    A run that was cut short is kept, but counts only where there is no other.
    """
    if asked == 1:
        return runs[0]
    whole = [run for run in runs if not _cut_short(run.verdict.reasons)] or list(runs)
    found = {name: _figure([of(run) for run in whole]) for name, of in _FIGURES.items()}
    samples_s = tuple(s for run in whole for s in run.samples_s)
    first, edp = whole[0], found["edp"]
    return replace(
        first,
        throughput_per_s=found["throughput_per_s"],
        latency_s=figures.latency(samples_s, first.latency_s.scope) if first.latency_s else None,
        host_latency_s=None,
        power_w=_power(whole, found["power_w"]),
        images_per_s_per_w=found["images_per_s_per_w"],
        energy_j_per_image=found["energy_j_per_image"],
        edp_js=edp.value if edp else None,
        edp=edp,
        scatter=figures.scatter(samples_s),
        verdict=_verdict(runs, asked),
        notes=tuple(dict.fromkeys(note for run in runs for note in run.notes)),
        repeats=tuple(Repeat(**{field.name: getattr(run, field.name) for field in fields(Repeat)}) for run in runs),
        between={name: spread for name, of in _FIGURES.items() if (spread := _spread([of(run) for run in whole]))},
    )


def between(values: Sequence[float]) -> Spread | None:
    """Returns how values of several runs differ, None for fewer than two. Runs are taken to be independent."""
    count = len(values)
    if count < 2:
        return None
    mean = sum(values) / count
    deviation = sqrt(sum((value - mean) ** 2 for value in values) / (count - 1))
    half = stats.student_t(count - 1) * deviation / sqrt(count)
    return Spread(count, mean, (mean - half, mean + half), deviation)


def _spread(found: Sequence[Figure | None]) -> Spread | None:
    return between([figure.value for figure in found if figure is not None])


def _figure(found: Sequence[Figure | None]) -> Figure | None:
    """Returns the mean of a figure over runs, None where no run has it.

    Its interval is that of the spread between runs, of fewer than `FEWEST_RUNS` that of their own intervals. What a
    sensor is off by is the same in every run, so it stays in full.
    """
    known = [figure for figure in found if figure is not None]
    if not known:
        return None
    mean = sum(figure.value for figure in known) / len(known)
    spread = between([figure.value for figure in known])
    own = [half for figure in known if (half := _half(figure.ci95)) is not None]
    if spread and spread.runs >= FEWEST_RUNS:
        repeats = _half(spread.ci95)
    else:
        repeats = hypot(*own) / len(known) if len(own) == len(known) else None
    return Figure(mean, _around(mean, repeats), _around(mean, _with_sensors(known, repeats)))


def _with_sensors(known: Sequence[Figure], repeats: float | None) -> float | None:
    """Returns half the absolute interval: what is left of each run's once its repeatability is out, and ``repeats``."""
    squares = []
    for figure in known:
        absolute, own = _half(figure.absolute95), _half(figure.ci95)
        if absolute is None or own is None:
            return None
        squares.append(max(0.0, absolute**2 - own**2))
    return hypot(repeats, sqrt(sum(squares) / len(squares))) if repeats is not None else None


def _half(ends: tuple[float, float] | None) -> float | None:
    return (ends[1] - ends[0]) / 2 if ends is not None else None


def _around(value: float, half: float | None) -> tuple[float, float] | None:
    return (value - half, value + half) if half is not None else None


def _watts(run: Bench) -> Figure | None:
    power = run.power_w
    return Figure(power.total, power.ci95, power.absolute95) if power else None


def _power(runs: Sequence[Bench], total: Figure | None) -> Power | None:
    """Returns the watts of several runs: ``total`` over them, and the mean of every rail that all could measure."""
    known = [run.power_w for run in runs if run.power_w]
    if not known or total is None:
        return None
    return replace(
        known[0],
        total=total.value,
        ci95=total.ci95,
        absolute95=total.absolute95,
        rails=_means([power.rails for power in known]),
        carrier=_means([power.carrier for power in known]),
        net_of_idle=_figure([power.net_of_idle for power in known]),
    )


def _means(found: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = [name for name in found[0] if all(name in rails for rails in found)]
    return {name: sum(rails[name] for rails in found) / len(found) for name in names}


def _cut_short(reasons: Iterable[Reason]) -> bool:
    return any(reason.code in _CUT_SHORT for reason in reasons)


def _verdict(runs: Sequence[Bench], asked: int) -> Verdict:
    """Returns the worst of all verdicts. A reason that several runs have is given once, with one run's evidence."""
    codes: dict[str, list[tuple[int, Reason]]] = {}
    for number, run in enumerate(runs, 1):
        for reason in run.verdict.reasons:
            codes.setdefault(reason.code, []).append((number, reason))
    reasons = []
    for found in codes.values():
        worst = min(found, key=lambda item: item[1].severity != "INVALID")[1]
        numbers = [number for number, _ in found]
        where = "all runs" if len(numbers) == asked else f"run {', '.join(map(str, numbers))}"
        reasons.append(replace(worst, text=f"{where}: {worst.text}"))
    if len(runs) < asked and not _cut_short(reasons):
        reasons.append(Reason("interrupted", "INVALID", f"interrupted after {len(runs)} of {asked} runs"))
    reasons.sort(key=lambda reason: reason.severity != "INVALID")
    return Verdict(reasons[0].severity if reasons else "VALID", tuple(reasons))
