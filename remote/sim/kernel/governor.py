"""How governors see a load: late when it comes, later still when it goes, and never quite as it is.

What they see of a load follows it with a first-order lag, faster up than down. Every sampling period they look anew,
and see more or less than that by a deviation that lasts. All of it is assumed, in the order of what the governors'
sources say of their periods; which numbers, the table ``governor`` of the twins says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import exp, inf, sqrt
from random import Random

from remote.sim.physics import Activity

_LOADS = {"gpu_load": 1e-3, "cpu_load": 1e-3, "bytes_per_s": 1e6}
"""What governors see, and from how near on it counts as seen."""


class Governor:
    """``activity`` says what the machine does; it has done so since the last `follow`. The same seed sees alike.

    Where ``rise_s`` is 0, a load is seen at once and as it is.
    """

    def __init__(
        self, table: Mapping[str, float], seed: int, now: Callable[[], float], activity: Callable[[], Activity]
    ) -> None:
        self._table, self._now, self._activity = table, now, activity
        self._seen = Activity()
        self._at_s = self._sampled_s = now()
        self._gauss = Random(f"governor {seed} {self._at_s:.3f}").gauss
        self._jitter = 0.0

    def follow(self) -> None:
        """Takes up the time since the last call. Call it before the machine does something else."""
        now_s, doing = self._now(), self._activity()
        span_s, self._at_s = now_s - self._at_s, now_s
        if span_s <= 0.0 or doing == self._seen or not self._table["rise_s"]:
            return
        values = {}
        for name, near in _LOADS.items():
            was, load = getattr(self._seen, name), getattr(doing, name)
            left = (was - load) * exp(-span_s / self._table["rise_s" if load > was else "fall_s"])
            values[name] = load + left if abs(left) > near else load
        self._seen = replace(doing, **values)

    def seen(self) -> Activity:
        """Returns what the governors go by now."""
        if not self._table["rise_s"]:
            return self._activity()
        self.follow()
        if self._now() >= self._sampled_s + self._table["period_s"]:
            keep = exp((self._sampled_s - self._now()) / self._table["jitter_s"])
            self._jitter = keep * self._jitter + sqrt(1 - keep * keep) * self._gauss(0.0, self._table["jitter"])
            self._sampled_s = self._now()
        more = max(0.0, 1.0 + self._jitter)
        return replace(self._seen, **{name: more * getattr(self._seen, name) for name in _LOADS})

    def due_s(self) -> float:
        """Returns when they look next; inf where a load is gone that they could see."""
        if not self._table["rise_s"]:
            return inf
        self.seen()
        idle = self._seen == self._activity() and not self._seen.gpu_load and not self._seen.cpu_load
        return inf if idle else self._sampled_s + self._table["period_s"]
