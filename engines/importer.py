"""A user's ONNX file -> Network, for the counts: the file itself is what runs.

Operations that `engines.network` knows become its layers, all others `Other`, with the shapes that ONNX infers. What
depends on weights alone (constants, casts of weights ...) is no layer.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engines.cost import Precision
from engines.dimensions import fix
from engines.network import Input, Layer, Network, Shape
from engines.onboard import onnx_file
from engines.operations import Node, layer_of
from remote.errors import UsageError

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto

_LARGE = 1024
_SHAPE_LENGTH = 8
_INTEGER = 1  # what integer inputs are fed with
_EXPORT = "Export the model again as ONNX, or run onnx.checker on it to see what is wrong."


@dataclass(frozen=True)
class Imported:
    """A network read from a file. ``digest`` is that of the file and of the weight files beside it.

    ``typed`` is the precision of the file itself: "fp16" where most of its weights are float16. ``open_inputs`` are
    those of which the file leaves dimensions open, ``beside`` the files beside it that hold weights.
    """

    network: Network
    digest: str
    typed: Precision = "fp32"
    open_inputs: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()


def read_onnx(path: Path, batch: int, shapes: Mapping[str, Shape] | None = None) -> Imported:
    """Returns the network in the ONNX file at ``path``, at ``batch``, with open dimensions as in ``shapes``.

    Raises UsageError, which names the file, where it is missing or no ONNX model, where its batch is fixed at another
    number, where a dimension other than the batch is not known, and where ``shapes`` do not fit it.
    """
    content = _content(path)
    model = _checked(content, path)
    digest = hashlib.sha256(content)
    beside = tuple(sorted(_weight_files(model)))
    for name in beside:
        digest.update(_content(path.parent / name))
    weights = {tensor.name for tensor in model.graph.initializer}
    fed = [value for value in model.graph.input if value.name not in weights]
    open_inputs = tuple(v.name for v in fed if any(dim.dim_value <= 0 for dim in v.type.tensor_type.shape.dim))
    fix(fed, batch, shapes or {}, str(path))
    inputs = tuple(_input(value, batch) for value in fed)
    light = _without_large_weights(model)
    network = _network(light, inputs, weights, Network(path.stem, (), (), (), batch), str(path))
    return Imported(network, digest.hexdigest(), _typed(model), open_inputs, beside)


def read_skeleton(text: str) -> Network:
    """Returns the network of a skeleton (`engines.emit.onnx.skeleton`), at the batch that it was made for.

    Raises UsageError for any other text.
    """
    import onnx
    from google.protobuf.message import DecodeError

    model = onnx.ModelProto()
    try:
        tree = json.loads(text)
        head, graph_head, graph_tail, tail = onnx_file.parts(tree)
        model.MergeFromString(head + tail)
        model.graph.MergeFromString(graph_head + graph_tail)
        batch = model.graph.input[0].type.tensor_type.shape.dim[0].dim_value
        inputs = tuple(_input(value, batch) for value in model.graph.input)
        weights: set[str] = set()
        for row in tree["weights"]:
            _add_weights(model.graph, row)
            weights |= set(row["names"])
    except (ValueError, LookupError, TypeError, zlib.error, DecodeError) as error:
        raise UsageError(f"this is not an ONNX skeleton: {error!r}", "Write it again.") from error
    return _network(model, inputs, weights, Network(model.graph.name, (), (), (), batch), model.graph.name)


def _add_weights(graph: GraphProto, row: dict[str, Any]) -> None:
    """Declares weights that are drawn later as inputs; adds those of which the values are there."""
    from onnx import TensorProto, helper

    types = {"f4": TensorProto.FLOAT, "f2": TensorProto.FLOAT16}
    for number, (name, dims) in enumerate(onnx_file.named(row)):
        if "values" in row:
            graph.initializer.append(helper.make_tensor(name, TensorProto.INT64, dims, row["values"][number]))
        else:
            graph.input.append(helper.make_tensor_value_info(name, types[row["type"]], dims))


def _network(light: ModelProto, inputs: tuple[Input, ...], weights: set[str], empty: Network, where: str) -> Network:
    """Returns ``empty`` with the inputs, layers and outputs of ``light``."""
    shapes = _infer(light, where)
    layers = _layers(light, weights, shapes, where)
    made = {name for layer in layers for name in (layer.name, *(n for n, _ in getattr(layer, "extra", ())))}
    made |= {entry.name for entry in inputs}
    outputs = tuple(o.name for o in light.graph.output if o.name in made)
    void = [name for name, shape in [*shapes.items(), *((i.name, i.shape) for i in inputs)] if 0 in shape]
    if not layers or not outputs or void:
        what = f"tensor {void[0]!r} has no elements" if void else "there is nothing to compute in it"
        raise UsageError(f"{where}: {what}", "Check how the model was exported.")
    return replace(empty, inputs=inputs, layers=layers, outputs=outputs)


def _typed(model: ModelProto) -> Precision:
    """Returns the precision in which most of the model's weights are."""
    from onnx import TensorProto

    counts = {TensorProto.FLOAT16: 0, TensorProto.FLOAT: 0}
    for tensor in model.graph.initializer:
        if tensor.data_type in counts:
            counts[tensor.data_type] += prod(tensor.dims)
    return "fp16" if counts[TensorProto.FLOAT16] > counts[TensorProto.FLOAT] else "fp32"


def _content(path: Path) -> bytes:
    if not path.exists():
        raise UsageError(f"{path}: there is no such file", "Check the path of the model.")
    if not path.is_file():
        raise UsageError(f"{path}: this is not a file", "Give the path of an ONNX file.")
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}", "Check its permissions.") from error


