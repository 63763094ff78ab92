"""A result record as some twenty lines for people. Pure: it takes the record as it was saved."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from edgeperf.report_rows import command, command_rows, cooling_rows, run_rows, soak_rows
from edgeperf.report_why import why_rows
from edgeperf.units import show_both, show_bytes, show_figure, show_hz, show_seconds
from engines.spec import WORKSPACE_BYTES

_SCOPES = {
    "ap_dram": "processor and DRAM",
    "module_in": "module input",
    "soc_rails": "SoC rails",
    "carrier_in": "carrier input",
    "cpu_packages": "processor packages",
}
_FIGURES = ("throughput", "latency", "power", "rails", "net of idle", "efficiency", "energy")
_CHOSEN = {
    "transfers": "inputs and outputs are copied for every batch",
    "spin": "a CPU core spins while it waits",
    "cuda_graph": "as a CUDA graph",
    "tf32": "TF32 allowed",
}
_SLOWED = ("throttled", "clocks-not-as-asked", "emc-clamped", "drift")
"""Reasons of a verdict that say why batches took longer at one end of a run."""
_LOST = ("link-lost", "rebooted")
_MANY = 0.1
"""Where a larger share of the batches lies far from the median, they are no outliers but another speed."""
_INDENT = 12
_WIDTH = 108


def report(data: Mapping[str, Any], saved: Path) -> str:
    """Returns the text of a result, kept in the file ``saved``. Line 2 starts with SIMULATED for a simulated board.

    Line 1 starts with INVALID for such a result, and its figures are marked.
    """
    board = data["board"]
    # A Jetson is known by its name; of another machine the processor says more.
    name = board["name"] if board["l4t"] else ", ".join(filter(None, (board["name"], board["machine"])))
    rows = [*(_of_command(data) if data["kind"] == "exec" else _of_network(data))]
    rows += (("note", note) for note in data["notes"])
    invalid = data["verdict"]["state"] == "INVALID"
    if invalid:
        rows = [(name, f"not valid: {text}" if _is_figure(name, text) else text) for name, text in rows]
    body = [line for name, text in _once(rows) for line in labelled(name, text)]
    body.append(f"{'saved':<{_INDENT}}{saved}")  # in one line, to be copied
    title = f"INVALID: {_title(data)}" if invalid else _title(data)
    return "\n".join([title, place(data["simulated"], name, board["l4t"], data["host"]), *body])


def _is_figure(name: str, text: str) -> bool:
    return name in _FIGURES and not text.startswith(("none", "not measured", "how far"))


def _title(data: Mapping[str, Any]) -> str:
    if data["kind"] == "exec":
        return command(data["argv"])
    spec = data["spec"]
    return f"{spec['model']} {spec['precision'].upper()} batch {spec['batch']} with {spec['toolchain']}"


def _of_network(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield from _verdict(data["verdict"])
    yield from _speed(data)
    yield from _power(data)
    yield from _efficiency(data)
    yield from run_rows(data)
    yield from soak_rows(data)
    yield from cooling_rows(data)
    yield from _clocks(data)
    yield from _heat(data["conditions"])
    yield from _engine(data)
    yield from why_rows(data["bounds"], data["no_gain"])


def _of_command(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield from _verdict(data["verdict"])
    yield from command_rows(data)
    yield from _power(data)
    yield from _clocks(data)
    yield from _heat(data["conditions"])


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
    yield from _scatter(data)


def _power(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    power, sampling = data["power_w"], data["sampling"]
    if power is None:
        yield "power", f"not measured: {data['power_missing']}"
        return
    what = f"{_SCOPES.get(power['scope'], power['scope'])} ({power['scope']}); without {power['leaves_out']}"
    yield "power", f"{show_both(power['total'], power['ci95'], power['absolute95'], 'W')}, {what}"
    if power["absolute95"] is None:
        yield "power", "how far from the truth its sensors may be is not known"
    yield "rails", _listed(power["rails"])
    if power["carrier"]:
        yield "beside", f"{_listed(power['carrier'])}: the carrier board's, not in the total"
    if power["idle_total"] is not None:
        yield "idle", f"{power['idle_total']:.2f} W at these clocks, measured before the run, not subtracted"
    if power["net_of_idle"] is not None:
        yield "net of idle", _both(power["net_of_idle"], "W")
    if power["settling_s"]:
        span = show_seconds(power["settling_s"])
        yield "settling", f"the first {span} are not in the watts: until then the sensors still showed the load before"
    if sampling is not None:
        fresh = f"{sampling['fresh_share']:.0%} of the readings differ from the one before"
        by = f" by {sampling['source']}" if sampling["source"] != "sysfs" else ""
        yield "sampling", f"{sampling['achieved_hz']:.3g} Hz{by}, {sampling['asked_hz']:.3g} Hz asked; {fresh}"


def _efficiency(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    per_watt, energy = data["images_per_s_per_w"], data["energy_j_per_image"]
    if per_watt is None or energy is None:
        return
    yield "efficiency", _both(per_watt, "img/s/W")
    yield "efficiency", _both(energy, "mJ/img", 1e3)
    yield "efficiency", f"EDP {_both(data['edp'], 'uJ s', 1e6)}"


def _both(figure: Mapping[str, Any], unit: str, scale: float = 1.0) -> str:
    """Returns a figure with both of its uncertainties, in a unit of which there are ``scale`` in the SI unit."""
    repeatable, absolute = (
        (ends[0] * scale, ends[1] * scale) if ends else None for ends in (figure["ci95"], figure["absolute95"])
    )
    return show_both(figure["value"] * scale, repeatable, absolute, unit)


def _listed(rails: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {watts:.2f} W" for name, watts in rails.items())


def _scatter(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields how batches scatter; that a run began slowly only where it is one short run with no better reason."""
    scatter = data["scatter"]
    if scatter is None:
        return
    count, batches = scatter["outliers"], sum(len(run["samples_s"]) for run in data["repeats"] or [data])
    if count > _MANY * batches:
        yield "scatter", f"{scatter['variation']:.2%} from batch to batch; the speed changed on the way"
        return
    far = f"; {count} outlier{'s' * (count > 1)} kept, the farthest {scatter['farthest']:+.0%} off the median"
    yield "scatter", f"{scatter['variation']:.2%} from batch to batch{far if count else ''}"
    slowed = any(reason["code"] in _SLOWED for reason in data["verdict"]["reasons"])
    if slowed or data["over_time"] or data["repeats"]:
        return
    if scatter["unsteady"] is None:
        yield "scatter", f"never steady: the first third took {scatter['slower']:+.1%} against the last"
    elif scatter["unsteady"]:
        took = f"took {scatter['slower']:+.1%} against the rest"
        yield "scatter", f"not warm at first: {scatter['unsteady']} batches {took}; a longer --warmup leaves them out"


def _clocks(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    clocks, parts = data["clocks"], []
    lost = any(reason["code"] in _LOST for reason in data["verdict"]["reasons"])
    for name in ("cpu", "gpu", "emc"):
        asked, seen = clocks["asked"][f"{name}_hz"], clocks["effective"][f"{name}_hz"]
        if asked is None and seen is None:
            continue
        ran = show_hz(seen) if seen is not None else "not known" if lost else "not readable"
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
