"""Layers taken together by kind: what share of the time each group takes and what bounds it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from remote.sim.physics import Bound, LayerTime

_NAMES = {
    "Conv": "conv",
    "FullyConnected": "fc",
    "MatMul": "matmul",
    "Pool": "pool",
    "LRN": "norm",
    "BatchNorm": "norm",
    "ReLU": "activation",
    "Softmax": "softmax",
    "Eltwise": "element-wise",
    "Concat": "concat",
}
_LEAST_GAIN = 1.05
"""A layer that FP16 makes faster by less than 5 % did not gain: run to run, times of single layers differ as much."""

_LEAST_SHARE = 0.005
"""A layer that takes less of the time is not worth naming."""


@dataclass(frozen=True)
class Group:
    """Layers of one kind. ``share`` is their part of the time, ``bound`` what paces most of it, for ``bound_share``."""

    name: str
    layers: int
    share: float
    bound: Bound
    bound_share: float


@dataclass(frozen=True)
class NoGain:
    """The ``layers`` that FP16 does not make faster, the longest first, and the ``share`` of the FP16 time in them."""

    layers: tuple[str, ...]
    share: float


def groups(kinds: Mapping[str, str], times: Iterable[LayerTime]) -> tuple[Group, ...]:
    """Returns the groups, the longest first. ``kinds`` has the kind of each layer by its name.

    Layers that take no time, since they are done within others, are in none.
    """
    rows: dict[str, list[LayerTime]] = {}
    for time in times:
        if time.seconds > 0:
            rows.setdefault(_NAMES.get(kinds[time.name], "other"), []).append(time)
    whole_s = sum(time.seconds for members in rows.values() for time in members)
    found = [_group(name, members, whole_s) for name, members in rows.items()]
    return tuple(sorted(found, key=lambda group: -group.share))


def _group(name: str, members: list[LayerTime], whole_s: float) -> Group:
    by_bound: dict[Bound, float] = {}
    for time in members:
        by_bound[time.bound] = by_bound.get(time.bound, 0.0) + time.seconds
    bound = max(by_bound, key=lambda one: by_bound[one])
    seconds = sum(by_bound.values())
    return Group(name, len(members), seconds / whole_s, bound, by_bound[bound] / seconds)


def no_gain(fp32_s: Mapping[str, float], fp16_s: Mapping[str, float]) -> NoGain:
    """Returns the layers that FP16 does not speed up by 5 % or more, of those whose seconds are known in both.

    Layers that take less than 0.5 % of the FP16 time are passed over.
    """
    whole_s = sum(fp16_s.values())
    slow = {
        name: seconds
        for name, seconds in fp16_s.items()
        if seconds > _LEAST_SHARE * whole_s and fp32_s.get(name, float("inf")) < seconds * _LEAST_GAIN
    }
    return NoGain(tuple(sorted(slow, key=lambda name: -slow[name])), sum(slow.values()) / whole_s if slow else 0.0)
