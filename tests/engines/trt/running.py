"""Plans, and what runs them: runtime, engine, context, inspector. Memory is read and written at raw addresses."""

from __future__ import annotations

import ctypes
import json
import pickle
import zlib
from math import prod
from typing import Any

import numpy as np

from tests.engines.trt import compute
from tests.engines.trt.surface import Object

_NUMBERS = {"FLOAT": np.float32, "HALF": np.float16, "INT32": np.int32, "INT64": np.int64, "BOOL": np.bool_}
_WORDS = {True: "Half", False: "Float"}


def pack(origin: dict[str, Any], content: dict[str, Any]) -> bytes:
    """Returns a plan: a line of JSON that says where it belongs, and a checked recording."""
    body = pickle.dumps(content, protocol=5)
    head = json.dumps({**origin, "check": zlib.crc32(body)}, sort_keys=True)
    return b"STANDIN" + head.encode() + b"\n" + body


def refusal(plan: bytes, origin: dict[str, Any]) -> str:
    """Returns why ``plan`` cannot be loaded where ``origin`` is, in TensorRT's words; "" if it can."""
    head, _, body = plan.partition(b"\n")
    try:
        found = json.loads(head.removeprefix(b"STANDIN")) if head.startswith(b"STANDIN") else None
    except ValueError:
        found = None
    if not isinstance(found, dict) or found.get("check") != zlib.crc32(body):
        return "Error Code 1: Serialization (Serialization assertion magicTagRead == kMAGIC_TAG failed.)"
    if found["version"] != origin["version"]:
        versions = f"expecting library version {origin['version']} got {found['version']}"
        return f"The engine plan file is not compatible with this version of TensorRT, {versions}, please rebuild."
    if found["capability"] != origin["capability"]:
        what = f"expecting compute {origin['capability']} got compute {found['capability']}"
        return f"The engine plan file is generated on an incompatible device, {what}, please rebuild."
    return ""


class IHostMemory(bytes, Object):
    """A buffer and nothing else: it has no length, no items and none of the methods of bytes."""

    __len__ = __getitem__ = __iter__ = __add__ = __contains__ = None  # type: ignore[assignment]  # they are not there

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_") and name in dir(bytes):
            raise AttributeError(f"'IHostMemory' object has no attribute '{name}'")
        return super().__getattribute__(name)

    def _start(self, plan: bytes) -> None:
        """The bytes were taken when it was made."""

    def _get_nbytes(self) -> int:
        return memoryview(self).nbytes


class Runtime(Object):
    """Turns plans of this version and device into engines."""

    def _start(self, logger: Any) -> None:
        self._trt.machine.touched()
        self._logger = logger

    def _do_deserialize_cuda_engine(self, serialized_engine: Any) -> Any:
        plan = bytes(serialized_engine)
        why = refusal(plan, self._trt.home)
        if why:
            self._logger._tell("ERROR", why)
            return None
        model = json.loads(plan.partition(b"\n")[0].removeprefix(b"STANDIN"))["model"]
        if model != self._trt.home["model"]:
            text = "Using an engine plan file across different models of devices is not recommended"
            self._logger._tell("WARNING", text)
        return self._trt.new("ICudaEngine", plan, self._logger)


class ICudaEngine(Object):
    """A network that can run. Inputs come first, then outputs."""

    def _start(self, plan: bytes, logger: Any) -> None:
        self._plan, self._logger = plan, logger
        self._content = pickle.loads(plan.partition(b"\n")[2])
        self._io = [*self._content["inputs"], *self._content["outputs"]]

    def _place(self, at: Any) -> int:
        names = [tensor["name"] for tensor in self._io]
        return names.index(at) if isinstance(at, str) else range(len(names))[at]

    def _do_serialize(self) -> Any:
        return self._trt.new("IHostMemory", self._plan)

    def _get_num_bindings(self) -> int:
        return len(self._io)

    _get_num_io_tensors = _get_num_bindings

    def _get_num_layers(self) -> int:
        return len(self._content["layers"])

    def _get_device_memory_size(self) -> int:
        return 1 << 20

    _get_device_memory_size_v2 = _get_device_memory_size

    def _get_num_optimization_profiles(self) -> int:
        return 1

    def _get_has_implicit_batch_dimension(self) -> bool:
        return False

    def _do_get_tensor_name(self, index: int) -> str:
        return str(self._io[index]["name"])

    _do_get_binding_name = _do_get_tensor_name

    def _do_get_binding_index(self, name: str) -> int:
        return self._place(name)

    def _do_get_tensor_mode(self, name: str) -> Any:
        modes: Any = self._trt.types["TensorIOMode"]
        return modes.INPUT if self._place(name) < len(self._content["inputs"]) else modes.OUTPUT

    def _do_binding_is_input(self, index: Any = None, name: Any = None) -> bool:
        return self._place(name if index is None else index) < len(self._content["inputs"])

    def _do_get_tensor_dtype(self, name: str) -> Any:
        return getattr(self._trt.types["DataType"], self._io[self._place(name)]["dtype"])

    def _do_get_binding_dtype(self, index: Any = None, name: Any = None) -> Any:
        return self._do_get_tensor_dtype(name if index is None else index)

    def _do_get_tensor_shape(self, name: str) -> Any:
        return self._trt.new("Dims", self._io[self._place(name)]["shape"])

    def _do_get_binding_shape(self, index: Any = None, name: Any = None) -> Any:
        return self._do_get_tensor_shape(name if index is None else index)

    def _do_get_tensor_location(self, name: str) -> Any:
        self._place(name)
        return self._trt.types["TensorLocation"].DEVICE

    def _do_is_shape_inference_io(self, name: str) -> bool:
        return False

    def _do_is_shape_binding(self, binding: int) -> bool:
        return False

    def _do_create_engine_inspector(self) -> Any:
        return self._trt.new("EngineInspector", self)

    def _do_create_execution_context(self, strategy: Any = None, runtime_config: Any = None) -> Any:
        return self._trt.new("IExecutionContext", self)


