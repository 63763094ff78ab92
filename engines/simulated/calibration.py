"""What a user's own measurements say about the constants of a simulated board. Pure.

The constants are looked for around those of the shipped board, and each is known to be some half off there (a standard
deviation of `PRIOR`); a measurement is met within `MISFIT`, which is about what the model is wrong by. So few results
move the constants a little and many decide them: maximum a posteriori, by Levenberg and Marquardt's least squares for
time (of the logarithm of constants and seconds) and by linear ones for power, which is linear in its constants.

A constant is *fitted* where the results take away at least half of the variance that it had before, and *kept* as
shipped where they take away next to nothing. Between them it is *partly* fitted: the results decide a combination of
several only.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from engines.simulated.fit import nonnegative
from engines.simulated.protocol import Engine, Mode, Physics
from engines.simulated.work import Flavour, works
from remote.sim.physics import (
    Activity,
    Clocks,
    Gpu,
    PowerConstants,
    PowerModel,
    TimeConstants,
    Work,
    activity,
    layer_time,
    power,
    record,
    tiled,
)

Vector = NDArray[np.float64]
Twin = Mapping[str, Any]
How = Literal["fitted", "partly", "kept"]

PRIOR = 0.5
"""Assumed: how far a board may be from the shipped one, as the standard deviation of a constant's logarithm."""

MISFIT = 0.05
"""How far the model is off where it is fitted: about the mean error of the shipped fits (`engines.simulated.fit`)."""

_FITTED, _PARTLY = 0.5, 0.05  # of the variance that it had before
_WATTS_NEEDED = 3

# An efficiency is a share of a peak; Winograd's method saves a factor of 2.25 where its tiles are 2 x 2, as usual.
_MOST = {"fp32_efficiency": 1.0, "fp16_efficiency": 1.0, "bandwidth_efficiency": 1.0, "winograd": 2.25}


@dataclass(frozen=True)
class Point:
    """One thing that was measured, once or several times.

    ``seconds`` is from one batch to the next; ``watts`` the sum of ``rails`` under load, ``idle_w`` before it at the
    same clocks. ``spread`` and ``watts_spread`` are relative standard errors.
    """

    engine: Engine
    mode: Mode
    flavour: Flavour
    clocks: Clocks
    seconds: float
    spread: float = 0.0
    rails: tuple[str, ...] = ()
    watts: float | None = None
    watts_spread: float = 0.0
    idle_w: float | None = None


@dataclass(frozen=True)
class Predicted:
    """What a simulated board would show of a `Point`; watts are None where none were measured."""

    seconds: float
    watts: float | None


@dataclass(frozen=True)
class Constant:
    """One constant of the table ``table`` ("power", "time.tensorrt"), as fitted and as ``shipped``."""

    table: str
    name: str
    value: float
    shipped: float
    how: How


@dataclass(frozen=True)
class Fit:
    """Constants of time and of power, and the simulated board that has them."""

    constants: tuple[Constant, ...]
    twin: Twin


def fit(points: Sequence[Point], twin: Twin, table: str, near: Fit | None = None) -> Fit:
    """Returns the constants of ``twin`` that fit ``points``: those of time in ``table``, and those of power.

    Power is fitted where at least three of the points have watts. The search begins ``near`` another fit, or at the
    shipped constants.
    """
    rows = _time(points, twin, table, record(TimeConstants, (near.twin if near else twin)["time"][table]))
    rows += _power([point for point in points if point.watts], _with(twin, rows), table)
    return Fit(tuple(rows), _with(twin, rows))


def predict(point: Point, twin: Twin, table: str) -> Predicted:
    """Returns what ``twin`` would show of a point."""
    seconds, load = _steady(point, twin, table)
    return Predicted(seconds, _watts(load, point, PowerModel.of(twin)) if point.watts else None)


def left_out(points: Sequence[Point], twin: Twin, table: str, folds: int) -> list[Predicted]:
    """Returns what each point is predicted to be by a fit to the points that are not in its fold.

    As many ``folds`` as points: each is left out alone. Fewer are drawn by chance, the same in every call.
    """
    found: dict[int, Predicted] = {}
    every = fit(points, twin, table)
    drawn = random.Random(0).sample(range(len(points)), len(points))
    for number in range(folds):
        out = set(drawn[number::folds])
        known = fit([point for index, point in enumerate(points) if index not in out], twin, table, every)
        found |= {index: predict(points[index], known.twin, table) for index in out}
    return [found[index] for index in range(len(points))]


