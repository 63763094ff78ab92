"""Puts together the networks of published measurements that are built of many parts alike, for one batch.

They are what a user's ONNX file of them would be read as, activations apart from convolutions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from engines.network import (
    BatchNorm,
    Concat,
    Conv,
    Eltwise,
    FullyConnected,
    Input,
    Layer,
    MatMul,
    Network,
    Other,
    Pool,
    ReLU,
    Reshape,
    Shape,
    Softmax,
)

Activation = Literal["", "relu", "relu6", "leaky", "silu", "mish"]
_CURVES = {"silu": ("Sigmoid",), "mish": ("Softplus", "Tanh")}  # what their input is multiplied by
_SIMPLE = {"relu6": "Clip", "leaky": "LeakyRelu"}


class Builder:
    """A network in the making. Methods add layers and return the name of the last one's tensor, which others read."""

    def __init__(self, batch: int, size: int, activation: Activation) -> None:
        self.batch = batch
        self._size, self._activation = size, activation
        self._layers: list[Layer] = []
        self._shapes: dict[str, Shape] = {"data": (batch, 3, size, size)}

    def channels(self, source: str) -> int:
        """Returns the channels of a tensor."""
        return self._shapes[source][1]

    def shape(self, source: str) -> Shape:
        """Returns the shape of a tensor, with the batch."""
        return self._shapes[source]

    def conv(
        self,
        source: str,
        filters: int,
        kernel: int = 1,
        stride: int = 1,
        groups: int = 1,
        activation: Activation | None = None,
    ) -> str:
        """Adds a convolution that keeps the size but for its stride, and the network's activation or another."""
        square = (kernel,) * 2, (stride,) * 2, (kernel // 2,) * 4, (1, 1)
        made = self._add(Conv, (source,), filters, *square, groups)
        return self.activation(made, self._activation if activation is None else activation)

    def deep(self, source: str, kernel: int = 3, stride: int = 1, activation: Activation | None = None) -> str:
        """Adds a convolution of each channel by itself."""
        channels = self.channels(source)
        return self.conv(source, channels, kernel, stride, channels, activation)

    def activation(self, source: str, activation: Activation) -> str:
        """Adds an activation."""
        if activation == "relu":
            return self._add(ReLU, (source,))
        if activation in _SIMPLE:
            return self.other(_SIMPLE[activation], source)
        if not activation:
            return source
        curve = source
        for name in _CURVES[activation]:
            curve = self.other(name, curve)
        return self.combine("mul", source, curve)

    def norm(self, source: str) -> str:
        """Adds a batch normalisation and an activation."""
        return self.activation(self._add(BatchNorm, (source,)), self._activation)

    def pool(self, source: str, kernel: int, stride: int, mode: Literal["max", "avg"] = "max", pad: int = 0) -> str:
        """Adds a pooling."""
        return self._add(Pool, (source,), mode, (kernel,) * 2, (stride,) * 2, (pad,) * 4, False, False)

    def mean(self, source: str) -> str:
        """Adds an average over the whole plane."""
        return self._add(Pool, (source,), "avg")

    def combine(self, operation: Literal["add", "mul"], *sources: str) -> str:
        """Adds an operation element by element."""
        return self._add(Eltwise, sources, operation)

    def concat(self, *sources: str, axis: int = 1) -> str:
        """Joins tensors."""
        return self._add(Concat, sources, axis)

    def reshape(self, source: str, *dims: int) -> str:
        """Adds another shape of the same numbers; ``dims`` are without the batch."""
        return self._add(Reshape, (source,), dims)

    def transpose(self, source: str, *order: int) -> str:
        """Adds a transposition; ``order`` has all axes, the batch first."""
        return self.other("Transpose", source, *(self._shapes[source][axis] for axis in order[1:]))

    def split(self, source: str, *parts: int, axis: int = 1) -> list[str]:
        """Cuts a tensor along an axis and returns its parts."""
        whole = self._shapes[source]
        shapes = [(*whole[:axis], part, *whole[axis + 1 :]) for part in parts]
        first = f"split{len(self._layers)}"
        extra = tuple((f"{first}_{number}", shape) for number, shape in enumerate(shapes[1:], 1))
        self._shapes.update(extra)
        self._keep(Other(first, (source,), "Split", shapes[0], extra=extra))
        return [first, *(name for name, _ in extra)]

    def other(self, operation: str, source: str, *dims: int) -> str:
        """Adds an operation that is no layer of ours; ``dims``, without the batch, are the input's unless given."""
        made = (self.batch, *dims) if dims else self._shapes[source]
        return self._add(Other, (source,), operation, made)

    def matmul(self, left: str, right: str) -> str:
        """Adds the product of two tensors."""
        return self._add(MatMul, (left, right))

    def softmax(self, source: str, axis: int) -> str:
        """Adds exponentials that add up to one along an axis."""
        return self._add(Softmax, (source,), axis)

    def doubled(self, source: str) -> str:
        """Adds a plane twice as high and wide, each number four times."""
        _, channels, high, wide = self._shapes[source]
        return self.other("Resize", source, channels, 2 * high, 2 * wide)

    def classes(self, source: str, count: int = 1000) -> str:
        """Ends a network that sorts images: the mean of the plane, and a product for each class."""
        return self._add(FullyConnected, (self.reshape(self.mean(source), -1),), count)

    def network(self, name: str, *outputs: str) -> Network:
        """Returns what was built."""
        data = Input("data", (3, self._size, self._size))
        return Network(name, (data,), tuple(self._layers), outputs, self.batch)

    def _add(self, kind: Callable[..., Layer], sources: tuple[str, ...], *details: object) -> str:
        return self._keep(kind(f"layer{len(self._layers)}", sources, *details))

    def _keep(self, layer: Layer) -> str:
        self._layers.append(layer)
        self._shapes[layer.name] = layer.shape(tuple(self._shapes[name] for name in layer.inputs))
        return layer.name
