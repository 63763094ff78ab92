"""A captured tegrastats log, line by line: what stands in it, and the total by a board's formula. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from edgeperf.power import choose_total
from edgeperf.rails import CLOCKS, Row
from edgeperf.sources import named_as_on_the_board
from edgeperf.tegrastats import Tegrastats, Unit, parse, rails_w
from remote.boards import BoardSpec, Total
from remote.errors import BoardError

_UNITS = {"gpu": "GR3D", "emc": "EMC"}


@dataclass(frozen=True)
class Entry:
    """A line of the log: its ``number``, what was ``read``, the same as a ``row``, and why there is no total.

    ``read`` is None for a line that is no report; then ``text`` has it.
    """

    number: int
    text: str
    read: Tegrastats | None
    row: Row
    total: Total | None = None
    missing: str = ""


class Log:
    """Reads lines one after the other and keeps none. ``board`` is what the log is of, where that is known.

    ``reports`` counts the lines that are reports, ``others`` those that are not; empty lines are neither.
    """

    def __init__(self, board: BoardSpec | None) -> None:
        self.reports = 0
        self.others = 0
        self._board = board
        self._clock = _Clock()

    def entries(self, lines: Iterable[str]) -> Iterator[Entry]:
        """Yields an entry for each line that is not empty."""
        for number, line in enumerate(lines, 1):
            text = line.strip()
            if not text:
                continue
            try:
                read = parse(text)
            except BoardError:
                self.others += 1
                yield Entry(number, text, None, Row(self._clock.now_s), missing="the line is no report of tegrastats")
                continue
            self.reports += 1
            yield self._entry(number, text, read)

    def _entry(self, number: int, text: str, read: Tegrastats) -> Entry:
        watts = rails_w(read)
        total, total_w, missing = _total(self._board, watts)
        self._clock.add(_moment_s(read), total_w)
        units = {name: read.units[unit] for name, unit in _UNITS.items() if unit in read.units}
        cores = [core for core in read.cores if core is not None]
        clocks = {"cpu": max((core.rate_hz or 0.0 for core in cores), default=0.0)}
        clocks |= {name: max(unit.rates_hz, default=0.0) for name, unit in units.items()}
        loads = {"cpu": sum(core.load for core in cores) / len(read.cores)} if read.cores else {}
        row = Row(
            t_s=self._clock.now_s,
            rails_w=watts,
            total_w=total_w,
            energy_j=self._clock.energy_j,
            clocks_hz={name: clocks[name] for name in CLOCKS if clocks.get(name)},
            loads=loads | {name: unit.load for name, unit in units.items() if unit.load is not None},
            temps_c=read.temperatures_c,
        )
        return Entry(number, text, read, row, total, missing)


def _total(board: BoardSpec | None, watts: dict[str, float]) -> tuple[Total | None, float | None, str]:
    """Returns the board's total of a line: its formula, its watts, and why there are none."""
    if board is None:
        return None, None, "which board it is of is not said: see --board"
    known = named_as_on_the_board(watts, board.name)
    if not board.totals:
        return None, None, f"the {board.name} has no power sensor, or none whose total is known"
    total = choose_total(board.totals, known)
    if total is None:
        lost = sorted(set(board.totals[0].rails) - set(known))
        return None, None, f"the line lacks {', '.join(lost)}"
    total_w = sum(known[name] for name in total.rails)
    if total_w <= 0:
        return total, None, f"{' and '.join(total.rails)} read 0: the sensors are off"
    return total, total_w, ""


class _Clock:
    """Seconds since the first stamp, and joules by trapezoids over the stamps, None without two of them.

    A clock that is set back takes nothing away: the time goes on from the new stamp. tegrastats' own stamps are whole
    seconds: lines that share one count together, as their mean.
    """

    def __init__(self) -> None:
        self.now_s = 0.0
        self._stamp_s: float | None = None
        self._before: tuple[float, float] | None = None  # the last stamp that is complete, and its mean watts
        self._before_j = 0.0
        self._at_s = 0.0
        self._sum_w, self._count = 0.0, 0

    @property
    def energy_j(self) -> float | None:
        if self._before is None:
            return None
        step_s = self._at_s - self._before[0]
        return self._before_j + step_s * (self._before[1] + self._sum_w / self._count) / 2

    def add(self, moment_s: float | None, watts: float | None) -> None:
        if moment_s is None:
            return
        step_s = moment_s - self._stamp_s if self._stamp_s is not None else 0.0
        self._stamp_s = moment_s
        self.now_s += max(0.0, step_s)
        if watts is None:
            return
        if self._count and self.now_s != self._at_s:
            self._before_j = self.energy_j or 0.0
            self._before = (self._at_s, self._sum_w / self._count)
            self._sum_w, self._count = 0.0, 0
        self._at_s = self.now_s
        self._sum_w += watts
        self._count += 1


def _moment_s(read: Tegrastats) -> float | None:
    if read.logged_s is not None or not read.time:
        return read.logged_s
    try:
        return datetime.fromisoformat(read.time).replace(tzinfo=timezone.utc).timestamp()
    except ValueError:  # such as a 31st of February in a damaged line
        return None


def as_data(entry: Entry) -> dict[str, Any]:
    """Returns an entry as JSON has it: watts, degrees Celsius, hertz, shares of 0 to 1, bytes; null is not known."""
    read = entry.read or Tegrastats(unknown=(entry.text,))
    return {
        "line": entry.number,
        "time": read.time or None,
        "logged_s": read.logged_s,
        "rails_w": dict(entry.row.rails_w),
        "total_w": entry.row.total_w,
        "power_scope": entry.total.scope if entry.total else None,
        "total_missing": entry.missing or None,
        "energy_j": entry.row.energy_j,
        "temps_c": dict(read.temperatures_c),
        "cpu": [core and {"load": core.load, "hz": core.rate_hz} for core in read.cores],
        "gpu": _unit(read.units.get("GR3D")),
        "emc": _unit(read.units.get("EMC")),
        "units": {name: _unit(unit) for name, unit in read.units.items() if name not in ("GR3D", "EMC")},
        "ram": read.ram and {"used_bytes": read.ram.used_bytes, "total_bytes": read.ram.total_bytes},
        "unknown": list(read.unknown),
    }


def _unit(unit: Unit | None) -> dict[str, Any] | None:
    """Returns a unit; ``hz`` is the highest of its clusters' clocks, which ``hz_each`` has one by one."""
    if unit is None:
        return None
    hz_each = list(unit.rates_hz)
    return {"load": unit.load, "hz": max(hz_each) if hz_each else None, "hz_each": hz_each, "off": unit.off}
