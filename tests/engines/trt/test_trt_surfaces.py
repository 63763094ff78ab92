"""Build and run on every TensorRT surface there is: nothing is called that a version has not, or has otherwise."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from engines.cost import Precision
from engines.network import Network
from engines.spec import Protocol
from tests.engines.trt import standin, surfaces
from tests.engines.trt.building import Machine
from tests.engines.trt.fake_gpu import Gpu
from tests.engines.trt.networks import like_alexnet, like_googlenet, of_all_kinds
from tests.engines.trt.rig import Answers, Rig

_NONE = pytest.param("", marks=pytest.mark.skip(reason="no recorded surfaces: EDGEPERF_TRT_API is not set"))
RECORDED = tuple(surfaces.RECORDED) or (_NONE,)
ALL = (*surfaces.SMALL, *RECORDED)
PRECISIONS: tuple[Precision, ...] = ("fp32", "fp16")
BATCHES = 6

# --- the promise ------------------------------------------------------------------------------------------------------


def holds(rig: Rig, network: Network, precision: Precision, said: Answers) -> None:
    """What every build and run must have come to."""
    (built,), (done) = said["built"], rig.machine.builds
    typed = not hasattr(rig.tensorrt.BuilderFlag, "FP16")
    assert rig.machine.said == [], "TensorRT had nothing to complain of"
    assert done[0]["flags"] == (["FP16"] if precision == "fp16" and not typed else []), "TF32 is off"
    assert done[0]["workspace"] == Protocol().workspace_bytes == built["workspace_bytes"]
    assert done[0]["verbosity"] in ("DETAILED", "VERBOSE", "None")
    assert (done[0]["timing_cache"] is None) == (not hasattr(rig.tensorrt.IBuilderConfig, "create_timing_cache"))
    assert any("FP16" in note for note in built["notes"]) == (precision == "fp16" and typed)
    assert said["latencies"] == [{"seconds": [pytest.approx(rig.machine.pace_s)] * BATCHES}]
    assert len(said["host"][0]["seconds"]) == BATCHES
    assert [tensor["name"] for tensor in said["outputs"][0]["tensors"]] == list(network.outputs)
    rows = said["layers"][0]["rows"]
    assert sum(row["seconds"] for row in rows) == pytest.approx(rig.machine.pace_s), "the mean of a batch"
    if hasattr(rig.tensorrt.ICudaEngine, "create_engine_inspector"):
        convolutions = {row["precision"] for row in rows if row["type"] == "convolution"}
        assert convolutions == {precision}
    assert rig.gpu.left() == {}


@pytest.mark.parametrize("surface", ALL)
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("make", [like_alexnet, like_googlenet, of_all_kinds])
def test_networks_are_built_and_run_on_every_surface(
    surface: str, precision: Precision, make: Any, tmp_path: Path
) -> None:
    rig, network = Rig(tmp_path / "cache", surface), make()
    holds(rig, network, precision, rig.run(rig.network(network, precision), iterations=BATCHES))


@pytest.mark.parametrize("surface", RECORDED)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_record_of_names_alone_is_enough(surface: str, precision: Precision, tmp_path: Path) -> None:
    rig = Rig(tmp_path / "cache", surfaces.bare(surfaces.record(surface)))
    network = like_googlenet()
    holds(rig, network, precision, rig.run(rig.network(network, precision), iterations=BATCHES))


@pytest.mark.parametrize("surface", ALL)
@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_users_model_with_an_open_batch_is_built_and_run(surface: str, precision: Precision, tmp_path: Path) -> None:
    rig, path = Rig(tmp_path / "cache", surface), tmp_path / "model.onnx"
    typed = not hasattr(rig.tensorrt.BuilderFlag, "FP16")
    if precision == "fp16" and typed:
        write_model(path)
        failed = rig.refused("build", rig.model(path, {"a": [2, 3], "b": [2, 3]}, precision, 2))
        assert failed.kind == "unsupported"
        assert "FP16" in failed.what
        assert "autocast" in failed.hint
        write_model(path, TensorProto.FLOAT16)
    else:
        write_model(path)
    said = rig.run(rig.model(path, {"a": [2, 3], "b": [2, 3]}, precision, 2), iterations=2)
    (tensor,) = said["outputs"][0]["tensors"]
    assert tensor["shape"] == [2, 3]
    assert tensor["values"] == pytest.approx([1.4] * 3, rel=1e-3)
    assert rig.machine.builds[-1]["profiles"] == [{"a": (2, 3), "b": (2, 3)}]
    assert rig.machine.said == []
    assert rig.gpu.left() == {}


def write_model(path: Path, dtype: int = TensorProto.FLOAT, operation: str = "Add") -> None:
    """Writes a model with two inputs whose batch is open, and a shape of 64-bit numbers inside."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in ("a", "b", "c")]
    nodes = [
        helper.make_node("Cast", ["a"], ["a2"], name="a2", to=dtype),
        helper.make_node("Cast", ["b"], ["b2"], name="b2", to=dtype),
        helper.make_node(operation, ["a2", "b2"], ["sum"], name="sum"),
        helper.make_node("Reshape", ["sum", "shape"], ["flat"], name="flat"),
        helper.make_node("Cast", ["flat"], ["c"], name="c", to=TensorProto.FLOAT),
    ]
    shape = onnx.numpy_helper.from_array(np.array([-1, 3], np.int64), "shape")
    graph = helper.make_graph(nodes, "two", ends[:2], ends[2:], [shape])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6)
    path.write_bytes(model.SerializeToString())


