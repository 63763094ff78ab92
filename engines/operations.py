"""One operation of an ONNX file -> the layer of ours that it is, or `Other`.

Shapes decide: where a layer would not make the shape that ONNX infers, the operation is kept as `Other`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

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
    Other,
    Pool,
    ReLU,
    Reshape,
    Shape,
    Softmax,
)
from remote.errors import UsageError


@dataclass(frozen=True)
class Node:
    """An operation of the file, ready to become a layer: ``inputs`` are computed, ``constants`` are not."""

    name: str
    op_type: str
    opset: int
    inputs: tuple[str, ...]
    shapes: tuple[Shape, ...]
    constants: tuple[Shape, ...]
    attributes: Mapping[str, Any]
    made: Shape | None
    extra: tuple[tuple[str, Shape], ...]

    def integers(self, name: str, default: Shape) -> Shape:
        """Returns a list attribute, ``default`` where the file leaves it out."""
        return tuple(self.attributes.get(name, default))

    def other(self) -> Other | None:
        """Returns the operation with the shape that ONNX inferred; None where it inferred none."""
        if self.made is None:
            return None
        parameters = sum(map(prod, self.constants))
        return Other(
            self.name, self.inputs, self.op_type, self.made, parameters, _other_macs(self, self.made), self.extra
        )


def layer_of(node: Node) -> Layer | None:
    """Returns the layer for ``node``, `Other` where none of ours fits, None where the shape is not known at all."""
    reader = _READERS.get(node.op_type)
    layer = reader(node) if reader and not node.extra else None
    if layer is None:
        return node.other()
    try:
        fits = node.made in (None, layer.shape(node.shapes))
    except (UsageError, ValueError, IndexError):
        fits = False
    return layer if fits else node.other()


def _other_macs(node: Node, made: Shape) -> int:
    """Multiply-accumulates of the operations that have them but are no layer of ours."""
    if not node.shapes:
        return 0
    if node.op_type in ("LSTM", "GRU", "RNN"):  # per step and image: inputs and state to all gates
        return prod(node.shapes[0][:2]) * sum(map(prod, node.constants[:2]))
    if node.op_type == "ConvTranspose" and node.constants:
        return prod(node.shapes[0]) * prod(node.constants[0][1:])
    if node.op_type == "MatMul" and node.constants:
        return prod(made) * node.shapes[0][-1 if node.shapes[0][-1:] == node.constants[0][-2:-1] else -2]
    if node.op_type == "Gemm":
        return prod(made) * node.shapes[0][0 if node.attributes.get("transA", 0) else -1]
    if node.op_type == "Conv" and len(node.shapes) == 2:
        return prod(made) * prod(node.shapes[1][1:])
    return 0


def _pads(node: Node, kernel: Shape, stride: Shape, dilation: Shape) -> Shape:
    """Returns explicit padding, before each axis and then after each; works out what ``auto_pad`` asks for."""
    auto = node.attributes.get("auto_pad", b"NOTSET").decode()
    if not auto.startswith("SAME"):
        return node.integers("pads", (0,) * (2 * len(kernel)))
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    sizes = node.shapes[0][2:]
    both = [max((-(-n // s) - 1) * s + r - n, 0) for n, s, r in zip(sizes, stride, reach, strict=True)]
    small, large = tuple(b // 2 for b in both), tuple(b - b // 2 for b in both)
    return small + large if auto == "SAME_UPPER" else large + small


def _conv(node: Node) -> Layer | None:
    if len(node.inputs) != 1 or not node.constants:
        return None
    filters, _, *rest = node.constants[0]
    kernel, ones = tuple(rest), (1,) * len(rest)
    stride, dilation = node.integers("strides", ones), node.integers("dilations", ones)
    pad = _pads(node, kernel, stride, dilation)
    groups, bias = node.attributes.get("group", 1), len(node.constants) > 1
    return Conv(node.name, node.inputs, filters, kernel, stride, pad, dilation, groups, bias)


def _pool(node: Node) -> Layer | None:
    mode: Literal["max", "avg"] = "max" if "Max" in node.op_type else "avg"
    if node.op_type.startswith("Global"):
        return Pool(node.name, node.inputs, mode)
    kernel = node.integers("kernel_shape", ())
    ones = (1,) * len(kernel)
    stride = node.integers("strides", ones)
    if node.integers("dilations", ones) != ones:
        return None
    ceil, count_pad = (bool(node.attributes.get(name, 0)) for name in ("ceil_mode", "count_include_pad"))
    return Pool(node.name, node.inputs, mode, kernel, stride, _pads(node, kernel, stride, ones), ceil, count_pad)


def _gemm(node: Node) -> Layer | None:
    if len(node.inputs) != 1 or not node.constants or node.attributes.get("transA", 0):
        return None
    filters = node.constants[0][0 if node.attributes.get("transB", 0) else -1]
    return FullyConnected(node.name, node.inputs, filters, len(node.constants) > 1)


def _matmul(node: Node) -> Layer | None:
    if not node.constants:
        return MatMul(node.name, node.inputs)
    matrix = node.constants[0]
    if len(matrix) != 2 or node.shapes[0][-1] != matrix[0]:
        return None
    return FullyConnected(node.name, node.inputs, matrix[1], bias=False, axis=-1)


def _eltwise(operation: Literal["add", "sub", "mul", "div"]) -> Callable[[Node], Layer | None]:
    return lambda node: None if node.constants else Eltwise(node.name, node.inputs, operation)


def _lrn(node: Node) -> Layer:
    defaults = {"alpha": 1e-4, "beta": 0.75, "bias": 1.0}  # of the operation, as ONNX states them
    alpha, beta, k = (float(node.attributes.get(name, value)) for name, value in defaults.items())
    return LRN(node.name, node.inputs, node.attributes["size"], alpha, beta, k)


def _softmax(node: Node) -> Layer:
    return Softmax(node.name, node.inputs, node.attributes.get("axis", -1 if node.opset >= 13 else 1))


def _reshape(node: Node) -> Layer | None:
    """Only where the batch stays in front; the dimensions are those that ONNX inferred."""
    if not node.made or not node.shapes[0] or node.made[0] != node.shapes[0][0]:
        return None
    return Reshape(node.name, node.inputs, node.made[1:])


def _concat(node: Node) -> Layer | None:
    return None if node.constants else Concat(node.name, node.inputs, node.attributes["axis"])


def _batch_norm(node: Node) -> Layer | None:
    return BatchNorm(node.name, node.inputs) if len(node.constants) == 4 else None


_READERS: Mapping[str, Callable[[Node], Layer | None]] = {
    "Add": _eltwise("add"),
    "AveragePool": _pool,
    "BatchNormalization": _batch_norm,
    "Concat": _concat,
    "Conv": _conv,
    "Div": _eltwise("div"),
    "Dropout": lambda node: Dropout(node.name, node.inputs),
    "Flatten": _reshape,
    "Gemm": _gemm,
    "GlobalAveragePool": _pool,
    "GlobalMaxPool": _pool,
    "LRN": _lrn,
    "MatMul": _matmul,
    "MaxPool": _pool,
    "Mul": _eltwise("mul"),
    "Relu": lambda node: ReLU(node.name, node.inputs),
    "Reshape": _reshape,
    "Softmax": _softmax,
    "Squeeze": _reshape,
    "Sub": _eltwise("sub"),
    "Sum": _eltwise("add"),
    "Unsqueeze": _reshape,
}
