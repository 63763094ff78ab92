"""The ONNX file computes what the network says: judged by a numpy computation of its own, not by ONNX."""

from __future__ import annotations

import hashlib
import io
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.cost import Precision
from engines.emit.onnx import emit_onnx, skeleton
from engines.network import (
    LRN,
    BatchNorm,
    Concat,
    Conv,
    Dropout,
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
    inputs_of,
)
from engines.networks import BUILTIN
from engines.onboard import onnx_file
from engines.weights import INPUT_VALUE, draw, recipe
from remote.errors import UsageError

Array = np.ndarray[Any, np.dtype[Any]]

# --- the reference: every layer in plain numpy, windows cut by Caffe's rules ------------------------------------------


def windows(layer: Conv | Pool, x: Array, fill: float) -> Array:
    """Returns [batch, channels, height, width, k_h * k_w]; places outside image and padding are NaN."""
    shape = layer.shape((x.shape,))
    rows, columns = shape[2:]
    top, left, bottom, right = layer.pad
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=fill)
    padded = np.pad(padded, ((0, 0), (0, 0), (0, 64), (0, 64)), constant_values=np.nan)
    dilation = getattr(layer, "dilation", (1, 1))
    cut = []
    for row, column in product(range(layer.kernel[0]), range(layer.kernel[1])):
        y, z = row * dilation[0], column * dilation[1]
        cut.append(
            padded[
                :,
                :,
                y : y + rows * layer.stride[0] : layer.stride[0],
                z : z + columns * layer.stride[1] : layer.stride[1],
            ]
        )
    return np.stack(cut, -1)


def conv(layer: Conv, x: Array, kernel: Array, bias: Array) -> Array:
    cut = windows(layer, x, 0.0)
    n, _, rows, columns, size = cut.shape
    parts = []
    for group in range(layer.groups):
        channels = kernel.shape[1]
        part = cut[:, group * channels : (group + 1) * channels].transpose(0, 2, 3, 1, 4).reshape(-1, channels * size)
        filters = layer.filters // layer.groups
        matrix = kernel[group * filters : (group + 1) * filters].reshape(filters, -1)
        parts.append((part @ matrix.T).reshape(n, rows, columns, filters))
    return np.concatenate(parts, -1).transpose(0, 3, 1, 2) + bias[:, None, None]


def pool(layer: Pool, x: Array) -> Array:
    cut, axes = (windows(layer, x, -np.inf if layer.mode == "max" else 0.0), -1) if layer.kernel else (x, (2, 3))
    reduced = np.nanmax(cut, axes) if layer.mode == "max" else np.nanmean(cut, axes)
    return np.asarray(reduced if layer.kernel else reduced[:, :, None, None])


def lrn(layer: LRN, x: Array) -> Array:
    half = layer.size // 2
    squares = np.pad(x * x, ((0, 0), (half, half), (0, 0), (0, 0)))
    sums = sum(squares[:, i : i + x.shape[1]] for i in range(layer.size))
    return np.asarray(x / (layer.k + layer.alpha / layer.size * sums) ** layer.beta)


def softmax(x: Array, axis: int) -> Array:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis, keepdims=True))


def one(layer: Layer, x: list[Array], weights: tuple[Array, ...]) -> Array:
    match layer:
        case Conv():
            return conv(layer, x[0], weights[0], weights[1] if layer.bias else np.zeros(layer.filters))
        case FullyConnected():
            return x[0].reshape(len(x[0]), -1) @ weights[0].T + (weights[1] if layer.bias else 0)
        case Pool():
            return pool(layer, x[0])
        case LRN():
            return lrn(layer, x[0])
        case BatchNorm():
            scale, shift, mean, variance = (w.reshape(-1, *(1,) * (x[0].ndim - 2)) for w in weights)
            return np.asarray((x[0] - mean) / np.sqrt(variance + layer.epsilon) * scale + shift)
        case Eltwise():
            return {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[layer.operation](*x)
        case Concat():
            return np.concatenate(x, layer.axis)
        case Softmax():
            return softmax(x[0], layer.axis)
        case ReLU():
            return np.maximum(x[0], 0)
        case Reshape():
            return x[0].reshape(layer.shape((x[0].shape,)))
        case MatMul():
            return x[0] @ x[1]
        case Dropout():
            return x[0]
        case _:
            raise AssertionError(layer)


def reference(network: Network, data: Array, seed: int) -> dict[str, Array]:
    """Returns every tensor of ``network``, computed in float32."""
    shapes = network.shapes(len(data))
    found = {entry.name: data for entry in network.inputs}
    for index, layer in enumerate(network.layers):
        weights = draw(recipe(layer, inputs_of(layer, shapes), seed, index))
        found[layer.name] = one(layer, [found[name] for name in layer.inputs], weights)
    return found


# --- running ----------------------------------------------------------------------------------------------------------


def run(model: bytes | str, data: Array) -> Array:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 2
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {session.get_inputs()[0].name: data})[0])


