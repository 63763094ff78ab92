from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from engines import toolchains
from engines.models import Model, load
from engines.spec import EngineSpec, Options
from engines.toolchains import Built, Conversation, EngineRun, Put, Request, Run, builds
from remote.errors import (
    DeviceDenied,
    EdgeperfError,
    EngineError,
    OutOfMemory,
    PlanMismatch,
    ToolMissing,
    UnsupportedModel,
    UsageError,
)
from remote.types import Blob, Completed, Facts, Line

PC = Facts(
    board="generic-linux",
    model="",
    l4t="",
    kernel="6.1",
    serial="",
    machine="",
    python="/usr/bin/python3",
    cpus=2,
    memory_bytes=8_000_000_000,
    boot_id="b",
    user="u",
    cache="/cache",
    root=False,
    simulated=False,
)
JETSON = replace(PC, board="tx1", l4t="32.7.1", memory_bytes=4_176_478_208)
OLD = replace(JETSON, l4t="23.1.1")


def request(
    name: str,
    facts: Facts,
    cache: Path = Path("unused"),
    *,
    model: Model | None = None,
    batch: int = 2,
    precision: Literal["fp32", "fp16"] = "fp32",
    iterations: int | None = None,
) -> Request:
    model = model or load("googlenet", batch)
    spec = EngineSpec(model.name, precision, batch, name, 0, model.digest)
    return Request(model, spec, facts, 2.0, 10.0, iterations, cache)


def hold(conversation: Conversation, answers: list[Completed]) -> tuple[EngineRun, list[Blob], list[Run]]:
    """Answers files with a path of their name and jobs with ``answers``."""
    blobs: list[Blob] = []
    runs: list[Run] = []
    answer: Any = None
    try:
        while True:
            ask = conversation.send(answer)
            if isinstance(ask, Put):
                blobs.append(ask.blob)
                answer = f"/board/{ask.blob.name}"
            else:
                runs.append(ask)
                answer = answers[len(runs) - 1]
    except StopIteration as stop:
        return stop.value, blobs, runs


def ended(lines: list[Line], code: int = 0, reason: str = "") -> Completed:
    return Completed(("x",), code, tuple(lines), (), 1.0, 99.0, reason)


def spoken(*events: dict[str, Any], code: int = 0, reason: str = "") -> Completed:
    return ended([Line(5.0, "stdout", json.dumps(event)) for event in events], code, reason)


HELLO = {"event": "hello", "versions": {"onnxruntime": "1.20"}, "device": "cpu", "key": "k"}
BUILT = {
    "event": "built",
    "seconds": 0.5,
    "cached": False,
    "engine_bytes": 7,
    "precision_found": "fp32",
    "why": "",
    "notes": ["in FP32"],
}
START = {"event": "start", "t_s": 10.0}
STOP = {"event": "stop", "t_s": 12.0, "iterations": 3}
LATENCIES = [{"event": "latencies", "seconds": [0.5, 0.6]}, {"event": "latencies", "seconds": [0.7]}]
DONE = {"event": "done"}
PROBED = spoken(HELLO, DONE)
WHOLE = spoken(HELLO, BUILT, {"event": "warm", "t_s": 9.0, "iterations": 2}, START, STOP, *LATENCIES, DONE)


def bench(name: str, facts: Facts, answers: list[Completed], cache: Path = Path("unused"), **options: Any) -> EngineRun:
    return hold(toolchains.toolchain(name).bench(request(name, facts, cache, **options)), answers)[0]


# Choosing


@pytest.mark.parametrize(
    ("l4t", "name"),
    [("", "onnxruntime"), ("23.1.1", "caffe"), ("28.2.0", "caffe"), ("32.7.1", "tensorrt"), ("36.4.0", "tensorrt")],
)
def test_every_release_has_its_default(l4t: str, name: str) -> None:
    assert toolchains.default(replace(PC, l4t=l4t)) == name


def test_an_unknown_toolchain_is_a_usage_error_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match="did you mean tensorrt") as caught:
        toolchains.toolchain("tensort")
    assert all(name in caught.value.hint for name in toolchains.names())


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("tensorrt", PC),
        ("tensorrt", OLD),
        ("trtexec", PC),
        ("trtexec", OLD),
        ("caffe", PC),
        ("caffe", JETSON),
        ("onnxruntime", OLD),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_asked(name: str, facts: Facts) -> None:
    chain = toolchains.toolchain(name)
    with pytest.raises(UsageError) as caught:
        next(chain.bench(request(name, facts)))
    assert "use" in caught.value.hint


