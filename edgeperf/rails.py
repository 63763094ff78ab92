"""A board's rails, clocks, loads and temperatures as they go by, and the energy so far. No printing.

The board samples in slices of one row each, since samples are told after a job; the trapezoids of the energy go on
across the short gap between two slices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from edgeperf.conditions import rails_unknown
from edgeperf.power import choose_total
from remote.board import Board
from remote.boards import Total
from remote.types import Job, Sampling, Series

CLOCKS = ("cpu", "gpu", "emc")
_READ = ("temp.", "volts.")
_LEAST_S = 1e-3


@dataclass(frozen=True)
class Row:
    """What was seen in the time up to ``t_s``, in seconds since the start; None and missing: not known.

    Watts are means, ``volts`` those of input rails, ``loads`` shares of 0 to 1 by cpu, gpu and emc, ``energy_j`` that
    of the total since the start.
    """

    t_s: float
    rails_w: Mapping[str, float | None] = field(default_factory=dict)
    total_w: float | None = None
    energy_j: float | None = None
    volts: Mapping[str, float] = field(default_factory=dict)
    clocks_hz: Mapping[str, float] = field(default_factory=dict)
    loads: Mapping[str, float] = field(default_factory=dict)
    temps_c: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Summary:
    """All rows together. Watts of ``rails_w`` are means, ``hottest_c`` the highest temperature of each zone.

    ``mean_w``, ``lowest_w`` and ``highest_w`` are of the total and ``energy_j`` its joules; ``missing`` says why there
    are none. ``unread`` of the rows have no total, though others do: what they would add to ``energy_j`` is a guess.
    The total of ``below_zero`` of them is negative, which no board draws.
    """

    rows: int
    seconds: float
    mean_w: float | None
    lowest_w: float | None
    highest_w: float | None
    energy_j: float | None
    rails_w: Mapping[str, float]
    hottest_c: Mapping[str, float]
    scope: str = ""
    leaves_out: str = ""
    missing: str = ""
    unread: int = 0
    below_zero: int = 0


class Tally:
    """Makes the `Summary` while rows go by, and keeps none of them.

    ``total`` is how their totals are formed, ``missing`` why there is none.
    """

    def __init__(self, total: Total | None = None, missing: str = "") -> None:
        self._total = total
        self._missing = missing
        self._last: Row | None = None
        self._rows = self._below_zero = 0
        self._totals = _Mean()
        self._rails: dict[str, _Mean] = {}
        self._hottest: dict[str, float] = {}

    def counted(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Yields rows as they are taken."""
        for row in rows:
            self.add(row, self._total, self._missing)
            yield row

    def add(self, row: Row, total: Total | None, missing: str) -> None:
        """Takes the next row; that one's total may be known while those of rows before were not."""
        self._total, self._missing = total or self._total, missing
        self._rows += 1
        self._last = row
        self._totals.add(row.total_w)
        self._below_zero += row.total_w is not None and row.total_w < 0
        for name, watts in row.rails_w.items():
            self._rails.setdefault(name, _Mean()).add(watts)
        for name, celsius in row.temps_c.items():
            if celsius is not None:
                self._hottest[name] = max(celsius, self._hottest.get(name, celsius))

    def summary(self) -> Summary:
        """Returns what there is by now."""
        last, totals = self._last or Row(0.0), self._totals
        exact = last.energy_j is not None and last.t_s > 0 and totals.count == self._rows
        return Summary(
            rows=self._rows,
            seconds=last.t_s,
            mean_w=(last.energy_j or 0.0) / last.t_s if exact else totals.value,
            lowest_w=totals.lowest,
            highest_w=totals.highest,
            energy_j=last.energy_j,
            rails_w={name: mean.value for name, mean in self._rails.items() if mean.value is not None},
            hottest_c=dict(self._hottest),
            scope=self._total.scope if self._total else "",
            leaves_out=self._total.leaves_out if self._total else "",
            missing=self._why_none() if totals.value is None else "",
            unread=self._rows - totals.count if totals.count else 0,
            below_zero=self._below_zero,
        )

    def _why_none(self) -> str:
        return self._missing or (f"{', '.join(self._total.rails)} could not be read" if self._total else "")


class _Mean:
    """Mean, lowest and highest of numbers that go by; None before the first."""

    def __init__(self) -> None:
        self.count = 0
        self._sum = 0.0
        self.lowest: float | None = None
        self.highest: float | None = None

    def add(self, value: float | None) -> None:
        if value is None:
            return
        self.count += 1
        self._sum += value
        self.lowest = value if self.lowest is None else min(value, self.lowest)
        self.highest = value if self.highest is None else max(value, self.highest)

    @property
    def value(self) -> float | None:
        return self._sum / self.count if self.count else None


def hottest(temps_c: Mapping[str, float | None]) -> tuple[str, float] | None:
    """Returns the hottest zone. The power chip's is left out: it shows the same number always."""
    known = [(name, celsius) for name, celsius in temps_c.items() if celsius is not None and "pmic" not in name.lower()]
    return max(known, key=lambda item: item[1], default=None)