# --- how it runs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("surface", surfaces.SMALL)
@pytest.mark.parametrize("way", ["pycuda", "cuda-python", "cudart", "ctypes"])
@pytest.mark.parametrize("transfers", [False, True])
def test_every_way_to_cuda_runs_every_generation(surface: str, way: str, transfers: bool, tmp_path: Path) -> None:
    rig = Rig(tmp_path / "cache", surface, way)
    said = rig.run(rig.network(like_googlenet()), Protocol(transfers=transfers), iterations=4)
    assert said["hello"][0]["versions"]["cuda access"].startswith("cuda-python" if way == "cudart" else way)
    assert said["latencies"][0]["seconds"] == pytest.approx([rig.machine.pace_s] * 4)
    copies = rig.gpu.calls.count("cudaMemcpyAsync")
    assert copies == 2 + (2 * (4 + said["warm"][0]["iterations"]) if transfers else 0)
    assert rig.gpu.left() == {}


@pytest.mark.parametrize("ahead", [0, 1, 3])
def test_batches_are_queued_ahead_as_asked(ahead: int, tmp_path: Path) -> None:
    rig = Rig(tmp_path / "cache", "8.5.2")
    rig.run(rig.network(like_googlenet()), Protocol(ahead=ahead), iterations=9)
    assert rig.gpu.deepest == 1 + ahead


@pytest.mark.parametrize("spin", [False, True])
def test_the_processor_waits_as_asked(spin: bool, tmp_path: Path) -> None:
    rig = Rig(tmp_path / "cache", "8.5.2")
    rig.run(rig.network(like_googlenet()), Protocol(spin=spin))
    assert set(rig.gpu.most_events) == {not spin}
    assert rig.gpu.schedule == (1 if spin else 4)


@pytest.mark.parametrize("surface", surfaces.SMALL)
def test_a_cuda_graph_is_launched_for_every_batch(surface: str, tmp_path: Path) -> None:
    rig = Rig(tmp_path / "cache", surface)
    said = rig.run(rig.network(like_googlenet()), Protocol(cuda_graph=True), iterations=4)
    assert said["loaded"][0]["cuda_graph"]
    assert rig.gpu.graph_launches == 4 + said["warm"][0]["iterations"]
    assert said["latencies"][0]["seconds"] == pytest.approx([rig.machine.pace_s] * 4)


