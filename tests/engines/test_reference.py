"""The outputs a network should give, and the bounds within which an engine's outputs are those."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from engines.emit.onnx import emit_onnx
from engines.models import Model, load
from engines.network import LRN, Concat, Dropout, FullyConnected, Input, Layer, Network, Pool, ReLU, inputs_of
from engines.networks import BUILTIN
from engines.reference import BOUNDS, OutputCheck, compare, reference
from engines.weights import INPUT_VALUE, draw, recipe
from remote.errors import EngineError
from tests.engines.test_emit_onnx import networks, one

Array = np.ndarray[Any, np.dtype[Any]]


def tensor(values: Any, shape: tuple[int, ...], name: str = "prob", stride: int = 1) -> dict[str, Any]:
    kept = np.asarray(values).ravel()[::stride].tolist()
    return {"name": name, "shape": list(shape), "dtype": "float32", "index": stride, "values": kept}


def judged(found: Array, wanted: Array, **options: Any) -> OutputCheck:
    options = {"precision": "fp16", **options}
    return compare([tensor(found, (1, *found.shape))], {"prob": wanted}, **options)


def rounded(network: Network, seed: int, data: Array) -> Array:
    """Returns the output with all weights and all tensors rounded to FP16, and sums in FP32."""

    def half(array: Array) -> Array:
        return np.asarray(array).astype(np.float16).astype(np.float32)

    shapes = network.shapes(len(data))
    made = {network.inputs[0].name: half(data)}
    for index, layer in enumerate(network.layers):
        weights = tuple(half(array) for array in draw(recipe(layer, inputs_of(layer, shapes), seed, index)))
        made[layer.name] = half(one(layer, [made[name] for name in layer.inputs], weights))
    return made[network.outputs[0]]


def computed(network: Network, seed: int, folder: Path, value: float = INPUT_VALUE) -> Array:
    """Returns the first image's output in FP32."""
    emit_onnx(network, 1, "fp32", seed, folder / "model.onnx")
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    name = network.inputs[0].name
    (found,) = session.run(None, {name: np.full(network.shapes(1)[name], value, np.float32)})
    return np.asarray(found[0])


# --- what passes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(BUILTIN))
def test_rounding_to_fp16_passes_for_fp16_and_not_for_fp32(name: str, tmp_path: Path) -> None:
    model = load(name, 64)
    wanted = reference(model, 3, 64, tmp_path)
    (output,) = wanted
    found = rounded(model.network, 3, np.full(model.network.shapes(1)["data"], INPUT_VALUE, np.float32))
    told = [tensor(found[0], (64, *found.shape[1:]), output)]
    check = compare(told, wanted, "fp16")
    assert check.passed
    assert (check.outputs, check.top1_equal) == (1, True)
    assert check.max_error is not None
    assert 1e-5 < check.max_error < 0.01
    assert not compare(told, wanted, "fp32").passed
    assert compare(told, wanted, "fp32", tf32=True).passed
    exact = [tensor(wanted[output], (64, 1000), output)]
    assert compare(exact, wanted, "fp32").passed


@given(network=networks(), seed=st.integers(0, 999))
def test_random_networks_rounded_to_fp16_pass(network: Network, seed: int) -> None:
    data = np.full(network.shapes(1)["x"], INPUT_VALUE, np.float32)
    shapes, made = network.shapes(1), {"x": data}
    for index, layer in enumerate(network.layers):
        weights = draw(recipe(layer, inputs_of(layer, shapes), seed, index))
        made[layer.name] = one(layer, [made[name] for name in layer.inputs], weights)
    wanted = made[network.outputs[0]]
    assume(np.abs(wanted).max() > 0.05)  # of what almost cancels out no share is left
    assert judged(rounded(network, seed, data)[0], wanted[0]).passed


# --- what does not ----------------------------------------------------------------------------------------------------


def without(network: Network, kind: type[Layer], which: int) -> Network:
    """Returns ``network`` with one layer of a kind made to do nothing; exchanged inputs for a concatenation."""
    victim = [layer for layer in network.layers if isinstance(layer, kind)][which]
    odd: Layer = Dropout(victim.name, victim.inputs)
    if isinstance(victim, Concat):
        odd = replace(victim, inputs=(victim.inputs[1], victim.inputs[0], *victim.inputs[2:]))
    if isinstance(victim, Pool):
        odd = replace(victim, mode="avg")
    return replace(network, layers=tuple(odd if layer is victim else layer for layer in network.layers))


