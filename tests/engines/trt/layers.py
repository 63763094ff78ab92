"""Layers of the stand-in: what is recorded of each, and the shapes that TensorRT documents for them."""

from __future__ import annotations

from math import prod
from typing import Any, ClassVar

from tests.engines.trt.tensors import ILayer, Invalid, Shape


class _Window(ILayer):
    """A window that slides over the axes after batch and channels."""

    _pre_padding: Shape
    _post_padding: Shape

    def _start(self, name: str, inputs: list[Any], outputs: int = 1, **fields: Any) -> None:
        kernel = fields["kernel_size_nd"] if "kernel_size_nd" in fields else fields["window_size_nd"]
        n = len(kernel)
        self._window = tuple(kernel)
        self._stride_nd, self._dilation_nd = (1,) * n, (1,) * n
        self._pre_padding = self._post_padding = (0,) * n
        self._padding_mode = self._trt.types["PaddingMode"].EXPLICIT_ROUND_DOWN
        super()._start(name, inputs, outputs, **fields)

    def _check(self) -> None:
        if len(self._read()) != len(self._window) + 2 or len(self._window) not in (2, 3):
            raise Invalid(f"{self._name}: a window of {self._window} on dimensions {self._read()}")

    def _get_padding_nd(self) -> Any:
        return self._trt.new("Dims", self._pre_padding)

    def _set_padding_nd(self, value: Shape) -> None:
        self._pre_padding = self._post_padding = value

    _get_padding, _set_padding = _get_padding_nd, _set_padding_nd

    def _get_stride(self) -> Shape:
        return self._stride_nd

    def _set_stride(self, value: Shape) -> None:
        self._stride_nd = value

    def _spans(self) -> list[tuple[int, int, int, int, int]]:
        """Returns per axis: length made, padding before and after, stride, dilation; as the padding mode has it."""
        mode = str(self._padding_mode).split(".")[-1]
        sizes = zip(self._read()[2:], self._window, strict=True)
        return [self._span(mode, axis, size, window) for axis, (size, window) in enumerate(sizes)]

    def _span(self, mode: str, axis: int, size: int, window: int) -> tuple[int, int, int, int, int]:
        stride, dilation = self._stride_nd[axis], self._dilation_nd[axis]
        before, after = self._pre_padding[axis], self._post_padding[axis]
        reach = 1 + dilation * (window - 1)
        if mode.startswith("SAME"):
            out = -(-size // stride)
            pad = max((out - 1) * stride + reach - size, 0)
            before, after = (pad // 2, pad - pad // 2) if mode == "SAME_UPPER" else (pad - pad // 2, pad // 2)
            return out, before, after, stride, dilation
        if mode.startswith("CAFFE"):
            after = before
        room = size + before + after - reach
        out = (-(-room // stride) if mode.endswith("UP") else room // stride) + 1
        if mode == "CAFFE_ROUND_UP" and (out - 1) * stride >= size + before:
            out -= 1
        if room < 0 or out < 1:
            raise Invalid(f"{self._name}: window {self._window} is larger than its input {self._read()}")
        return out, before, after, stride, dilation


class IConvolutionLayer(_Window):
    """``kernel`` is [maps, channels per group, ...]."""

    _kind = "convolution"
    _fields = ("num_groups",)
    _start_values: ClassVar[dict[str, Any]] = {"num_groups": 1}
    _rounds = True

    def _shape(self, index: int) -> Shape:
        channels, needed = self._read()[1], self._num_output_maps * prod(self._window)
        if channels % self._num_groups or self._num_output_maps % self._num_groups:
            raise Invalid(f"{self._name}: {channels} channels do not split in {self._num_groups} groups")
        if len(self._kernel) != needed * channels // self._num_groups:
            raise Invalid(f"{self._name}: kernel weights has count {len(self._kernel)} but another was expected")
        if self._bias and len(self._bias) not in (0, self._num_output_maps):
            raise Invalid(f"{self._name}: bias weights has count {len(self._bias)}")
        return (self._read()[0], self._num_output_maps, *(span[0] for span in self._spans()))

    def _parameters(self) -> dict[str, Any]:
        found = {**super()._parameters(), "spans": self._spans(), "window": self._window}
        channels = self._read()[1] // self._num_groups
        found["kernel"] = found["kernel"].reshape(self._num_output_maps, channels, *self._window)
        return found


class IPoolingLayer(_Window):
    """An average leaves padding out of its count unless told otherwise."""

    _kind = "pooling"
    _fields = ("type", "average_count_excludes_padding")
    _start_values: ClassVar[dict[str, Any]] = {"average_count_excludes_padding": True}

    def _get_type(self) -> Any:
        return self._type

    def _shape(self, index: int) -> Shape:
        return (*self._read()[:2], *(span[0] for span in self._spans()))

    def _parameters(self) -> dict[str, Any]:
        spans = self._spans()
        over = any(
            (out - 1) * stride + window > size + before + after
            for size, window, (out, before, after, stride, _) in zip(self._read()[2:], self._window, spans, strict=True)
        )
        if over and str(self._type).endswith("AVERAGE") and not self._average_count_excludes_padding:
            raise AssertionError(f"{self._name}: by what TensorRT divides the last window here is not documented")
        return {**super()._parameters(), "spans": spans, "window": self._window}


class ILRNLayer(ILayer):
    """Across channels."""

    _kind = "lrn"
    _fields = ("window_size", "alpha", "beta", "k")

    def _check(self) -> None:
        fits = self._window_size % 2 == 1 and 1 <= self._window_size <= 15 and self._beta >= 0.01 and self._k >= 1e-5
        if not fits or len(self._read()) < 4:
            raise Invalid(f"{self._name}: LRN over {self._window_size} of dimensions {self._read()}")


class IActivationLayer(ILayer):
    """``type`` is that of the function."""

    _kind = "activation"
    _fields = ("type", "alpha", "beta")
    _start_values: ClassVar[dict[str, Any]] = {"alpha": 0.0, "beta": 0.0}

    def _get_type(self) -> Any:
        return self._type


class IConcatenationLayer(ILayer):
    """The axis counts from the third last unless set."""

    _kind = "concatenation"
    _fields = ("axis",)

    def _check(self) -> None:
        self._axis = max(0, len(self._read()) - 3)

    def _shape(self, index: int) -> Shape:
        shapes, axis = [self._read(i) for i in range(len(self._inputs))], self._axis
        if len({(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}) != 1:
            raise Invalid(f"{self._name}: {shapes} do not join along axis {axis}")
        if len({str(tensor._get_dtype()) for tensor in self._inputs}) != 1:
            raise Invalid(f"{self._name}: inputs of different types")
        return (*shapes[0][:axis], sum(shape[axis] for shape in shapes), *shapes[0][axis + 1 :])


class ISoftMaxLayer(ILayer):
    """``axes`` has one bit set: that of the axis, the third last unless set."""

    _kind = "softmax"
    _fields = ("axes",)

    def _check(self) -> None:
        self._axes = 1 << max(0, len(self._read()) - 3)

    def _shape(self, index: int) -> Shape:
        if bin(self._axes).count("1") != 1 or self._axes >= 1 << len(self._read()):
            raise Invalid(f"{self._name}: softmax over axes {self._axes:b}")
        return self._read()


class IShuffleLayer(ILayer):
    """Turns axes, then reads the numbers in another shape, then turns axes."""

    _kind = "shuffle"
    _fields = ("first_transpose", "second_transpose", "reshape_dims", "zero_is_placeholder")
    _start_values: ClassVar[dict[str, Any]] = {
        "first_transpose": None,
        "second_transpose": None,
        "reshape_dims": None,
        "zero_is_placeholder": True,
    }

    def _shape(self, index: int) -> Shape:
        shape = self._turned(self._read(), self._first_transpose)
        if self._reshape_dims is not None:
            zero = self._zero_is_placeholder
            wanted = [shape[i] if d == 0 and zero else d for i, d in enumerate(self._reshape_dims)]
            known = prod(d for d in wanted if d != -1)
            made = tuple(prod(shape) // known if d == -1 else d for d in wanted)
            if prod(made) != prod(shape):
                raise Invalid(f"{self._name}: {shape} does not fit {self._reshape_dims}")
            shape = made
        return self._turned(shape, self._second_transpose)

    def _turned(self, shape: Shape, order: Any) -> Shape:
        return shape if order is None else tuple(shape[i] for i in order)

    def _parameters(self) -> dict[str, Any]:
        middle = self._turned(self._read(), self._first_transpose)
        if self._reshape_dims is not None:
            made, back = self._shape(0), self._second_transpose
            middle = made if back is None else tuple(made[list(back).index(i)] for i in range(len(made)))
        return {"first": self._first_transpose, "dims": middle, "second": self._second_transpose}


class IScaleLayer(ILayer):
    """(x scale + shift)^power, per channel, per element or alike; from four dimensions on."""

    _kind = "scale"
    _fields = ("mode", "channel_axis")
    _rounds = True

    def _check(self) -> None:
        if len(self._read()) < 4:
            raise Invalid(f"{self._name}: scale on dimensions {self._read()}, needs at least four")

    def _shape(self, index: int) -> Shape:
        shape = self._read()
        counts = {"UNIFORM": 1, "CHANNEL": shape[self._channel_axis], "ELEMENTWISE": prod(shape[1:])}
        for name, array in self._weights().items():
            if array.size not in (0, counts[str(self._mode).split(".")[-1]]):
                raise Invalid(f"{self._name}: {name} has {array.size} values")
        return shape


class IElementWiseLayer(ILayer):
    """Both inputs have as many axes; those of length one are stretched."""

    _kind = "elementwise"
    _fields = ("op",)

    def _shape(self, index: int) -> Shape:
        left, right = self._read(0), self._read(1)
        if len(left) != len(right) or any(a != b and 1 not in (a, b) for a, b in zip(left, right, strict=True)):
            raise Invalid(f"{self._name}: {left} and {right} do not fit together")
        return tuple(map(max, left, right))


class IMatrixMultiplyLayer(ILayer):
    """Both inputs have as many axes, unless one is a vector."""

    _kind = "matrix_multiply"
    _fields = ("op0", "op1")
    _rounds = True

    def _shape(self, index: int) -> Shape:
        ops = [str(op).split(".")[-1] for op in (self._op0, self._op1)]
        left, right = self._read(0), self._read(1)
        if "VECTOR" not in ops and len(left) != len(right):
            raise Invalid(f"{self._name}: {left} and {right} have different numbers of axes")
        left = (*left[:-1], 1, left[-1]) if ops[0] == "VECTOR" else left
        right = (*right, 1) if ops[1] == "VECTOR" else right
        left = (*left[:-2], left[-1], left[-2]) if ops[0] == "TRANSPOSE" else left
        right = (*right[:-2], right[-1], right[-2]) if ops[1] == "TRANSPOSE" else right
        if left[-1] != right[-2] or any(
            a != b and 1 not in (a, b) for a, b in zip(left[:-2], right[:-2], strict=False)
        ):
            raise Invalid(f"{self._name}: {left} and {right} cannot be multiplied")
        made = (*map(max, left[:-2], right[:-2]), left[-2], right[-1])
        made = (*made[:-2], made[-1]) if ops[0] == "VECTOR" else made
        return made[:-1] if ops[1] == "VECTOR" else made


class IFullyConnectedLayer(ILayer):
    """The last three axes to ``num_output_channels``; two axes of length one are left behind."""

    _kind = "fully_connected"
    _rounds = True

    def _check(self) -> None:
        if len(self._read()) < 4:
            raise Invalid(f"{self._name}: fully connected on dimensions {self._read()}, needs at least four")

    def _shape(self, index: int) -> Shape:
        if len(self._kernel) != self._num_output_channels * prod(self._read()[-3:]):
            raise Invalid(f"{self._name}: kernel weights has count {len(self._kernel)}")
        return (*self._read()[:-3], self._num_output_channels, 1, 1)


class IReduceLayer(ILayer):
    """Over the axes whose bits are set."""

    _kind = "reduce"
    _fields = ("op", "axes", "keep_dims")

    def _shape(self, index: int) -> Shape:
        shape = self._read()
        return tuple(
            1 if self._axes >> i & 1 else d for i, d in enumerate(shape) if self._keep_dims or not self._axes >> i & 1
        )


class IPaddingLayer(ILayer):
    """Zeros around the last two axes."""

    _kind = "padding"
    _fields = ("pre_padding_nd", "post_padding_nd")

    def _check(self) -> None:
        if len(self._read()) < 4 or len(self._pre_padding_nd) != 2:
            raise Invalid(f"{self._name}: padding of {self._read()}")

    def _shape(self, index: int) -> Shape:
        shape, ends = self._read(), zip(self._pre_padding_nd, self._post_padding_nd, strict=True)
        return (*shape[:-2], *(d + a + b for d, (a, b) in zip(shape[-2:], ends, strict=True)))


class IConstantLayer(ILayer):
    """Numbers that are known beforehand."""

    _kind = "constant"
    _fields = ("shape_given",)

    def _shape(self, index: int) -> Shape:
        if prod(self._shape_given) != len(self._values):
            raise Invalid(f"{self._name}: {len(self._values)} values for {self._shape_given}")
        return tuple(self._shape_given)

    def _dtype(self, index: int) -> Any:
        return self._values._get_dtype()

    def _parameters(self) -> dict[str, Any]:
        return {"values": self._values._array.reshape(self._shape_given).copy()}


class IIdentityLayer(ILayer):
    """Passes its input on, in another type where its output has one set."""

    _kind = "identity"


class ICastLayer(ILayer):
    """Another type."""

    _kind = "cast"

    def _dtype(self, index: int) -> Any:
        return self._to_type


LAYERS: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        *(IConvolutionLayer, IPoolingLayer, ILRNLayer, IActivationLayer, IConcatenationLayer, ISoftMaxLayer),
        *(IShuffleLayer, IScaleLayer, IElementWiseLayer, IMatrixMultiplyLayer, IFullyConnectedLayer, IReduceLayer),
        *(IPaddingLayer, IConstantLayer, IIdentityLayer, ICastLayer),
    )
}