def total_of(board: Board) -> tuple[Total | None, str]:
    """Returns how the board's total is formed, and why it cannot be where it is None."""
    total = choose_total(board.spec.totals, board.transport.rails)
    if total is not None:
        return total, ""
    unknown = rails_unknown(board.spec.totals, board.transport.rails) if board.spec.match else ""
    if unknown:
        return None, unknown
    if not board.transport.rails:
        return None, "this machine has no power sensor that edgeperf can read"
    return None, "no power rails are known whose sum is this board's power"


def follow(board: Board, rate_hz: float, every_s: float, duration_s: float | None) -> Iterator[Row]:
    """Yields a row every ``every_s`` seconds, for ``duration_s`` or until Ctrl-C; the board's clock counts.

    Rails are sampled at ``rate_hz``. Raises what `Transport.run` does.
    """
    transport = board.transport
    wanted = tuple(name for name in transport.readings if _is_shown(name))
    meter = _Meter(total_of(board)[0], transport.facts.cpus)
    left_s = duration_s
    while left_s is None or left_s > _LEAST_S:
        span_s = every_s if left_s is None else min(every_s, left_s)
        sampling = Sampling(tuple(transport.rails), rate_hz, wanted, watch_hz=1.0 / every_s)
        done = transport.run(Job(duration_s=span_s, sampling=sampling))
        row = meter.row(done.started_s, done.ended_s, done.series, tuple(transport.rails))
        yield row
        if done.reason == "cancelled":
            return
        if duration_s is not None:
            left_s = duration_s - row.t_s


def _is_shown(reading: str) -> bool:
    clocks = (f"{name}.{kind}" for name in CLOCKS for kind in ("hz", "load"))
    return reading == "host.cpu_s" or reading in clocks or reading.startswith(_READ)


class _Meter:
    """Turns the series of one slice after the other into rows."""

    def __init__(self, total: Total | None, cpus: int) -> None:
        self._total = total
        self._cpus = max(1, cpus)
        self._start_s: float | None = None
        self._busy: tuple[float, float] | None = None
        self._ends: dict[str, tuple[float, float]] = {}
        self._energies_j: dict[str, float] = {}

    def row(self, start_s: float, stop_s: float, series: Sequence[Series], rails: Sequence[str]) -> Row:
        """Returns the row of a slice between two moments of the board's clock."""
        self._start_s = start_s if self._start_s is None else self._start_s
        known = {item.id: _known(item) for item in series}
        watts = {name: _mean([w for _, w in known.get(name, ())]) for name in rails}
        for name in self._total.rails if self._total else ():
            self._integrate(name, start_s, known.get(name, []))
        values = {name: points[-1][1] for name, points in known.items() if points and name not in rails}
        loads = {name: values[f"{name}.load"] for name in CLOCKS if f"{name}.load" in values}
        busy = self._busy_share(known.get("host.cpu_s", []))
        parts = [watts.get(name) for name in self._total.rails] if self._total else [None]
        return Row(
            t_s=stop_s - self._start_s,
            rails_w=watts,
            total_w=None if None in parts else sum(part for part in parts if part is not None),
            energy_j=self._energy_j(start_s, stop_s),
            volts=_named(values, "volts."),
            clocks_hz={name: values[f"{name}.hz"] for name in CLOCKS if f"{name}.hz" in values},
            loads=loads if busy is None else {"cpu": busy, **loads},
            temps_c=_named(values, "temp."),
        )

    def _integrate(self, name: str, start_s: float, points: list[tuple[float, float]]) -> None:
        """Adds the joules since the last reading, or since the start: the first reading holds from there on."""
        before = [self._ends[name]] if name in self._ends else [(start_s, points[0][1])] if points else []
        added = sum((t2 - t1) * (w1 + w2) / 2 for (t1, w1), (t2, w2) in pairwise(before + points))
        self._energies_j[name] = self._energies_j.get(name, 0.0) + added
        if points:
            self._ends[name] = points[-1]

    def _energy_j(self, start_s: float, stop_s: float) -> float | None:
        """Returns the total's joules so far: each rail's last reading holds until now."""
        if self._total is None or not set(self._total.rails) <= set(self._ends):
            return None
        rest = sum((stop_s - t) * w for t, w in (self._ends[name] for name in self._total.rails))
        return sum(self._energies_j[name] for name in self._total.rails) + rest

    def _busy_share(self, points: list[tuple[float, float]]) -> float | None:
        """Returns how busy the cores were since the last row, of which at least one reading is needed."""
        first, self._busy = self._busy or (points[0] if points else None), points[-1] if points else self._busy
        if first is None or self._busy is None or self._busy[0] <= first[0]:
            return None
        share = (self._busy[1] - first[1]) / (self._busy[0] - first[0]) / self._cpus
        return min(1.0, max(0.0, share))


def _known(series: Series) -> list[tuple[float, float]]:
    return [(t, value) for t, value in zip(series.times_s, series.values, strict=True) if value is not None]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _named(values: Mapping[str, float], prefix: str) -> dict[str, float]:
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}