def _with(twin: Twin, rows: Sequence[Constant]) -> Twin:
    """Returns the tables of ``twin`` with other constants."""
    times, power_table = dict(twin["time"]), dict(twin["power"])
    for row in rows:
        if row.table == "power":
            power_table[row.name] = row.value
        else:
            name = row.table.removeprefix("time.")
            times[name] = {**times[name], row.name: row.value}
    return {**twin, "time": times, "power": power_table}


def _steady(point: Point, twin: Twin, table: str) -> tuple[float, Activity]:
    """Returns the seconds from one batch to the next, and what the chip does meanwhile."""
    if point.flavour == "tensorrt":
        batch = Physics(twin, point.engine, point.mode).batch(point.clocks)
        return batch.period_s, batch.activity
    gpu, constants, layers = record(Gpu, twin["gpu"]), record(TimeConstants, twin["time"][table]), _works(point)
    times = [layer_time(work, point.clocks, gpu, constants) for work in layers]
    return sum(time.seconds for time in times), activity(layers, times, True)


def _works(point: Point) -> tuple[Work, ...]:
    return works(point.engine.network, point.engine.batch, point.engine.precision, point.flavour)


class _Paced:
    """The seconds of a point by the constants of time, fast: it is asked often, and looks at equal layers once."""

    def __init__(self, point: Point, twin: Twin, table: str) -> None:
        self._gpu, self._clocks = record(Gpu, twin["gpu"]), point.clocks
        shipped = record(TimeConstants, twin["time"][table])
        layers, launches = _works(point), 1.0
        if point.flavour == "tensorrt":
            physics = Physics(twin, point.engine, point.mode)
            layers, launches = physics.works, physics.constants.launch_s / shipped.launch_s
        share = point.clocks.gpu_share
        alike = Counter(replace(work, name="", launches=work.launches * launches) for work in layers)
        self._layers = [(tiled(work, self._gpu, share), n) for work, n in alike.items() if work.flops or work.bytes]
        self._besides_s = _steady(point, twin, table)[0] - self._layers_s(shipped)

    def seconds(self, constants: TimeConstants) -> float:
        """Returns the seconds from one batch to the next."""
        return self._layers_s(constants) + self._besides_s

    def _layers_s(self, constants: TimeConstants) -> float:
        each = ((layer_time(work, self._clocks, self._gpu, constants), count) for work, count in self._layers)
        return sum(time.seconds * count for time, count in each)


def _time(points: Sequence[Point], twin: Twin, table: str, near: TimeConstants) -> list[Constant]:
    """Returns the constants of time; those that are 0 stay so. The search begins at ``near``."""
    shipped = record(TimeConstants, twin["time"][table])
    names = [name for name, value in asdict(shipped).items() if value > 0]
    start = np.array([getattr(shipped, name) for name in names])
    top = np.log([max(1.0, _MOST.get(name, math.inf) / was) for name, was in zip(names, start, strict=True)])
    paced = [_Paced(point, twin, table) for point in points]
    target = np.array([point.seconds for point in points])
    weight = 1 / np.hypot(MISFIT, [point.spread for point in points])

    def off(x: Vector) -> Vector:
        constants = replace(shipped, **dict(zip(names, map(float, start * np.exp(x)), strict=True)))
        return np.asarray(weight * np.log(np.array([one.seconds(constants) for one in paced]) / target))

    x = _least(off, np.log([getattr(near, name) for name in names] / start), top)
    how = _how(_slopes(off, x, off(x)))
    rows = zip(names, start * np.exp(np.where(_known(how), x, 0.0)), start, how, strict=True)
    return [Constant(f"time.{table}", name, float(value), float(was), one) for name, value, was, one in rows]


