"""A run of trtexec as a list of queries, and the files made from it. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from engines.simulated.protocol import Batch
from engines.simulated.trtexec.options import Numbers

_MS = 1e3


@dataclass(frozen=True)
class Query:
    """Times of one batch, in milliseconds. It starts at ``start`` after the beginning of the run, ``lead`` after it
    was submitted."""

    start: float
    lead: float
    enqueue: float
    h2d: float
    compute: float
    d2h: float

    @property
    def latency(self) -> float:
        """Copies and computation."""
        return self.h2d + self.compute + self.d2h

    @property
    def end_to_end(self) -> float:
        """From the beginning of the first copy to the end of the last one."""
        return self.latency + 0.01


def queries(periods_s: Iterable[float], batch: Batch, ahead: int) -> Iterator[Query]:
    """Yields what trtexec notes of batches that took ``periods_s`` one after the other, ``ahead`` of them queued."""
    share, start = batch.compute_s / batch.period_s, 0.0
    enqueue, h2d, d2h = (s * _MS for s in (batch.enqueue_s, batch.h2d_s, batch.d2h_s))
    for period_s in periods_s:
        lead = min(start, ahead * period_s * _MS)
        yield Query(start, lead, enqueue, h2d, period_s * share * _MS, d2h)
        start += period_s * _MS


def times_json(rows: Sequence[Query], version: Numbers) -> str:
    """Returns the file of ``--exportTimes``. Up to 7.2 the keys of enqueuing and of the input are exchanged."""
    return _list(_times(row, version) for row in rows)


def _times(row: Query, version: Numbers) -> str:
    enqueue = (row.start - row.lead, row.start - row.lead + row.enqueue)
    copied_in = (row.start + 0.001, row.start + 0.001 + row.h2d)
    compute = (copied_in[1], copied_in[1] + row.compute)
    copied_out = (compute[1], compute[1] + row.d2h)
    old = version < (8,)
    if old:
        spans = {"Enq": copied_in, "In": enqueue, "Compute": compute, "Out": copied_out}
    else:
        spans = {"Enq": enqueue, "H2d": copied_in, "Compute": compute, "D2h": copied_out}
    ends = [(name, pair) for name, span in spans.items() for pair in zip(("start", "end"), span, strict=True)]
    fields = [(f"{end}{name}Ms", at) for name, (end, at) in ends]
    fields += [("inMs" if old else "h2dMs", row.h2d), ("computeMs", row.compute)]
    fields += [("outMs" if old else "d2hMs", row.d2h), ("latencyMs", row.latency)]
    if version < (8, 4):
        fields.append(("endToEndMs", row.end_to_end))
    return ", ".join(f'"{name}" : {value:g}' for name, value in fields)


def profile_json(rows: Sequence[tuple[str, float]], count: int, version: Numbers) -> str:
    """Returns the file of ``--exportProfile`` for layers (name, seconds) that ran ``count`` times."""
    total = sum(seconds for _, seconds in rows) or 1.0
    lines = [f'"count" : {count}']
    for name, seconds in rows:
        each = seconds * _MS
        median = f'"medianMs" : {each:g}, ' if version >= (8, 4) else ""
        times = f'"timeMs" : {each * count:g}, "averageMs" : {each:g}, {median}'
        lines.append(f'"name" : "{name}", {times}"percentage" : {100 * seconds / total:g}')
    return _list(lines)


def layer_info_json(rows: Sequence[tuple[str, str, str]], bindings: Sequence[str], version: Numbers) -> str:
    """Returns the file of ``--exportLayerInfo`` for layers (name, type, precision)."""
    new = version >= (11,)
    lines = []
    for name, kind, precision in rows:
        form = {"Format/Datatype": f"Row major linear {precision.upper()} format"}
        if new:
            form = {"Format": "Row major linear", "Datatype": {"fp16": "Half"}.get(precision, "Float")}
        tensor = {"Name": name, "Dimensions": [], **form}
        lines.append({"Name": name, "LayerType": kind, "Inputs": [tensor], "Outputs": [tensor]})
    ends = {"I/O Tensors": [{"Name": name} for name in bindings]} if new else {"Bindings": list(bindings)}
    return json.dumps({"Layers": lines, **ends}, indent=1)


def _list(rows: Iterable[str]) -> str:
    return "[\n  { " + " }\n, { ".join(rows) + " }\n]\n"