@pytest.mark.parametrize(
    ("way", "fault"), [("pycuda", ""), ("ctypes", "cudaStreamBeginCapture"), ("ctypes", "cudaGraphInstantiate")]
)
def test_a_graph_that_cannot_be_captured_leaves_a_note_and_a_run(way: str, fault: str, tmp_path: Path) -> None:
    rig = Rig(tmp_path / "cache", "8.5.2", way)
    engine = rig.network(like_googlenet())
    rig.ask("build", engine)
    rig.gpu.faults |= {fault: 900} if fault else {}
    said = rig.ask("bench", engine, Protocol(cuda_graph=True), iterations=4)
    assert "CUDA graph" in said["loaded"][0]["notes"][0]
    assert len(said["latencies"][0]["seconds"]) == 4


# --- what is kept -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("surface", surfaces.SMALL)
def test_the_second_build_is_none(surface: str, tmp_path: Path) -> None:
    rig = Rig(tmp_path / "cache", surface)
    engine = rig.network(like_googlenet())
    first, second = rig.ask("build", engine)["built"][0], rig.ask("build", engine)["built"][0]
    assert (first["cached"], second["cached"], len(rig.machine.builds)) == (False, True, 1)
    assert first["why"]
    assert first["path"] == second["path"]


def test_another_batch_precision_version_or_device_is_built_anew(tmp_path: Path) -> None:
    rig, network = Rig(tmp_path / "cache", "8.5.2"), like_googlenet()
    rig.ask("build", rig.network(network))
    for engine in (rig.network(network, "fp16"), rig.network(network, batch=2)):
        assert not rig.ask("build", engine)["built"][0]["cached"]
    for other in (Rig(rig.folder, "8.2.1"), Rig(rig.folder, "8.5.2", machine=Machine(Gpu(capability=(7, 2))))):
        assert not other.ask("build", other.network(network))["built"][0]["cached"]


def test_a_damaged_plan_is_built_anew_and_never_loaded(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "cache", "8.5.2")
    engine = rig.network(like_googlenet())
    plan = Path(rig.ask("build", engine)["built"][0]["path"])
    content = bytearray(plan.read_bytes())
    content[-1] ^= 1
    plan.write_bytes(content)
    assert rig.refused("bench", engine).kind == "engine"
    again = rig.ask("build", engine)["built"][0]
    assert not again["cached"]
    assert again["why"]


def test_tactics_timed_once_are_used_again_on_the_same_device_only(tmp_path: Path) -> None:
    rig, network = Rig(tmp_path / "cache", "8.5.2"), like_googlenet()
    rig.ask("build", rig.network(network))
    rig.ask("build", rig.network(network, batch=2))
    assert [bool(build["timing_cache"]) for build in rig.machine.builds] == [False, True]
    for path in rig.folder.rglob("*"):
        if path.is_file() and path.suffix not in (".plan", ".json"):
            path.write_bytes(b"of another device")
    rig.ask("build", rig.network(network, batch=3))
    assert not rig.machine.builds[-1]["timing_cache"]


def test_one_of_several_builds_is_chosen_and_the_others_go(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "cache", "8.5.2")
    engine = rig.network(like_googlenet())
    for variant in range(3):
        said = rig.run(engine, variant=variant)
        assert len(said["latencies"][0]["seconds"]) == 5
    assert all(not build["timing_cache"] for build in rig.machine.builds)
    chosen = rig.ask("choose", engine, variant=1)["built"][0]["path"]
    assert [path.name for path in rig.folder.rglob("*.plan")] == [Path(chosen).name]
    assert rig.ask("build", engine)["built"][0]["cached"]


