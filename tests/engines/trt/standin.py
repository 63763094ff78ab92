"""``load(record)``: a module `tensorrt` with exactly the recorded names, which builds, and computes what was built."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import prod
from types import ModuleType
from typing import Any

from tests.engines.trt.building import BUILDING, Machine
from tests.engines.trt.layers import LAYERS
from tests.engines.trt.parsing import PARSING
from tests.engines.trt.running import RUNNING, pack
from tests.engines.trt.surface import Record, Surface
from tests.engines.trt.tensors import Dims, DimsHW, ILayer, Invalid, ITensor, Permutation, Weights

_CALM = ("lrn", "softmax")  # kept in float32 by a builder that is free to choose

_BEHAVIOUR: Mapping[str, type] = {
    **{kind.__name__: kind for kind in (Dims, DimsHW, Permutation, Weights, ITensor, ILayer)},
    **LAYERS,
    **BUILDING,
    **PARSING,
    **RUNNING,
}


def load(record: Record, machine: Machine | None = None) -> ModuleType:
    """Returns a fresh module. Its ``_standin.machine`` says what it runs on and records what was done."""
    surface = Standin(record, machine or Machine())
    surface.module.__dict__["_standin"] = surface
    return surface.module


class Standin(Surface):
    """The module, its machine, and the builder's work."""

    def __init__(self, record: Record, machine: Machine) -> None:
        super().__init__(record, _BEHAVIOUR, {"volume": prod, "nptype": self._nptype, "init_libnvinfer_plugins": _yes})
        self.machine = machine
        self.always_typed = "FP16" not in record["enums"]["BuilderFlag"]

    @property
    def home(self) -> dict[str, Any]:
        """Returns what plans are bound to."""
        capability = ".".join(map(str, self.machine.capability))
        return {"version": self.version, "capability": capability, "model": self.machine.model}

    @property
    def origin(self) -> bytes:
        """Returns the head of a timing cache."""
        return json.dumps(self.home, sort_keys=True).encode()

    def _nptype(self, dtype: Any) -> Any:
        import numpy as np

        if tuple(map(int, self.version.split(".")[:3])) < (8, 5, 3):
            raise AttributeError("module 'numpy' has no attribute 'bool'")
        names = {"FLOAT": np.float32, "HALF": np.float16, "INT32": np.int32, "INT64": np.int64, "BOOL": np.bool_}
        return names[str(dtype).split(".")[-1]]

    def compile(self, network: Any, config: Any, logger: Any) -> bytes | None:
        """Returns the plan, or None after an error was logged."""
        workspace = config._pools.get("WORKSPACE")
        verbosity = str(config._profiling_verbosity).split(".")[-1]
        done = {"flags": sorted(config._on), "workspace": workspace, "verbosity": verbosity, "typed": network._typed}
        done["timing_cache"] = None if config._cache is None else config._cache._data
        done["profiles"] = [dict(profile._shapes) for profile in config._profiles]
        self.machine.builds.append(done)
        try:
            self._accept(network, config)
            plan = pack(self.home, self._content(network, config, verbosity))
        except Invalid as error:
            logger._tell("ERROR", str(error))
            return None
        if config._cache is not None:
            config._cache._data = (config._cache._data or self.origin) + b"+"
        return plan

    def _accept(self, network: Any, config: Any) -> None:
        """Raises Invalid with the words of TensorRT."""
        limit, workspace = self.machine.most_workspace_bytes, config._pools.get("WORKSPACE", 0)
        if limit is not None and workspace > limit:
            asked = f"Requested amount of GPU memory ({workspace} bytes) could not be allocated."
            raise Invalid(
                f"Error Code 2: OutOfMemory (no further information) {asked} There may not be enough free memory"
            )
        if self.machine.refusal:
            raise Invalid(self.machine.refusal)
        if network._implicit:
            raise Invalid("Error Code 4: Internal Error (a network without an explicit batch)")
        if not network._outputs:
            raise Invalid("Error Code 4: Internal Error (Network must have at least one output)")
        if network._typed and {"FP16", "INT8", "BF16"} & config._on:
            raise Invalid("Error Code 3: API Usage Error (a strongly typed network takes no precision flags)")
        names = [tensor._name for tensor in (*network._inputs, *network._outputs)]
        if len(set(names)) != len(names):
            raise Invalid(f"Error Code 4: Internal Error (repeated tensor name among {names})")
        shaped = set().union(*(profile._shapes for profile in config._profiles))
        if [t for t in network._inputs if -1 in t._dims() and t._name not in shaped]:
            raise Invalid("Network has dynamic or shape inputs, but no optimization profile has been defined.")
        if network._onnx is None:
            for layer in network._layers:
                self._types(layer, typed=network._typed, half="FP16" in config._on)

    def _types(self, layer: Any, *, typed: bool, half: bool) -> None:
        word = [str(tensor._get_dtype()).split(".")[-1] for tensor in layer._inputs]
        if not typed:
            if "HALF" in word and not half:
                raise Invalid(f"{layer._name}: a tensor of type Half, but the flag kFP16 is not set")
            return
        kinds = {
            str(w._get_dtype()).split(".")[-1]
            for n in ("kernel", "bias", "scale", "shift", "power")
            if (w := getattr(layer, f"_{n}", None)) and len(w)
        }
        if len(set(word) | kinds) > 1:
            raise Invalid(f"{layer._name}: inputs and weights must have the same type, found {sorted({*word, *kinds})}")

    def _content(self, network: Any, config: Any, verbosity: str) -> dict[str, Any]:
        free = not network._typed and "FP16" in config._on and self.machine.fast_fp16
        marks = {
            id(t): f"{i}" for i, t in enumerate([*network._inputs, *(o for n in network._layers for o in n._outputs)])
        }
        profile = {name: shape for p in config._profiles for name, shape in p._shapes.items()}
        steps = [] if network._onnx else [self._step(layer, marks, free) for layer in network._layers]
        layers = [
            {"name": step["name"], "kind": step["kind"], "shape": step["shape"], "half": step["looks_half"]}
            for step in steps
        ] or [
            {"name": n._name, "kind": "node", "shape": n._outputs[0]._dims(), "half": free or _half(n._outputs[0])}
            for n in network._layers
        ]
        resolved = _resolved(network._onnx, profile) if network._onnx else {}
        return {
            "inputs": [_io(tensor, marks, {}) for tensor in network._inputs],
            "outputs": [_io(tensor, marks, resolved) for tensor in network._outputs],
            **{"steps": steps, "layers": layers, "profile": profile, "verbosity": verbosity},
            **{"onnx": network._onnx, "half": free},
        }

    def _step(self, layer: Any, marks: Mapping[int, str], free: bool) -> dict[str, Any]:
        tensor = layer._outputs[0]
        shape, half = tensor._dims(), free and layer._rounds
        typed = any(map(_half, layer._inputs))
        return {
            **layer._parameters(),
            **{
                "kind": layer._kind,
                "name": layer._name,
                "shape": shape,
                "half": half or (typed and layer._kind != "cast"),
            },
            "inputs": [marks[id(read)] for read in layer._inputs],
            "outputs": [marks[id(tensor)]],
            "dtype": str(tensor._get_dtype()).split(".")[-1],
            "looks_half": _half(tensor) or (free and layer._kind not in _CALM),
        }


def _yes(*arguments: Any, **named: Any) -> bool:
    return True


def _half(tensor: Any) -> bool:
    return str(tensor._get_dtype()).endswith("HALF")


def _io(tensor: Any, marks: Mapping[int, str], resolved: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    shape = tensor._dims()
    names = {"name": tensor._name, "id": marks[id(tensor)], "dtype": str(tensor._get_dtype()).split(".")[-1]}
    return {**names, "shape": shape, "resolved": resolved.get(tensor._name, shape)}


def _resolved(content: bytes, profile: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of a user's outputs once those of the inputs are known."""
    import onnx

    model = onnx.load_model_from_string(content)
    for value in model.graph.input:
        for place, size in enumerate(profile.get(value.name, ())):
            value.type.tensor_type.shape.dim[place].dim_value = size
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    del model.graph.value_info[:]
    inferred = onnx.shape_inference.infer_shapes(model, data_prop=True)
    return {v.name: tuple(d.dim_value for d in v.type.tensor_type.shape.dim) for v in inferred.graph.output}
