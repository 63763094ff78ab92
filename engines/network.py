"""A neural network as a small typed graph: the single source of every file and every count made from it.

Each layer makes one tensor, which carries the layer's name. Shapes are NCHW; the batch is given when shapes are asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Literal

from remote.errors import UsageError

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Input:
    """A tensor that the caller feeds. ``shape`` leaves the batch out, except where ``batched`` is False."""

    name: str
    shape: Shape
    batched: bool = True
    dtype: str = "float32"


@dataclass(frozen=True)
class Layer:
    """What all layers share: a name, which is also that of the tensor made, and the names of the tensors read."""

    name: str
    inputs: tuple[str, ...]

    @property
    def kind(self) -> str:
        """The kind of layer, in one word, as shown to people."""
        return type(self).__name__

    def shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Returns the shape made from ``inputs``: the first one's, unless a layer says otherwise. Raises UsageError."""
        return inputs[0]

    def weights(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        """Returns the shapes of the learned arrays: kernel first, then bias; empty for most layers."""
        return ()

    def complain(self, what: str) -> UsageError:
        """Returns (does not raise) the error that names this layer."""
        return UsageError(f"layer {self.name!r} ({self.kind}): {what}", "Check the definition of the network.")

    def _spatial(self, shape: Shape, rank: int) -> Shape:
        """Returns the dimensions after batch and channels; ``rank`` of them are expected."""
        if len(shape) != rank + 2:
            raise self.complain(f"expects {rank + 2} dimensions, its input has {len(shape)}: {shape}")
        return shape[2:]


@dataclass(frozen=True)
class Conv(Layer):
    """Convolution. ``pad`` holds what is added before each axis, then what is added after each."""

    filters: int
    kernel: Shape
    stride: Shape
    pad: Shape
    dilation: Shape
    groups: int = 1
    bias: bool = True

    @classmethod
    def square(
        cls, name: str, source: str, filters: int, kernel: int, *, stride: int = 1, pad: int = 0, groups: int = 1
    ) -> Conv:
        """Returns a two-dimensional convolution that treats both axes alike."""
        return cls(name, (source,), filters, (kernel,) * 2, (stride,) * 2, (pad,) * 4, (1, 1), groups)

    def shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Returns the shape made; the last step that does not fit is dropped."""
        spatial, n = self._spatial(inputs[0], len(self.kernel)), len(self.kernel)
        if inputs[0][1] % self.groups or self.filters % self.groups:
            raise self.complain(f"{inputs[0][1]} channels, {self.filters} filters do not split in {self.groups} groups")
        reach = tuple(self.dilation[i] * (self.kernel[i] - 1) + 1 for i in range(n))
        out = tuple((spatial[i] + self.pad[i] + self.pad[n + i] - reach[i]) // self.stride[i] + 1 for i in range(n))
        if min(out, default=1) < 1:
            raise self.complain(f"the kernel {self.kernel} is larger than its input {spatial}")
        return (inputs[0][0], self.filters, *out)

    def weights(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        """Returns the shapes of the kernel [filters, channels per group, height, width] and of the bias."""
        kernel = (self.filters, inputs[0][1] // self.groups, *self.kernel)
        return (kernel, (self.filters,)) if self.bias else (kernel,)


@dataclass(frozen=True)
class Pool(Layer):
    """Maximum or average over windows; over the whole plane where ``kernel`` is empty.

    ``ceil`` is Caffe's rule: the size is rounded up, and a last window that would start beyond image and padding is
    dropped. ``count_pad``: averages divide by the window's size with its padding, as Caffe does.
    """

    mode: Literal["max", "avg"]
    kernel: Shape = ()
    stride: Shape = ()
    pad: Shape = ()
    ceil: bool = True
    count_pad: bool = True

    @classmethod
    def square(
        cls, name: str, source: str, mode: Literal["max", "avg"], kernel: int, *, stride: int = 1, pad: int = 0
    ) -> Pool:
        """Returns a two-dimensional pooling that treats both axes alike and rounds up."""
        return cls(name, (source,), mode, (kernel,) * 2, (stride,) * 2, (pad,) * 4)

    def shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Returns the shape made."""
        if not self.kernel:
            return (*inputs[0][:2], *(1 for _ in inputs[0][2:]))
        spatial = self._spatial(inputs[0], len(self.kernel))
        out = tuple(self._length(i, size) for i, size in enumerate(spatial))
        if min(out) < 1:
            raise self.complain(f"the window {self.kernel} is larger than its input {spatial}")
        return (*inputs[0][:2], *out)

    def _length(self, axis: int, size: int) -> int:
        before, after = self.pad[axis], self.pad[len(self.kernel) + axis]
        stride, room = self.stride[axis], size + before + after - self.kernel[axis]
        if not self.ceil or room < 0:
            return room // stride + 1
        out = -(-room // stride) + 1
        return out - 1 if (out - 1) * stride >= size + before else out


@dataclass(frozen=True)
class LRN(Layer):
    """Local response normalisation across channels: x / (k + alpha / size x sum of squares)^beta."""

    size: int = 5
    alpha: float = 1e-4
    beta: float = 0.75
    k: float = 1.0


@dataclass(frozen=True)
class FullyConnected(Layer):
    """Every input of an image to every output. Axes from ``axis`` on are flattened into one."""

    filters: int
    bias: bool = True
    axis: int = 1

    def shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Returns the shape made."""
        return (*inputs[0][: self.axis], self.filters)

    def weights(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        """Returns the shapes of the matrix [outputs, inputs] and of the bias."""
        matrix = (self.filters, prod(inputs[0][self.axis :]))
        return (matrix, (self.filters,)) if self.bias else (matrix,)


@dataclass(frozen=True)
class MatMul(Layer):
    """Product of two tensors that are both computed; axes before the last two are broadcast."""

    def shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Returns the shape made."""
        left, right = inputs
        if len(left) < 2 or len(right) < 2 or left[-1] != right[-2]:
            raise self.complain(f"{left} and {right} cannot be multiplied")
        return (*self._broadcast(left[:-2], right[:-2]), left[-2], right[-1])

    def _broadcast(self, left: Shape, right: Shape) -> Shape:
        return broadcast((left, right), self.complain)


@dataclass(frozen=True)
class ReLU(Layer):
    """max(x, 0)."""


@dataclass(frozen=True)
class Dropout(Layer):
    """Passes its input on: this is inference. Kept because Caffe runs a layer for it. ``ratio`` is informative."""

    ratio: float = 0.5


@dataclass(frozen=True)
class Softmax(Layer):
    """Exponentials along ``axis``, scaled to a sum of one."""

    axis: int = 1


@dataclass(frozen=True)
class BatchNorm(Layer):
    """Scale and shift per channel, from learned statistics."""

    epsilon: float = 1e-5

    def weights(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        """Returns the shapes of scale, shift, mean and variance."""
        return ((inputs[0][1],),) * 4


@dataclass(frozen=True)
class Eltwise(Layer):
    """Combines tensors element by element; axes of length one are broadcast."""

    operation: Literal["add", "sub", "mul", "div"] = "add"

    def shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Returns the shape made."""
        return broadcast(inputs, self.complain)


@dataclass(frozen=True)
class Concat(Layer):
    """Joins tensors along ``axis``."""

    axis: int = 1

    def shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Returns the shape made."""
        axis = self.axis % len(inputs[0])
        rest = {(*shape[:axis], *shape[axis + 1 :]) for shape in inputs}
        if len(rest) != 1:
            raise self.complain(f"its inputs differ outside axis {axis}: {inputs}")
        return (*inputs[0][:axis], sum(shape[axis] for shape in inputs), *inputs[0][axis + 1 :])


@dataclass(frozen=True)
class Reshape(Layer):
    """The same numbers in another shape. ``dims`` leaves the batch out; one of them may be -1. ``(-1,)`` flattens."""

    dims: Shape = (-1,)

    def shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Returns the shape made."""
        size, known = prod(inputs[0][1:]), prod(d for d in self.dims if d != -1)
        if size % known or (-1 not in self.dims and size != known):
            raise self.complain(f"{inputs[0][1:]} does not fit {self.dims}")
        return (inputs[0][0], *(size // known if d == -1 else d for d in self.dims))


@dataclass(frozen=True)
class Other(Layer):
    """Any other operation of a user's model: ``made`` is its shape with the batch, ``extra`` its further tensors."""

    op_type: str
    made: Shape
    parameters: int = 0
    macs: int = 0
    extra: tuple[tuple[str, Shape], ...] = ()

    @property
    def kind(self) -> str:
        """The name of the operation in the user's model."""
        return self.op_type

    def shape(self, inputs: tuple[Shape, ...]) -> Shape:
        """Returns the shape that was found when the model was read."""
        return self.made

    def weights(self, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        """Returns all learned numbers as one array."""
        return ((self.parameters,),) if self.parameters else ()


@dataclass(frozen=True)
class Network:
    """Layers in an order in which they can run. ``fixed_batch``: the only batch it was read for; 0 for any."""

    name: str
    inputs: tuple[Input, ...]
    layers: tuple[Layer, ...]
    outputs: tuple[str, ...]
    fixed_batch: int = 0

    def shapes(self, batch: int) -> dict[str, Shape]:
        """Returns the shape of every tensor at ``batch``, inputs included.

        Raises UsageError for a batch that cannot be, or naming the layer that does not fit its inputs.
        """
        if batch < 1:
            raise UsageError(f"batch {batch} of {self.name}: there is no such batch", "Give a batch of 1 or more.")
        if self.fixed_batch not in (0, batch):
            raise UsageError(
                f"{self.name} was read for batch {self.fixed_batch}, not {batch}",
                "Load the model again for this batch.",
            )
        found = {i.name: (batch, *i.shape) if i.batched else i.shape for i in self.inputs}
        for layer in self.layers:
            found[layer.name] = layer.shape(inputs_of(layer, found))
            if isinstance(layer, Other):
                found.update(layer.extra)
        for name in self.outputs:
            if name not in found:
                raise UsageError(
                    f"{self.name}: nothing makes its output {name!r}", "Check the definition of the network."
                )
        return found


def inputs_of(layer: Layer, shapes: dict[str, Shape]) -> tuple[Shape, ...]:
    """Returns the shapes that ``layer`` reads. Raises UsageError where one was not made before it."""
    try:
        return tuple(shapes[name] for name in layer.inputs)
    except KeyError as error:
        raise layer.complain(f"nothing before it makes its input {error.args[0]!r}") from None


def broadcast(shapes: tuple[Shape, ...], complain: Callable[[str], UsageError]) -> Shape:
    """Returns the common shape of ``shapes``, aligned at the last axis; raises what ``complain`` makes."""
    rank = max(map(len, shapes))
    out = []
    for sizes in zip(*((1,) * (rank - len(shape)) + shape for shape in shapes), strict=True):
        wide = {size for size in sizes if size != 1}
        if len(wide) > 1:
            raise complain(f"its inputs do not fit together: {shapes}")
        out.append(wide.pop() if wide else 1)
    return tuple(out)