@pytest.mark.parametrize(("name", "facts"), [("tensorrt", JETSON), ("caffe", OLD), ("onnxruntime", PC)])
def test_a_batch_beyond_the_memory_is_refused_before_anything_is_asked(name: str, facts: Facts) -> None:
    with pytest.raises(OutOfMemory, match="batch 5000"):
        next(toolchains.toolchain(name).bench(request(name, facts, batch=5000)))


@pytest.mark.parametrize(("name", "facts"), [("tensorrt", JETSON), ("trtexec", JETSON), ("onnxruntime", PC)])
def test_a_model_in_several_files_is_refused_with_how_to_make_it_one(name: str, facts: Facts) -> None:
    model = replace(load("alexnet", 2), source="model.onnx", beside=("model.data",))
    with pytest.raises(UsageError, match=r"model\.data") as caught:
        hold(toolchains.toolchain(name).bench(request(name, facts, model=model)), [])
    assert "onnx.save" in caught.value.hint


# ONNX Runtime


def test_the_runner_gets_the_request_and_its_lines_become_a_run(tmp_path: Path) -> None:
    asked = request("onnxruntime", PC, tmp_path, batch=4, iterations=3)
    run, blobs, runs = hold(toolchains.toolchain("onnxruntime").bench(asked), [WHOLE])
    assert [blob.name for blob in blobs] == ["runner.zip", "googlenet.onnx"]
    (ask,) = runs
    assert ask.measured
    assert ask.job.argv == ("/usr/bin/python3", "/board/runner.zip")
    sent = json.loads(ask.job.stdin)
    assert sent["model"] == "/board/googlenet.onnx"
    assert (sent["batch"], sent["iterations"], sent["duration_s"], sent["cache"]) == (4, 3, 10.0, "/cache")
    assert run == EngineRun(
        start_s=10.0,
        stop_s=12.0,
        iterations=3,
        latencies_s=(0.5, 0.6, 0.7),
        batch=4,
        scope="host time of one batch",
        precision_found="fp32",
        protocol=run.protocol,
        versions={"onnxruntime": "1.20"},
        built=Built(0.5, False, 7),
        notes=("in FP32",),
        key="k",
    )
    assert run.images_per_s == 4 * 3 / 2.0
    assert run.power_valid


def test_a_network_is_written_once_and_named_by_its_content(tmp_path: Path) -> None:
    paths = []
    for precision in ("fp32", "fp32", "fp16"):
        asked = request("onnxruntime", PC, tmp_path, precision=precision)
        _, blobs, _ = hold(toolchains.toolchain("onnxruntime").bench(asked), [WHOLE])
        path = blobs[1].path
        assert path is not None
        paths.append((path, path.stat().st_mtime_ns))
    assert paths[0] == paths[1] != paths[2]
    assert len(list(tmp_path.iterdir())) == 2


def test_a_users_file_is_put_as_it_is(tmp_path: Path) -> None:
    model = replace(load("googlenet", 2), source=str(tmp_path / "mine.onnx"))
    asked = request("onnxruntime", PC, tmp_path, model=model)
    _, blobs, _ = hold(toolchains.toolchain("onnxruntime").bench(asked), [WHOLE])
    assert (blobs[1].name, blobs[1].path) == ("mine.onnx", tmp_path / "mine.onnx")


def test_a_jetson_is_asked_for_onnx_runtime_before_a_model_is_sent(tmp_path: Path) -> None:
    asked = request("onnxruntime", JETSON, tmp_path)
    missing = spoken({"event": "failed", "kind": "missing", "what": "none here", "hint": "install it"}, code=1)
    with pytest.raises(EngineError, match="none here"):
        hold(toolchains.toolchain("onnxruntime").bench(asked), [missing])
    assert not list(tmp_path.iterdir())
    _, _, runs = hold(toolchains.toolchain("onnxruntime").bench(asked), [PROBED, WHOLE])
    assert [run.measured for run in runs] == [False, True]


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("out_of_memory", OutOfMemory),
        ("model", UsageError),
        ("engine", EngineError),
        ("unsupported", UnsupportedModel),
        ("missing", ToolMissing),
        ("permission", DeviceDenied),
        ("version", PlanMismatch),
    ],
)
def test_the_runners_failures_become_errors_with_their_hint(
    kind: str, error: type[EdgeperfError], tmp_path: Path
) -> None:
    said = spoken(HELLO, {"event": "failed", "kind": kind, "what": "it broke", "hint": "mend it"}, code=1)
    with pytest.raises(error, match="it broke") as caught:
        bench("onnxruntime", PC, [said], tmp_path)
    assert type(caught.value) is error
    assert caught.value.hint == "mend it"


