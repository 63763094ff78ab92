"""A network -> the work that a library gives to the GPU. Pure."""

from __future__ import annotations

import math
from math import prod
from typing import Literal

from engines.cost import LayerCost, Precision, cost
from engines.network import Conv, Layer, Network
from remote.sim.physics import Work

Flavour = Literal["caffe", "tensorrt"]

# Caffe does these in place or by passing a pointer on; TensorRT leaves them out or lets their inputs write in place.
_FREE = {"caffe": ("Dropout", "Reshape"), "tensorrt": ("Dropout", "Reshape", "Concat")}
# TensorRT computes these at the end of the layer that they follow.
_FUSED, _HOSTS = ("ReLU", "BatchNorm"), ("Conv", "FullyConnected", "Eltwise")


def works(network: Network, batch: int, precision: Precision, flavour: Flavour) -> tuple[Work, ...]:
    """Returns a row per layer in the order of the network, for the whole batch.

    Caffe starts every layer by itself, a convolution once per group and a concatenation once per input, and adds a bias
    in a pass of its own. TensorRT does activations and normalisation within the layer before: no work is left of them.
    Raises UsageError where the shapes do not fit.
    """
    layers = {layer.name: layer for layer in network.layers}
    rows = []
    for row in cost(network, batch, precision):
        layer = layers[row.name]
        before = layers.get(layer.inputs[0]) if layer.inputs else None
        fused = flavour == "tensorrt" and row.kind in _FUSED and before is not None and before.kind in _HOSTS
        if fused or row.kind in _FREE[flavour]:
            rows.append(Work(row.name, 0.0, 0.0, 0.0, precision, 0.0))
        else:
            rows.append(_work(layer, row, precision, flavour))
    return tuple(rows)


def _work(layer: Layer, row: LayerCost, precision: Precision, flavour: Flavour) -> Work:
    moved = row.read_bytes + row.written_bytes
    launches = 1
    if flavour == "caffe":
        launches = len(row.input_shapes) if row.kind == "Concat" else getattr(layer, "groups", 1)
        moved += 2 * row.written_bytes if row.macs and getattr(layer, "bias", False) else 0
    return Work(
        name=row.name,
        flops=row.operations,
        bytes=moved,
        outputs=row.outputs if row.macs else 0,
        precision=precision,
        launches=launches,
        columns=_columns(layer, row) if row.macs else math.inf,
    )


def _columns(layer: Layer, row: LayerCost) -> float:
    """Returns the columns of a layer's matrix product. With a vector there is one and no tile to fill: infinite."""
    rows = row.output_shape[1] if isinstance(layer, Conv) else row.output_shape[-1]
    columns = prod(row.output_shape) // rows
    return columns if columns > 1 else math.inf
