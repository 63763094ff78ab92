"""A result record as some twenty lines for people. Pure: it takes the record as it was saved."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from edgeperf.units import show, show_bytes, show_figure, show_hz, show_seconds
from engines.spec import WORKSPACE_BYTES

_SCOPES = {
    "ap_dram": "processor and DRAM",
    "module_in": "module input",
    "soc_rails": "SoC rails",
    "carrier_in": "carrier input",
}
_CHOSEN = {
    "transfers": "inputs and outputs are copied for every batch",
    "spin": "a CPU core spins while it waits",
    "cuda_graph": "as a CUDA graph",
    "tf32": "TF32 allowed",
}
_LIMITS = {"arithmetic": "arithmetic", "memory": "memory", "launches": "launch"}
_INDENT = 12
_WIDTH = 108


def report(data: Mapping[str, Any], saved: Path) -> str:
    """Returns the text of a result, kept in the file ``saved``. Line 2 starts with SIMULATED for a simulated board."""
    spec = data["spec"]
    title = f"{spec['model']} {spec['precision'].upper()} batch {spec['batch']} with {spec['toolchain']}"
    board = data["board"]
    # A Jetson is known by its name; of another machine the processor says more.
    name = board["name"] if board["l4t"] else ", ".join(filter(None, (board["name"], board["machine"])))
    rows = [
        *_verdict(data["verdict"]),
        *_speed(data),
        *_power(data),
        *_efficiency(data),
        *_clocks(data["clocks"]),
        *_heat(data["conditions"]),
        *_engine(data),
        *_bounds(data["bounds"]),
        *(("note", note) for note in data["notes"]),
    ]
    body = [line for name, text in _once(rows) for line in labelled(name, text)]
    body.append(f"{'saved':<{_INDENT}}{saved}")  # in one line, to be copied
    return "\n".join([title, place(data["simulated"], name, board["l4t"], data["host"]), *body])


def place(simulated: bool, board: str, l4t: str, host: str) -> str:
    """Returns the line that says where this was: ``SIMULATED tx1, L4T 23.1.0 (sim:tx1@r23.1)``."""
    release = f", L4T {l4t}" if l4t else ""
    return f"{'SIMULATED ' if simulated else ''}{board}{release} ({host})"


def labelled(name: str, text: str) -> list[str]:
    """Returns a row of a label and its text; what does not fit into one line goes on below the text."""
    lines = textwrap.wrap(text, _WIDTH - _INDENT, break_long_words=False, break_on_hyphens=False) or [""]
    return [f"{label:<{_INDENT}}{line}" for label, line in zip([name, *[""] * len(lines)], lines, strict=False)]


def _once(rows: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yields the rows; a name that repeats is shown once."""
    before = ""
    for name, text in rows:
        yield ("" if name == before else name), text
        before = name


