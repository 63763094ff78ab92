"""What trtexec prints, in the layout of its version. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence

from engines.simulated.stack import Stack
from engines.simulated.trtexec.options import Asked, Numbers
from engines.simulated.trtexec.trace import Query

_MIB = 1 << 20
_UNSTABLE = {False: 1.0, True: 2.5}  # percent; the latter from TensorRT 11 on
Metric = tuple[str, Callable[[Query], float]]
_GPU: Metric = ("GPU Compute Time", lambda row: row.compute)
_LATENCY: Metric = ("Latency", lambda row: row.latency)
_END_TO_END: Metric = ("End-to-End Host Latency", lambda row: row.end_to_end)
_ENQUEUE: Metric = ("Enqueue Time", lambda row: row.enqueue)
_H2D: Metric = ("H2D Latency", lambda row: row.h2d)
_D2H: Metric = ("D2H Latency", lambda row: row.d2h)


def name_of(stack: Stack) -> str:
    """Returns what begins and ends every run: with the version from 8.0 on, with the build from 10.13 on."""
    numbers = stack.numbers
    if numbers < (8,):
        return "TensorRT.trtexec"
    number = numbers[0] * (10000 if numbers >= (10,) else 1000) + numbers[1] * 100 + numbers[2]
    build = stack.version.split(".")[3:]
    return f"TensorRT.trtexec [TensorRT v{number}]" + (f" [b{build[0]}]" if build and numbers >= (10, 13) else "")


def options(asked: Asked, stack: Stack) -> Iterator[str]:
    """Yields what trtexec says of its options."""
    numbers = stack.numbers
    workspace = f"{asked.workspace_bytes / _MIB:g} MiB" if asked.workspace_bytes < 1 << 40 else "default"
    yield "=== Build Options ==="
    yield "Max batch: explicit batch" if asked.explicit else f"Max batch: {asked.batch or 1}"
    yield f"Memory Pools: workspace: {workspace}" if numbers >= (8, 4) else f"Workspace: {workspace}"
    yield f"Precision: {'FP32+FP16' if asked.fp16 else 'FP32'}"
    if numbers >= (8,):
        yield f"TF32: {_on(asked.tf32)}"
        yield f"timingCacheFile: {asked.timing}"
    yield "=== Inference Options ==="
    yield f"Batch: {asked.batch or ('Explicit' if asked.explicit else 1)}"
    yield f"Iterations: {asked.iterations}"
    yield f"Duration: {asked.duration_s:g}s (+ {asked.warmup_s * 1e3:g}ms warm up)"
    if numbers >= (8,):
        yield f"Data transfers: {_on(asked.transfers)}"
    yield f"Spin-wait: {_on(asked.spin)}"
    yield f"CUDA Graph: {_on(asked.graph)}"
    yield f"ExposeDMA: {_on(asked.alone)}"
    yield "=== Device Information ==="
    yield f"Selected Device: {stack.device}"
    yield f"Compute Capability: {stack.sm}"
    yield f"SMs: {stack.sms}"
    if numbers >= (8, 2):
        yield f"TensorRT version: {stack.version}"


def _on(flag: bool) -> str:
    return "Enabled" if flag else "Disabled"


def averages(rows: Sequence[Query], asked: Asked) -> Iterator[str]:
    """Yields the lines of the trace."""
    for first in range(0, len(rows) - asked.average + 1, asked.average):
        part = rows[first : first + asked.average]
        gpu, host, end, enqueue = (
            statistics.fmean(metric(row) for row in part) for _, metric in (_GPU, _LATENCY, _END_TO_END, _ENQUEUE)
        )
        yield (
            f"Average on {asked.average} runs - GPU latency: {gpu:g} ms - Host latency: {host:g} ms "
            f"(end to end {end:g} ms, enqueue {enqueue:g} ms)"
        )


def summary(rows: Sequence[Query], wall_s: float, qps: float, asked: Asked, version: Numbers) -> Iterator[str]:
    """Yields the figures of a run, in the layout of the version."""
    if version < (8,):
        yield from _blocks(rows, wall_s, qps, asked.percentiles[0])
        return
    yield "=== Performance summary ==="
    yield f"Throughput: {qps:g} qps"
    metrics = [_LATENCY, *([_END_TO_END] if version < (8, 4) else []), _ENQUEUE, _H2D, _GPU, _D2H]
    for name, metric in metrics:
        yield f"{name}: {_spread([metric(row) for row in rows], asked.percentiles)}"
    yield f"Total Host Walltime: {wall_s:g} s"
    yield f"Total GPU Compute Time: {sum(row.compute for row in rows) / 1e3:g} s"
    yield "Explanations of the performance metrics are printed in the verbose logs."


def warnings(rows: Sequence[Query], version: Numbers) -> Iterator[str]:
    """Yields what trtexec finds doubtful in a run."""
    compute = [row.compute for row in rows]
    enqueue = statistics.median(row.enqueue for row in rows)
    if version >= (8,) and enqueue > 0.8 * statistics.median(compute):
        yield "* Throughput may be bound by Enqueue Time rather than GPU Compute and the GPU may be under-utilized."
    percent = 100 * statistics.pstdev(compute) / statistics.fmean(compute)
    if version >= (8, 4) and percent > _UNSTABLE[version >= (11,)]:
        yield f"* GPU compute time is unstable, with coefficient of variance = {percent:g}%."


def _spread(values: list[float], percentiles: Sequence[float]) -> str:
    ordered = sorted(values)
    parts = [("min", ordered[0]), ("max", ordered[-1]), ("mean", statistics.fmean(ordered))]
    parts.append(("median", statistics.median(ordered)))
    parts += [(f"percentile({percent:g}%)", _percentile(ordered, percent)) for percent in percentiles]
    return ", ".join(f"{name} = {value:g} ms" for name, value in parts)


def _percentile(ordered: Sequence[float], percent: float) -> float:
    return ordered[min(len(ordered) - 1, max(0, int(len(ordered) * percent / 100)))]


def _blocks(rows: Sequence[Query], wall_s: float, qps: float, percent: float) -> Iterator[str]:
    """Yields the layout of TensorRT 7."""
    yield "Host Latency"
    host, end = sorted(row.latency for row in rows), sorted(row.end_to_end for row in rows)
    for name, pick in _PICKS:
        yield f"{name}: {pick(host):g} ms (end to end {pick(end):g} ms)"
    high, end_high = _percentile(host, percent), _percentile(end, percent)
    yield f"percentile: {high:g} ms at {percent:g}% (end to end {end_high:g} ms at {percent:g}%)"
    yield f"throughput: {qps:g} qps"
    yield f"walltime: {wall_s:g} s"
    yield "Enqueue Time"
    enqueue = sorted(row.enqueue for row in rows)
    for name, pick in (_PICKS[0], _PICKS[1], _PICKS[3]):
        yield f"{name}: {pick(enqueue):g} ms"
    yield "GPU Compute"
    compute = sorted(row.compute for row in rows)
    for name, pick in _PICKS:
        yield f"{name}: {pick(compute):g} ms"
    yield f"percentile: {_percentile(compute, percent):g} ms at {percent:g}%"
    yield f"total compute time: {sum(compute) / 1e3:g} s"


_PICKS: tuple[tuple[str, Callable[[Sequence[float]], float]], ...] = (
    ("min", lambda ordered: ordered[0]),
    ("max", lambda ordered: ordered[-1]),
    ("mean", statistics.fmean),
    ("median", statistics.median),
)


def profile_table(rows: Sequence[tuple[str, float]], count: int, version: Numbers) -> Iterator[str]:
    """Yields the table of ``--dumpProfile`` for layers (name, seconds) that ran ``count`` times."""
    yield f"=== Profile ({count} iterations ) ==="
    total = sum(seconds for _, seconds in rows)
    every = [*rows, ("Total", total)]
    if version >= (8, 6):
        yield f"{'Time(ms)':>12} {'Avg.(ms)':>12} {'Median(ms)':>12} {'Time(%)':>8}   Layer"
    else:
        median = " Median Time (ms)" if version >= (8, 4) else ""
        yield f"{'Layer':>50} {'Time (ms)':>12} {'Avg. Time (ms)':>16}{median} {'Time %':>8}"
    for name, seconds in every:
        each = seconds * 1e3
        share = f"{100 * seconds / (total or 1):.1f}"
        if version >= (8, 6):
            yield f"{each * count:12.2f} {each:12.4f} {each:12.4f} {share:>8}   {name}"
        else:
            middle = f" {each:16.4f}" if version >= (8, 4) else ""
            yield f"{name:>50} {each * count:12.2f} {each:16.4f}{middle} {share:>8}"


HELP = "Model, build, inference, reporting and system options: see the manual of TensorRT.\n"