def build(network: Network, batch: int, precision: Precision, seed: int) -> onnx.ModelProto:
    """Returns what is written, once ONNX itself has written the same bytes for it."""
    out = io.BytesIO()
    onnx_file.write(out, skeleton(network, batch, precision, seed))
    model = onnx.load_model_from_string(out.getvalue())
    assert model.SerializeToString(deterministic=True) == out.getvalue()
    return model


def emitted(network: Network, data: Array, precision: Precision = "fp32", seed: int = 0) -> Array:
    model = build(network, len(data), precision, seed)
    onnx.checker.check_model(model, full_check=True)
    return run(model.SerializeToString(), data)


def single(layer: Layer, *shape: int) -> Network:
    return Network("net", (Input("x", shape),), (layer,), (layer.name,))


def noise(*shape: int) -> Array:
    return np.random.RandomState(len(shape)).standard_normal(shape).astype(np.float32)


# --- golden -----------------------------------------------------------------------------------------------------------


def test_ceil_mode_pools_what_is_left_at_the_edge() -> None:
    data = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    largest = emitted(single(Pool.square("p", "x", "max", 3, stride=2), 1, 4, 4), data)
    assert largest.tolist() == [[[[10, 11], [14, 15]]]]


def test_a_window_that_would_start_in_the_padding_is_dropped() -> None:
    network = single(Pool.square("p", "x", "max", 2, stride=2, pad=1), 1, 3, 3)
    data = np.arange(9, dtype=np.float32).reshape(1, 1, 3, 3)
    assert emitted(network, data).tolist() == [[[[0, 2], [6, 8]]]]
    attributes = {a.name: a.i for a in build(network, 1, "fp32", 0).graph.node[0].attribute}
    assert attributes["ceil_mode"] == 0  # readers differ in what they make of 1 here


@pytest.mark.parametrize("mode", ["max", "avg"])
def test_a_shape_rounded_up_in_one_direction_and_cut_in_the_other_is_written_by_its_padding(
    mode: Literal["max", "avg"],
) -> None:
    layer = Pool("p", ("x",), mode, (2, 2), (3, 3), (0, 0, 0, 0))
    network = single(layer, 1, 10, 6)
    data = noise(1, 1, 10, 6)
    assert emitted(network, data).shape == (1, 1, 4, 2)
    edge = data[0, 0, 9, 3:5]
    assert emitted(network, data)[0, 0, 3, 1] == pytest.approx(edge.max() if mode == "max" else edge.mean())


def test_an_average_that_onnx_cannot_say_is_refused() -> None:
    layer = Pool("p", ("x",), "avg", (2, 2), (3, 3), (1, 0, 0, 0))
    with pytest.raises(UsageError, match="'p'"):
        build(single(layer, 1, 9, 6), 1, "fp32", 0)


def test_average_in_ceil_mode_divides_by_what_is_left() -> None:
    data = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    mean = emitted(single(Pool.square("p", "x", "avg", 3, stride=2), 1, 4, 4), data)
    assert mean.tolist() == [[[[5, 6.5], [11, 12.5]]]]


def test_a_group_sees_its_own_channels_only() -> None:
    layer = Conv.square("c", "x", 4, 1, groups=2)
    data = noise(1, 2, 3, 3)
    other = data.copy()
    other[:, 1] += 1
    before, after = (emitted(single(layer, 2, 3, 3), x) for x in (data, other))
    assert np.array_equal(before[:, :2], after[:, :2])
    assert not np.allclose(before[:, 2:], after[:, 2:])


