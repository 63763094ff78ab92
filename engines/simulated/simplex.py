"""The least of a function of several numbers, without its slopes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Corner = tuple[float, Vector]


def minimum(loss: Callable[[Vector], float], start: Vector, step: float) -> Vector:
    """Returns where ``loss`` is least, near ``start``: the simplex method of Nelder and Mead (1965)."""
    points = [start, *(start + step * unit for unit in np.eye(len(start)))]
    simplex = [(loss(point), point) for point in points]
    for _ in range(2000):
        simplex.sort(key=lambda corner: corner[0])
        if simplex[-1][0] - simplex[0][0] < 1e-12:
            break
        better = _instead_of_worst(loss, simplex)
        if better:
            simplex[-1] = better
        else:
            middles = [(point + simplex[0][1]) / 2 for _, point in simplex[1:]]
            simplex[1:] = [(loss(point), point) for point in middles]
    return min(simplex, key=lambda corner: corner[0])[1]


def _instead_of_worst(loss: Callable[[Vector], float], simplex: Sequence[Corner]) -> Corner | None:
    """Returns the corner to put in the place of the worst, the last; None where the simplex should shrink."""
    worst = simplex[-1]
    centre = np.mean([point for _, point in simplex[:-1]], axis=0)

    def tried(reach: float) -> Corner:
        point = centre + reach * (centre - worst[1])
        return loss(point), point

    mirrored = tried(1.0)
    if mirrored[0] < simplex[0][0]:
        return min(mirrored, tried(2.0), key=lambda corner: corner[0])
    if mirrored[0] < simplex[-2][0]:
        return mirrored
    inside = tried(-0.5)
    return inside if inside[0] < worst[0] else None
