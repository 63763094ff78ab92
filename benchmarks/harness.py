"""What edgeperf's own machinery costs: `edgeperf bench` on this machine against a bare loop around ONNX Runtime.

Both run the same file with the same threads, input, warm-up and duration, each in a process of its own, in interleaved
pairs whose order alternates. Figures are medians of the pairs' ratios, edgeperf over bare; 1.0 is no cost at all. The
last line is JSON: ``{"throughput_ratio": .., "p50_ratio": ..}``.
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
from pathlib import Path
from typing import NamedTuple

PAIRS = 7
WARMUP_S = 2.0
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
    ratios = []
    for number in range(pairs):
        sides = [apart, edgeperf] if number % 2 == 0 else [edgeperf, apart]
        speeds = {side: side(model, duration_s) for side in sides}
        loop, tool = speeds[apart], speeds[edgeperf]
        ratios.append(Speed(tool.throughput_per_s / loop.throughput_per_s, tool.p50_s / loop.p50_s))
        print(
            f"pair {number + 1}: {loop.throughput_per_s:.2f} bare, {tool.throughput_per_s:.2f} edgeperf img/s;"
            f" p50 {loop.p50_s * 1e3:.3f} and {tool.p50_s * 1e3:.3f} ms",
            flush=True,
        )
    throughput, p50 = (statistics.median(column) for column in zip(*ratios, strict=True))
    print(json.dumps({"throughput_ratio": round(throughput, 4), "p50_ratio": round(p50, 4)}))


def apart(model: Path, duration_s: float) -> Speed:
    """The bare loop in a process of its own. Raises CalledProcessError."""
    command = [sys.executable, __file__, "--bare", str(model), "--duration", str(duration_s)]
    return Speed(*json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def bare(model: Path, duration_s: float) -> Speed:
    """All that a measurement needs, and nothing else. Random numbers for an input would be as quick as the constant."""
    import numpy
    import onnxruntime

    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    feeds = {entry.name: numpy.full(entry.shape, 0.5, numpy.float32) for entry in session.get_inputs()}
    until_s = time.monotonic() + WARMUP_S
    while time.monotonic() < until_s:
        session.run(None, feeds)
    gc.collect()
    gc.disable()
    latencies_s = []
    start_s = end_s = time.monotonic()
    while end_s < start_s + duration_s:
        begin_s = time.monotonic()
        session.run(None, feeds)
        end_s = time.monotonic()
        latencies_s.append(end_s - begin_s)
    return Speed(len(latencies_s) / (end_s - start_s), statistics.median(latencies_s))


def edgeperf(model: Path, duration_s: float) -> Speed:
    """The same through `edgeperf bench`, with folders of its own. Raises CalledProcessError."""
    own = {f"XDG_{kind}_HOME": str(model.parent) for kind in ("CACHE", "CONFIG", "DATA")}
    times = ["--duration", f"{duration_s}s", "--warmup", f"{WARMUP_S}s"]
    command = [EDGEPERF, "bench", str(model), "--host", "local", *times, "--json"]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env={**os.environ, **own})
    record = json.loads(done.stdout)
    return Speed(record["throughput_per_s"]["value"], record["latency_s"]["p50"])


if __name__ == "__main__":
    main()
