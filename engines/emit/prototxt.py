"""Network -> Caffe deploy file. The first ``dim:`` is the batch; Caffe fills the weights itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import prod, sqrt

from engines.network import (
    LRN,
    Concat,
    Conv,
    Dropout,
    Eltwise,
    FullyConnected,
    Layer,
    Network,
    Pool,
    ReLU,
    Reshape,
    Shape,
    Softmax,
    inputs_of,
)
from remote.errors import UsageError

Row = tuple[str, str | int | float]
_TYPES = {
    Conv: "Convolution",
    Pool: "Pooling",
    LRN: "LRN",
    FullyConnected: "InnerProduct",
    ReLU: "ReLU",
    Dropout: "Dropout",
    Softmax: "Softmax",
    Eltwise: "Eltwise",
    Concat: "Concat",
    Reshape: "Reshape",
}


def prototxt(network: Network, batch: int) -> str:
    """Returns the deploy file of ``network`` at ``batch``.

    Raises UsageError for a layer that Caffe does not have or computes otherwise.
    """
    shapes = network.shapes(batch)
    lines = [f'name: "{network.name}"']
    for entry in network.inputs:
        dims = [f"  dim: {size}" for size in shapes[entry.name]]
        lines += [f'input: "{entry.name}"', "input_shape {", *dims, "}"]
    readers = Counter(name for layer in network.layers for name in layer.inputs) + Counter(network.outputs)
    blobs = {entry.name: entry.name for entry in network.inputs}
    for layer in network.layers:
        bottoms = [blobs[name] for name in layer.inputs]
        # ReLU and dropout overwrite their input, as in Caffe's own deploy files, where nobody else reads it.
        in_place = isinstance(layer, ReLU | Dropout) and readers[layer.inputs[0]] == 1
        in_place = in_place and all(layer.inputs[0] != entry.name for entry in network.inputs)
        blobs[layer.name] = bottoms[0] if in_place else layer.name
        lines += _layer(layer, inputs_of(layer, shapes), bottoms, blobs[layer.name])
    return "\n".join(lines) + "\n"


def _layer(layer: Layer, inputs: tuple[Shape, ...], bottoms: list[str], top: str) -> list[str]:
    if type(layer) not in _TYPES:
        raise _unknown(layer, f"Caffe has no layer for {layer.kind}")
    head = [f'  name: "{layer.name}"', f'  type: "{_TYPES[type(layer)]}"']
    tensors = [*(f'  bottom: "{name}"' for name in bottoms), f'  top: "{top}"']
    return ["layer {", *head, *tensors, *_parameters(layer, inputs), "}"]


def _parameters(layer: Layer, inputs: tuple[Shape, ...]) -> list[str]:
    """Returns the layer's block of parameters, indented; nothing where Caffe's defaults are meant."""
    match layer:
        case Conv():
            rows = [*_window(layer, layer.kernel, layer.stride, layer.pad), *_group(layer)]
            return _block("convolution_param", [("num_output", layer.filters), *rows], _fillers(layer, inputs))
        case FullyConnected():
            if layer.axis != 1:
                raise _unknown(layer, f"axis {layer.axis} is not emitted")
            return _block("inner_product_param", [("num_output", layer.filters)], _fillers(layer, inputs))
        case Pool():
            return _block("pooling_param", _pool(layer, inputs))
        case LRN():
            rows = [("local_size", layer.size), ("alpha", layer.alpha), ("beta", layer.beta), ("k", layer.k)]
            return _block("lrn_param", rows[: 3 if layer.k == 1 else 4])
        case Dropout():
            return _block("dropout_param", [("dropout_ratio", layer.ratio)])
        case Eltwise():
            if layer.operation not in ("add", "mul") or len(set(inputs)) > 1:
                raise _unknown(layer, "Caffe only adds and multiplies tensors of one shape")
            return _block("eltwise_param", [("operation", "SUM" if layer.operation == "add" else "PROD")])
        case Softmax() | Concat() if layer.axis != 1:
            return _block("softmax_param" if isinstance(layer, Softmax) else "concat_param", [("axis", layer.axis)])
        case Reshape():
            dims = " ".join(f"dim: {size}" for size in (0, *layer.dims))
            return _block("reshape_param", [], [f"    shape {{ {dims} }}"])
        case _:
            return []


def _pool(layer: Pool, inputs: tuple[Shape, ...]) -> list[Row]:
    mode: Row = ("pool", "MAX" if layer.mode == "max" else "AVE")
    if not layer.kernel:
        return [mode, ("global_pooling", "true")]
    if replace(layer, ceil=True).shape(inputs) != layer.shape(inputs):
        raise _unknown(layer, "Caffe rounds the size of its pooling up, this layer rounds down")
    if layer.mode == "avg" and any(layer.pad) and not layer.count_pad:
        raise _unknown(layer, "Caffe counts padding in its averages, this layer does not")
    return [mode, *_window(layer, layer.kernel, layer.stride, layer.pad)]


def _window(layer: Layer, kernel: Shape, stride: Shape, pad: Shape) -> list[Row]:
    """Returns kernel, stride and pad: one number each where both axes agree, else one per axis."""
    if len(kernel) != 2 or pad[:2] != pad[2:]:
        raise _unknown(layer, "Caffe's windows have two axes and as much padding before as after")
    rows: list[Row] = []
    for name, pair, default in (("kernel", kernel, 0), ("stride", stride, 1), ("pad", pad[:2], 0)):
        if pair[0] != pair[1]:
            rows += [(f"{name}_h", pair[0]), (f"{name}_w", pair[1])]
        elif pair[0] != default:
            rows.append(("kernel_size" if name == "kernel" else name, pair[0]))
    return rows


def _group(layer: Conv) -> list[Row]:
    rows: list[Row] = [("group", layer.groups)] if layer.groups > 1 else []
    if layer.dilation != (1, 1):
        rows += [("dilation", size) for size in layer.dilation]
    return rows


def _fillers(layer: Conv | FullyConnected, inputs: tuple[Shape, ...]) -> list[str]:
    deviation = sqrt(2 / prod(layer.weights(inputs)[0][1:]))
    kernel = f'    weight_filler {{ type: "gaussian" std: {deviation:.6g} }}'
    return [kernel, '    bias_filler { type: "constant" value: 0.01 }' if layer.bias else "    bias_term: false"]


def _block(name: str, rows: list[Row], more: list[str] | None = None) -> list[str]:
    return [f"  {name} {{", *(f"    {key}: {value}" for key, value in rows), *(more or []), "  }"]


def _unknown(layer: Layer, why: str) -> UsageError:
    return UsageError(f"layer {layer.name!r}: {why}", "Use another toolchain for this network.")
