"""What a network costs, layer by layer: arithmetic, parameters and bytes. Pure counting, nothing is measured.

The counts follow Castro et al. (energy study of CNNs on GPUs), with W and H the sizes of an output plane:

- convolution: k_w k_h W H c_in c_out multiply-accumulates (c_in per group) and W H c_out additions for its bias;
- fully connected: inputs x outputs multiply-accumulates, and the additions of its bias;
- pooling: k_w k_h W H c; ReLU and dropout: one per element; batch normalisation: two; softmax: three.

Not in that study: LRN, 2 x size + 3 per element (square, sum the window; scale, shift, power, quotient); element-wise
layers, one per element and further input; any other operation of a user's model, one per element made.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Literal

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
    Other,
    Pool,
    ReLU,
    Reshape,
    Shape,
    Softmax,
    inputs_of,
)

Precision = Literal["fp32", "fp16"]
BYTES_PER_NUMBER = {"fp32": 4, "fp16": 2}


@dataclass(frozen=True)
class LayerCost:
    """The cost of one layer for a whole batch.

    ``operations`` are the arithmetic operations executed: a multiply-accumulate counts as two, a multiplication and an
    addition; so a convolution has 2 x ``macs`` and its bias. ``read_bytes`` are the inputs and the weights, each once;
    ``weight_bytes`` is the part of it that are weights and, like ``parameters``, does not grow with the batch.
    ``outputs`` counts the elements made.
    """

    name: str
    kind: str
    input_shapes: tuple[Shape, ...]
    output_shape: Shape
    macs: int
    operations: int
    parameters: int
    read_bytes: int
    written_bytes: int
    weight_bytes: int
    outputs: int

    @property
    def operations_per_byte(self) -> float:
        """Operations per byte that is read or written; 0 where nothing moves."""
        moved = self.read_bytes + self.written_bytes
        return self.operations / moved if moved else 0.0


@dataclass(frozen=True)
class Totals:
    """Sums over layers, for a whole batch; the fields are those of `LayerCost`."""

    macs: int
    operations: int
    parameters: int
    read_bytes: int
    written_bytes: int
    weight_bytes: int
    outputs: int


def cost(network: Network, batch: int, precision: Precision = "fp32") -> tuple[LayerCost, ...]:
    """Returns a row per layer, in the order of the network. Raises UsageError where its shapes do not fit."""
    shapes = network.shapes(batch)
    return tuple(_layer(layer, inputs_of(layer, shapes), shapes[layer.name], precision) for layer in network.layers)


def total(costs: Iterable[LayerCost]) -> Totals:
    """Returns the sums of ``costs``."""
    rows = tuple(costs)
    return Totals(**{name: sum(getattr(row, name) for row in rows) for name in Totals.__dataclass_fields__})


def _layer(layer: Layer, inputs: tuple[Shape, ...], made: Shape, precision: Precision) -> LayerCost:
    size = BYTES_PER_NUMBER[precision]
    parameters = sum(map(prod, layer.weights(inputs)))
    macs = _macs(layer, inputs, made)
    written = prod(made) + (sum(prod(shape) for _, shape in layer.extra) if isinstance(layer, Other) else 0)
    return LayerCost(
        name=layer.name,
        kind=layer.kind,
        input_shapes=inputs,
        output_shape=made,
        macs=macs,
        operations=2 * macs + _beside_macs(layer, inputs, made),
        parameters=parameters,
        read_bytes=size * (sum(map(prod, inputs)) + parameters),
        written_bytes=size * written,
        weight_bytes=size * parameters,
        outputs=written,
    )


def _macs(layer: Layer, inputs: tuple[Shape, ...], made: Shape) -> int:
    if isinstance(layer, Conv | FullyConnected):
        return prod(made) * prod(layer.weights(inputs)[0][1:])
    if isinstance(layer, MatMul):
        return prod(made) * inputs[0][-1]
    return layer.macs if isinstance(layer, Other) else 0


def _beside_macs(layer: Layer, inputs: tuple[Shape, ...], made: Shape) -> int:
    """Operations that are not part of a multiply-accumulate."""
    elements = prod(made)
    match layer:
        case Conv() | FullyConnected():
            return elements if layer.bias else 0
        case Pool():
            return elements * prod(layer.kernel or inputs[0][2:])
        case LRN():
            return elements * (2 * layer.size + 3)
        case Softmax():
            return 3 * elements
        case BatchNorm():
            return 2 * elements
        case Eltwise():
            return (len(inputs) - 1) * elements
        case ReLU() | Dropout():
            return elements
        case MatMul() | Concat() | Reshape():
            return 0
        case _:
            return elements
