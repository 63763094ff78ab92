"""Records of the smaller commands as text for people."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from edgeperf.clocks import Changes, Status, groups, show
from edgeperf.report import how_built, labelled, place, spread
from edgeperf.report_rows import command
from edgeperf.ui import table
from edgeperf.units import show_bytes, show_count

if TYPE_CHECKING:  # only their names are needed, and some of their modules take long to load
    from edgeperf.doctor import Examination
    from edgeperf.record import Build
    from edgeperf.store import Saved
    from engines.cost import LayerCost, Precision
    from engines.models import Model
    from remote.boards import BoardSpec
    from remote.types import Snapshot

_WIDEST = 40


def changes_text(changes: Changes) -> str:
    """Returns a row per knob, what is absent, and how to undo it."""
    title = {"plan": "plan", "apply": "applied", "restore": "restored"}[changes.kind]
    lines = [
        f"{title} {changes.profile}".rstrip(),
        place(changes.simulated, changes.board, changes.l4t, changes.host),
        "",
    ]
    if changes.rows:
        rows = [
            (r.knob, show(r.knob, r.was), show(r.knob, r.now), r.result, _why(r.result, r.why)) for r in changes.rows
        ]
        lines += [table(["knob", "was", "now", "result", ""], rows, right=(1, 2)), ""]
    if changes.absent:
        lines.append(f"not on this board: {', '.join(changes.absent)}")
    lines += [f"note: {note}" for note in changes.notes]
    lines.append(_ending(changes))
    return "\n".join(lines).rstrip()


def _why(result: str, why: str) -> str:
    return why if result in ("planned", "refused", "clamped", "left", "needs-reboot") else ""


def _ending(changes: Changes) -> str:
    counts: dict[str, int] = {}
    for row in changes.rows:
        counts[row.result] = counts.get(row.result, 0) + 1
    summary = ", ".join(f"{number} {result}" for result, number in counts.items())
    if changes.kind == "plan":
        return summary or "nothing to change"
    if changes.kind == "apply":
        return f"{summary}\n{_undo(changes.host)}" if summary else "no setting of this profile is on this board"
    return summary


def _undo(host: str) -> str:
    return f"undo: edgeperf restore --host {host}"


def status_text(status: Status, snapshot: Snapshot) -> str:
    """Returns the settings in groups, who applied what, and what differs from a profile."""
    lines = ["status", place(status.simulated, status.board, status.l4t, status.host), ""]
    rows = [
        (knob.id, knob.error or show(knob.id, knob.value), knob.path)
        for group in groups(snapshot).values()
        for knob in group
    ]
    if rows:
        lines += [table(["knob", "value", "node"], rows, right=(1,)), ""]
    else:
        lines.append("no settable clocks were found on this machine")
    if status.applied_by:
        lines += [f"applied by {status.applied_by}", _undo(status.host)]
    lines += [f"drift: {text}" for text in status.drift]
    if status.profile and not status.drift:
        lines.append(f"all settings are as {status.profile} asks")
    return "\n".join([*lines, *(f"note: {note}" for note in status.notes)]).rstrip()


def build_text(record: Build) -> str:
    """Returns what was built, how long it took and where it is kept."""
    from edgeperf.record import plain

    spec, built = record.spec, plain(record.built)
    lines = [
        f"{spec.model} {spec.precision.upper()} batch {spec.batch} with {spec.toolchain}",
        place(record.simulated, record.board, record.l4t, record.host),
        *labelled("engine", ", ".join(f"{name} {version}" for name, version in record.versions.items())),
    ]
    if spec.precision_found:
        lines += labelled("computes", f"in {spec.precision_found.upper()}")
    if built is not None:
        lines += labelled("result", how_built(built))
    if built is not None and built["builds_per_s"]:
        lines += labelled("builds", spread(built["builds_per_s"]))
    lines += labelled("key", spec.key)
    return "\n".join([*lines, *(line for note in record.notes for line in labelled("note", note))])


def doctor_text(report: Examination) -> str:
    """Returns the findings, a row each, with advice where there is some."""
    rows = [(finding.mark, finding.subject, finding.found) for finding in report.findings]
    advice = [f"- {finding.subject}: {finding.advice}" for finding in report.findings if finding.advice]
    lines = [
        "doctor",
        place(report.simulated, report.board, report.l4t, report.host),
        "",
        table(["", "what", "found"], rows),
    ]
    return "\n".join([*lines, *(["", "advice", *advice] if advice else [])])


def model_rows(model: Model, batch: int, precision: Precision) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Returns a record per layer and the totals, for the whole batch."""
    from engines.cost import cost, total

    costs = cost(model.network, batch, precision)
    sums = total(costs)
    return [_layer(row) for row in costs], {
        "macs": sums.macs,
        "operations": sums.operations,
        "parameters": sums.parameters,
        "bytes": sums.read_bytes + sums.written_bytes,
        "operations_per_byte": sums.operations / max(1, sums.read_bytes + sums.written_bytes),
    }


