"""What bounds a run: shares of time, and what higher clocks would bring. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from remote.sim.physics import Bound, LayerTime


@dataclass(frozen=True)
class Bounds:
    """Shares of time in layers that arithmetic, memory or launches take most of (they add up to 1).

    The gains are the relative rise of throughput that a clock 10 % higher would bring: 0.05 is 5 %.
    """

    arithmetic_share: float
    memory_share: float
    launch_share: float
    gain_gpu_10pct: float
    gain_emc_10pct: float


def bounds(times: Sequence[LayerTime]) -> Bounds:
    """Returns what bounds a run of layers that took ``times``. Raises ValueError where nothing takes time."""
    seconds = sum(t.seconds for t in times)
    if seconds <= 0:
        raise ValueError("there is no layer that takes time, so nothing bounds it")

    def share(bound: Bound) -> float:
        return sum(t.seconds for t in times if t.bound == bound) / seconds

    faster_gpu = sum(max(t.arithmetic_s / 1.1, t.memory_s) + t.launch_s for t in times)
    faster_emc = sum(max(t.arithmetic_s, t.memory_s / 1.1) + t.launch_s for t in times)
    return Bounds(
        share("arithmetic"), share("memory"), share("launch"), seconds / faster_gpu - 1, seconds / faster_emc - 1
    )
