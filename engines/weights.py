"""Gaussian weights from a seed, made layer by layer, so that a board can make the same ones for itself.

What a layer needs is a `Recipe`: a seed of its own and, per array, shape, mean and deviation. Whoever draws it with
numpy's legacy ``RandomState`` gets the same numbers within float32 rounding. Deviations follow He et al. (2015),
sqrt(2 / inputs per output): they keep the second moment of activations through ReLU layers, and so FP16's range.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from math import prod, sqrt
from typing import TYPE_CHECKING

from engines.network import BatchNorm, Layer, Shape
from engines.onboard import weights

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ALGORITHM = "gaussian-he-1"
"""Names what `recipe` and `draw` do; part of every engine's key. Change it with them."""

INPUT_VALUE = 0.7
"""The constant that inputs are filled with. Zeros would switch fewer transistors, and so understate power."""

_SMALL = 0.01
_SPREAD = 0.05


@dataclass(frozen=True)
class Recipe:
    """How to draw a layer's arrays, one after the other from one generator: (shape, mean, deviation) each."""

    seed: int
    arrays: tuple[tuple[Shape, float, float], ...]


def recipe(layer: Layer, inputs: tuple[Shape, ...], seed: int, index: int) -> Recipe:
    """Returns how to draw the weights of ``layer``, number ``index`` of its network; no arrays where it has none."""
    shapes = layer.weights(inputs)
    digest = hashlib.sha256(f"{seed}:{index}".encode()).digest()
    return Recipe(int.from_bytes(digest[:4], "big"), tuple(zip(shapes, *_moments(layer, shapes), strict=True)))


def _moments(layer: Layer, shapes: tuple[Shape, ...]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Returns mean and deviation of each array."""
    if isinstance(layer, BatchNorm):  # scale and variance around one: never near zero
        return (1.0, 0.0, 0.0, 1.0), (_SPREAD,) * 4
    return (0.0,) * len(shapes), tuple(sqrt(2 / prod(shape[1:])) if len(shape) > 1 else _SMALL for shape in shapes)


def draw(wanted: Recipe) -> tuple[NDArray[np.float32], ...]:
    """Returns the float32 arrays of ``wanted``."""
    return tuple(weights.draw(wanted.seed, wanted.arrays))