def test_another_network_fails_for_fp16(tmp_path: Path) -> None:
    network = BUILTIN["googlenet"]()
    wanted = computed(network, 0, tmp_path)
    assert judged(wanted, wanted).passed
    last_pool = [layer for layer in network.layers if isinstance(layer, Pool) and layer.mode == "max"]
    for odd in (
        computed(network, 1, tmp_path),
        computed(network, 0, tmp_path, value=1.0),
        computed(without(network, ReLU, 0), 0, tmp_path),
        computed(without(network, ReLU, -1), 0, tmp_path),
        computed(without(network, Concat, 0), 0, tmp_path),
        computed(without(network, Pool, len(last_pool) - 1), 0, tmp_path),
    ):
        check = judged(odd, wanted)
        assert not check.passed
        assert check.max_error is not None
        assert check.max_error > 2 * BOUNDS["fp16"].error


def test_a_missing_normalisation_fails_for_fp32(tmp_path: Path) -> None:
    network = BUILTIN["googlenet"]()
    wanted = computed(network, 0, tmp_path)
    odd = computed(without(without(network, LRN, 0), LRN, 0), 0, tmp_path)
    assert not judged(odd, wanted, precision="fp32").passed


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), float("-inf"), 1e308, None, "nan"])
@pytest.mark.parametrize("place", [0, 500, 999])
def test_a_number_that_is_not_finite_never_passes(odd: Any, place: int) -> None:
    wanted = np.linspace(1, 2, 1000, dtype=np.float32)
    told = tensor(wanted, (1, 1000))
    told["values"][place] = odd
    check = compare([told], {"prob": wanted}, "fp16")
    assert not check.passed
    assert "do not agree" in check.text


def test_missing_and_odd_outputs_fail_with_words() -> None:
    wanted = {"prob": np.ones(8, np.float32)}
    assert compare([], wanted, "fp16").text == "outputs do not agree with FP32 on the host: prob is missing"
    check = compare([tensor(np.ones(8), (2, 4))], wanted, "fp16")
    assert not check.passed
    assert check.text.endswith("prob has the shape [2, 4], [8] per image was expected")
    check = compare([{**tensor(np.ones(8), (2, 8)), "values": [1.0] * 7}], wanted, "fp16")
    assert (check.passed, check.cosine, check.max_error) == (False, None, None)
    assert check.text.endswith("prob has 7 values at stride 1 of 8")
    assert not compare([{**tensor(np.ones(8), (2, 8)), "index": 0}], wanted, "fp16").passed


def test_one_wrong_output_among_several_fails() -> None:
    wanted = {"a": np.arange(4, dtype=np.float32), "b": np.arange(5, dtype=np.float32)}
    good = [tensor(wanted["a"], (1, 4), "a"), tensor(wanted["b"], (1, 5), "b")]
    assert compare(good, wanted, "fp32").passed
    assert compare(good, wanted, "fp32").outputs == 2
    bad = [good[0], tensor(wanted["b"][::-1], (1, 5), "b")]
    check = compare(bad, wanted, "fp32")
    assert (check.passed, check.top1_equal) == (False, False)


def test_zeros_agree_with_zeros_only() -> None:
    zeros = np.zeros(4, np.float32)
    assert judged(zeros, zeros).passed
    assert not judged(zeros + 1e-3, zeros).passed
    assert not judged(zeros, zeros + 1).passed


# --- how it is said ---------------------------------------------------------------------------------------------------


def test_agreement_is_said_in_words() -> None:
    wanted = np.array([0.0, 1.0, 0.5], np.float32)
    found = np.array([0.002, 1.0, 0.5], np.float32)
    assert judged(found, wanted).text == (
        "outputs agree with FP32 on the host: cosine 0.999998, largest error 0.2 %, same top-1"
    )
    odd = judged(np.array([1.0, 0.0, 0.5]), wanted).text
    assert odd == (
        "outputs do not agree with FP32 on the host: cosine 0.20000, largest error 1e+02 %, another top-1; "
        "cosine 0.999 or more and 12 % or less were expected"
    )


def test_scores_as_good_as_equal_may_change_places() -> None:
    check = judged(np.array([1.0, 0.999]), np.array([0.999, 1.0], np.float32))
    assert (check.passed, check.top1_equal) == (True, False)
    assert check.text.endswith("another top-1 of nearly equal score")


def test_only_class_scores_have_a_top1() -> None:
    plane = np.arange(12, dtype=np.float32)
    assert judged(plane.reshape(1, 3, 4), plane.reshape(1, 3, 4)).top1_equal is None
    strided = compare([tensor(plane, (1, 12), stride=3)], {"prob": plane}, "fp16")
    assert (strided.passed, strided.top1_equal) == (True, None)
    assert judged(plane[:1] + 1, plane[:1] + 1).top1_equal is None
    assert compare([tensor(plane, (5, 12, 1, 1))], {"prob": plane}, "fp16").top1_equal is True