def _least(off: Callable[[Vector], Vector], x: Vector, top: Vector) -> Vector:
    """Returns where ``off`` and the distance from 0 are least, from ``x`` on and up to ``top``.

    The method of Levenberg (1944) and Marquardt (1963).
    """

    def loss(values: Vector, y: Vector) -> float:
        return float(values @ values + y @ y / PRIOR**2)

    values = off(x)
    least, damping = loss(values, x), 1e-3
    for _ in range(100):
        slopes = _slopes(off, x, values)
        bend = slopes.T @ slopes + np.eye(len(x)) / PRIOR**2
        fall = slopes.T @ values + x / PRIOR**2
        better = None
        while better is None and damping < 1e6:
            step = np.linalg.solve(bend + damping * np.diag(np.diag(bend)), -fall)
            tried = np.minimum(x + np.clip(step, -1.0, 1.0), top)
            now = off(tried)
            better = tried if loss(now, tried) < least else None
            damping *= 0.2 if better is not None else 10.0
        if better is None:
            break
        gain, x, values = least - loss(now, better), better, now
        least -= gain
        if gain < 1e-6 * least:
            break
    return x


def _slopes(off: Callable[[Vector], Vector], x: Vector, at_x: Vector) -> Vector:
    """Returns how each value of ``off`` changes with each of ``x``: a row per value."""
    step = 1e-4
    return np.stack([(off(x + step * unit) - at_x) / step for unit in np.eye(len(x))], axis=1)


def _how(slopes: Vector) -> list[How]:
    """Says how well measurements decide each constant; ``slopes`` are in their own errors, a row per measurement."""
    after = np.linalg.inv(slopes.T @ slopes + np.eye(slopes.shape[1]) / PRIOR**2)
    gains = 1 - np.diag(after) / PRIOR**2
    return ["fitted" if gain >= _FITTED else "partly" if gain >= _PARTLY else "kept" for gain in gains]


def _known(how: Sequence[How]) -> NDArray[np.bool_]:
    return np.array([one != "kept" for one in how])


def _power(points: Sequence[Point], twin: Twin, table: str) -> list[Constant]:
    """Returns the constants of power; those that are 0 stay so."""
    model = PowerModel.of(twin)
    shipped = asdict(model.constants)
    names = [name for name, value in shipped.items() if value > 0]
    if len(points) < _WATTS_NEEDED:
        return [Constant("power", name, shipped[name], shipped[name], "kept") for name in names]
    loads = [(_steady(point, twin, table)[1], point, point.watts or 0.0) for point in points]
    loads += [(Activity(), point, watts) for point, watts in _idle(points)]
    target = np.array([watts for *_, watts in loads])
    weight = 1 / np.hypot(MISFIT, [point.watts_spread for _, point, _ in loads])

    def part(known: Mapping[str, float]) -> Vector:
        one = replace(model, constants=PowerConstants(**{**dict.fromkeys(shipped, 0.0), **known}))
        return np.asarray(weight * np.array([_watts(load, point, one) for load, point, _ in loads]) / target)

    # Power is linear in its constants: its columns are what each contributes alone, here in parts of the shipped one.
    fixed = part({})
    columns = np.stack([part({name: shipped[name]}) - fixed for name in names], axis=1)
    how = _how(columns)
    free = _known(how)
    rest = weight - fixed - columns[:, ~free].sum(axis=1)
    # The shipped constants count as measurements of their own, each within PRIOR.
    own = np.eye(free.sum()) / PRIOR
    times = np.ones(len(names))
    times[free] = nonnegative(np.vstack([columns[:, free], own]), np.concatenate([rest, own.sum(axis=1)]))
    rows = zip(names, times, how, strict=True)
    return [Constant("power", name, shipped[name] * float(factor), shipped[name], one) for name, factor, one in rows]


def _idle(points: Sequence[Point]) -> list[tuple[Point, float]]:
    """Returns the mean watts at idle for each set of clocks, with a point that was measured at them."""
    known: dict[tuple[Clocks, tuple[str, ...]], list[Point]] = {}
    for point in points:
        if point.idle_w:
            known.setdefault((point.clocks, point.rails), []).append(point)
    return [(same[0], sum(point.idle_w or 0.0 for point in same) / len(same)) for same in known.values()]


def _watts(load: Activity, point: Point, model: PowerModel) -> float:
    watts = power(load, point.clocks, model)
    return sum(watts[rail] for rail in point.rails)