# --- what goes wrong --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("surface", surfaces.SMALL)
def test_a_shortage_of_memory_is_met_with_a_smaller_workspace_once(surface: str, tmp_path: Path) -> None:
    rig = Rig(tmp_path / "cache", surface)
    rig.machine.most_workspace_bytes = 100 << 20
    said = rig.ask("build", rig.network(like_googlenet()))["built"][0]
    assert said["workspace_bytes"] == 64 << 20
    assert "64 MiB" in " ".join(said["notes"])
    rig.machine.most_workspace_bytes = 1 << 20
    failed = rig.refused("build", rig.network(like_googlenet(), batch=2))
    assert failed.kind == "out_of_memory"
    assert "batch" in failed.hint
    assert any("OutOfMemory" in line for line in failed.log)
    assert len(rig.machine.builds) == 4


@pytest.mark.parametrize("surface", surfaces.SMALL)
def test_a_build_that_fails_for_another_reason_is_not_repeated(surface: str, tmp_path: Path) -> None:
    rig = Rig(tmp_path / "cache", surface)
    rig.machine.refusal = "Error Code 10: Internal Error (Could not find any implementation for node conv1.)"
    failed = rig.refused("build", rig.network(like_googlenet()))
    assert failed.kind == "engine"
    assert "node conv1" in failed.what
    assert failed.log == [rig.machine.refusal]
    assert len(rig.machine.builds) == 1


@pytest.mark.parametrize("surface", surfaces.SMALL)
def test_an_unknown_operator_is_named_with_its_node(surface: str, tmp_path: Path) -> None:
    rig, path = Rig(tmp_path / "cache", surface), tmp_path / "model.onnx"
    write_model(path, operation="Mod")
    failed = rig.refused("build", rig.model(path, {"a": [1, 3], "b": [1, 3]}))
    assert failed.kind == "unsupported"
    assert "Mod" in failed.what
    assert "sum" in failed.what or "2" in failed.what


def test_a_file_that_is_no_model_is_said_to_be_none(tmp_path: Path) -> None:
    rig, path = Rig(tmp_path / "cache", "8.5.2"), tmp_path / "model.onnx"
    path.write_bytes(b"nothing of the kind")
    assert rig.refused("build", rig.model(path, {})).kind == "model"


@pytest.mark.parametrize("surface", surfaces.SMALL)
@pytest.mark.parametrize(("change", "kind"), [("version", "version"), ("device", "version")])
def test_a_plan_from_elsewhere_is_refused_by_its_kind(surface: str, change: str, kind: str, tmp_path: Path) -> None:
    rig = Rig(tmp_path / "cache", surface)
    engine = rig.network(like_googlenet())
    path = Path(rig.ask("build", engine, variant=0)["built"][0]["path"])
    head, _, body = path.read_bytes().partition(b"\n")
    origin = json.loads(head.removeprefix(b"STANDIN"))
    origin |= {"version": "5.1.6"} if change == "version" else {"capability": "9.9"}
    path.write_bytes(b"STANDIN" + json.dumps(origin).encode() + b"\n" + body)
    failed = rig.refused("bench", engine, variant=0)
    assert failed.kind == kind
    assert failed.log
    assert failed.hint


@pytest.mark.parametrize("way", ["pycuda", "cuda-python", "ctypes"])
def test_tensorrt_is_not_touched_where_there_is_no_device(way: str, tmp_path: Path) -> None:
    rig = Rig(tmp_path / "cache", "11.4.1", way, Machine(Gpu(devices=0)))
    for action in ("probe", "build", "bench"):
        assert rig.refused(action, rig.network(like_googlenet())).kind == "device"


def test_half_precision_that_is_none_is_found_out(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "cache", "8.5.2", machine=Machine(Gpu(), fast_fp16=False))
    said = rig.run(rig.network(like_googlenet(), "fp16"))
    assert {row["precision"] for row in said["layers"][0]["rows"]} == {"fp32"}
    assert said["built"][0]["notes"]


