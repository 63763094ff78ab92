"""Executes a recorded network with numpy. It knows what was recorded and nothing of how the project writes networks.

A step is ``{"kind", "name", "inputs", "outputs", "dtype", "half", **parameters}``. Sums are made in float32;
``half`` means that a layer's numbers, its weights included, are rounded to float16 on their way in and out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Step = Mapping[str, Any]

_RECORDED_TYPES = {"FLOAT": np.float32, "HALF": np.float16, "INT32": np.int32, "INT64": np.int64, "BOOL": np.bool_}


def run(steps: Sequence[Step], tensors: Mapping[str, Array]) -> dict[str, Array]:
    """Returns all tensors by name; ``tensors`` are the inputs."""
    made = dict(tensors)
    for step in steps:
        read = [_rounded(made[name], step["half"]) for name in step["inputs"]]
        with np.errstate(over="ignore", invalid="ignore"):
            result = _rounded(_OPERATIONS[step["kind"]](step, *read), step["half"])
            made[step["outputs"][0]] = _typed(result, step["dtype"])
        if result.shape != tuple(step["shape"]):
            raise AssertionError(f"{step['name']}: computed {result.shape}, shape was given as {step['shape']}")
    return made


def _rounded(array: Array, half: bool) -> Array:
    wide = array.astype(np.float32) if array.dtype == np.float16 else array
    return wide.astype(np.float16).astype(np.float32) if half and wide.dtype == np.float32 else wide


def _typed(array: Array, dtype: str) -> Array:
    return array.astype(_RECORDED_TYPES[dtype])


def _weights(step: Step, name: str) -> Array | None:
    return _rounded(step[name], step["half"]) if name in step else None


def _windows(image: Array, step: Step, filler: float) -> Array:
    """Returns [batch, channels, *positions, *window]; what lies outside the image is ``filler``."""
    spans, window = step["spans"], step["window"]
    pads, reaches = [(0, 0), (0, 0)], []
    for size, kernel, (out, before, _, stride, dilation) in zip(image.shape[2:], window, spans, strict=True):
        reach = dilation * (kernel - 1) + 1
        pads.append((before, max((out - 1) * stride + reach - size - before, 0)))
        reaches.append(reach)
    axes = tuple(range(2, image.ndim))
    views = np.lib.stride_tricks.sliding_window_view(np.pad(image, pads, constant_values=filler), reaches, axes)
    starts = tuple(slice(None, (out - 1) * stride + 1, stride) for out, _, _, stride, _ in spans)
    inside = tuple(slice(None, None, dilation) for *_, dilation in spans)
    return views[(slice(None), slice(None), *starts, *inside)]


def _convolution(step: Step, image: Array) -> Array:
    kernel, groups = _weights(step, "kernel"), step["num_groups"]
    assert kernel is not None
    windows = _windows(image, step, 0.0)
    positions = windows.shape[2 : image.ndim]
    parts = []
    for part, filters in zip(np.split(windows, groups, 1), np.split(kernel, groups), strict=True):
        columns = np.moveaxis(part, 1, len(positions) + 1).reshape(-1, filters[0].size)
        parts.append((columns @ filters.reshape(len(filters), -1).T).reshape(image.shape[0], *positions, len(filters)))
    made = np.moveaxis(np.concatenate(parts, -1), -1, 1)
    bias = _weights(step, "bias")
    return made if bias is None else made + bias.reshape(-1, *(1 for _ in positions))


def _pooling(step: Step, image: Array) -> Array:
    axes = tuple(range(image.ndim, 2 * image.ndim - 2))
    if step["type"] == "MAX":
        return np.asarray(_windows(image, step, -np.inf).max(axes), np.float32)
    counted = np.ones((1, 1, *image.shape[2:]), np.float32)
    if not step["average_count_excludes_padding"]:
        pads = [(before, after) for _, before, after, *_ in step["spans"]]
        counted = np.pad(counted, [(0, 0), (0, 0), *pads], constant_values=1.0)
        shifted = [(out, 0, 0, stride, dilation) for out, _, _, stride, dilation in step["spans"]]
        count = _windows(counted, {**step, "spans": shifted}, 0.0).sum(axes)
    else:
        count = _windows(counted, step, 0.0).sum(axes)
    return np.asarray(_windows(image, step, 0.0).sum(axes) / count, np.float32)


def _lrn(step: Step, image: Array) -> Array:
    half = step["window_size"] // 2
    squares = np.pad(image**2, [(0, 0), (half, half), *((0, 0) for _ in image.shape[2:])])
    sums = sum(squares[:, i : i + image.shape[1]] for i in range(step["window_size"]))
    return np.asarray(image / (step["k"] + step["alpha"] / step["window_size"] * sums) ** step["beta"], np.float32)


def _activation(step: Step, image: Array) -> Array:
    functions: Mapping[str, Any] = {
        "RELU": lambda x: np.maximum(x, 0),
        "SIGMOID": lambda x: 1 / (1 + np.exp(-x)),
        "TANH": np.tanh,
        "LEAKY_RELU": lambda x: np.where(x < 0, step["alpha"] * x, x),
        "CLIP": lambda x: np.clip(x, step["alpha"], step["beta"]),
    }
    return np.asarray(functions[step["type"]](image), np.float32)


def _softmax(step: Step, image: Array) -> Array:
    axis = step["axes"].bit_length() - 1
    powers = np.exp(image - image.max(axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis, keepdims=True))


def _shuffle(step: Step, image: Array) -> Array:
    turned = image if step["first"] is None else image.transpose(step["first"])
    made = turned.reshape(step["dims"])
    return made if step["second"] is None else made.transpose(step["second"])


def _scale(step: Step, image: Array) -> Array:
    shapes = {"UNIFORM": [1] * image.ndim, "CHANNEL": [1] * image.ndim, "ELEMENTWISE": [1, *image.shape[1:]]}
    shapes["CHANNEL"][step["channel_axis"]] = -1
    for name, operation in (("scale", np.multiply), ("shift", np.add), ("power", np.power)):
        array = _weights(step, name)
        if array is not None:
            image = operation(image, array.reshape(shapes[step["mode"]]))
    return image


def _elementwise(step: Step, left: Array, right: Array) -> Array:
    operations: Mapping[str, Any] = {
        **{"SUM": np.add, "SUB": np.subtract, "PROD": np.multiply, "DIV": np.divide},
        **{"MAX": np.maximum, "MIN": np.minimum, "POW": np.power},
    }
    return np.asarray(operations[step["op"]](left, right))


def _matrix_multiply(step: Step, left: Array, right: Array) -> Array:
    left = left.swapaxes(-1, -2) if step["op0"] == "TRANSPOSE" else left
    right = right.swapaxes(-1, -2) if step["op1"] == "TRANSPOSE" else right
    left = left[..., None, :] if step["op0"] == "VECTOR" else left
    right = right[..., None] if step["op1"] == "VECTOR" else right
    made = left @ right
    made = made[..., 0] if step["op1"] == "VECTOR" else made
    return np.asarray(made[..., 0, :] if step["op0"] == "VECTOR" and step["op1"] != "VECTOR" else made)


def _fully_connected(step: Step, image: Array) -> Array:
    kernel, bias = _weights(step, "kernel"), _weights(step, "bias")
    assert kernel is not None
    flat = image.reshape(*image.shape[:-3], -1)
    made = flat @ kernel.reshape(-1, flat.shape[-1]).T
    return np.asarray(made if bias is None else made + bias)[..., None, None]


def _reduce(step: Step, image: Array) -> Array:
    axes = tuple(i for i in range(image.ndim) if step["axes"] >> i & 1)
    operations: Mapping[str, Any] = {"SUM": np.sum, "AVG": np.mean, "MAX": np.max, "MIN": np.min, "PROD": np.prod}
    return np.asarray(operations[step["op"]](image, axis=axes, keepdims=step["keep_dims"]), np.float32)


def _padding(step: Step, image: Array) -> Array:
    ends = zip(step["pre_padding_nd"], step["post_padding_nd"], strict=True)
    return np.pad(image, [*((0, 0) for _ in image.shape[:-2]), *ends])


def _pass(step: Step, image: Array) -> Array:
    return image


_OPERATIONS: Mapping[str, Any] = {
    "convolution": _convolution,
    "pooling": _pooling,
    "lrn": _lrn,
    "activation": _activation,
    "concatenation": lambda step, *images: np.concatenate(images, step["axis"]),
    "softmax": _softmax,
    "shuffle": _shuffle,
    "scale": _scale,
    "elementwise": _elementwise,
    "matrix_multiply": _matrix_multiply,
    "fully_connected": _fully_connected,
    "reduce": _reduce,
    "padding": _padding,
    "constant": lambda step: step["values"],
    "identity": _pass,
    "cast": _pass,
}
