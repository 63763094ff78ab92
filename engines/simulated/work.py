"""A network -> the work that a library gives to the GPU. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import prod
from typing import Any, Literal

from engines.cost import LayerCost, Precision, cost
from engines.network import Conv, Eltwise, Layer, Network
from remote.sim.physics import Work

Flavour = Literal["caffe", "tensorrt"]

# Caffe does these in place or by passing a pointer on; TensorRT leaves them out or lets their inputs write in place.
_FREE = {"caffe": ("Dropout", "Reshape"), "tensorrt": ("Dropout", "Reshape", "Concat")}
# TensorRT computes these at the end of the layer that they follow, one after another. A normalisation that follows none
# of them, as in DenseNet, takes its activation along.
_CURVES = ("Sigmoid", "HardSigmoid", "HardSwish", "Tanh", "Softplus")
FUSED = ("ReLU", "BatchNorm", "Clip", "LeakyRelu", *_CURVES)
_HOSTS = ("Conv", "FullyConnected", "Eltwise", "BatchNorm")
_AMPERE = 8.0  # the compute capability
# Assumed: groups of fewer filters than this have kernels of their own, which do without tiles, as have products with a
# vector.
_FEW_ROWS = 16


def from_ampere(twin: Mapping[str, Any]) -> bool:
    """Says whether a board's GPU is of Ampere's generation or later."""
    return float(twin["gpu"]["sm"]) >= _AMPERE


def works(
    network: Network, batch: int, precision: Precision, flavour: Flavour, *, curves: bool = False
) -> tuple[Work, ...]:
    """Returns a row per layer in the order of the network, for the whole batch.

    Caffe starts every layer by itself, a convolution once per group and a concatenation once per input, and adds a bias
    in a pass of its own. TensorRT does activations and normalisation within the layer before, and adds the other input
    of a sum at the end of the convolution that makes one: no work is left of them but to read that other input. With
    ``curves`` so it does sigmoids and their like, and the product that makes a SiLU of one; YOLO's measured times ask
    for that from Ampere on (`from_ampere`), not before.
    Raises UsageError where the shapes do not fit.
    """
    layers = {layer.name: layer for layer in network.layers}
    rows: list[Work] = []
    ends: dict[str, str] = {}  # by the name of a layer that of the layer at whose end it is computed
    for row in cost(network, batch, precision):
        layer = layers[row.name]
        hosts = {ends.get(name, "") for name in layer.inputs} if flavour == "tensorrt" else set()
        fused = len(hosts) == 1 and hosts != {""} and (curves or row.kind not in _CURVES) and _joins(layer)
        if flavour == "tensorrt" and _ends_convolution(layer, layers, network):
            maker = next(n for n, work in enumerate(rows) if work.name == layer.inputs[0])
            rows[maker] = replace(rows[maker], bytes=rows[maker].bytes + row.read_bytes / 2)
            fused, hosts = True, {layer.inputs[0]}
        if fused or row.kind in _HOSTS:
            ends[row.name] = max(hosts) if fused else row.name
        if fused or row.kind in _FREE[flavour]:
            rows.append(Work(row.name, 0.0, 0.0, 0.0, precision, 0.0))
        else:
            rows.append(_work(layer, row, precision, flavour))
    return tuple(rows)


def in_tf32(rows: Iterable[Work], share: float) -> tuple[Work, ...]:
    """Returns FP32 work with its products done in TF32: as those of FP16 at ``share`` of the rate, with its bytes."""
    return tuple(replace(row, precision="fp16", flops=row.flops / share) if row.outputs else row for row in rows)


def _joins(layer: Layer) -> bool:
    """Says whether a layer can be computed at the end of another one that makes all that it reads."""
    return layer.kind in FUSED or (isinstance(layer, Eltwise) and len(layer.inputs) > 1)


def _ends_convolution(layer: Layer, layers: Mapping[str, Layer], network: Network) -> bool:
    """Says whether a layer adds two inputs, of which a convolution makes the first for it alone."""
    if not isinstance(layer, Eltwise) or len(layer.inputs) != 2 or not isinstance(layers.get(layer.inputs[0]), Conv):
        return False
    return sum(layer.inputs[0] in other.inputs for other in network.layers) == 1


def _work(layer: Layer, row: LayerCost, precision: Precision, flavour: Flavour) -> Work:
    moved = row.read_bytes + row.written_bytes
    launches = 1
    if flavour == "caffe":
        launches = len(row.input_shapes) if row.kind == "Concat" else getattr(layer, "groups", 1)
        moved += 2 * row.written_bytes if row.macs and getattr(layer, "bias", False) else 0
    rows, columns, groups = _product(layer, row) if row.macs else (0, 0, 1)
    return Work(
        name=row.name,
        flops=row.operations,
        bytes=moved,
        outputs=row.outputs if row.macs else 0,
        precision=precision,
        launches=launches,
        rows=rows if columns > 1 and (groups == 1 or rows >= _FEW_ROWS) else 0,
        columns=columns,
        groups=groups,
        winograd=_winograd(layer),
    )


def _product(layer: Layer, row: LayerCost) -> tuple[int, int, int]:
    """Returns rows and columns of a layer's matrix product, and how many such products there are."""
    if isinstance(layer, Conv):
        return layer.filters // layer.groups, prod(row.output_shape) // layer.filters, layer.groups
    wide = row.output_shape[-1]
    return wide, prod(row.output_shape) // wide, 1


def _winograd(layer: Layer) -> bool:
    """Says whether Winograd's method applies (Lavin and Gray, 2015)."""
    return isinstance(layer, Conv) and set(layer.kernel) == {3} and set(layer.stride + layer.dilation) == {1}
