"""TensorRT on the board: what is kept, what is tried again, and how it gives up. Over the stand-in of TensorRT."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from engines.network import Conv, FullyConnected, Input, Network, ReLU
from engines.onboard import trt
from engines.onboard.cuda import CudaError, choose, explained
from engines.onboard.failure import Failed
from engines.onboard.memory import SMALL_WORKSPACE_BYTES
from engines.onboard.outputs import MOST, tensors
from engines.onboard.trt_library import Log
from engines.spec import Protocol
from tests.engines.trt.building import Machine
from tests.engines.trt.fake_gpu import Gpu
from tests.engines.trt.rig import Rig, cuda

TINY = Network(
    "tiny",
    (Input("data", (3, 8, 8)),),
    (Conv.square("conv", "data", 4, 3), ReLU("relu", ("conv",)), FullyConnected("fc", ("relu",), 5)),
    ("fc",),
)
VERSIONS = ("7.1.3", "8.2.1", "10.3.0", "11.4.1")


@pytest.fixture(params=VERSIONS)
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Rig:
    return Rig(tmp_path / "cache", request.param)


def one(tmp_path: Path, version: str = "8.2.1", **machine: Any) -> Rig:
    return Rig(tmp_path / "cache", version, machine=Machine(gpu=Gpu(), **machine))


def test_what_was_built_is_not_built_again(rig: Rig) -> None:
    (first,) = rig.ask("build", rig.network(TINY))["built"]
    (second,) = rig.ask("build", rig.network(TINY))["built"]
    assert (first["cached"], first["why"]) == (False, "no engine of it was kept")
    assert (second["cached"], second["why"]) == (True, "")
    assert second["engine_bytes"] == first["engine_bytes"] == Path(first["path"]).stat().st_size
    assert len(rig.machine.builds) == 1


def test_another_batch_is_built_and_it_says_why(rig: Rig) -> None:
    rig.ask("build", rig.network(TINY))
    (built,) = rig.ask("build", rig.network(TINY, batch=2))["built"]
    assert (built["cached"], "batch" in built["why"]) == (False, True)


def test_nothing_runs_that_was_not_built(rig: Rig) -> None:
    failed = rig.refused("bench", rig.network(TINY))
    assert (failed.kind, "no engine" in failed.what) == ("engine", True)


def test_the_key_is_that_of_this_board(rig: Rig) -> None:
    (hello,) = rig.ask("probe", rig.network(TINY))["hello"]
    assert hello["board"]["gpu"] == "board sm_53"
    assert (hello["board"]["active_sms"], hello["device"]) == ("1", "sm_53, 1 multiprocessor")
    assert hello["board"]["tensorrt"] == hello["versions"]["tensorrt"] == rig.tensorrt.__version__
    assert hello["key"] != rig.ask("probe", rig.network(TINY, batch=2))["hello"][0]["key"]


def test_a_run_tells_every_batch_and_gives_all_memory_back(rig: Rig) -> None:
    said = rig.run(rig.network(TINY), Protocol(transfers=True), iterations=7)
    (stop,), (latencies,), (host,) = said["stop"], said["latencies"], said["host"]
    assert stop["iterations"] == len(latencies["seconds"]) == len(host["seconds"]) == 7
    assert latencies["seconds"] == [pytest.approx(rig.machine.pace_s)] * 7
    assert not any(rig.gpu.left().values())


def test_the_best_of_several_engines_is_kept_and_the_others_are_not(rig: Rig) -> None:
    engine = rig.network(TINY)
    paths = [rig.ask("build", engine, variant=number)["built"][0]["path"] for number in range(3)]
    rig.ask("bench", engine, variant=1)
    content = Path(paths[1]).read_bytes()
    (chosen,) = rig.ask("choose", engine, variant=1, built={"seconds": 3.0, "workspace_bytes": 7, "notes": ["n"]})[
        "built"
    ]
    assert Path(chosen["path"]).read_bytes() == content
    assert not any(Path(path).exists() for path in paths)
    (kept,) = rig.ask("build", engine)["built"]
    assert (kept["cached"], kept["workspace_bytes"], kept["notes"]) == (True, 7, ["n"])


def test_several_engines_are_built_without_the_times_of_earlier_builds(tmp_path: Path) -> None:
    rig = one(tmp_path)
    rig.ask("build", rig.network(TINY), variant=0)
    assert not list(rig.folder.rglob("timing*"))
    rig.ask("build", rig.network(TINY))
    assert [path.stat().st_size > 0 for path in rig.folder.rglob("timing*")] == [True]


@pytest.mark.parametrize("content", [b"", b"damaged", b"\x00" * 100])
def test_damaged_times_of_tactics_do_not_stop_a_build(tmp_path: Path, content: bytes) -> None:
    rig = one(tmp_path)
    rig.ask("build", rig.network(TINY))
    (times,) = rig.folder.rglob("timing*")
    times.write_bytes(content)
    assert not rig.ask("build", rig.network(TINY, batch=2))["built"][0]["cached"]
    assert times.read_bytes() != content


def test_where_the_builder_lacks_memory_a_small_workspace_is_tried_once_and_that_is_said(tmp_path: Path) -> None:
    rig = one(tmp_path, most_workspace_bytes=SMALL_WORKSPACE_BYTES)
    (built,) = rig.ask("build", rig.network(TINY))["built"]
    assert built["workspace_bytes"] == SMALL_WORKSPACE_BYTES
    assert "64 MiB instead of 512 MiB" in built["notes"][0]


def test_where_that_does_not_help_it_fails_with_tensorrts_last_lines(tmp_path: Path) -> None:
    rig = one(tmp_path, most_workspace_bytes=SMALL_WORKSPACE_BYTES - 1)
    failed = rig.refused("build", rig.network(TINY))
    assert (failed.kind, bool(failed.log)) == ("out_of_memory", True)
    assert "smaller batch" in failed.hint


def test_a_network_typed_fp16_is_said_to_be_another_measurement(tmp_path: Path) -> None:
    typed, flagged = (
        one(tmp_path / version, version).ask("build", one(tmp_path / version).network(TINY, "fp16"))["built"][0]
        for version in made(tmp_path, "11.4.1", "10.3.0")
    )
    assert "not the same measurement" in typed["notes"][0]
    assert flagged["notes"] == []


def made(tmp_path: Path, *names: str) -> tuple[str, ...]:
    for name in names:
        (tmp_path / name).mkdir()
    return names


def test_a_gpu_without_fast_fp16_and_tf32_are_told(tmp_path: Path) -> None:
    rig = one(tmp_path, fast_fp16=False)
    notes = rig.ask("build", rig.network(TINY, "fp16"), Protocol(tf32=True))["built"][0]["notes"]
    assert ["TF32" in notes[0], "slower" in notes[1]] == [True, True]


def test_with_a_cuda_graph_a_way_that_can_capture_one_comes_first(tmp_path: Path) -> None:
    rig = one(tmp_path)
    (loaded,) = rig.run(rig.network(TINY), Protocol(cuda_graph=True))["loaded"]
    assert (loaded["cuda_graph"], loaded["notes"]) == (True, [])


def test_pycuda_runs_without_a_cuda_graph_and_says_so(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "cache", "8.2.1", "pycuda")
    (loaded,) = rig.run(rig.network(TINY), Protocol(cuda_graph=True))["loaded"]
    assert loaded["cuda_graph"] is False
    assert "pycuda" in loaded["notes"][0]


def test_an_interrupted_run_keeps_what_there_was_and_is_not_profiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = one(tmp_path)
    rig.ask("build", rig.network(TINY))
    interrupt = SimpleNamespace(seen=False)
    heard: list[tuple[str, dict[str, Any]]] = []

    def say(event: str, **fields: Any) -> None:
        heard.append((event, fields))
        interrupt.seen |= event == "start"

    request = {**rig.network(TINY), "action": "bench", "cache": str(rig.folder), "cuda": "ctypes", "variant": None}
    request |= {"options": vars(Protocol()), "input_value": 0.7, "warmup_s": 0.0, "duration_s": 9e9}
    monkeypatch.setitem(__import__("sys").modules, "tensorrt", rig.tensorrt)
    with cuda("ctypes", rig.gpu):
        trt.answer({**request, "iterations": None, "min_iterations": 10}, interrupt, say)  # type: ignore[arg-type]
    assert [event for event, _ in heard][-2:] == ["start", "stop"]
    assert heard[-1][1]["iterations"] == 0


def onnx_file(path: Path, dims: list[Any], operation: str = "Relu") -> Path:
    from onnx import TensorProto, helper, save

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name in ("x", "y"))
    graph = helper.make_graph([helper.make_node(operation, ["x"], ["y"], name="only")], "g", [x], [y])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6), str(path))
    return path


def test_open_dimensions_of_a_users_model_become_those_asked_for(rig: Rig, tmp_path: Path) -> None:
    model = rig.model(onnx_file(tmp_path / "m.onnx", ["n", 3, "width"]), {"x": [2, 3, 5]}, batch=2)
    (outputs,) = rig.run(model)["outputs"]
    (told,) = outputs["tensors"]
    assert told["shape"] == [2, 3, 5]
    np.testing.assert_allclose(told["values"], 0.7, rtol=1e-6)


@pytest.mark.parametrize("asked", [{}, {"x": [2, 4]}, {"x": [2, 3, 1]}, {"x": [0, 3]}])
def test_shapes_that_do_not_fit_are_refused_with_the_option_to_give(
    tmp_path: Path, asked: dict[str, list[int]]
) -> None:
    rig = one(tmp_path)
    failed = rig.refused("build", rig.model(onnx_file(tmp_path / "m.onnx", ["n", 3]), asked))
    assert (failed.kind, "--shape x:" in failed.hint) == ("model", True)


def test_an_operator_that_tensorrt_does_not_take_is_named_with_its_node(rig: Rig, tmp_path: Path) -> None:
    failed = rig.refused("build", rig.model(onnx_file(tmp_path / "m.onnx", [1, 3], "Det"), {}))
    assert (failed.kind, "Det" in failed.what) == ("unsupported", True)
    assert failed.log


def test_a_file_that_is_no_model_is_the_models_fault(rig: Rig, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"not a model")
    failed = rig.refused("build", rig.model(path, {}))
    assert (failed.kind, str(path) in failed.what) == ("model", True)


def test_where_types_come_from_the_file_an_fp32_file_is_not_run_as_fp16(tmp_path: Path) -> None:
    rig = one(tmp_path, "11.4.1")
    failed = rig.refused("build", rig.model(onnx_file(tmp_path / "m.onnx", [1, 3]), {}, "fp16"))
    assert (failed.kind, "autocast" in failed.hint) == ("unsupported", True)


def test_a_layer_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    rig = one(tmp_path)
    wide = Network("wide", (Input("data", (3, 4)),), (FullyConnected("fc", ("data",), 5, axis=2),), ("fc",))
    failed = rig.refused("build", rig.network(wide))
    assert (failed.kind, "fc" in failed.what) == ("unsupported", True)


def test_a_plan_of_another_version_is_refused_as_that(tmp_path: Path) -> None:
    old, new = (one(tmp_path / name, name) for name in made(tmp_path, "8.2.1", "8.5.2"))
    plan, place = (Path(r.ask("build", r.network(TINY), variant=0)["built"][0]["path"]) for r in (old, new))
    place.write_bytes(plan.read_bytes())
    failed = new.refused("bench", new.network(TINY), variant=0)
    assert (failed.kind, bool(failed.log)) == ("version", True)


def test_a_plan_of_another_model_of_device_is_refused_although_tensorrt_only_warns(tmp_path: Path) -> None:
    rig = one(tmp_path)
    path = Path(rig.ask("build", rig.network(TINY), variant=0)["built"][0]["path"])
    there = one(tmp_path, model="another board")
    assert there.refused("bench", there.network(TINY), variant=0).kind == "version"
    assert path.exists()


def test_an_engine_that_was_not_built_among_several_is_refused(tmp_path: Path) -> None:
    rig = one(tmp_path)
    assert rig.refused("bench", rig.network(TINY), variant=3).kind == "engine"


def test_what_fails_first_is_told_although_nothing_can_be_freed_after_it(tmp_path: Path) -> None:
    rig = one(tmp_path)
    rig.ask("build", rig.network(TINY))
    rig.gpu.faults.update({"cudaEventRecord": 999, "cudaFree": 400, "cudaFreeHost": 400})
    assert "cudaEventRecord" in rig.refused("bench", rig.network(TINY)).what


def test_a_tensorrt_that_is_too_old_is_refused(tmp_path: Path) -> None:
    rig = one(tmp_path)
    rig.tensorrt.__dict__["__version__"] = "6.0.1.10"
    failed = rig.refused("probe", rig.network(TINY))
    assert (failed.kind, "6.0.1" in failed.what) == ("version", True)


@pytest.mark.parametrize("number", [35, 100, 999])
def test_without_a_device_tensorrt_is_not_touched(tmp_path: Path, number: int) -> None:
    rig = one(tmp_path)
    rig.gpu.faults["cudaGetDeviceCount"] = number
    failed = rig.refused("probe", rig.network(TINY))
    assert str(number) in failed.what
    assert failed.kind in ("device", "permission")  # the machine of the test may have a GPU that it may not open


def test_a_device_file_that_may_not_be_opened_is_the_cause_only_where_cuda_does_not_start(tmp_path: Path) -> None:
    denied, absent = str(tmp_path / "absent" / ".."), str(tmp_path / "nothing")
    failed = explained("cudaGetDeviceCount", CudaError(999, "cudaErrorUnknown"), [absent])
    assert failed.kind == "device"
    assert explained("cudaEventRecord", CudaError(700, "cudaErrorIllegalAddress"), [denied]).kind == "device"
    assert explained("cudaMalloc", CudaError(2, "cudaErrorMemoryAllocation"), [denied]).kind == "out_of_memory"


def test_an_unknown_way_to_cuda_is_refused_with_those_there_are() -> None:
    with pytest.raises(Failed) as caught:
        choose("abacus")
    assert "pycuda, cuda-python, ctypes" in caught.value.hint


def test_want_of_memory_for_a_tactic_is_no_cause_where_there_is_another(tmp_path: Path) -> None:
    tensorrt = one(tmp_path).tensorrt
    severity, log = tensorrt.ILogger.Severity, Log(tensorrt)
    log.logger.log(severity.WARNING, "a warning of something else")
    log.logger.log(severity.WARNING, "Device memory is insufficient to use tactic.")
    assert log.failed("it stopped").kind == "out_of_memory"
    log.logger.log(severity.ERROR, "Version tag does not match.")
    failed = log.failed("it stopped")
    assert (failed.kind, len(failed.log)) == ("version", 2)
    assert failed.what == "it stopped: Version tag does not match."


def test_of_large_outputs_every_nth_number_of_the_first_image_is_told() -> None:
    numbers = np.arange(2 * 10000, dtype=np.float32).reshape(2, 100, 100)
    (told,) = tensors([("y", numbers)], 2)
    assert (told["index"], len(told["values"]) <= MOST) == (3, True)
    assert told["values"][:3] == [0.0, 3.0, 6.0]
    (whole,) = tensors([("z", np.zeros((), np.int64))], 2)
    assert (whole["shape"], whole["values"]) == ([], [0])
