"""Caffe's time command as a toolchain."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engines import toolchains
from engines.models import load
from remote.errors import EdgeperfError, EngineError, OutOfMemory, UsageError
from remote.types import Completed, Line
from tests.engines.test_toolchains import OLD, bench, ended, hold, request


def glog(*texts: str) -> list[Line]:
    return [Line(20.0 + n, "stderr", f"I1113 21:44:42.726897     1 caffe.cpp:412] {t}") for n, t in enumerate(texts)]


def caffe_time(iterations_ms: list[float], backward_ms: float = 0.0) -> Completed:
    mean = sum(iterations_ms) / len(iterations_ms) - backward_ms
    return ended(
        glog(
            "*** Benchmark begins ***",
            f"Testing for {len(iterations_ms)} iterations.",
            *(f"Iteration: {n} forward-backward time: {ms} ms." for n, ms in enumerate(iterations_ms, 1)),
            f"Average Forward pass: {mean} ms.",
            f"Average Backward pass: {backward_ms} ms.",
            "*** Benchmark ends ***",
        )
    )


def test_caffe_runs_as_many_iterations_as_fill_the_duration() -> None:
    asked = request("caffe", OLD)
    run, blobs, runs = hold(
        toolchains.toolchain("caffe").bench(asked), [caffe_time([150.0, 130.0, 125.0]), caffe_time([125.0] * 80)]
    )
    assert blobs[0].data.decode().count('name: "googlenet"') == 1
    assert [(ask.job.argv[-1], ask.measured) for ask in runs] == [("3", False), ("80", True)]
    assert runs[0].job.argv[:-1] == ("caffe", "time", "--model=/board/googlenet.prototxt", "-gpu", "0", "-iterations")
    assert (run.start_s, run.stop_s, run.iterations) == (20.0, 101.0, 80)
    assert run.images_per_s == pytest.approx(2 / 0.125)
    assert run.power_valid
    assert "average forward pass" in run.protocol


def test_caffe_runs_at_least_ten_iterations() -> None:
    _, _, runs = hold(toolchains.toolchain("caffe").bench(request("caffe", OLD)), [caffe_time([9e3] * 3)] * 2)
    assert runs[1].job.argv[-1] == "10"


def test_iterations_asked_for_need_no_short_run() -> None:
    _, _, runs = hold(
        toolchains.toolchain("caffe").bench(request("caffe", OLD, iterations=30)), [caffe_time([9.0] * 30)]
    )
    assert [(ask.job.argv[-1], ask.measured) for ask in runs] == [("30", True)]


def test_fp16_is_the_program_beside() -> None:
    asked = request("caffe", OLD, precision="fp16", iterations=1)
    _, _, runs = hold(toolchains.toolchain("caffe").bench(asked), [caffe_time([9.0])])
    assert runs[0].job.argv[0] == "caffe_fp16"


def test_with_backward_passes_there_is_throughput_but_no_latency_and_no_power_of_inference() -> None:
    run = bench("caffe", OLD, [caffe_time([30.0] * 12, backward_ms=20.0)], iterations=12)
    assert run.images_per_s == pytest.approx(2 / 0.010)
    assert run.latencies_s == ()
    assert not run.power_valid
    assert run.power_missing in run.notes


FAILED = "Check failed: error == cudaSuccess (2 vs. 0)  out of memory"


@pytest.mark.parametrize(
    ("said", "error", "match"),
    [
        (ended([Line(1.0, "stderr", FAILED)], 134), OutOfMemory, "does not fit"),
        (
            ended(glog("Check failed: registry.count(type) == 1 Unknown layer type: Q"), 134),
            EngineError,
            "Unknown layer",
        ),
        (ended(glog("*** Benchmark begins ***"), 0), EngineError, "without a result"),
        (ended(glog("*** Benchmark begins ***"), -15, "timeout"), EngineError, "gave no result in 98 s"),
        (replace(caffe_time([9.0] * 3), exit_code=1), EngineError, "exit code 1"),
    ],
    ids=["memory", "layer", "short", "timeout", "code"],
)
def test_a_failed_caffe_gives_no_figures(said: Completed, error: type[EdgeperfError], match: str) -> None:
    with pytest.raises(error, match=match):
        bench("caffe", OLD, [said], iterations=3)


@pytest.mark.parametrize("answers", [0, 1], ids=["short run", "measured run"])
def test_an_interrupted_caffe_claims_nothing(answers: int) -> None:
    cut = ended(glog("*** Benchmark begins ***"), -2, "cancelled")
    run = bench("caffe", OLD, [caffe_time([9.0] * 3)] * answers + [cut])
    assert (run.interrupted, run.iterations, run.images_per_s) == (True, 0, None)


def test_caffe_does_not_take_an_onnx_file() -> None:
    model = replace(load("alexnet", 2), source="model.onnx")
    with pytest.raises(UsageError, match="does not read ONNX"):
        next(toolchains.toolchain("caffe").bench(request("caffe", OLD, model=model)))


def test_caffe_has_nothing_to_build() -> None:
    with pytest.raises(UsageError):
        next(toolchains.toolchain("caffe").build(request("caffe", OLD)))