@pytest.mark.parametrize(
    "fault",
    ["cudaMalloc", "cudaMallocHost", "cudaStreamCreateWithFlags", "cudaEventCreateWithFlags", "cudaMemcpyAsync"],
)
def test_a_failure_in_the_middle_leaves_nothing_behind(fault: str, tmp_path: Path) -> None:
    rig = Rig(tmp_path / "cache", "8.5.2")
    engine = rig.network(like_googlenet())
    rig.ask("build", engine)
    rig.gpu.faults[fault] = 2
    assert rig.refused("bench", engine).kind == "out_of_memory"
    assert rig.gpu.left() == {}


# --- the stand-in itself is strict ------------------------------------------------------------------------------------


@pytest.mark.parametrize("surface", surfaces.EVERY)
def test_the_stand_in_refuses_what_the_real_one_would(surface: str) -> None:
    record = surfaces.record(surface)
    if "signatures" not in record:
        pytest.skip("a record of names alone says nothing of arguments")
    trt = standin.load(record, Machine(Gpu()))

    base: Any = trt.ILogger

    class Silent(base):  # type: ignore[misc]  # of a module made at run time
        def __init__(self, call: bool = True) -> None:
            if call:
                trt.ILogger.__init__(self)

        def log(self, severity: Any, msg: str) -> None:
            pass

    flags = trt.NetworkDefinitionCreationFlag
    builder = trt.Builder(Silent())
    network = builder.create_network(1 << int(flags.EXPLICIT_BATCH) if hasattr(flags, "EXPLICIT_BATCH") else 0)
    tensor = network.add_input("x", trt.DataType.FLOAT, (1, 4, 8, 8))
    layer = network.add_pooling_nd(tensor, trt.PoolingType.MAX, (2, 2))
    for wrong in (
        lambda: trt.Builder(Silent(call=False)),
        lambda: trt.Builder(),
        lambda: trt.ITensor(),
        lambda: 1 << next(iter(flags.__members__.values())),
        lambda: network.add_lrn(tensor, 5, 1e-4, 0.75),
        lambda: network.add_lrn(tensor, 5.0, 1e-4, 0.75, 1.0),
        lambda: network.add_softmax(source=tensor),
        lambda: network.add_activation(tensor, trt.PoolingType.MAX),
        lambda: network.add_pooling_nd(tensor, trt.PoolingType.MAX, 2),
        lambda: setattr(layer, "padding_mode", 1),
        lambda: len(builder.create_builder_config()),
    ):
        with pytest.raises(TypeError):
            wrong()
    for missing in (
        lambda: trt.BuilderFlag.NO_SUCH_FLAG,
        lambda: trt.no_such_function,
        lambda: network.add_magic,
        lambda: setattr(network, "num_layers", 3),
        lambda: setattr(layer, "colour", 3),
        lambda: setattr(tensor, "is_network_input", False),
    ):
        with pytest.raises(AttributeError):
            missing()
    with pytest.raises(ValueError, match="float64"):
        trt.Weights(np.zeros(3))


def test_generations_differ_in_what_they_have() -> None:
    def has(version: str, path: str) -> bool:
        found: Any = standin.load(surfaces.record(version), Machine(Gpu()))
        for name in path.split("."):
            found = getattr(found, name, None)
        return found is not None

    since = {
        **{"Builder.build_engine": "yyynn", "Builder.build_serialized_network": "nyyyy"},
        **{"IBuilderConfig.max_workspace_size": "yyynn", "IBuilderConfig.set_memory_pool_limit": "nnyyy"},
        **{"BuilderFlag.FP16": "yyyyn", "INetworkDefinition.add_cast": "nnnyy", "ICudaEngine.num_bindings": "yyynn"},
        **{"ICudaEngine.num_io_tensors": "nnyyy", "IBuilderConfig.create_timing_cache": "nyyyy"},
        **{"NetworkDefinitionCreationFlag.EXPLICIT_BATCH": "yyyyn", "ICudaEngine.create_engine_inspector": "nyyyy"},
    }
    for path, wanted in since.items():
        assert "".join("y" if has(version, path) else "n" for version in surfaces.SMALL) == wanted, path