def _layer(row: LayerCost) -> dict[str, Any]:
    return {
        "name": row.name,
        "kind": row.kind,
        "inputs": [list(shape) for shape in row.input_shapes],
        "output": list(row.output_shape),
        "macs": row.macs,
        "operations": row.operations,
        "parameters": row.parameters,
        "bytes": row.read_bytes + row.written_bytes,
        "operations_per_byte": row.operations_per_byte,
    }


def model_text(rows: Sequence[Mapping[str, Any]], sums: Mapping[str, Any]) -> str:
    """Returns the per-layer table with its totals."""
    body = [
        (
            str(row["name"]),
            str(row["kind"]),
            "x".join(map(str, row["output"])),
            show_count(row["macs"]),
            show_count(row["parameters"]),
            show_bytes(row["bytes"]),
            f"{row['operations_per_byte']:.1f}",
        )
        for row in rows
    ]
    body.append(
        (
            "total",
            "",
            "",
            show_count(sums["macs"]),
            show_count(sums["parameters"]),
            show_bytes(sums["bytes"]),
            f"{sums['operations_per_byte']:.1f}",
        )
    )
    return table(["layer", "kind", "output", "MACs", "parameters", "bytes", "ops/byte"], body, right=(3, 4, 5, 6))


def board_text(spec: BoardSpec) -> str:
    """Returns a board's settings, rails and watt figure."""
    lines = [f"{spec.name}: {spec.model}", ""]
    lines += [table(["setting", "first node looked for"], [(row["id"], row["paths"][0]) for row in spec.knobs]), ""]
    rails = [
        (row["id"].replace("{label}", "any, by its label"), row.get("place", ""), row.get("parent", ""))
        for row in spec.rails
    ]
    lines += [table(["rail", "place", "part of"], list(dict.fromkeys(rails))), ""]
    for formula in spec.totals:
        lines += [f"watts: {' + '.join(formula.rails)}, scope {formula.scope}", f"  without {formula.leaves_out}"]
    if not spec.totals:
        lines.append("watts: none; which rails make up the whole is not known for this kind of machine")
    return "\n".join(lines)


def results_text(saved: Sequence[Saved]) -> str:
    """Returns a row per saved result."""
    if not saved:
        return "no results yet: `edgeperf bench alexnet` makes one"
    rows = [(item.path.stem, *_listed(item.data)) for item in saved]
    return table(["result", "what", "board", "img/s", "W", "verdict"], rows, right=(3, 4))


def _listed(data: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the cells of a result beside its name; one that was damaged does not hide the others."""
    try:
        rate, watts = data.get("throughput_per_s"), data["power_w"]
        return (
            _measured(data),
            ("SIMULATED " if data["simulated"] else "") + data["board"]["name"],
            f"{rate['value']:.1f}" if rate else "-",
            f"{watts['total']:.2f}" if watts else "-",
            data["verdict"]["state"],
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return ("damaged", "-", "-", "-", "-")


def _measured(data: Mapping[str, Any]) -> str:
    """Returns what was measured, in one column of a table."""
    if data["kind"] == "exec":
        return textwrap.shorten(command(data["argv"]), _WIDEST, placeholder=" ...")
    spec = data["spec"]
    return f"{spec['model']} {spec['precision'].upper()} batch {spec['batch']}"