def test_a_runner_that_died_without_a_word_is_quoted(tmp_path: Path) -> None:
    dead = ended([Line(1.0, "stderr", "Traceback"), Line(1.0, "stderr", "SyntaxError: here")], code=1)
    with pytest.raises(EngineError, match="exit code 1") as caught:
        bench("onnxruntime", PC, [dead], tmp_path)
    assert "SyntaxError: here" in caught.value.hint


def test_a_killed_runner_ran_out_of_memory(tmp_path: Path) -> None:
    with pytest.raises(OutOfMemory):
        bench("onnxruntime", PC, [spoken(HELLO, code=-9, reason="signal 9")], tmp_path)


def test_what_libraries_print_between_is_passed_over(tmp_path: Path) -> None:
    noisy = replace(WHOLE, lines=(Line(1.0, "stdout", "{warning}"), Line(1.0, "stdout", "hello"), *WHOLE.lines))
    assert bench("onnxruntime", PC, [noisy], tmp_path).iterations == 3


def test_an_interrupted_run_keeps_what_there_was(tmp_path: Path) -> None:
    said = spoken(HELLO, BUILT, START, STOP, *LATENCIES, {**DONE, "interrupted": True}, reason="cancelled")
    run = bench("onnxruntime", PC, [said], tmp_path)
    assert (run.interrupted, run.iterations, run.images_per_s) == (True, 3, 3.0)


@pytest.mark.parametrize("count", range(7))
def test_a_run_cut_off_anywhere_claims_nothing(count: int, tmp_path: Path) -> None:
    events: list[dict[str, Any]] = [HELLO, BUILT, {"event": "warm", "t_s": 9.0}, START, STOP, *LATENCIES]
    run = bench("onnxruntime", PC, [spoken(*events[:count], code=-9, reason="cancelled")], tmp_path)
    assert (run.interrupted, run.iterations, run.latencies_s, run.images_per_s) == (True, 0, (), None)


# TensorRT: built in one process, measured in another

TRT = {"event": "hello", "versions": {"tensorrt": "8.2.1"}, "device": "sm_53", "key": "abc"}
MADE = {**BUILT, "precision_found": None, "why": "no engine of it was kept", "workspace_bytes": 1 << 29, "notes": []}
TOLD = {"event": "layers", "rows": [{"name": "c", "type": "Convolution", "precision": "fp16", "seconds": 0.1}]}
BUILD_SAID = spoken(TRT, MADE, DONE)
BENCH_SAID = spoken(TRT, {"event": "warm", "t_s": 9.0, "iterations": 2}, START, STOP, *LATENCIES, TOLD, DONE)


def sent(run: Run) -> dict[str, Any]:
    asked: dict[str, Any] = json.loads(run.job.stdin)
    return asked


def test_an_engine_is_built_in_one_process_and_measured_in_another() -> None:
    run, blobs, runs = hold(
        toolchains.toolchain("tensorrt").bench(request("tensorrt", JETSON)), [BUILD_SAID, BENCH_SAID]
    )
    assert [blob.name for blob in blobs] == ["runner.zip"]
    assert [(sent(ask)["action"], ask.measured) for ask in runs] == [("build", False), ("bench", True)]
    assert all(ask.job.argv == ("/usr/bin/python3", "/board/runner.zip") for ask in runs)
    assert json.loads(sent(runs[0])["graph"])["name"] == "googlenet"
    assert (run.start_s, run.stop_s, run.latencies_s) == (10.0, 12.0, (0.5, 0.6, 0.7))
    assert (run.precision_found, run.key) == ("fp16", "abc")
    assert run.built == Built(0.5, False, 7, "", 1 << 29)


