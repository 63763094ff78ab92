"""Rows of a report that only some results have: a command's, several runs', a soak's. Pure."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from edgeperf.units import show, show_both, show_hz, show_seconds

_UNITS = {"throughput_per_s": "img/s", "power_w": "W", "images_per_s_per_w": "img/s/W"}
_ENDS = {
    "cancelled": "interrupted",
    "duration": "ended by --duration",
    "timeout": "killed, its time being up",
    "lost": "not known: the line was lost",
}
_WIDEST = 100
_SLOWER = 0.99
"""A clock below this share of what was asked, or of its first part's, has fallen."""


def command(argv: Sequence[str]) -> str:
    """Returns a command as it would be typed, in one line that is not too long."""
    return textwrap.shorten(shlex.join(argv), _WIDEST, placeholder=" ...")


def how_ended(data: Mapping[str, Any]) -> str:
    """Returns how a measured command ended: ``exit code 3``, ``ended by --duration``, ``killed by signal 9``."""
    ended, code = data["ended"], data["exit_code"]
    if ended == "duration" and data["limit_s"] is None:
        return "ended by edgeperf: a simulated board, and no --duration"
    if ended.startswith("signal "):
        return f"killed by {ended}"
    return str(_ENDS.get(ended, f"exit code {code}"))


def command_rows(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields how a command ended and what it took."""
    after = f", after {show_seconds(data['duration_s'])}" if data["ended"] != "lost" else ""
    yield "command", f"{how_ended(data)}{after}"
    energy = data["energy_j"]
    if energy is not None:
        joules = show_both(energy["value"], energy["ci95"], energy["absolute95"], "J")
        yield "energy", f"{joules}, from its start to its end, idle included"


def run_rows(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields how several runs differ, and what a single one says of itself."""
    runs = data["repeats"]
    if not runs:
        return
    yield "runs", f"{len(runs)} under one lock; standard deviation between them, and half the interval that one gives:"
    for name, unit in _UNITS.items():
        spread = data["between"].get(name)
        if spread is None:
            continue
        share = f" ({spread['deviation'] / spread['mean']:.2%})" if spread["mean"] else ""
        halves = [(ends[1] - ends[0]) / 2 for run in runs if (ends := _ends(run[name]))]
        within = f"; within one +- {_two(sum(halves) / len(halves))} {unit}" if halves else ""
        yield "runs", f"{_two(spread['deviation'])} {unit}{share}{within}"


def cooling_rows(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields how long a board was waited for until it was cool enough."""
    for cooling in [run["cooling"] for run in data["repeats"] or [data]]:
        if cooling is not None and cooling["waited_s"]:
            span = f"{cooling['start_c']:.1f} to {cooling['end_c']:.1f} C"
            yield "cooling", f"{span} in {show_seconds(cooling['waited_s'])}, {cooling['asked_c']:g} C asked"


def soak_rows(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields how a soak went: its first and its last part, and when a clock fell."""
    parts = data["over_time"]
    if not parts:
        return
    first, last = parts[0], parts[-1]
    span = show_seconds(first["stop_s"] - first["start_s"])
    change = ""
    if first["throughput_per_s"] and last["throughput_per_s"]:
        change = f" ({last['throughput_per_s'] / first['throughput_per_s'] - 1:+.1%})"
    yield "soak", f"first {span}: {_part(first)}; last: {_part(last)}{change}"
    heat = [part["hottest_c"] for part in parts if part["hottest_c"] is not None]
    if heat:
        yield "soak", f"hottest zone: first {heat[0]:.1f} C, last {heat[-1]:.1f} C, {max(heat):.1f} C at most"
    falls = list(_falls(parts, data["clocks"]["asked"]))
    yield "soak", "; ".join(falls) if falls else "no clock fell"


def _part(part: Mapping[str, Any]) -> str:
    speed, watts = part["throughput_per_s"], part["power_w"]
    known = [show(speed, "img/s") if speed else "", show(watts, "W") if watts else ""]
    return " at ".join(filter(None, known)) or "nothing known"


def _falls(parts: Sequence[Mapping[str, Any]], asked: Mapping[str, float | None]) -> Iterator[str]:
    for name, at_first in parts[0]["lowest_hz"].items():
        full = asked.get(f"{name}_hz") or at_first
        seen = [(part["start_s"], part["lowest_hz"][name]) for part in parts if name in part["lowest_hz"]]
        low = [(moment_s, hz) for moment_s, hz in seen if hz < _SLOWER * full]
        if low:
            since = f"from {low[0][0]:.0f} s on" if len(low) > 1 else f"at {low[0][0]:.0f} s"
            lowest = min(hz for _, hz in low)
            yield f"{name} fell {since}: {show_hz(lowest)} at the lowest, {show_hz(full)} before"


def _two(value: float) -> str:
    """Returns a number to two digits, without a prefix: it stands beside its figure."""
    return f"{float(f'{value:.1e}'):.10g}"


def _ends(figure: Mapping[str, Any] | None) -> Sequence[float] | None:
    return figure["ci95"] if figure is not None else None