@given(size=st.integers(1, 50), stride=st.integers(1, 60), data=st.data())
def test_numbers_at_a_stride_are_compared_with_those_at_their_places(size: int, stride: int, data: Any) -> None:
    wanted = np.arange(1, size + 1, dtype=np.float32)
    told = tensor(wanted, (7, size), stride=stride)
    assert compare([told], {"prob": wanted}, "fp32").passed
    place = data.draw(st.integers(0, len(told["values"]) - 1))
    told["values"][place] *= -1
    assert not compare([told], {"prob": wanted}, "fp16").passed or wanted[place * stride] * 2 <= 0.12 * size


def test_integers_count_only_where_there_is_nothing_else() -> None:
    box, chosen = np.ones(3, np.float32), np.array([4, 5])
    told = [tensor(box, (1, 3), "box"), tensor(chosen[::-1], (1, 2), "chosen")]
    assert compare(told, {"box": box, "chosen": chosen}, "fp16").passed
    assert not compare(told, {"chosen": chosen}, "fp16").passed


# --- the reference ----------------------------------------------------------------------------------------------------


def small(value: int = 6) -> Model:
    layers = (FullyConnected("fc", ("x",), value),)
    return Model("small", Network("small", (Input("x", (4,)),), layers, ("fc",)), "builtin", f"digest {value}")


def same(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    return list(a) == list(b) and all(np.array_equal(a[name], b[name]) for name in a)


def test_a_built_in_network_has_the_weights_of_its_seed(tmp_path: Path) -> None:
    model = small()
    matrix, bias = draw(recipe(model.network.layers[0], ((1, 4),), 5, 0))
    found = reference(model, 5, 32, tmp_path)
    assert found["fc"] == pytest.approx(matrix @ np.full(4, INPUT_VALUE, np.float32) + bias, rel=1e-5)
    assert not same(found, reference(model, 6, 32, tmp_path))


def test_what_was_computed_is_kept_and_nothing_else(tmp_path: Path) -> None:
    cache = tmp_path / "new" / "cache"
    first = reference(small(), 0, 1, cache)
    (kept,) = cache.iterdir()
    before = kept.stat().st_mtime_ns
    assert same(first, reference(small(), 0, 1, cache))
    assert same(first, reference(small(), 0, 64, cache))  # all images are equal
    assert kept.stat().st_mtime_ns == before
    reference(small(7), 0, 1, cache)
    reference(small(), 1, 1, cache)
    assert len(list(cache.iterdir())) == 3


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04", b"nothing of the kind"])
def test_a_damaged_file_is_computed_again(damage: bytes, tmp_path: Path) -> None:
    first = reference(small(), 0, 1, tmp_path)
    (kept,) = tmp_path.iterdir()
    for content in (damage, kept.read_bytes()[:-40], kept.read_bytes()[:200]):
        kept.write_bytes(content)
        assert same(first, reference(small(), 0, 1, tmp_path))


def users(path: Path, node: onnx.NodeProto, kinds: Mapping[str, int], weights: Mapping[str, Array]) -> Model:
    """Writes a model with inputs of N x 3 and one output "y", and returns it as loaded for a batch of 4."""
    inputs = [helper.make_tensor_value_info(name, kind, ["N", 3]) for name, kind in kinds.items()]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])]
    constants = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(
        [helper.make_node("Cast", ["b"], ["c"], to=TensorProto.FLOAT), node] if "b" in kinds else [node],
        "users",
        inputs,
        outputs,
        constants,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6), str(path))
    return load(str(path), 4)


def test_a_users_model_gives_the_first_image_at_its_batch(tmp_path: Path) -> None:
    kinds = {"a": TensorProto.FLOAT, "b": TensorProto.INT64}
    model = users(tmp_path / "m.onnx", helper.make_node("Add", ["a", "c"], ["y"]), kinds, {})
    cache = tmp_path / "cache"
    found = reference(model, 0, 4, cache)
    assert found["y"] == pytest.approx([1 + INPUT_VALUE] * 3)
    Path(model.source).unlink()
    assert same(found, reference(model, 9, 4, cache))  # its weights are its own


def test_a_model_that_cannot_be_compared_is_an_error_of_its_own(tmp_path: Path) -> None:
    zeros = {"zero": np.zeros(3, np.float32)}
    node = helper.make_node("Div", ["a", "zero"], ["y"])
    model = users(tmp_path / "inf.onnx", node, {"a": TensorProto.FLOAT}, zeros)
    with pytest.raises(EngineError, match="not finite"):
        reference(model, 0, 4, tmp_path / "cache")
    Path(model.source).write_bytes(b"no model")
    with pytest.raises(EngineError, match="ONNX Runtime cannot run inf on this machine"):
        reference(model, 0, 4, tmp_path / "cache")
    assert not list(itertools.islice((tmp_path / "cache").iterdir(), 1))
