"""Weights depend on seed and layer alone, and anyone with numpy can draw the same ones."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engines.network import BatchNorm, Conv, FullyConnected, ReLU
from engines.weights import Recipe, draw, recipe

CONV = Conv.square("c", "x", 8, 3)
SHAPES = ((1, 4, 9, 9),)


def test_a_recipe_is_what_it_was_before() -> None:
    wanted = recipe(CONV, SHAPES, seed=0, index=0)
    assert wanted.seed == 0xAC72368A
    assert [(shape, mean, round(deviation, 6)) for shape, mean, deviation in wanted.arrays] == [
        ((8, 4, 3, 3), 0.0, 0.235702),
        ((8,), 0.0, 0.01),
    ]


def test_drawing_is_numpy_legacy_generator_array_by_array() -> None:
    kernel, bias = draw(Recipe(5, (((2, 3), 0.0, 0.5), ((2,), 1.0, 0.1))))
    generator = np.random.RandomState(5)
    assert np.array_equal(kernel, (0.5 * generator.standard_normal((2, 3))).astype(np.float32))
    assert np.array_equal(bias, (1.0 + 0.1 * generator.standard_normal(2)).astype(np.float32))


def test_a_large_array_is_the_same_as_if_drawn_at_once() -> None:
    count = (1 << 20) + 3
    (array,) = draw(Recipe(1, (((count,), 0.0, 1.0),)))
    assert np.array_equal(array, np.random.RandomState(1).standard_normal(count).astype(np.float32))


@given(seed=st.integers(0, 2**64), index=st.integers(0, 300))
def test_every_seed_and_every_layer_has_weights_of_its_own(seed: int, index: int) -> None:
    here = recipe(CONV, SHAPES, seed, index)
    assert here == recipe(CONV, SHAPES, seed, index)
    assert here.seed != recipe(CONV, SHAPES, seed, index + 1).seed
    assert here.seed != recipe(CONV, SHAPES, seed + 1, index).seed
    assert 0 <= here.seed < 2**32


def test_deviation_keeps_the_size_of_activations() -> None:
    (kernel, _) = draw(recipe(FullyConnected("f", ("x",), 500), ((1, 2000),), 3, 0))
    x = np.random.RandomState(0).standard_normal(2000)
    for _ in range(3):
        assert 0.8 < np.mean(np.maximum(kernel @ x, 0) ** 2) / np.mean(x**2) < 1.2
        x = np.resize(np.maximum(kernel @ x, 0), 2000)


def test_statistics_of_a_batch_norm_stay_positive() -> None:
    scale, _, _, variance = draw(recipe(BatchNorm("b", ("x",)), ((1, 5000, 2, 2),), 0, 0))
    assert scale.min() > 0.5
    assert variance.min() > 0.5


def test_layers_without_weights_draw_nothing() -> None:
    assert draw(recipe(ReLU("r", ("x",)), SHAPES, 0, 0)) == ()