def _checked(content: bytes, path: Path) -> ModelProto:
    import onnx

    try:
        onnx.checker.check_model(str(path))  # by its path: only so does it find weights in files beside it
    except onnx.checker.ValidationError as error:
        reason = (str(error).strip().splitlines() or ["it cannot be decoded"])[0]
        raise UsageError(f"{path}: this is not a valid ONNX model: {reason}", _EXPORT) from error
    model = onnx.load_model_from_string(content)
    if not model.graph.node:
        raise UsageError(f"{path}: there is no network in this file", _EXPORT)
    return model


def _weight_files(model: ModelProto) -> set[str]:
    """Returns the files beside the model that hold weights, as paths from its folder."""
    entries = (entry for tensor in model.graph.initializer for entry in tensor.external_data)
    return {entry.value for entry in entries if entry.key == "location"}


def _input(value: ValueInfoProto, batch: int) -> Input:
    """Returns an input of which all dimensions are fixed."""
    from onnx import helper

    tensor = value.type.tensor_type
    shape = tuple(dim.dim_value for dim in tensor.shape.dim)
    batched = shape[:1] == (batch,)
    dtype = str(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    return Input(value.name, shape[1:] if batched else shape, batched, dtype)


def _infer(light: ModelProto, where: str) -> dict[str, Shape]:
    """Returns the shapes that ONNX infers, of all tensors for which it finds every dimension."""
    import onnx

    try:
        graph = onnx.shape_inference.infer_shapes(light, data_prop=True).graph
    except onnx.shape_inference.InferenceError as error:
        raise UsageError(f"{where}: its shapes do not fit: {str(error).strip().splitlines()[0]}", _EXPORT) from error
    shapes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        tensor = value.type.tensor_type
        if tensor.HasField("shape") and all(dim.HasField("dim_value") for dim in tensor.shape.dim):
            shapes[value.name] = tuple(dim.dim_value for dim in tensor.shape.dim)
    return shapes


def _without_large_weights(model: ModelProto) -> ModelProto:
    """Returns ``model`` with its large weights as inputs, and its functions inlined.

    Inference needs only the shapes of large weights, and would copy them.
    """
    import onnx
    import onnx.inliner

    light = onnx.ModelProto(ir_version=max(model.ir_version, 4), opset_import=model.opset_import)
    light.functions.extend(model.functions)
    graph = light.graph
    graph.name = model.graph.name
    graph.node.extend(model.graph.node)
    listed = {value.name for value in model.graph.input}
    for value in model.graph.input:
        _copy_input(value, graph)
    for value in model.graph.output:  # their shapes may state a batch of the export; types are enough
        graph.output.add(name=value.name).type.tensor_type.elem_type = value.type.tensor_type.elem_type
    for tensor in model.graph.initializer:
        if prod(tensor.dims) <= _LARGE and not tensor.external_data:
            graph.initializer.append(tensor)
        elif tensor.name not in listed:
            graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    return onnx.inliner.inline_local_functions(light) if light.functions else light


def _copy_input(value: ValueInfoProto, graph: GraphProto) -> None:
    """Adds an input to ``graph``; one that may be a shape with its numbers, for shapes that depend on them."""
    from onnx import TensorProto, helper

    tensor = value.type.tensor_type
    size = tensor.shape.dim[0].dim_value if len(tensor.shape.dim) == 1 else 0
    if tensor.elem_type in (TensorProto.INT64, TensorProto.INT32) and 0 < size <= _SHAPE_LENGTH:
        graph.initializer.append(helper.make_tensor(value.name, tensor.elem_type, [size], [_INTEGER] * size))
    else:
        graph.input.append(value)


def _layers(model: ModelProto, weights: set[str], shapes: dict[str, Shape], where: str) -> tuple[Layer, ...]:
    """Returns the layers; adds to ``shapes`` what ONNX could not infer but a layer knows."""
    constants = weights | {""}
    opset = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=1)
    layers = []
    for proto in model.graph.node:
        makes = [name for name in proto.output if name]
        branches = any(attribute.HasField("g") for attribute in proto.attribute)  # these read tensors unlisted
        if makes and not branches and all(name in constants for name in proto.input):
            constants.update(makes)
            continue
        for name in proto.input:
            if name not in constants and name not in shapes:
                raise _shapeless(where, name, f"read by {proto.op_type}")
        node = _node(proto, makes, shapes, constants, opset)
        layer = layer_of(node)
        if layer is None:
            raise _shapeless(where, node.name, f"made by {node.op_type}")
        shapes[layer.name] = layer.shape(node.shapes)
        layers.append(layer)
    return tuple(layers)


def _shapeless(file: str, tensor: str, where: str) -> UsageError:
    return UsageError(
        f"{file}: the shape of {tensor!r}, {where}, cannot be inferred",
        "Export the model with fixed shapes, or simplify it (for instance with onnx-simplifier).",
    )


def _node(proto: NodeProto, makes: list[str], shapes: dict[str, Shape], constants: set[str], opset: int) -> Node:
    from onnx import helper

    computed = tuple(name for name in proto.input if name not in constants)
    fixed = (name for name in proto.input if name in constants and name)
    return Node(
        name=makes[0],
        op_type=proto.op_type,
        opset=opset,
        inputs=computed,
        shapes=tuple(shapes[name] for name in computed),
        constants=tuple(shapes.get(name, ()) for name in fixed),
        attributes={a.name: helper.get_attribute_value(a) for a in proto.attribute},
        made=shapes.get(makes[0]),
        extra=tuple((name, shapes[name]) for name in makes[1:] if name in shapes),
    )
