"""Shapes follow Caffe's rules, and a network that does not fit says which layer does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
)
from engines.networks import alexnet, googlenet
from remote.errors import UsageError


def made(layer: Layer, *inputs: Shape) -> Shape:
    return layer.shape(inputs)


def test_alexnet_has_the_shapes_of_bvlc() -> None:
    shapes = alexnet().shapes(2)
    wanted: dict[str, Shape] = {
        "conv1": (96, 55, 55),
        "pool1": (96, 27, 27),
        "conv2": (256, 27, 27),
        "pool2": (256, 13, 13),
    }
    wanted |= {"conv5": (256, 13, 13), "pool5": (256, 6, 6), "fc6": (4096,), "prob": (1000,)}
    assert {name: shapes[name][1:] for name in wanted} == wanted
    assert {shape[0] for shape in shapes.values()} == {2}


def test_googlenet_has_the_shapes_of_bvlc() -> None:
    shapes = googlenet().shapes(1)
    wanted: dict[str, Shape] = {
        "conv1/7x7_s2": (64, 112, 112),
        "pool1/3x3_s2": (64, 56, 56),
        "pool2/3x3_s2": (192, 28, 28),
    }
    wanted |= {"inception_3a/output": (256, 28, 28), "pool3/3x3_s2": (480, 14, 14), "pool4/3x3_s2": (832, 7, 7)}
    wanted |= {"inception_5b/output": (1024, 7, 7), "pool5/7x7_s1": (1024, 1, 1), "prob": (1000,)}
    assert {name: shapes[name][1:] for name in wanted} == wanted


@given(
    size=st.integers(1, 40),
    kernel=st.integers(1, 7),
    stride=st.integers(1, 7),
    pad=st.integers(0, 6),
    ceil=st.booleans(),
)
def test_pooling_covers_the_image_and_its_last_window_starts_inside(
    size: int, kernel: int, stride: int, pad: int, ceil: bool
) -> None:
    pad = min(pad, kernel - 1)
    if kernel > size + 2 * pad:
        return
    pool = Pool("p", ("x",), "max", (kernel, kernel), (stride, stride), (pad,) * 4, ceil)
    count = made(pool, (1, 3, size, size))[2]
    assert (count - 1) * stride < size + pad
    covered = (count - 1) * stride + kernel - pad
    assert covered <= size + pad if not ceil else covered >= size or count * stride >= size + pad


def test_ceil_mode_drops_a_window_that_would_start_in_the_padding() -> None:
    assert made(Pool("p", ("x",), "max", (2, 2), (2, 2), (1,) * 4), (1, 1, 3, 3)) == (1, 1, 2, 2)
    assert made(Pool("p", ("x",), "max", (3, 3), (2, 2), (0,) * 4), (1, 1, 6, 6)) == (1, 1, 3, 3)
    assert made(Pool("p", ("x",), "max", (3, 3), (2, 2), (0,) * 4, ceil=False), (1, 1, 6, 6)) == (1, 1, 2, 2)


@pytest.mark.parametrize(
    ("layer", "inputs", "wanted"),
    [
        (Pool("p", ("x",), "avg"), ((2, 5, 7, 9),), (2, 5, 1, 1)),
        (FullyConnected("f", ("x",), 10), ((2, 5, 7, 9),), (2, 10)),
        (FullyConnected("f", ("x",), 10, axis=-1), ((2, 5, 7),), (2, 5, 10)),
        (MatMul("m", ("a", "b")), ((2, 1, 3, 4), (5, 4, 6)), (2, 5, 3, 6)),
        (Eltwise("e", ("a", "b")), ((2, 5, 7, 9), (5, 1, 1)), (2, 5, 7, 9)),
        (Concat("c", ("a", "b")), ((2, 5, 7), (2, 3, 7)), (2, 8, 7)),
        (Reshape("r", ("x",)), ((2, 5, 7),), (2, 35)),
        (Reshape("r", ("x",), (7, -1)), ((2, 5, 7),), (2, 7, 5)),
        (Conv("c", ("x",), 8, (3,), (1,), (1, 1), (1,)), ((2, 4, 10),), (2, 8, 10)),
        (Conv("c", ("x",), 8, (3, 3), (2, 2), (1, 1, 0, 0), (2, 2)), ((2, 4, 10, 10),), (2, 8, 4, 4)),
        (BatchNorm("b", ("x",)), ((2, 5, 7),), (2, 5, 7)),
    ],
)
def test_a_layer_makes_the_shape_that_it_documents(layer: Layer, inputs: tuple[Shape, ...], wanted: Shape) -> None:
    assert layer.shape(inputs) == wanted


@pytest.mark.parametrize(
    ("layer", "why"),
    [
        (Conv.square("odd", "data", 6, 3, groups=4), "do not split in 4 groups"),
        (Conv.square("odd", "data", 6, 30), "larger than its input"),
        (Pool.square("odd", "data", "max", 30), "larger than its input"),
        (Conv("odd", ("data",), 6, (3,), (1,), (0, 0), (1,)), "expects 3 dimensions"),
        (ReLU("odd", ("nowhere",)), "'nowhere'"),
        (Reshape("odd", ("data",), (7, -1)), "does not fit"),
        (Concat("odd", ("data", "small")), "differ outside axis 1"),
        (Eltwise("odd", ("data", "small")), "do not fit together"),
        (MatMul("odd", ("data", "data")), "cannot be multiplied"),
    ],
)
def test_a_layer_that_does_not_fit_is_named(layer: Layer, why: str) -> None:
    network = Network("net", (Input("data", (8, 9, 10)), Input("small", (8, 3, 3))), (layer,), ("odd",))
    with pytest.raises(UsageError, match="'odd'") as caught:
        network.shapes(1)
    assert why in str(caught.value)
    assert caught.value.hint


def test_a_batch_below_one_or_other_than_the_fixed_one_is_refused() -> None:
    with pytest.raises(UsageError, match="batch 0"):
        alexnet().shapes(0)
    fixed = Network("net", (Input("x", (3,)),), (Other("y", ("x",), "Erf", (4, 3)),), ("y",), fixed_batch=4)
    assert fixed.shapes(4)["y"] == (4, 3)
    with pytest.raises(UsageError, match="batch 4, not 2"):
        fixed.shapes(2)


def test_an_output_that_nothing_makes_is_refused() -> None:
    with pytest.raises(UsageError, match="'gone'"):
        Network("net", (Input("x", (3,)),), (), ("gone",)).shapes(1)