def _verdict(verdict: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "verdict", verdict["state"]
    for reason in verdict["reasons"]:
        lesser = f"{reason['severity']}: " if reason["severity"] != verdict["state"] else ""
        yield "verdict", f"{lesser}{reason['text']}"


def _speed(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    speed, latency = data["throughput_per_s"], data["latency_s"]
    if speed is None:
        yield "throughput", "none: the run ended before anything was measured"
        return
    yield "throughput", show_figure(speed["value"], speed["ci95"], "img/s")
    if latency is None:
        yield "latency", "none: the tool times something else"
        return
    known = [
        f"{name} {show_seconds(latency[name])}" for name in ("p50", "p90", "p95", "p99") if latency[name] is not None
    ]
    shares = ", ".join(known) if known else "too few samples for percentiles"
    yield "latency", f"mean {show_seconds(latency['mean'])}, {shares} ({latency['scope']})"


def _power(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    power, sampling = data["power_w"], data["sampling"]
    if power is None:
        yield "power", f"not measured: {data['power_missing']}"
        return
    what = f"{_SCOPES.get(power['scope'], power['scope'])} ({power['scope']}); without {power['leaves_out']}"
    yield "power", f"{show_figure(power['total'], power['ci95'], 'W')}, {what}"
    yield "rails", ", ".join(f"{name} {watts:.2f} W" for name, watts in power["rails"].items())
    if power["idle_total"] is not None:
        yield "idle", f"{power['idle_total']:.2f} W at these clocks, measured before the run, not subtracted"
    if sampling is not None:
        fresh = f"{sampling['fresh_share']:.0%} of the readings differ from the one before"
        yield "sampling", f"{sampling['achieved_hz']:.3g} Hz, {sampling['asked_hz']:.3g} Hz asked; {fresh}"


def _efficiency(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    per_watt, energy = data["images_per_s_per_w"], data["energy_j_per_image"]
    if per_watt is None or energy is None:
        return
    first = show_figure(per_watt["value"], per_watt["ci95"], "img/s/W")
    ends = energy["ci95"] and (energy["ci95"][0] * 1e3, energy["ci95"][1] * 1e3)
    second = show_figure(energy["value"] * 1e3, ends, "mJ/img")
    yield "efficiency", f"{first}, {second}, EDP {show(data['edp_js'], 'J s', 3)}"


def _clocks(clocks: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    parts = []
    for name in ("cpu", "gpu", "emc"):
        asked, seen = clocks["asked"][f"{name}_hz"], clocks["effective"][f"{name}_hz"]
        if asked is None and seen is None:
            continue
        ran = show_hz(seen) if seen is not None else "not readable"
        parts.append(f"{name} {ran}" + (f" (asked {show_hz(asked)})" if asked is not None and asked != seen else ""))
    profile = f"profile {clocks['profile']}: " if clocks["profile"] else "as found: "
    if parts or clocks["profile"]:
        yield "clocks", profile + (", ".join(parts) or "no driver reports its rate")


def _heat(conditions: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    zones = conditions["temperatures_c"]
    if zones:
        shown = sorted(zones.items(), key=lambda item: item[1]["start"] - item[1]["max"])[:3]
        yield "heat", ", ".join(f"{name} {heat['start']:.1f} to {heat['max']:.1f} C" for name, heat in shown)


def _engine(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    engine, found = data["engine"], data["spec"]["precision_found"]
    versions = ", ".join(f"{name} {version}" for name, version in engine["versions"].items())
    computes = f"computes in {found.upper()}" if found and engine["layers"] is None else ""
    parts = [versions, computes, how_built(engine["built"])]
    text = "; ".join(part for part in parts if part)
    if text:
        yield "engine", text
    if engine["built"] and engine["built"]["builds_per_s"]:
        yield "builds", spread(engine["built"]["builds_per_s"])
    yield from _protocol(engine["protocol"])
    if engine["layers"] is not None:
        yield "precision", engine["layers"]["text"]
    if engine["outputs"] is not None:
        yield "outputs", engine["outputs"]["text"]


def _protocol(protocol: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    """Yields what was not as it is by default: results of different protocols look alike otherwise."""
    if protocol is None:
        return
    chosen = [words for name, words in _CHOSEN.items() if protocol[name]]
    if protocol["workspace_bytes"] != WORKSPACE_BYTES:
        chosen.append(f"workspace {protocol['workspace_bytes'] >> 20} MiB")
    if chosen:
        yield "protocol", ", ".join(chosen)


def how_built(built: Mapping[str, Any] | None) -> str:
    """Returns how an engine came to be, "" where there is nothing to say."""
    if built is None:
        return ""
    size = show_bytes(built["engine_bytes"])
    if built["cached"]:
        return f"kept on the board, {size}"
    why = f" ({built['why']})" if built["why"] else ""
    return f"built in {show_seconds(built['seconds'])}{why}, {size}"


def spread(builds_per_s: Sequence[float]) -> str:
    """Returns how much several builds of one engine differ."""
    best, worst = max(builds_per_s), min(builds_per_s)
    apart = f"{(best - worst) / best:.1%} apart" if best else "none of them gave a figure"
    return f"the fastest of {len(builds_per_s)} was kept; in short runs they are {apart}"


def _bounds(bounds: Mapping[str, float] | None) -> Iterator[tuple[str, str]]:
    if bounds is None:
        return
    shares = ((name, bounds[f"{key}_share"]) for name, key in _LIMITS.items())
    yield "bound by", f"{', '.join(f'{name} {share:.0%}' for name, share in shares)} of the time (modelled)"
    gains = ((name.upper(), bounds[f"gain_{name}_10pct"]) for name in ("gpu", "emc"))
    yield "10% faster", ", ".join(f"{name} clock: {gain:+.1%} img/s" for name, gain in gains)