def test_a_users_file_goes_to_tensorrt_with_the_shapes_of_its_inputs() -> None:
    model = replace(load("googlenet", 2), source="mine.onnx")
    asked = request("tensorrt", JETSON, model=model)
    _, blobs, runs = hold(toolchains.toolchain("tensorrt").bench(asked), [BUILD_SAID, BENCH_SAID])
    assert [blob.name for blob in blobs] == ["runner.zip", "mine.onnx"]
    assert [sent(ask)["graph"] for ask in runs] == [None, None]
    assert [sent(ask)["inputs"] for ask in runs] == [{"data": [2, 3, 224, 224]}] * 2


def test_a_build_is_not_a_measured_run() -> None:
    asked = request("tensorrt", JETSON)
    built, _, runs = hold(toolchains.toolchain("tensorrt").build(asked), [BUILD_SAID])
    assert [run.measured for run in runs] == [False]
    assert (built.iterations, built.images_per_s) == (0, None)
    assert built.built is not None


def test_the_trial_of_a_build_is_no_longer_than_the_run_asked_for() -> None:
    asked = replace(request("tensorrt", JETSON), warmup_s=0.0, duration_s=0.5, iterations=3)
    assert builds.trial(asked) == replace(asked, iterations=None)
    longer = builds.trial(replace(asked, warmup_s=9.0, duration_s=60.0))
    assert (longer.warmup_s, longer.duration_s) == (builds.WARMUP_S, builds.DURATION_S)


def test_of_several_builds_the_fastest_is_kept_and_measured() -> None:
    asked = replace(request("tensorrt", JETSON), options=Options(builds=3))

    def timed(stop_s: float) -> Completed:
        return spoken(TRT, START, {**STOP, "t_s": stop_s}, *LATENCIES, DONE)

    answers = [
        *(BUILD_SAID, timed(12.0)),
        *(BUILD_SAID, timed(11.0)),
        *(BUILD_SAID, timed(13.0)),
        *(BUILD_SAID, BENCH_SAID),
    ]
    run, _, runs = hold(toolchains.toolchain("tensorrt").bench(asked), answers)
    actions = [(sent(ask)["action"], sent(ask)["variant"], ask.measured) for ask in runs]
    tried = [(action, number, False) for number in range(3) for action in ("build", "bench")]
    assert actions == [*tried, ("choose", 1, False), ("bench", None, True)]
    assert run.built is not None
    assert run.built.builds_per_s == (3.0, 6.0, 2.0)


def test_what_was_not_followed_of_the_protocol_is_not_claimed() -> None:
    options = Options().with_protocol(cuda_graph=True)
    asked = replace(request("tensorrt", JETSON), options=options)
    loaded = {"event": "loaded", "cuda_graph": False, "notes": ["without a CUDA graph: no"]}
    built = spoken(TRT, {**MADE, "workspace_bytes": 64 << 20}, DONE)
    ran = spoken(TRT, loaded, START, STOP, *LATENCIES, TOLD, DONE)
    run, _, _ = hold(toolchains.toolchain("tensorrt").bench(asked), [built, ran])
    assert run.effective == replace(options.protocol, cuda_graph=False, workspace_bytes=64 << 20)
    assert "without a CUDA graph: no" in run.notes
    assert run.effective is not None
    assert run.effective.fingerprint() in run.protocol


def test_in_a_container_everything_runs_in_docker_with_the_cache_folder_only() -> None:
    asked = replace(request("tensorrt", JETSON), options=Options(container="l4t-tensorrt:r8.5.2"))
    _, _, runs = hold(toolchains.toolchain("tensorrt").bench(asked), [BUILD_SAID, BENCH_SAID])
    for ask in runs:
        assert ask.job.argv[:2] == ("docker", "run")
        assert ask.job.argv[ask.job.argv.index("--volume") + 1] == "/cache:/cache"
        assert ask.job.argv[-4:] == ("--entrypoint", "python3", "l4t-tensorrt:r8.5.2", "/board/runner.zip")


@pytest.mark.parametrize("name", ["caffe", "onnxruntime"])
def test_options_of_tensorrt_are_refused_where_they_mean_nothing(name: str) -> None:
    with pytest.raises(UsageError, match="options of TensorRT"):
        toolchains.toolchain(name).check(Options(builds=2))
    toolchains.toolchain(name).check(Options(shapes={"data": (1, 3)}))
