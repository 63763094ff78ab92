"""Network -> ONNX file that TensorRT 7.1 to 11 and ONNX Runtime all load: opset 11, IR 6, static batch.

Inputs and outputs are float32. At ``fp16`` the graph in between is typed float16, with a Cast at either end.
Dropout is left out: it does nothing at inference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
from engines.weights import draw, recipe
from remote.errors import UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto

OPSET = 11
IR_VERSION = 6
_GLOBAL = {"max": "GlobalMaxPool", "avg": "GlobalAveragePool"}
_WINDOW = {"max": "MaxPool", "avg": "AveragePool"}


def emit_onnx(network: Network, batch: int, precision: Precision, seed: int, path: Path) -> None:
    """Writes ``network`` with weights from ``seed`` to ``path``; the same arguments give the same bytes.

    Raises UsageError for a layer that cannot be written.
    """
    path.write_bytes(build(network, batch, precision, seed).SerializeToString(deterministic=True))


def build(network: Network, batch: int, precision: Precision, seed: int) -> ModelProto:
    """Returns what `emit_onnx` writes."""
    import numpy as np
    from onnx import TensorProto, helper

    shapes = network.shapes(batch)
    half = precision == "fp16"
    inner = {name: f"{name}/fp16" for name in (*(i.name for i in network.inputs), *network.outputs) if half}
    nodes = [_cast(i.name, inner[i.name], TensorProto.FLOAT16) for i in network.inputs if half]
    model = helper.make_model(
        helper.make_graph(
            [], network.name, _values((i.name for i in network.inputs), shapes), _values(network.outputs, shapes)
        ),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="edgeperf",
    )
    for index, layer in enumerate(network.layers):
        inputs = inputs_of(layer, shapes)
        reads = [inner.get(name, name) for name in layer.inputs]
        if isinstance(layer, Dropout) and layer.name not in network.outputs:
            inner[layer.name] = reads[0]
            continue
        for number, array in enumerate(draw(recipe(layer, inputs, seed, index))):
            reads.append(f"{layer.name}/w{number}")
            # Filled in place: every way to hand a finished tensor over would copy hundreds of megabytes.
            _fill(model.graph.initializer.add(), reads[-1], array.astype("<f2" if half else "<f4", copy=False))
        if isinstance(layer, Reshape):
            reads.append(f"{layer.name}/shape")
            _fill(model.graph.initializer.add(), reads[-1], np.array(shapes[layer.name], "<i8"))
        nodes += _nodes(layer, inputs, reads, inner.get(layer.name, layer.name))
    nodes += [_cast(inner[name], name, TensorProto.FLOAT) for name in network.outputs if half]
    model.graph.node.extend(nodes)
    return model


def _values(names: Iterable[str], shapes: dict[str, Shape]) -> list[ValueInfoProto]:
    from onnx import TensorProto, helper

    return [helper.make_tensor_value_info(name, TensorProto.FLOAT, shapes[name]) for name in names]


def _fill(tensor: TensorProto, name: str, array: NDArray[Any]) -> None:
    """Makes ``tensor`` the initializer ``name``; ``array`` is little-endian float16, float32 or int64."""
    types = {"f2": tensor.FLOAT16, "f4": tensor.FLOAT, "i8": tensor.INT64}
    tensor.name, tensor.data_type, tensor.raw_data = name, types[array.dtype.str[1:]], array.tobytes()
    tensor.dims.extend(array.shape)


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
