"""A network -> the work that a library gives to the GPU. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Literal

from engines.cost import LayerCost, Precision, cost
from engines.network import Conv, Eltwise, Layer, Network
from remote.sim.physics import Work

Flavour = Literal["caffe", "tensorrt"]

# Caffe does these in place or by passing a pointer on; TensorRT leaves them out or lets their inputs write in place.
_FREE = {"caffe": ("Dropout", "Reshape"), "tensorrt": ("Dropout", "Reshape", "Concat")}
# TensorRT computes these at the end of the layer that they follow.
_FUSED, _HOSTS = ("ReLU", "BatchNorm"), ("Conv", "FullyConnected", "Eltwise")
# Assumed: groups of fewer filters than this have kernels of their own, which do without tiles, as have products with a
# vector.
_FEW_ROWS = 16


def works(network: Network, batch: int, precision: Precision, flavour: Flavour) -> tuple[Work, ...]:
    """Returns a row per layer in the order of the network, for the whole batch.

    Caffe starts every layer by itself, a convolution once per group and a concatenation once per input, and adds a bias
    in a pass of its own. TensorRT does activations and normalisation within the layer before, and adds the other input
    of a sum at the end of the convolution that makes one: no work is left of them but to read that other input.
    Raises UsageError where the shapes do not fit.
    """
    layers = {layer.name: layer for layer in network.layers}
    rows: list[Work] = []
    for row in cost(network, batch, precision):
        layer = layers[row.name]
        before = layers.get(layer.inputs[0]) if layer.inputs else None
        fused = flavour == "tensorrt" and row.kind in _FUSED and before is not None and before.kind in _HOSTS
        if flavour == "tensorrt" and _ends_convolution(layer, layers, network):
            maker = next(n for n, work in enumerate(rows) if work.name == layer.inputs[0])
            rows[maker] = replace(rows[maker], bytes=rows[maker].bytes + row.read_bytes / 2)
            fused = True
        if fused or row.kind in _FREE[flavour]:
            rows.append(Work(row.name, 0.0, 0.0, 0.0, precision, 0.0))
        else:
            rows.append(_work(layer, row, precision, flavour))
    return tuple(rows)


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