class IExecutionContext(Object):
    """Runs on a stream of the fake CUDA. What was computed for the same input is not computed again."""

    def _start(self, engine: Any) -> None:
        self._engine = engine
        self._shapes: dict[str, Any] = {tensor["name"]: tensor["shape"] for tensor in engine._content["inputs"]}
        self._addresses: dict[str, int] = {}
        self._profiler: Any = None
        self._enqueue_emits_profile = True
        self._last: tuple[Any, Any] = (None, None)

    def _do_set_input_shape(self, name: str, shape: Any) -> bool:
        wanted = engine_shape = tuple(self._engine._io[self._engine._place(name)]["shape"])
        wanted = self._engine._content["profile"].get(name, engine_shape)
        if tuple(shape) != tuple(wanted):
            return self._refuse(f"setInputShape: {tuple(shape)} is not {tuple(wanted)} of the optimization profile")
        self._shapes[name] = tuple(shape)
        return True

    def _do_set_binding_shape(self, binding: int, shape: Any) -> bool:
        return self._do_set_input_shape(self._engine._io[binding]["name"], shape)

    def _known(self) -> bool:
        return all(-1 not in shape for shape in self._shapes.values())

    _get_all_binding_shapes_specified = _known

    def _dims(self, name: str) -> tuple[int, ...]:
        if name in self._shapes:
            return tuple(self._shapes[name])
        tensor = self._engine._io[self._engine._place(name)]
        return tuple(tensor["resolved"] if self._known() else tensor["shape"])

    def _do_get_tensor_shape(self, name: str) -> Any:
        return self._trt.new("Dims", self._dims(name))

    def _do_get_binding_shape(self, binding: int) -> Any:
        return self._do_get_tensor_shape(self._engine._io[binding]["name"])

    def _do_infer_shapes(self) -> list[str]:
        return [name for name, shape in self._shapes.items() if -1 in shape]

    def _do_set_tensor_address(self, name: str, memory: int) -> bool:
        self._engine._place(name)
        self._addresses[name] = memory
        return True

    def _do_get_tensor_address(self, name: str) -> int:
        return self._addresses.get(name, 0)

    def _do_set_optimization_profile_async(self, profile_index: int, stream_handle: int) -> bool:
        return profile_index == 0

    def _do_execute_async_v2(self, bindings: Any, stream_handle: int, input_consumed: Any = None) -> bool:
        names = [tensor["name"] for tensor in self._engine._io]
        if len(bindings) != len(names):
            return self._refuse(f"enqueueV2: {len(bindings)} bindings for {len(names)} tensors")
        return self._enqueue(dict(zip(names, bindings, strict=True)), stream_handle)

    def _do_execute_async_v3(self, stream_handle: int) -> bool:
        return self._enqueue(self._addresses, stream_handle)

    def _do_execute_v2(self, bindings: Any) -> bool:
        names, gpu = [tensor["name"] for tensor in self._engine._io], self._trt.machine.gpu
        done = self._enqueue(dict(zip(names, bindings, strict=True)), 0, at_once=True)
        gpu.finish(0)
        return done

    def _refuse(self, what: str) -> bool:
        self._engine._logger._tell("ERROR", f"Error Code 3: API Usage Error ({what})")
        return False

    def _enqueue(self, addresses: dict[str, int], stream: int, *, at_once: bool = False) -> bool:
        missing = [tensor["name"] for tensor in self._engine._io if not addresses.get(tensor["name"])]
        if missing or not self._known():
            return self._refuse(f"enqueue: no address or shape of {missing}")
        machine = self._trt.machine
        for tensor in self._engine._io:
            machine.gpu.reach(addresses[tensor["name"]], self._size(tensor))
        taken = dict(addresses)  # a captured batch keeps the addresses that it was captured with
        machine.gpu.launch(stream, lambda: self._execute(taken), machine.pace_s)
        # Before 8.2 layers are told of only where the batch is done at once.
        if self._profiler is not None and (at_once or hasattr(type(self), "enqueue_emits_profile")):
            self._profile(machine.pace_s * 1000)
        return True

    def _profile(self, milliseconds: float) -> None:
        if self._trt.machine.gpu.capturing():
            raise AssertionError("layers are profiled while a stream is being captured")
        layers = self._engine._content["layers"]
        for layer in layers:
            self._profiler.report_layer_time(layer["name"], milliseconds / len(layers))

    def _size(self, tensor: dict[str, Any]) -> int:
        return int(prod(self._dims(tensor["name"])) * np.dtype(_NUMBERS[tensor["dtype"]]).itemsize)

    def _view(self, tensor: dict[str, Any], address: int) -> Any:
        memory: Any = (ctypes.c_char * self._size(tensor)).from_address(address)
        return np.frombuffer(memory, _NUMBERS[tensor["dtype"]]).reshape(self._dims(tensor["name"]))

    def _execute(self, addresses: dict[str, int]) -> None:
        content = self._engine._content
        fed = {t["name"]: self._view(t, addresses[t["name"]]).copy() for t in content["inputs"]}
        before, made = self._last
        if before is None or any(not np.array_equal(fed[name], before[name]) for name in fed):
            made = onnx_outputs(content, fed) if content["onnx"] else network_outputs(content, fed)
            self._last = fed, made
        for tensor in content["outputs"]:
            self._view(tensor, addresses[tensor["name"]])[...] = made[tensor["name"]]


