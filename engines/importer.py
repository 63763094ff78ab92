"""A user's ONNX file -> Network, for the counts: the file itself is what runs.

Operations that `engines.network` knows become its layers, all others `Other`, with the shapes that ONNX infers. What
depends on weights alone (constants, casts of weights ...) is no layer.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from engines.network import Input, Layer, Network, Shape
from engines.operations import Node, layer_of
from remote.errors import UsageError

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto

_LARGE = 1024
_EXPORT = "Export the model again as ONNX, or run onnx.checker on it to see what is wrong."


@dataclass(frozen=True)
class Imported:
    """A network read from a file. ``digest`` is that of the file and of the weight files beside it."""

    network: Network
    digest: str


def read_onnx(path: Path, batch: int) -> Imported:
    """Returns the network in the ONNX file at ``path``, at ``batch``.

    Raises UsageError, which names the file, where it is missing or no ONNX model, where its batch is fixed at another
    number, and where a dimension other than the batch is not known.
    """
    content = _content(path)
    model = _checked(content, path)
    digest = hashlib.sha256(content)
    for name in sorted(_weight_files(model)):
        digest.update(_content(path.parent / name))
    inputs = _set_batch(model.graph, batch, path)
    light = _without_large_weights(model)
    shapes = _infer(light, path)
    layers = _layers(light, {tensor.name for tensor in model.graph.initializer}, shapes, path)
    made = {name for layer in layers for name in (layer.name, *(n for n, _ in getattr(layer, "extra", ())))}
    made |= {entry.name for entry in inputs}
    outputs = tuple(o.name for o in model.graph.output if o.name in made)
    empty = [name for name, shape in [*shapes.items(), *((i.name, i.shape) for i in inputs)] if 0 in shape]
    if not layers or not outputs or empty:
        what = f"tensor {empty[0]!r} has no elements" if empty else "there is nothing to compute in it"
        raise UsageError(f"{path}: {what}", "Check how the model was exported.")
    return Imported(Network(path.stem, inputs, layers, outputs, batch), digest.hexdigest())


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


def _set_batch(graph: GraphProto, batch: int, path: Path) -> tuple[Input, ...]:
    """Writes ``batch`` into the inputs of ``graph`` and returns them. The first input tells the batch's symbol."""
    constants = {tensor.name for tensor in graph.initializer}
    fed = [value for value in graph.input if value.name not in constants]
    first = fed[0].type.tensor_type.shape.dim[:1] if fed else []
    if first and first[0].dim_value not in (0, batch):
        fixed = first[0].dim_value
        raise UsageError(
            f"{path}: its batch is fixed at {fixed}, {batch} was asked for",
            f"Ask for batch {fixed}, or export the model with a dynamic batch.",
        )
    symbol = first[0].dim_param if first else ""
    return tuple(_input(value, symbol, batch, path) for value in fed)


def _input(value: ValueInfoProto, symbol: str, batch: int, path: Path) -> Input:
    from onnx import helper

    tensor = value.type.tensor_type
    if not value.type.HasField("tensor_type") or not tensor.HasField("shape"):
        raise UsageError(f"{path}: the shape of input {value.name!r} is not in the file", _EXPORT)
    for axis, dim in enumerate(tensor.shape.dim):
        if dim.dim_value > 0:
            continue
        if axis and not (symbol and dim.dim_param == symbol):
            called = f" ({dim.dim_param})" if dim.dim_param else ""
            raise UsageError(
                f"{path}: dimension {axis}{called} of input {value.name!r} is not known",
                "Export the model with this dimension fixed; only the batch may be dynamic.",
            )
        dim.dim_value = batch
    shape = tuple(dim.dim_value for dim in tensor.shape.dim)
    batched = shape[:1] == (batch,)
    dtype = str(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    return Input(value.name, shape[1:] if batched else shape, batched, dtype)


def _infer(light: ModelProto, path: Path) -> dict[str, Shape]:
    """Returns the shapes that ONNX infers, of all tensors for which it finds every dimension."""
    import onnx

    try:
        graph = onnx.shape_inference.infer_shapes(light, data_prop=True).graph
    except onnx.shape_inference.InferenceError as error:
        raise UsageError(f"{path}: its shapes do not fit: {str(error).strip().splitlines()[0]}", _EXPORT) from error
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
    graph.input.extend(model.graph.input)
    listed = {value.name for value in model.graph.input}
    for value in model.graph.output:  # their shapes may state a batch of the export; types are enough
        graph.output.add(name=value.name).type.tensor_type.elem_type = value.type.tensor_type.elem_type
    for tensor in model.graph.initializer:
        if prod(tensor.dims) <= _LARGE and not tensor.external_data:
            graph.initializer.append(tensor)
        elif tensor.name not in listed:
            graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    return onnx.inliner.inline_local_functions(light) if light.functions else light


def _layers(model: ModelProto, weights: set[str], shapes: dict[str, Shape], path: Path) -> tuple[Layer, ...]:
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
                raise _shapeless(path, name, f"read by {proto.op_type}")
        node = _node(proto, makes, shapes, constants, opset)
        layer = layer_of(node)
        if layer is None:
            raise _shapeless(path, node.name, f"made by {node.op_type}")
        shapes[layer.name] = layer.shape(node.shapes)
        layers.append(layer)
    return tuple(layers)


def _shapeless(path: Path, tensor: str, where: str) -> UsageError:
    return UsageError(
        f"{path}: the shape of {tensor!r}, {where}, cannot be inferred",
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
