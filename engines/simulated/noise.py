"""How the time of one batch varies on a board. Repeatable: everything comes from one seed."""

from __future__ import annotations

import random
from math import exp, sqrt

# Assumed, as nothing published says it: what repeated runs of one network on one quiet board look like.
_RUN = 0.003  # deviation from run to run
_SLOW = 0.007  # deviation of what drifts within a run ...
_SLOW_S = 0.2  # ... and for how long a drift lasts
_WHITE = 0.012  # most that one batch differs from the next
_FIRST = 0.1  # how much slower the first batch is; the excess falls by e with every batch


class Noise:
    """Draws times of successive batches of one process. ``run`` is the relative deviation from run to run."""

    def __init__(self, seed: int, run: float = _RUN) -> None:
        self._random = random.Random(seed)
        self._run = 1 + self._random.gauss(0, run)
        self._slow = 0.0
        self._first = _FIRST

    def batches(self, mean_s: float, room_s: float, most: int) -> list[float]:
        """Returns the seconds of the next batches: enough to fill ``room_s``, at least 1, at most ``most``."""
        draw, gauss = self._random.random, self._random.gauss
        keep = exp(-mean_s / _SLOW_S)
        stir = _SLOW * sqrt(1 - keep * keep)
        base_s, slow, first = mean_s * self._run, self._slow, self._first
        drawn: list[float] = []
        total_s = 0.0
        while not drawn or (total_s < room_s and len(drawn) < most):
            slow = keep * slow + stir * gauss(0, 1)
            seconds = base_s * (1 + slow + first + _WHITE * (draw() + draw() - 1))
            first *= 0.3679
            drawn.append(seconds)
            total_s += seconds
        self._slow, self._first = slow, first
        return drawn
