"""A user's ONNX file always gets a network with its shapes, or an answer that names the file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from engines.cost import Precision, cost, total
from engines.emit.onnx import emit_onnx, skeleton
from engines.importer import read_onnx, read_skeleton
from engines.network import FullyConnected, Input, Network, Reshape, Shape
from engines.networks import BUILTIN
from remote.errors import UsageError

Dims = Sequence[int | str | None]
RELU = helper.make_node("Relu", ["x"], ["y"])


def save(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: dict[str, Dims],
    weights: dict[str, Shape] | None = None,
    *,
    opset: int = 17,
    rank: int = 2,
    **numbers: list[int],
) -> Path:
    """Writes a model that ends in tensor ``y`` of ``rank``; ``numbers`` are small integer constants."""
    tensors = [numpy_helper.from_array(np.ones(shape, np.float32), name) for name, shape in (weights or {}).items()]
    tensors += [numpy_helper.from_array(np.array(value, np.int64), name) for name, value in numbers.items()]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * rank)],
        tensors,
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("mine", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


def node(op: str, reads: str, makes: str = "y", **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, reads.split(" "), makes.split(" "), **attributes)


def read(path: Path, batch: int = 2) -> Network:
    return read_onnx(path, batch).network


def kinds(network: Network) -> list[str]:
    return [layer.kind for layer in network.layers]


@pytest.mark.parametrize("batch", [1, 3])
def test_an_emitted_network_costs_the_same_when_read_back(batch: int, tmp_path: Path) -> None:
    network = BUILTIN["googlenet"]()
    emit_onnx(network, batch, "fp32", 0, tmp_path / "g.onnx")
    back = read(tmp_path / "g.onnx", batch)
    ours, theirs = (
        {row.name: row for row in cost(n, batch) if row.kind not in ("Dropout", "Reshape")} for n in (network, back)
    )
    assert ours.keys() == theirs.keys()
    for name in ours.keys() - {"loss3/classifier"}:  # its input is flattened by a layer of its own
        assert theirs[name] == ours[name]
    assert theirs["loss3/classifier"].macs == ours["loss3/classifier"].macs
    assert total(cost(back, batch)).parameters == total(cost(network, batch)).parameters


def test_a_dynamic_batch_is_set_from_the_batch_asked_for(tmp_path: Path) -> None:
    nodes = [node("Relu", "x", "r"), node("Add", "r z")]
    for symbol in ("N", None):
        path = save(tmp_path / "m.onnx", nodes, {"x": (symbol, 3, 4), "z": (symbol, 3, 4)}, rank=3)
        network = read(path, 5)
        assert network.shapes(5)["y"] == (5, 3, 4)
        assert [(i.name, i.shape, i.batched) for i in network.inputs] == [("x", (3, 4), True), ("z", (3, 4), True)]


@pytest.mark.parametrize(
    ("nodes", "weights", "wanted", "shape"),
    [
        ([node("Conv", "x w b", pads=[1, 1, 1, 1])], {"w": (5, 4, 3, 3), "b": (5,)}, ["Conv"], (2, 5, 8, 8)),
        ([node("Conv", "x w", auto_pad="SAME_UPPER", strides=[2, 2])], {"w": (5, 4, 3, 3)}, ["Conv"], (2, 5, 4, 4)),
        ([node("Conv", "x w", group=2)], {"w": (6, 2, 3, 3)}, ["Conv"], (2, 6, 6, 6)),
        ([node("MaxPool", "x", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)], {}, ["Pool"], (2, 4, 4, 4)),
        ([node("AveragePool", "x", kernel_shape=[2, 2])], {}, ["Pool"], (2, 4, 7, 7)),
        ([node("MaxPool", "x", kernel_shape=[2, 2], dilations=[2, 2])], {}, ["MaxPool"], (2, 4, 6, 6)),
        ([node("GlobalAveragePool", "x")], {}, ["Pool"], (2, 4, 1, 1)),
        ([node("LRN", "x", size=3)], {}, ["LRN"], (2, 4, 8, 8)),
        ([node("BatchNormalization", "x a b c d")], dict.fromkeys("abcd", (4,)), ["BatchNorm"], (2, 4, 8, 8)),
        ([node("Concat", "x x", axis=1)], {}, ["Concat"], (2, 8, 8, 8)),
        ([node("Mul", "x x")], {}, ["Eltwise"], (2, 4, 8, 8)),
        ([node("Mul", "x a")], {"a": (4, 1, 1)}, ["Mul"], (2, 4, 8, 8)),
        ([node("Flatten", "x")], {}, ["Reshape"], (2, 256)),
        (
            [node("Flatten", "x", "f"), node("Gemm", "f w b", transB=1)],
            {"w": (9, 256), "b": (9,)},
            ["Reshape", "FullyConnected"],
            (2, 9),
        ),
        ([node("MatMul", "x w")], {"w": (8, 5)}, ["FullyConnected"], (2, 4, 8, 5)),
        ([node("MatMul", "x x")], {}, ["MatMul"], (2, 4, 8, 8)),
        ([node("Sigmoid", "x", "s"), node("Clip", "s")], {}, ["Sigmoid", "Clip"], (2, 4, 8, 8)),
        ([node("Transpose", "x", perm=[1, 0, 2, 3])], {}, ["Transpose"], (4, 2, 8, 8)),
        ([node("ConvTranspose", "x w", strides=[2, 2])], {"w": (4, 3, 2, 2)}, ["ConvTranspose"], (2, 3, 16, 16)),
        ([node("Softmax", "x", "s"), node("Dropout", "s")], {}, ["Softmax", "Dropout"], (2, 4, 8, 8)),
    ],
)
def test_an_operation_becomes_its_layer(
    nodes: list[onnx.NodeProto], weights: dict[str, Shape], wanted: list[str], shape: Shape, tmp_path: Path
) -> None:
    network = read(save(tmp_path / "m.onnx", nodes, {"x": ("N", 4, 8, 8)}, weights, rank=len(shape)))
    assert kinds(network) == wanted
    assert network.shapes(2)["y"] == shape
    assert total(cost(network, 2)).parameters == sum(int(np.prod(s)) for s in weights.values())


def test_multiply_accumulates_are_counted_beyond_our_own_layers(tmp_path: Path) -> None:
    transposed = [node("ConvTranspose", "x w", strides=[2, 2])]
    path = save(tmp_path / "a.onnx", transposed, {"x": ("N", 4, 8, 8)}, {"w": (4, 3, 2, 2)}, rank=4)
    assert total(cost(read(path), 2)).macs == 2 * 4 * 8 * 8 * 3 * 2 * 2
    path = save(tmp_path / "b.onnx", [node("MatMul", "w x")], {"x": ("N", 8, 3)}, {"w": (5, 8)}, rank=3)
    assert total(cost(read(path), 2)).macs == 2 * 5 * 3 * 8
    path = save(tmp_path / "c.onnx", [node("Gemm", "x x", transB=1)], {"x": ("N", 8)})
    assert total(cost(read(path), 2)).macs == 2 * 2 * 8
    lstm = [helper.make_node("LSTM", ["x", "w", "r"], ["", "y"], hidden_size=5)]
    path = save(tmp_path / "d.onnx", lstm, {"x": (7, 2, 3)}, {"w": (1, 20, 3), "r": (1, 20, 5)}, rank=3)
    assert total(cost(read(path, 7), 7)).macs == 7 * 2 * 20 * (3 + 5)


def test_what_depends_on_weights_alone_is_no_layer(tmp_path: Path) -> None:
    nodes = [node("Transpose", "w", "t", perm=[1, 0]), node("Reshape", "x shape", "f"), node("MatMul", "f t")]
    path = save(tmp_path / "m.onnx", nodes, {"x": ("N", 4, 8, 8)}, {"w": (100, 256)}, shape=[0, -1])
    network = read(path)
    assert kinds(network) == ["Reshape", "FullyConnected"]
    assert network.shapes(2)["y"] == (2, 100)
    assert total(cost(network, 2)).macs == 2 * 256 * 100


def test_further_outputs_of_an_operation_are_kept(tmp_path: Path) -> None:
    nodes = [node("Split", "x", "a b", axis=1), node("Add", "a b")]
    network = read(save(tmp_path / "m.onnx", nodes, {"x": ("N", 4, 8)}, opset=13, rank=3))
    assert kinds(network) == ["Split", "Eltwise"]
    assert network.shapes(2)["b"] == (2, 2, 8)


def test_a_branch_that_reads_the_input_is_no_constant(tmp_path: Path) -> None:
    value = helper.make_tensor_value_info("b", TensorProto.FLOAT, None)
    branch = helper.make_graph([node("Relu", "x", "b")], "branch", [], [value])
    nodes = [node("If", "yes", "i", then_branch=branch, else_branch=branch), node("Relu", "i")]
    assert kinds(read(save(tmp_path / "m.onnx", nodes, {"x": ("N", 4)}, yes=[1]))) == ["If", "ReLU"]


def test_a_model_of_functions_is_read_through_them(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", [helper.make_node("Twice", ["x"], ["y"], domain="mine")], {"x": ("N", 4)})
    model = onnx.load(path)
    body = [node("Relu", "i", "h"), node("Add", "h h", "o")]
    model.functions.append(helper.make_function("mine", "Twice", ["i"], ["o"], body, [helper.make_opsetid("", 17)]))
    onnx.save(model, path)
    assert kinds(read(path)) == ["ReLU", "Eltwise"]


def test_weights_beside_the_model_count_and_are_part_of_the_digest(tmp_path: Path) -> None:
    plain = save(tmp_path / "plain.onnx", [node("Conv", "x w")], {"x": ("N", 4, 8, 8)}, {"w": (5, 4, 3, 3)}, rank=4)
    beside = tmp_path / "beside.onnx"
    onnx.save(onnx.load(plain), beside, save_as_external_data=True, location="w.bin", size_threshold=0)
    first = read_onnx(beside, 2)
    assert total(cost(first.network, 2)).parameters == 180
    (tmp_path / "w.bin").write_bytes(bytes(180 * 4))
    assert read_onnx(beside, 2).digest != first.digest
    (tmp_path / "w.bin").unlink()
    with pytest.raises(UsageError, match=r"w\.bin|beside\.onnx"):
        read_onnx(beside, 2)


def test_another_batch_than_the_fixed_one_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", [node("Relu", "x")], {"x": (8, 3)})
    assert read(path, 8).shapes(8)["y"] == (8, 3)
    with pytest.raises(UsageError, match=r"m\.onnx: its batch is fixed at 8, 2") as caught:
        read(path, 2)
    assert "dynamic batch" in caught.value.hint


def test_an_unknown_dimension_other_than_the_batch_is_named(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", [node("Relu", "x")], {"x": ("N", 3, "height", 8)}, rank=4)
    with pytest.raises(UsageError, match=r"m\.onnx: dimension 2 \(height\) of input 'x'"):
        read(path)


def test_a_shape_that_cannot_be_inferred_is_named(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", [helper.make_node("Mystery", ["x"], ["y"], domain="mine")], {"x": ("N", 3)})
    with pytest.raises(UsageError, match=r"m\.onnx: the shape of 'y', made by Mystery"):
        read(path)


@pytest.mark.parametrize(
    "content",
    [b"", b"not a model at all", b"\x08\x08", b"\xff" * 64],
    ids=["empty", "text", "header only", "ones"],
)
def test_a_corrupt_file_is_named_with_what_to_do(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "broken.onnx"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"broken\.onnx") as caught:
        read(path)
    assert caught.value.exit_code == 2
    assert caught.value.hint


def test_a_model_cut_short_anywhere_is_refused_or_still_whole(tmp_path: Path) -> None:
    whole = save(
        tmp_path / "m.onnx", [node("Conv", "x w")], {"x": ("N", 4, 8, 8)}, {"w": (5, 4, 3, 3)}, rank=4
    ).read_bytes()
    path = tmp_path / "cut.onnx"
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(UsageError, match=r"cut\.onnx"):
            read(path)


@pytest.mark.parametrize("place", [os.devnull, "missing.onnx", "."])
def test_what_is_not_a_file_is_named(place: str, tmp_path: Path) -> None:
    path = tmp_path / place
    with pytest.raises(UsageError) as caught:
        read(path)
    assert str(path) in str(caught.value)


# --- open dimensions --------------------------------------------------------------------------------------------------


def typed(path: Path, **types: int) -> Path:
    """Gives inputs of the model at ``path`` other types."""
    model = onnx.load(path)
    for value in model.graph.input:
        value.type.tensor_type.elem_type = types.get(value.name, TensorProto.FLOAT)
    onnx.save(model, path)
    return path


def test_shapes_fill_in_what_the_file_leaves_open(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", [node("Add", "x z")], {"x": ("N", 3, "h", None), "z": ("N", 3, "h", 1)}, rank=4)
    network = read_onnx(path, 2, {"x": (2, 3, 8, 9)}).network
    assert network.shapes(2) == {"x": (2, 3, 8, 9), "z": (2, 3, 8, 1), "y": (2, 3, 8, 9)}  # h is 8 everywhere


def test_a_first_dimension_of_another_name_may_be_given_a_length_of_its_own(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", [node("MatMul", "x z")], {"x": ("N", 4), "z": ("k", "m")})
    assert read_onnx(path, 2, {"z": (4, 5)}).network.shapes(2)["y"] == (2, 5)


@pytest.mark.parametrize(
    ("shapes", "what", "hint"),
    [
        ({}, "dimension 2 (h) of input 'x' is not known", "--shape x:2x3x?x? --shape image:2x?"),
        ({"x": (2, 3, 8, 8)}, "dimension 1 of input 'image' is not known", "--shape image:2x?"),
        ({"imgae": (2, 3)}, "it has no input 'imgae'", "Did you mean 'image'? Its inputs are x, image."),
        ({"x": (2, 3, 8)}, "input 'x' has 4 dimensions, --shape gives it 3 (2x3x8)", "x:?x3x?x?"),
        ({"x": (2, 4, 8, 8)}, "dimension 1 of input 'x' is 3, --shape gives it 4", "The file fixes it"),
        ({"x": (5, 3, 8, 8)}, "dimension 0 (N) of input 'x' is 2, --shape gives it 5", "The batch"),
        ({"x": (2, 3, 8, 8), "image": (5, 4)}, "dimension 0 (N) of input 'image' is 2, --shape gives it 5", "agree"),
    ],
)
def test_shapes_that_do_not_fit_are_explained(shapes: dict[str, Shape], what: str, hint: str, tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", [RELU], {"x": ("N", 3, "h", "w"), "image": ("N", None)}, rank=4)
    with pytest.raises(UsageError) as caught:
        read_onnx(path, 2, shapes)
    assert caught.value.what == f"{path}: {what}"
    assert hint in caught.value.hint


def test_the_batch_of_a_file_without_names_must_agree_too(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", [RELU], {"x": (None, None)})
    assert read_onnx(path, 2, {"x": (2, 3)}).network.shapes(2)["y"] == (2, 3)
    with pytest.raises(UsageError, match="dimension 0 of input 'x'"):
        read_onnx(path, 2, {"x": (1, 3)})


def test_inputs_of_integers_and_booleans_are_read(tmp_path: Path) -> None:
    nodes = [node("Gather", "w ids", "g"), node("Where", "yes g g")]
    path = save(tmp_path / "m.onnx", nodes, {"ids": ("N", 7), "yes": ("N", 7, 1)}, {"w": (100, 16)}, rank=3)
    network = read(typed(path, ids=TensorProto.INT64, yes=TensorProto.BOOL), 3)
    assert [(i.name, i.shape, i.dtype) for i in network.inputs] == [("ids", (7,), "int64"), ("yes", (7, 1), "bool")]
    assert network.shapes(3)["y"] == (3, 7, 16)


def test_a_vector_of_integers_is_a_shape_and_says_nothing_of_the_batch(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", [node("Expand", "x shape")], {"shape": (3,), "x": ("N", 4, 5)}, rank=3)
    network = read(typed(path, shape=TensorProto.INT64), 2)
    assert network.shapes(2)["y"] == (2, 4, 5)  # it is fed with ones
    assert [(i.name, i.batched) for i in network.inputs] == [("shape", False), ("x", True)]


def test_reshapes_that_depend_on_the_batch_are_followed(tmp_path: Path) -> None:
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s first", "n"),
        node("Concat", "n rest", "t", axis=0),
        node("Reshape", "x t"),
    ]
    path = save(tmp_path / "m.onnx", nodes, {"x": ("N", 4, 6)}, first=[0], rest=[-1, 3])
    assert read(path, 5).shapes(5)["y"] == (5, 8, 3)


def test_a_file_of_half_precision_weights_is_typed_so(tmp_path: Path) -> None:
    network = BUILTIN["googlenet"]()
    for precision in ("fp32", "fp16"):
        emit_onnx(network, 1, precision, 0, tmp_path / "g.onnx")
        assert read_onnx(tmp_path / "g.onnx", 1).typed == precision
    assert read_onnx(save(tmp_path / "m.onnx", [RELU], {"x": (1, 3)}), 1).typed == "fp32"


# --- skeletons --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_a_skeleton_is_the_network_of_its_file(precision: Precision, tmp_path: Path) -> None:
    network = BUILTIN["googlenet"]()
    emit_onnx(network, 4, precision, 0, tmp_path / "googlenet.onnx")
    assert read_skeleton(skeleton(network, 4, precision, 0)) == read(tmp_path / "googlenet.onnx", 4)


def test_a_skeleton_keeps_shapes_that_are_numbers() -> None:
    layers = (Reshape("r", ("x",), (2, 6)), FullyConnected("f", ("r",), 5))
    text = skeleton(Network("net", (Input("x", (3, 4)),), layers, ("f",)), 2, "fp32", 0)
    assert read_skeleton(text).shapes(2)["f"] == (2, 5)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"onnx": 2}', '{"onnx": 1, "parts": ["", "", "", ""], "weights": []}']
)
def test_what_is_no_skeleton_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="skeleton"):
        read_skeleton(text)
