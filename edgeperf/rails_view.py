"""Rows of `edgeperf rails` as text, JSON and CSV. Pure: text out, nothing printed."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgeperf.rails import CLOCKS, Row, Summary, hottest
from edgeperf.record import plain
from edgeperf.ui import table
from edgeperf.units import show, show_hz

_BAR = 30
_SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True)
class Source:
    """What rows are of: ``place`` for people, and ``host`` and ``scope`` of the total for programs."""

    place: str
    host: str = ""
    scope: str = ""
    simulated: bool = False


def line(row: Row) -> str:
    """Returns a row as one line: the total and the energy so far, rails, clocks with loads, the hottest zone."""
    parts = [
        [f"{row.t_s:8.1f} s", _watts(row.total_w), _joules(row.energy_j)],
        [f"{name} {_watts(watts) or '-'}" for name, watts in row.rails_w.items()],
        [f"{name} {volts:.2f} V" for name, volts in row.volts.items()],
        [_clock(row, name) for name in CLOCKS],
        ["{} {:.1f} C".format(*zone) if (zone := hottest(row.temps_c)) else ""],
    ]
    return " | ".join(filter(None, ("  ".join(filter(None, part)) for part in parts)))


def screen(row: Row, source: Source) -> str:
    """Returns a row as a page: a bar per rail, as long as its share of the greatest, and what else is known."""
    most = max((watts for watts in row.rails_w.values() if watts is not None), default=0.0)
    rails = [
        [name, _watts(watts), f"{row.volts[name]:.2f} V" if name in row.volts else "", _bar(watts, most)]
        for name, watts in row.rails_w.items()
    ]
    first = f"{row.t_s:.0f} s   {_watts(row.total_w) or 'no total'} {source.scope}   {_joules(row.energy_j)}".rstrip()
    blocks = [
        f"{source.place}\n{first}",
        table(("rail", "now", "input", ""), rails, right=(1, 2)) if rails else "",
        "   ".join(filter(None, (_clock(row, name) for name in CLOCKS))),
        "   ".join(f"{name} {celsius:.1f} C" for name, celsius in row.temps_c.items() if celsius is not None),
    ]
    return "\n\n".join(filter(None, blocks))


def summary_text(found: Summary, place: str) -> str:
    """Returns the summary in a few lines."""
    rows = f"{found.rows} row{'s' * (found.rows != 1)}"
    lines = [f"{place}: {found.seconds:.1f} s in {rows}" if found.seconds else f"{place}: {rows} without times"]
    if found.mean_w is not None and found.lowest_w is not None and found.highest_w is not None:
        span = f"rows from {found.lowest_w:.2f} to {found.highest_w:.2f} W"
        lines.append(f"power   {found.mean_w:.3f} W on average, {span} ({found.scope}; without {found.leaves_out})")
    if found.energy_j is not None:
        lines.append(f"energy  {_joules(found.energy_j)}, {found.energy_j / _SECONDS_PER_HOUR:.4g} Wh")
    if found.unread:
        lines.append(f"power   incomplete: {found.unread} of {rows} without a total; the energy guesses theirs")
    if found.below_zero:
        lines.append(f"power   not valid: below zero in {found.below_zero} of {rows}; a sensor's current is reversed")
    if found.missing:
        lines.append(f"power   no total: {found.missing}")
    if found.rails_w:
        lines.append("rails   " + ", ".join(f"{name} {watts:.3f} W" for name, watts in found.rails_w.items()))
    zone = hottest(found.hottest_c)
    if zone is not None:
        lines.append(f"heat    at most {zone[1]:.1f} C ({zone[0]})")
    return "\n".join(lines)


def as_data(row: Row, source: Source) -> dict[str, Any]:
    """Returns a row as JSON has it."""
    data: dict[str, Any] = plain(row)
    return {**data, "power_scope": source.scope or None, "host": source.host, "simulated": source.simulated}


def columns(row: Row) -> list[str]:
    """Returns the names of the CSV's columns, as the first row has them."""
    fixed = ["t_s", "total_w", "energy_j", "simulated"]
    clocks = [f"{name}_{kind}" for name in CLOCKS for kind in ("hz", "load")]
    rails = [f"{name}_w" for name in row.rails_w]
    return [*fixed, *rails, *(f"{name}_v" for name in row.volts), *clocks, *(f"{name}_c" for name in row.temps_c)]


def cells(row: Row, names: Sequence[str], source: Source) -> list[str]:
    """Returns the row's values in these columns, "" for what is not known."""
    values: dict[str, float | None] = {"t_s": row.t_s, "total_w": row.total_w, "energy_j": row.energy_j}
    values["simulated"] = int(source.simulated)
    tables: Mapping[str, Mapping[str, float | None]] = {
        "w": row.rails_w,
        "v": row.volts,
        "hz": row.clocks_hz,
        "load": row.loads,
        "c": row.temps_c,
    }
    values |= {f"{name}_{unit}": value for unit, found in tables.items() for name, value in found.items()}
    return ["" if values.get(name) is None else f"{values[name]:.10g}" for name in names]


def csv_line(fields: Sequence[str]) -> str:
    """Returns fields as one line of CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(fields)
    return text.getvalue()


def _watts(watts: float | None) -> str:
    return "" if watts is None else f"{watts:.3f} W"


def _joules(joules: float | None) -> str:
    return "" if joules is None else show(joules, "J")


def _bar(watts: float | None, most: float) -> str:
    return "#" * round(_BAR * max(0.0, watts or 0.0) / most) if most > 0 else ""


def _clock(row: Row, name: str) -> str:
    hz, load = row.clocks_hz.get(name), row.loads.get(name)
    parts = [show_hz(hz) if hz else "", f"{load:.0%}" if load is not None else ""]
    found = " ".join(filter(None, parts))
    return f"{name} {found}" if found else ""
