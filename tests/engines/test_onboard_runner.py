from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engines.emit.onnx import emit_onnx
from engines.network import Conv, Input, Network, ReLU
from remote.bundle import runnable

TINY = Network(
    "tiny",
    (Input("data", (3, 8, 8)),),
    (Conv.square("conv", "data", 4, 3), ReLU("relu", ("conv",))),
    ("relu",),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("board")
    (place / "runner.zip").write_bytes(runnable("engines.onboard", "runner", {}))
    emit_onnx(TINY, 2, "fp32", 0, place / "tiny.onnx")
    emit_onnx(TINY, 2, "fp16", 0, place / "half.onnx")
    return place


def start(folder: Path, model: str = "tiny.onnx", *options: str, **changes: Any) -> subprocess.Popen[str]:
    request = {
        "action": "bench",
        "toolchain": "onnxruntime",
        "model": str(folder / model),
        "graph": None,
        "precision": "fp32",
        "batch": 2,
        "seed": 0,
        "key": "k",
        "cache": str(folder),
        "input_value": 0.7,
        "warmup_s": 0.0,
        "duration_s": 0.05,
        "iterations": None,
        "min_iterations": 10,
    }
    process = subprocess.Popen(
        [sys.executable, *options, str(folder / "runner.zip")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps({**request, **changes}))
    process.stdin.close()
    process.stdin = None
    return process


def events(process: subprocess.Popen[str], code: int = 0) -> list[dict[str, Any]]:
    out, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    return [json.loads(line) for line in out.splitlines()]


def test_a_bench_says_what_it_does_in_order_and_one_latency_per_iteration(folder: Path) -> None:
    said = events(start(folder))
    assert [e["event"] for e in said] == ["hello", "built", "warm", "start", "stop", "latencies", "done"]
    hello, built, warm, begin, stop, latencies, _ = said
    assert set(hello["versions"]) == {"onnxruntime", "numpy", "python"}
    assert built["engine_bytes"] == (folder / "tiny.onnx").stat().st_size
    assert built["precision_found"] == "fp32"
    assert warm["t_s"] <= begin["t_s"] <= stop["t_s"] - 0.05
    assert len(latencies["seconds"]) == stop["iterations"] >= 10
    assert 0 < sum(latencies["seconds"]) <= stop["t_s"] - begin["t_s"]


def test_iterations_are_exact_and_need_no_duration(folder: Path) -> None:
    said = events(start(folder, iterations=3, duration_s=3600.0))
    assert next(e for e in said if e["event"] == "stop")["iterations"] == 3


def test_at_least_the_minimum_of_iterations_is_run(folder: Path) -> None:
    said = events(start(folder, duration_s=0.0, min_iterations=17))
    assert next(e for e in said if e["event"] == "stop")["iterations"] == 17


def test_an_fp16_graph_on_a_cpu_is_found_to_be_fp32_and_that_is_said(folder: Path) -> None:
    built = events(start(folder, "half.onnx", precision="fp16"))[1]
    assert built["precision_found"] == "fp32"
    assert "FP32" in built["note"]


def test_build_loads_and_runs_nothing(folder: Path) -> None:
    said = events(start(folder, action="build"))
    assert [e["event"] for e in said] == ["hello", "built", "done"]


def test_probe_only_says_hello(folder: Path) -> None:
    said = events(start(folder, action="probe", model="absent.onnx"))
    assert [e["event"] for e in said] == ["hello", "done"]


def test_ctrl_c_ends_the_loop_and_keeps_what_was_measured(folder: Path) -> None:
    process = start(folder, duration_s=3600.0)
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line)["event"] == "start":
            break
    process.send_signal(signal.SIGINT)
    said = events(process)
    assert said[-1] == {"event": "done", "interrupted": True}
    kept = sum(len(e["seconds"]) for e in said if e["event"] == "latencies")
    assert said[0]["event"] == "stop"
    assert kept == said[0]["iterations"]


def write_with_open_dimensions(path: Path, dims: list[str | int]) -> None:
    from onnx import TensorProto, helper, save

    node = helper.make_node("Neg", ["x"], ["y"])
    x, y = (helper.make_tensor_value_info(name, TensorProto.INT64, dims) for name in ("x", "y"))
    graph = helper.make_graph([node], "g", [x], [y])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=6), str(path))


def failure(folder: Path, model: str = "tiny.onnx", *options: str, **changes: Any) -> dict[str, Any]:
    last = events(start(folder, model, *options, **changes), code=1)[-1]
    assert last["event"] == "failed"
    assert last["what"]
    return last


def test_an_open_batch_is_filled_in(folder: Path) -> None:
    write_with_open_dimensions(folder / "open.onnx", ["n", 3])
    assert events(start(folder, "open.onnx", iterations=1))[-1] == {"event": "done"}


def test_any_other_open_dimension_is_the_models_fault(folder: Path) -> None:
    write_with_open_dimensions(folder / "wide.onnx", ["n", "width"])
    said = failure(folder, "wide.onnx")
    assert said["kind"] == "model"
    assert "width" in said["what"]


def test_data_that_do_not_fit_the_memory_are_out_of_memory(folder: Path) -> None:
    write_with_open_dimensions(folder / "open.onnx", ["n", 3])
    assert failure(folder, "open.onnx", batch=1 << 50)["kind"] == "out_of_memory"


@pytest.mark.parametrize("content", [b"", b"not a model", b"\x08\x06" * 50], ids=["empty", "text", "proto"])
def test_a_corrupt_file_is_the_models_fault(folder: Path, content: bytes) -> None:
    (folder / "bad.onnx").write_bytes(content)
    said = failure(folder, "bad.onnx")
    assert said["kind"] == "model"
    assert "bad.onnx" in said["what"]


def test_without_onnx_runtime_it_says_what_to_install(folder: Path) -> None:
    said = failure(folder, "tiny.onnx", "-I", "-S")
    assert said["kind"] == "missing"
    assert "pip install onnxruntime" in said["hint"]


def test_tensorrt_on_a_real_board_is_said_to_be_missing(folder: Path) -> None:
    said = failure(folder, toolchain="tensorrt")
    assert (said["kind"], "tensorrt" in said["what"]) == ("missing", True)
