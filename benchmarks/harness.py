"""What edgeperf's own machinery costs: `edgeperf bench` on this machine against a bare loop around ONNX Runtime.

Both run the same file with the same threads, input, warm-up and duration, each in a process of its own, in interleaved
pairs whose order alternates. Figures are medians of the pairs' ratios, edgeperf over bare; 1.0 is no cost at all.

A shared machine may change its speed in the middle of a pair. So a few runs of the network, in this process, set its
pace before, between and after: a pair during which the pace changed says nothing of edgeperf, and is repeated. The last
line is JSON: ``{"throughput_ratio": .., "p50_ratio": ..}``.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

PAIRS = 7
WARMUP_S = 2.0
STEADY_SHARE = 0.1
"""How far the paces around a pair may differ."""

EDGEPERF = str(Path(sysconfig.get_path("scripts")) / "edgeperf")


class Speed(NamedTuple):
    """Images per second, and the median seconds of an image."""

    throughput_per_s: float
    p50_s: float


def main() -> None:
    """Prints each pair, then the medians of the ratios."""
    parser = argparse.ArgumentParser(description="edgeperf bench against a bare loop around ONNX Runtime")
    parser.add_argument("--model", default="googlenet", help="a built-in network (default: googlenet)")
    parser.add_argument("--duration", type=float, default=3.0, help="seconds of a measurement (default: 3)")
    parser.add_argument("--pairs", type=int, default=PAIRS, help=f"default: {PAIRS}")
    parser.add_argument("--bare", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.bare:
        print(json.dumps(bare(asked.bare, asked.duration)))
        return
    with tempfile.TemporaryDirectory() as folder:
        compare(emit(asked.model, Path(folder)), asked.duration, asked.pairs)


def emit(model: str, folder: Path) -> Path:
    """Writes a built-in network for batch 1 in FP32; returns the file."""
    from engines import models
    from engines.emit.onnx import emit_onnx

    path = folder / f"{model}.onnx"
    emit_onnx(models.load(model, 1).network, 1, "fp32", 0, path)
    return path


def compare(model: Path, duration_s: float, pairs: int) -> None:
    """Runs the pairs; prints them and what they come to."""
    run = runner(model)
    steady: list[Speed] = []
    unsteady: list[Speed] = []
    while len(steady) < pairs and len(steady) + len(unsteady) < 2 * pairs:
        sides = [apart, edgeperf] if len(steady) % 2 == 0 else [edgeperf, apart]
        speeds, paces_s = {}, [pace_s(run)]
        for side in sides:
            speeds[side] = side(model, duration_s)
            paces_s.append(pace_s(run))
        loop, tool = speeds[apart], speeds[edgeperf]
        changed = max(paces_s) / min(paces_s) - 1 > STEADY_SHARE
        ratio = Speed(tool.throughput_per_s / loop.throughput_per_s, tool.p50_s / loop.p50_s)
        (unsteady if changed else steady).append(ratio)
        print(
            f"bare {loop.throughput_per_s:.2f}, edgeperf {tool.throughput_per_s:.2f} img/s;"
            f" p50 {loop.p50_s * 1e3:.3f} and {tool.p50_s * 1e3:.3f} ms"
            + ("; repeated, the machine changed its pace" if changed else ""),
            flush=True,
        )
    throughput, p50 = (statistics.median(column) for column in zip(*(steady or unsteady), strict=True))
    print(json.dumps({"throughput_ratio": round(throughput, 4), "p50_ratio": round(p50, 4)}))


def runner(model: Path) -> Callable[[], object]:
    """Returns what computes one batch with ONNX Runtime's defaults, and nothing else."""
    import numpy
    import onnxruntime

    from engines.weights import INPUT_VALUE

    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    feeds = {entry.name: numpy.full(entry.shape, INPUT_VALUE, numpy.float32) for entry in session.get_inputs()}
    return lambda: session.run(None, feeds)


def pace_s(run: Callable[[], object]) -> float:
    """Median seconds of a few runs: how quick the machine is just now."""
    moments_s = []
    for _ in range(21):
        run()
        moments_s.append(time.monotonic())
    return statistics.median(after - before for before, after in pairwise(moments_s))


def apart(model: Path, duration_s: float) -> Speed:
    """The bare loop in a process of its own. Raises CalledProcessError."""
    command = [sys.executable, __file__, "--bare", str(model), "--duration", str(duration_s)]
    return Speed(*json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def bare(model: Path, duration_s: float) -> Speed:
    """The least that measures the same: all that `edgeperf bench` does beside is left out."""
    run = runner(model)
    until_s = time.monotonic() + WARMUP_S
    while time.monotonic() < until_s:
        run()
    gc.collect()
    gc.disable()
    latencies_s = []
    start_s = end_s = time.monotonic()
    while end_s < start_s + duration_s:
        begin_s = time.monotonic()
        run()
        end_s = time.monotonic()
        latencies_s.append(end_s - begin_s)
    return Speed(len(latencies_s) / (end_s - start_s), statistics.median(latencies_s))


def edgeperf(model: Path, duration_s: float) -> Speed:
    """The same through `edgeperf bench`, with folders of its own. Raises CalledProcessError."""
    own = {f"XDG_{kind}_HOME": str(model.parent) for kind in ("CACHE", "CONFIG", "DATA")}
    times = ["--duration", f"{duration_s}s", "--warmup", f"{WARMUP_S}s"]
    command = [EDGEPERF, "bench", str(model), "--host", "local", *times, "--json", "--quiet"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **own})
    record = json.loads(done.stdout)
    return Speed(record["throughput_per_s"]["value"], record["latency_s"]["p50"])


if __name__ == "__main__":
    main()
