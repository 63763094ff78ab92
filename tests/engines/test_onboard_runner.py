from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engines.emit.onnx import emit_onnx
from engines.network import Conv, Input, Network, ReLU
from engines.onboard.key import engine_key
from engines.spec import EngineSpec
from engines.weights import draw, recipe
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


CONTENT = EngineSpec("tiny", "fp32", 2, "onnxruntime", 0, "digest").content({"gpu": "here"})


def start(folder: Path, model: str = "tiny.onnx", *options: str, **changes: Any) -> subprocess.Popen[str]:
    request = {
        "action": "bench",
        "toolchain": "onnxruntime",
        "model": str(folder / model),
        "graph": None,
        "inputs": {},
        "precision": "fp32",
        "batch": 2,
        "seed": 0,
        "content": CONTENT,
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
    assert [e["event"] for e in said] == ["hello", "built", "outputs", "warm", "start", "stop", "latencies", "done"]
    hello, built, _, warm, begin, stop, latencies, _ = said
    assert set(hello["versions"]) == {"onnxruntime", "numpy", "python"}
    assert (hello["board"], hello["key"]) == (CONTENT["board"], engine_key(CONTENT))
    assert built["engine_bytes"] == (folder / "tiny.onnx").stat().st_size
    assert (built["notes"], built["cached"]) == ([], False)
    assert warm["t_s"] <= begin["t_s"] <= stop["t_s"] - 0.05
    assert len(latencies["seconds"]) == stop["iterations"] >= 10
    assert 0 < sum(latencies["seconds"]) <= stop["t_s"] - begin["t_s"]


def test_iterations_are_exact_and_need_no_duration(folder: Path) -> None:
    said = events(start(folder, iterations=3, duration_s=3600.0))
    assert next(e for e in said if e["event"] == "stop")["iterations"] == 3


def test_at_least_the_minimum_of_iterations_is_run(folder: Path) -> None:
    said = events(start(folder, duration_s=0.0, min_iterations=17))
    assert next(e for e in said if e["event"] == "stop")["iterations"] == 17


def test_the_outputs_of_the_first_image_are_those_of_the_network(folder: Path) -> None:
    (told,) = next(e for e in events(start(folder, iterations=1)) if e["event"] == "outputs")["tensors"]
    kernel, bias = draw(recipe(TINY.layers[0], ((2, 3, 8, 8),), 0, 0))
    inside = np.maximum(0.7 * kernel.sum(axis=(1, 2, 3)) + bias, 0)
    assert (told["name"], told["shape"], told["dtype"], told["index"]) == ("relu", [2, 4, 6, 6], "float32", 1)
    np.testing.assert_allclose(told["values"], np.repeat(inside, 36), rtol=1e-5, atol=1e-6)


def test_an_fp16_graph_on_a_cpu_is_computed_in_fp32_and_that_is_said(folder: Path) -> None:
    built = events(start(folder, "half.onnx", precision="fp16"))[1]
    assert "FP32" in built["notes"][0]


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


def test_an_open_dimension_takes_the_shape_that_is_given(folder: Path) -> None:
    write_with_open_dimensions(folder / "wide.onnx", ["n", "width"])
    said = events(start(folder, "wide.onnx", iterations=1, inputs={"x": [2, 5]}))
    (told,) = next(e for e in said if e["event"] == "outputs")["tensors"]
    assert (told["shape"], told["values"]) == ([2, 5], [-1] * 5)


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


def test_without_tensorrt_it_says_where_it_comes_from(folder: Path) -> None:
    said = failure(folder, "tiny.onnx", "-I", "-S", toolchain="tensorrt")
    assert (said["kind"], "tensorrt" in said["what"].lower()) == ("missing", True)
    assert said["hint"]


def test_an_unknown_toolchain_is_refused_with_those_there_are(folder: Path) -> None:
    said = failure(folder, toolchain="abacus")
    assert (said["kind"], "trtexec" in said["hint"]) == ("missing", True)