def test_lrn_divides_alpha_by_the_window() -> None:
    data = np.full((1, 3, 1, 1), 2.0, np.float32)
    found = emitted(single(LRN("n", ("x",), size=3, alpha=0.75, beta=0.5, k=1.0), 3, 1, 1), data).ravel()
    assert found == pytest.approx([2 / 3**0.5, 2 / 4**0.5, 2 / 3**0.5])  # two, three and two squares of 4 in reach


def test_lrn_does_not_overflow_in_half_precision() -> None:
    data = np.full((1, 3, 1, 1), 1000.0, np.float32)  # squared: a million, and float16 ends at 65504
    network = single(LRN("n", ("x",), size=3, alpha=0.75, beta=0.5, k=1.0), 3, 1, 1)
    assert emitted(network, data, "fp16").ravel() == pytest.approx(emitted(network, data).ravel(), rel=2e-3)
    types = dict.fromkeys(("x", "n"), onnx.TensorProto.FLOAT)
    nodes = build(network, 1, "fp16", 0).graph.node
    types |= {node.output[0]: node.attribute[0].i for node in nodes if node.op_type == "Cast"}
    assert [types[node.input[0]] for node in nodes if node.op_type == "LRN"] == [onnx.TensorProto.FLOAT]


# --- properties -------------------------------------------------------------------------------------------------------


@st.composite
def networks(draw_: Callable[[st.SearchStrategy[Any]], Any]) -> Network:
    """A chain of up to six layers with branches that are joined again."""
    channels, size = draw_(st.integers(1, 3)) * 2, draw_(st.integers(5, 12))
    shape: tuple[int, ...] = (1, channels, size, size)
    layers: list[Layer] = []
    for number in range(draw_(st.integers(1, 6))):
        source = layers[-1].name if layers else "x"
        options = fitting(f"l{number}", source, "x" if not layers else layers[0].name, shape)
        layer = draw_(st.sampled_from(options))
        layers.append(layer)
        names: dict[str, Shape] = {"x": (1, channels, size, size)}
        for done in layers:
            names[done.name] = done.shape(inputs_of(done, names))
        shape = names[layer.name]
    return Network("random", (Input("x", (channels, size, size)),), tuple(layers), (layers[-1].name,))


def fitting(name: str, source: str, first: str, shape: tuple[int, ...]) -> list[Layer]:
    """Returns layers that can follow a tensor of ``shape``."""
    anywhere: list[Layer] = [
        ReLU(name, (source,)),
        Dropout(name, (source,)),
        FullyConnected(name, (source,), 6),
        Reshape(name, (source,)),
        Concat(name, (source, source)),
        Eltwise(name, (source, source), "mul"),
        Eltwise(name, (source, source), "add"),
        BatchNorm(name, (source,)),
    ]
    if len(shape) == 2:
        return [*anywhere, Softmax(name, (source,))]
    around: list[Layer] = [
        Conv.square(name, source, 4, 3, pad=1),
        Conv.square(name, source, 6, 2, pad=1, stride=2),
        Conv(name, (source,), 4, (1, 3), (1, 2), (0, 1, 0, 2), (1, 1), bias=False),
        LRN(name, (source,), alpha=0.1),
        Pool(name, (source,), "avg"),
        Pool(name, (source,), "max"),
    ]
    if shape[1] % 2 == 0:
        around.append(Conv.square(name, source, 4, 3, pad=2, groups=2))
    if min(shape[2:]) >= 4:
        around += [Pool.square(name, source, "max", k, stride=s) for k, s in ((2, 2), (3, 2), (2, 3), (3, 1))]
        around += [Pool.square(name, source, "max", k, stride=s, pad=1) for k, s in ((2, 2), (3, 2), (2, 3), (3, 1))]
        around.append(Pool.square(name, source, "avg", 3, stride=2))
        around.append(Pool.square(name, source, "avg", 3, pad=1))
        around.append(Conv(name, (source,), 4, (2, 2), (1, 1), (0, 0, 0, 0), (2, 2)))
    return [*anywhere, *around]


@given(network=networks(), batch=st.integers(1, 3), seed=st.integers(0, 9))
def test_random_networks_compute_what_numpy_computes(network: Network, batch: int, seed: int) -> None:
    data = noise(batch, *network.inputs[0].shape)
    wanted = reference(network, data, seed)[network.outputs[0]]
    found = emitted(network, data, seed=seed)
    assert found.shape == network.shapes(batch)[network.outputs[0]]
    assert np.allclose(found, wanted, rtol=1e-3, atol=1e-4 * max(1.0, float(np.abs(wanted).max())))