def network_outputs(content: dict[str, Any], fed: dict[str, Any]) -> dict[str, Any]:
    """Returns what the recorded layers make of the inputs, by numpy."""
    made = compute.run(content["steps"], {tensor["id"]: fed[tensor["name"]] for tensor in content["inputs"]})
    return {tensor["name"]: made[tensor["id"]] for tensor in content["outputs"]}


def onnx_outputs(content: dict[str, Any], fed: dict[str, Any]) -> dict[str, Any]:
    """Returns what ONNX Runtime makes of them; where half numbers are used the weights are rounded to them."""
    import onnx
    import onnxruntime

    model = onnx.load_model_from_string(content["onnx"])
    for array in model.graph.initializer:
        if content["half"] and array.data_type == onnx.TensorProto.FLOAT:
            rounded = onnx.numpy_helper.to_array(array).astype(np.float16).astype(np.float32)
            array.CopyFrom(onnx.numpy_helper.from_array(rounded, array.name))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = {i.name: np.int64 if "int64" in i.type else None for i in session.get_inputs()}
    inputs = {name: array.astype(wanted[name] or array.dtype) for name, array in fed.items()}
    names = [tensor["name"] for tensor in content["outputs"]]
    return dict(zip(names, session.run(names, inputs), strict=True))


class EngineInspector(Object):
    """Says what an engine is made of; version 11 has other keys."""

    def _start(self, engine: Any) -> None:
        self._engine = engine

    def _do_get_engine_information(self, format: Any) -> str:
        content = self._engine._content
        if str(format).split(".")[-1] != "JSON":
            return "\n".join(layer["name"] for layer in content["layers"])
        new, io = self._trt.always_typed, self._engine._io
        detailed = content["verbosity"] in ("DETAILED", "VERBOSE")
        layers = [self._layer(layer, new) if detailed else layer["name"] for layer in content["layers"]]
        if not new:
            return json.dumps({"Layers": layers, "Bindings": [tensor["name"] for tensor in io]})
        first = len(content["inputs"])
        rows = [
            {"Name": tensor["name"], "IOMode": "Input" if i < first else "Output", "Dimensions": list(tensor["shape"])}
            for i, tensor in enumerate(io)
        ]
        return json.dumps({"Layers": layers, "I/O Tensors": rows})

    def _layer(self, layer: dict[str, Any], new: bool) -> dict[str, Any]:
        def tensor(half: bool, shape: Any) -> dict[str, Any]:
            word, row = _WORDS[half], {"Name": layer["name"], "Dimensions": list(shape)}
            return (
                {**row, "Format": "N/A", "Datatype": word}
                if new
                else {**row, "Format/Datatype": f"Row major linear {'FP16' if half else 'FP32'} format"}
            )

        ends = {"Inputs": [tensor(layer["half"], layer["shape"])], "Outputs": [tensor(layer["half"], layer["shape"])]}
        return {"Name": layer["name"], "LayerType": layer["kind"], **ends, "TacticValue": "0x0"}


class IProfiler(Object):
    """A subclass of the user's is told each layer's time."""

    def _do_report_layer_time(self, layer_name: str, ms: float) -> None:
        raise RuntimeError('Tried to call pure virtual function "IProfiler::report_layer_time"')


RUNNING: dict[str, type] = {
    kind.__name__: kind for kind in (IHostMemory, Runtime, ICudaEngine, IExecutionContext, EngineInspector, IProfiler)
}
