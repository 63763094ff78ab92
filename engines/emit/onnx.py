"""Network -> ONNX file that TensorRT 7.1 to 11 and ONNX Runtime all load: opset 11, IR 6, static batch.

Inputs and outputs are float32. At ``fp16`` the graph in between is typed float16, with a Cast at either end and around
LRN, which computes in float32: it squares, and 256 squared is more than float16 holds.
Dropout is left out: it does nothing at inference.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engines.cost import Precision
from engines.network import (
    LRN,
    BatchNorm,
    Concat,
    Conv,
    Dropout,
    Eltwise,
    FullyConnected,
    Layer,
    MatMul,
    Network,
    Pool,
    ReLU,
    Reshape,
    Shape,
    Softmax,
    inputs_of,
)
from engines.onboard import onnx_file
from engines.weights import recipe
from remote.errors import UsageError

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto

OPSET = 11
IR_VERSION = 6
_GLOBAL = {"max": "GlobalMaxPool", "avg": "GlobalAveragePool"}
_WINDOW = {"max": "MaxPool", "avg": "AveragePool"}


def emit_onnx(network: Network, batch: int, precision: Precision, seed: int, path: Path) -> None:
    """Writes ``network`` with weights from ``seed`` to ``path``; the same arguments give the same bytes.

    Raises UsageError for a layer that cannot be written.
    """
    text = skeleton(network, batch, precision, seed)
    with path.open("wb") as file:
        onnx_file.write(file, text)


def skeleton(network: Network, batch: int, precision: Precision, seed: int) -> str:
    """Returns the file that `emit_onnx` writes without its weights, from which `engines.onboard.onnx_file` writes it.

    Raises UsageError for a layer that cannot be written.
    """
    from onnx import GraphProto, ModelProto, TensorProto, helper

    shapes = network.shapes(batch)
    half = precision == "fp16"
    inner = {name: f"{name}/fp16" for name in (*(i.name for i in network.inputs), *network.outputs) if half}
    nodes = [_cast(i.name, inner[i.name], TensorProto.FLOAT16) for i in network.inputs if half]
    weights: list[dict[str, Any]] = []
    for index, layer in enumerate(network.layers):
        inputs = inputs_of(layer, shapes)
        reads = [inner.get(name, name) for name in layer.inputs]
        if isinstance(layer, Dropout) and layer.name not in network.outputs:
            inner[layer.name] = reads[0]
            continue
        wanted = recipe(layer, inputs, seed, index)
        names = [f"{layer.name}/w{number}" for number in range(len(wanted.arrays))]
        if names:
            weights.append({"names": names, "type": "f2" if half else "f4", **asdict(wanted)})
        if isinstance(layer, Reshape):
            names = [f"{layer.name}/shape"]
            weights.append({"names": names, "type": "i8", "values": [shapes[layer.name]]})
        makes = inner.get(layer.name, layer.name)
        made = _nodes(layer, inputs, [*reads, *names], makes)
        nodes += _in_single(made, layer.name, reads[0], makes) if half and isinstance(layer, LRN) else made
    nodes += [_cast(inner[name], name, TensorProto.FLOAT) for name in network.outputs if half]
    ends = GraphProto(input=_values((i.name for i in network.inputs), shapes), output=_values(network.outputs, shapes))
    parts: tuple[ModelProto | GraphProto, ...] = (
        ModelProto(ir_version=IR_VERSION, producer_name="edgeperf"),
        GraphProto(node=nodes, name=network.name),
        ends,
        ModelProto(opset_import=[helper.make_opsetid("", OPSET)]),
    )
    return json.dumps({"onnx": onnx_file.FORMAT, "parts": [_packed(part) for part in parts], "weights": weights})


def _packed(part: ModelProto | GraphProto) -> str:
    return base64.b64encode(zlib.compress(part.SerializeToString(deterministic=True), 9)).decode()


def _in_single(made: Iterable[NodeProto], name: str, reads: str, makes: str) -> Iterator[NodeProto]:
    """Yields the nodes ``made`` of a half precision layer with casts around them, so that they compute in float32."""
    from onnx import TensorProto

    wide, done = f"{name}/fp32", f"{name}/made"
    yield _cast(reads, wide, TensorProto.FLOAT)
    for node in made:
        node.input[0], node.output[0] = wide, done
        yield node
    yield _cast(done, makes, TensorProto.FLOAT16)


def _values(names: Iterable[str], shapes: dict[str, Shape]) -> list[ValueInfoProto]:
    from onnx import TensorProto, helper

    return [helper.make_tensor_value_info(name, TensorProto.FLOAT, shapes[name]) for name in names]


def _cast(source: str, target: str, to: int) -> NodeProto:
    from onnx import helper

    return helper.make_node("Cast", [source], [target], name=f"{target}/cast", to=to)


def _nodes(layer: Layer, inputs: tuple[Shape, ...], reads: list[str], makes: str) -> Iterator[NodeProto]:
    """Yields the nodes of one layer: ``reads`` are its tensors and then its weights, ``makes`` its result."""
    from onnx import helper

    if isinstance(layer, FullyConnected) and len(inputs[0]) > 2:
        flat = f"{layer.name}/flat"
        yield helper.make_node("Flatten", reads[:1], [flat], name=flat, axis=1)
        reads = [flat, *reads[1:]]
    operation, attributes = _operation(layer, inputs)
    yield helper.make_node(operation, reads, [makes], name=layer.name, **attributes)


def _operation(layer: Layer, inputs: tuple[Shape, ...]) -> tuple[str, dict[str, Any]]:
    """Returns the ONNX operation of a layer and its attributes, all of them explicit."""
    match layer:
        case Conv():
            window = {"kernel_shape": layer.kernel, "strides": layer.stride, "pads": layer.pad}
            return "Conv", {**window, "dilations": layer.dilation, "group": layer.groups}
        case Pool():
            return _pool(layer, inputs)
        case LRN():
            return "LRN", {"size": layer.size, "alpha": layer.alpha, "beta": layer.beta, "bias": layer.k}
        case FullyConnected() if layer.axis == 1:
            return "Gemm", {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 1}
        case Softmax() if prod(inputs[0][layer.axis % len(inputs[0]) + 1 :]) == 1:
            # Up to opset 12 Softmax takes all axes from `axis` on together: the same only if those behind it are 1.
            return "Softmax", {"axis": layer.axis}
        case BatchNorm():
            return "BatchNormalization", {"epsilon": layer.epsilon}
        case Eltwise() if len(inputs) == 2:
            return layer.operation.capitalize(), {}
        case Concat():
            return "Concat", {"axis": layer.axis}
        case ReLU():
            return "Relu", {}
        case Dropout():
            return "Identity", {}
        case MatMul() | Reshape():
            return layer.kind, {}
        case _:
            raise UsageError(
                f"layer {layer.name!r} ({layer.kind}) cannot be written as ONNX",
                "Use the model file that it came from, or build it from the layers in engines/network.py.",
            )


def _pool(layer: Pool, inputs: tuple[Shape, ...]) -> tuple[str, dict[str, Any]]:
    if not layer.kernel:
        return _GLOBAL[layer.mode], {}
    attributes: dict[str, Any] = {"kernel_shape": layer.kernel, "strides": layer.stride, "pads": layer.pad}
    made, floor = layer.shape(inputs), _rounded(layer, inputs[0], up=False)
    # ONNX rounds up without dropping a last window as Caffe does. Where Caffe drops one, rounding down is the same.
    attributes["ceil_mode"] = int(made != floor and made == _rounded(layer, inputs[0], up=True))
    count_pad = layer.count_pad
    if made != floor and not attributes["ceil_mode"]:
        attributes["pads"] = _padded(layer, inputs[0], made)
        if layer.mode == "avg" and count_pad and any(layer.pad):
            what = f"layer {layer.name!r}: an average that counts its padding, rounded up in one direction only"
            raise UsageError(f"{what}, cannot be written as ONNX", "Change its stride or its padding.")
        count_pad = False
    if layer.mode == "avg":
        attributes["count_include_pad"] = int(count_pad)
    return _WINDOW[layer.mode], attributes


def _padded(layer: Pool, shape: Shape, made: Shape) -> tuple[int, ...]:
    """Returns the pads with which rounding down makes ``made``: for a shape rounded up in one direction only."""
    n = len(layer.kernel)
    reach = ((made[2 + i] - 1) * layer.stride[i] + layer.kernel[i] for i in range(n))
    ends = (max(layer.pad[n + i], far - shape[2 + i] - layer.pad[i]) for i, far in enumerate(reach))
    return (*layer.pad[:n], *ends)


def _rounded(layer: Pool, shape: Shape, *, up: bool) -> Shape:
    """Returns the shape that ONNX makes with ``ceil_mode``, or without."""
    n = len(layer.kernel)
    rooms = (shape[2 + i] + layer.pad[i] + layer.pad[n + i] - layer.kernel[i] for i in range(n))
    steps = ((-(-room // layer.stride[i]) if up else room // layer.stride[i]) for i, room in enumerate(rooms))
    return (*shape[:2], *(step + 1 for step in steps))