@given(network=networks(), batch=st.integers(1, 2))
def test_half_precision_is_close_to_single(network: Network, batch: int) -> None:
    data = 0.5 * noise(batch, *network.inputs[0].shape)
    wanted = reference(network, data, 0)[network.outputs[0]]
    found = emitted(network, data, "fp16")
    assert found.dtype == np.float32
    scale = max(1.0, float(np.abs(wanted).max()))
    assert np.allclose(found, wanted, rtol=0.05, atol=0.05 * scale)


def test_two_computed_tensors_are_multiplied() -> None:
    network = Network("net", (Input("x", (4, 4)),), (ReLU("r", ("x",)), MatMul("m", ("x", "r"))), ("m",))
    data = noise(2, 4, 4)
    assert np.allclose(emitted(network, data), data @ np.maximum(data, 0), atol=1e-5)


# --- the file ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=sorted(BUILTIN))
def builtin(request: pytest.FixtureRequest) -> tuple[Network, Array, dict[str, Array]]:
    network: Network = BUILTIN[request.param]()
    data = np.full(network.shapes(1)["data"], INPUT_VALUE, np.float32)
    return network, data, reference(network, data, 0)


def test_built_in_networks_compute_what_numpy_computes(
    builtin: tuple[Network, Array, dict[str, Array]], tmp_path: Path
) -> None:
    network, data, wanted = builtin
    tolerances: dict[Precision, float] = {"fp32": 1e-3, "fp16": 0.05}
    for precision, tolerance in tolerances.items():
        path = tmp_path / "model.onnx"
        emit_onnx(network, 1, precision, 0, path)
        onnx.checker.check_model(str(path), full_check=True)
        found = run(str(path), data)
        assert np.allclose(found, wanted["prob"], rtol=tolerance, atol=1e-6)
        assert found.argmax() == wanted["prob"].argmax()


def test_activations_stay_well_inside_half_precision(builtin: tuple[Network, Array, dict[str, Array]]) -> None:
    network, _, tensors = builtin
    for name in (layer.name for layer in network.layers if layer.kind != "Softmax"):
        assert np.abs(tensors[name]).max() < 200, name  # squares, which LRN takes, must stay below 65504
        assert np.sqrt(np.mean(tensors[name] ** 2)) > 0.05, name


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_the_same_arguments_give_the_same_bytes(precision: Precision) -> None:
    network = single(Conv.square("c", "x", 4, 3), 3, 8, 8)
    digests = {
        hashlib.sha256(build(network, 1, precision, seed).SerializeToString(deterministic=True)).hexdigest()
        for seed in (0, 0, 1)
    }
    assert len(digests) == 2


def test_the_file_loads_from_tensorrt_7_to_11() -> None:
    model = build(BUILTIN["googlenet"](), 4, "fp16", 0)
    assert (model.ir_version, [(o.domain, o.version) for o in model.opset_import]) == (6, [("", 11)])
    assert not {"Dropout", "Identity"} & {node.op_type for node in model.graph.node}
    assert [value.name for value in model.graph.input] == ["data"]
    assert [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim] == [4, 3, 224, 224]
    types = {tensor.data_type for tensor in model.graph.initializer}
    assert types == {onnx.TensorProto.FLOAT16}
    assert [node.op_type for node in (model.graph.node[0], model.graph.node[-1])] == ["Cast", "Cast"]
    pools = [node for node in model.graph.node if node.op_type == "MaxPool" and node.name.startswith("pool")]
    assert all(a.i == 1 for node in pools for a in node.attribute if a.name == "ceil_mode")


def test_the_largest_file_is_written_in_seconds(tmp_path: Path) -> None:
    start = time.process_time()
    emit_onnx(BUILTIN["alexnet"](), 1, "fp32", 0, tmp_path / "alexnet.onnx")
    assert time.process_time() - start < 6  # about 1.5 s on a PC


def test_a_layer_that_onnx_cannot_say_is_refused_by_name() -> None:
    for layer in (
        Other("odd", ("x",), "Erf", (1, 3, 8, 8)),
        Softmax("odd", ("x",), 1),
        FullyConnected("odd", ("x",), 4, axis=-1),
    ):
        with pytest.raises(UsageError, match="'odd'"):
            build(single(layer, 3, 8, 8), 1, "fp32", 0)
