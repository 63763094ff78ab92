"""What went on around a run: from readings sampled beside it, and files read after it, to `Evidence`. Pure.

Sampled beside a run are clocks, temperatures, loads, cooling devices, counters of over-current, input voltages, and the
board's calendar; see ``boards/*.toml``. A reading that a board does not have says nothing, and counts neither way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import inf
from typing import Any

from clockprofiles.targets import Asked
from edgeperf import doctor_texts
from edgeperf.verdict import Evidence
from remote.boards import Total
from remote.types import Series, Text

WATCHED = re.compile(
    r"(cpu|gpu|emc)\.hz|gpu\.load|host\.cpu_s|job\.cpu_s|clock\.wall_offset_s|(temp|cooling|alarm|oc|volts)\..*"
)
"""The readings to sample beside a run."""

PATHS = (doctor_texts.COMMANDS, doctor_texts.THROTTLED)
"""The files to read after a run."""

_SLOWS = re.compile(r"cpu|gpu|emc|processor|devfreq|throttle|alert|balanced", re.IGNORECASE)
_FEWEST_CHANGES = 30
_AT_WORK = 0.1
_OTHER_LOAD = 0.3
_BELOW_ZERO = 0.02
_WARM_S = 2.0
_WATCH_S = 1.5  # a little more than the time between two readings


@dataclass(frozen=True)
class Around:
    """A run's window on the board's clock, and what was seen around it.

    ``series`` are rails and readings of the run, ``idle`` those of the idle window before it, ``rails`` the rails that
    the total is made of, ``texts`` the files of `PATHS` as they were after the run. ``stalled_s`` is how long the line
    was silent at worst, ``lost`` how it ended in the middle of the run, ``failed`` how the program did; see `Evidence`
    for the rest.
    """

    start_s: float
    stop_s: float
    series: Sequence[Series]
    idle: Sequence[Series] = ()
    rails: tuple[str, ...] = ()
    cpus: int = 1
    texts: Mapping[str, Text] = field(default_factory=dict)
    stalled_s: float = 0.0
    rails_unknown: str = ""
    lost: str = ""
    rebooted: bool = False
    failed: str = ""


def watched(readings: Iterable[str]) -> tuple[str, ...]:
    """Returns the readings that are sampled beside a run, of those that a board has."""
    return tuple(name for name in readings if WATCHED.fullmatch(name) and not _is_harmless(name))


def _is_harmless(name: str) -> bool:
    """Says whether a cooling device slows nothing down: fans do not, and screens are some too."""
    kind = name.removeprefix("cooling.")
    return kind != name and ("fan" in kind.lower() or not _SLOWS.search(kind))


def added(evidence: Evidence, around: Around) -> Evidence:
    """Returns ``evidence`` with what is to be said of the conditions."""
    look = _Look(around)
    throttled, by = look.throttled()
    rail, unread = look.unread()
    cut = around.lost or around.failed
    return replace(
        evidence,
        throttled_share=max(evidence.throttled_share, throttled),
        throttled_by=by,
        over_current=tuple(look.over_current()),
        undervoltage=look.undervoltage(),
        foreign_share=look.foreign_share() or 0.0,
        gpu_before=look.gpu_before(),
        desktop=doctor_texts.desktop(around.texts),
        clock_step_s=look.clock_step_s(),
        stalled_s=around.stalled_s,
        unread_rail=rail,
        unread_share=unread,
        negative=look.negative(),
        frozen_s=look.frozen_s(),
        rails_unknown=around.rails_unknown,
        power_missing="" if cut else evidence.power_missing,
        interrupted=evidence.interrupted and not cut,
        lost=around.lost,
        rebooted=around.rebooted,
        failed=around.failed,
    )


def clamped(asked: Asked, accepted_hz: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    """Returns the rates that a board did not take as a profile asked: asked and accepted, by clock."""
    wanted = {name: getattr(asked, f"{name}_hz") for name in accepted_hz}
    return {name: (hz, accepted_hz[name]) for name, hz in wanted.items() if hz is not None and hz != accepted_hz[name]}


def told(evidence: Evidence, around: Around) -> dict[str, Any]:
    """Returns what the record keeps of the conditions, beside temperatures and load."""
    volts = [low for _, low in _Look(around).volts()]
    return {
        "throttled_share": evidence.throttled_share,
        "throttled_by": evidence.throttled_by,
        "over_current": evidence.over_current,
        "input_v": min(volts, default=None),
        "foreign_cpu_share": _Look(around).foreign_share(),
        "gpu_load_before": evidence.gpu_before,
        "desktop": evidence.desktop,
        "clock_step_s": evidence.clock_step_s,
        "link_silent_s": evidence.stalled_s,
    }


def rails_unknown(totals: Sequence[Total], rails: Iterable[str]) -> str:
    """Returns why a board that is known to have rails gives no watts, "" where there is nothing to say.

    ``totals`` are what its sum can be made of, ``rails`` the ones that were found on it.
    """
    found = set(rails)
    if not totals or any(set(total.rails) <= found for total in totals):
        return ""
    lost = [name for name in totals[-1].rails if name not in found]
    return f"{', '.join(lost)} cannot be read on this board; are its drivers loaded, and may this user read them?"


class _Look:
    """What the series say between the marks of a run."""

    def __init__(self, around: Around) -> None:
        self._around = around
        self._series = {item.id: item for item in around.series}
        self._span_s = max(0.0, around.stop_s - around.start_s)

    def _inside(self, name: str, before_s: float = 0.0) -> list[tuple[float, float]]:
        """Returns (time, value) of the readings of the window and of ``before_s`` before it."""
        item = self._series.get(name)
        return list(_known(item, self._around.start_s - before_s, self._around.stop_s)) if item else []

    def _named(self, prefix: str, before_s: float = 0.0) -> Iterator[tuple[str, list[float]]]:
        for name in self._series:
            if name.startswith(prefix) and (values := [v for _, v in self._inside(name, before_s)]):
                yield name.removeprefix(prefix), values

    def throttled(self) -> tuple[float, tuple[str, ...]]:
        """Returns for which share of the window cooling devices slowed something down, and which did."""
        found = {
            name: sum(state > 0 for state in states) / len(states)
            for name, states in self._named("cooling.")
            if not _is_harmless(f"cooling.{name}")
        }
        return max(found.values(), default=0.0), tuple(name for name, share in found.items() if share)

    def over_current(self) -> Iterator[str]:
        """Yields the events that were counted, and the alarms that were seen."""
        for name, counts in self._named("oc.", _WATCH_S):
            if counts[-1] > counts[0]:
                yield f"{counts[-1] - counts[0]:.0f} events of {name}"
        for name, states in self._named("alarm."):
            if any(states):
                yield f"alarm of {name} in {sum(map(bool, states))} of {len(states)} readings"

    def volts(self) -> list[tuple[str, float]]:
        """Returns the lowest voltage of each input in the window."""
        return [(name, min(values)) for name, values in self._named("volts.")]

    def undervoltage(self) -> str:
        """Returns how far the supply sagged, "" where it did not."""
        for name, low in self.volts():
            if doctor_texts.sags(low):
                return f"the supply sagged: {name} fell to {low:.2f} V, below {doctor_texts.LOWEST_5V} V"
        now = doctor_texts.firmware_says(self._around.texts, doctor_texts.UNDER_VOLTAGE)
        return "the supply sagged: the firmware reports under-voltage" if now else ""

    def foreign_share(self) -> float | None:
        """Returns which share of all cores' time went to other programs, None where that is not known."""
        host, job = self._inside("host.cpu_s"), self._inside("job.cpu_s")
        if len(host) < 2 or len(job) < 2 or not self._around.cpus:
            return None
        (start_s, first), (stop_s, last) = host[0], host[-1]
        ours = max(0.0, job[-1][1] - job[0][1]) * (stop_s - start_s) / (job[-1][0] - job[0][0])
        return max(0.0, last - first - ours) / (stop_s - start_s) / self._around.cpus

    def gpu_before(self) -> float | None:
        """Returns how busy the GPU was while nothing of ours ran."""
        loads = [v for item in self._around.idle if item.id == "gpu.load" for v in item.values if v is not None]
        return sum(loads) / len(loads) if loads else None

    def clock_step_s(self) -> float:
        """Returns the largest jump of the calendar against the monotonic clock."""
        offsets = [value for _, value in self._inside("clock.wall_offset_s", _WATCH_S)]
        return max((b - a for a, b in pairwise(offsets)), key=abs, default=0.0)

    def unread(self) -> tuple[str, float]:
        """Returns the rail of the total that failed most often, and the share of attempts."""
        worst = ("", 0.0)
        for name in self._around.rails:
            item = self._series.get(name)
            inside = [v for t, v in zip(item.times_s, item.values, strict=True) if self._covers(t)] if item else []
            share = sum(value is None for value in inside) / len(inside) if inside else 0.0
            worst = max(worst, (name, share), key=lambda pair: pair[1])
        return worst

    def _covers(self, moment_s: float) -> bool:
        return self._around.start_s <= moment_s <= self._around.stop_s

    def negative(self) -> str:
        """Returns which rail of the total read below zero by more than its noise could, "" where none did."""
        for name in self._around.rails:
            values = [value for _, value in self._inside(name)]
            limit = -_BELOW_ZERO * max(map(abs, values), default=0.0)
            below = [value for value in values if value < limit]
            if below:
                return f"{name} read below zero in {len(below)} of {len(values)} samples, {min(below):.2f} W at worst"
        return ""

    def frozen_s(self) -> float:
        """Returns for how long at the end of the window all rails said the same although the board was at work.

        0 where that may be so by chance. It is not where `_FEWEST_CHANGES` were due at the pace of before; where the
        GPU's load changed meanwhile; or where the watts of work are, to the last digit, those of the idle window.
        """
        rails = [points for name in self._around.rails if (points := self._inside(name, inf))]
        if not rails or not self._at_work():
            return 0.0
        last_s = max(_last_change_s(points) for points in rails)
        still_s = self._around.stop_s - last_s
        first_s = max(self._around.start_s - _WARM_S, rails[0][0][0])
        changes = max(sum(a[1] != b[1] for a, b in pairwise(points) if b[0] >= first_s) for points in rails)
        is_late = last_s > first_s and changes / (last_s - first_s) * still_s > _FEWEST_CHANGES
        loads = [load for moment_s, load in self._inside("gpu.load", inf) if moment_s >= last_s]
        is_deaf = bool(loads) and max(loads) - min(loads) > _OTHER_LOAD
        return min(self._span_s, still_s) if is_late or is_deaf or self._is_idle_still(rails) else 0.0

    def _is_idle_still(self, rails: Sequence[Sequence[tuple[float, float]]]) -> bool:
        """Says whether every rail has never said anything but what it said last while the board was idle."""
        if any(len({value for _, value in points}) > 1 for points in rails):
            return False
        idle = {item.id: [v for v in item.values if v is not None] for item in self._around.idle}
        last = [idle[name][-1] for name in self._around.rails if idle.get(name)]
        return last == [points[0][1] for points in rails]

    def _at_work(self) -> bool:
        """Says whether processor or GPU were busy to the end of the window, as far as that is known."""
        loads = [load for _, load in self._inside("gpu.load")][-3:]
        busy = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(self._inside("host.cpu_s")[-3:])]
        return any(load > _AT_WORK for load in loads) or any(share > _AT_WORK for share in busy)


def _known(item: Series, start_s: float, stop_s: float) -> Iterator[tuple[float, float]]:
    for moment_s, value in zip(item.times_s, item.values, strict=True):
        if value is not None and start_s <= moment_s <= stop_s:
            yield moment_s, value


def _last_change_s(points: Sequence[tuple[float, float]]) -> float:
    """Returns when the value that stayed to the end was first read."""
    return next((b[0] for a, b in reversed(list(pairwise(points))) if a[1] != b[1]), points[0][0])
