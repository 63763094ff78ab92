"""Fits the simulated board's constants to published measurements: ``python -m engines.simulated.fit``.

Prints the constants, and the error of every row twice: with all rows fitted, and with that row left out of the fit.
Least squares of the logarithm of time; of the relative error of power, whose constants may not be negative.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib import resources
from itertools import combinations
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from engines.cost import Precision
from engines.models import load
from engines.simulated.work import Flavour, works
from remote.boards import load as load_board
from remote.sim.physics import (
    CHANNELS,
    Activity,
    Clocks,
    Gpu,
    PowerConstants,
    PowerModel,
    TimeConstants,
    Work,
    activity,
    arithmetic_s,
    launch_s,
    layer_time,
    memory_s,
    power,
    record,
)

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Vector = NDArray[np.float64]
Corner = tuple[float, Vector]

# What is fitted in each set: where the search starts, and the most that can be. The rest stays 0: freed, it ends there.
# From few half_columns the search ends in a poorer minimum (slow memory instead), which is why it starts at many.
_SHARED = {"fp32_efficiency": (0.7, 1.0), "fp16_efficiency": (0.6, 1.0), "launch_s": (1e-4, 1.0)}
FREE: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "caffe-cudnn4": _SHARED | {"bandwidth_efficiency": (0.6, 0.8), "macs_per_output": (150.0, 1e4)},
    "tensorrt": _SHARED | {"bandwidth_efficiency": (0.75, 0.8), "half_columns": (30.0, 1e3)},
}


@dataclass(frozen=True)
class Row:
    """One published measurement. ``watts`` is None where power was not measured."""

    network: str
    precision: Precision
    batch: int
    images_per_s: float
    watts: float | None
    flavour: Flavour
    clocks: Clocks

    @property
    def seconds(self) -> float:
        """The measured time of one batch."""
        return self.batch / self.images_per_s

    def works(self) -> tuple[Work, ...]:
        """Returns the work of one batch."""
        return works(load(self.network, self.batch).network, self.batch, self.precision, self.flavour)


@cache
def measured() -> dict[str, tuple[Row, ...]]:
    """Returns the published measurements by the name of their set."""
    text = (resources.files("engines.simulated") / "data" / "measured.toml").read_text("utf-8")
    return {
        name: tuple(
            Row(**{"watts": None, **row}, flavour=s["flavour"], clocks=Clocks(s["cpu_hz"], s["gpu_hz"], s["emc_hz"]))
            for row in s["rows"]
        )
        for name, s in tomllib.loads(text)["set"].items()
    }


def fit_time(rows: Sequence[Row], gpu: Gpu, free: Mapping[str, tuple[float, float]]) -> TimeConstants:
    """Returns the constants in ``free`` that bring the times of ``rows`` closest; the others are 0."""
    target = np.log([row.seconds for row in rows])
    layers = [_stacked(row) for row in rows]
    most = np.array([high for _, high in free.values()])

    def constants(x: Vector) -> TimeConstants:
        values = np.minimum(np.exp(x), most)
        zero = TimeConstants(0.0, 0.0, 0.0, 0.0)
        return replace(zero, **dict(zip(free, map(float, values), strict=True)))

    def loss(x: Vector) -> float:
        known = constants(x)
        times = [_batch_s(work, row.clocks, gpu, known) for work, row in zip(layers, rows, strict=True)]
        beyond = float(np.maximum(x - np.log(most), 0.0).sum())
        return float(((np.log(times) - target) ** 2).mean()) + beyond

    start = np.log([first for first, _ in free.values()])
    return constants(minimum(loss, minimum(loss, start, 0.5), 0.2))


def fit_power(rows: Sequence[Row], model: PowerModel, gpu: Gpu, times: TimeConstants) -> PowerConstants:
    """Returns the power constants that bring the watts of ``rows`` closest, at the speeds that ``times`` gives."""
    known = [row for row in rows if row.watts is not None]
    names = tuple(asdict(model.constants))
    zero = PowerConstants(0.0, 0.0, 0.0, 0.0)
    units = [replace(zero, **{name: 1.0}) for name in names]

    # Power is linear in its constants: its columns are what each contributes alone.
    def watts(one: PowerConstants) -> Vector:
        return np.array([total_w(row, replace(model, constants=one), gpu, times) for row in known])

    target, fixed = np.array([row.watts for row in known]), watts(zero)
    columns = np.stack([(watts(unit) - fixed) / target for unit in units], axis=1)
    values = nonnegative(columns, 1.0 - fixed / target)
    return PowerConstants(**dict(zip(names, map(float, values), strict=True)))


def batch_s(row: Row, gpu: Gpu, constants: TimeConstants) -> float:
    """Returns the simulated seconds of one batch of ``row``."""
    return sum(layer_time(work, row.clocks, gpu, constants).seconds for work in row.works())


def total_w(row: Row, model: PowerModel, gpu: Gpu, constants: TimeConstants) -> float:
    """Returns the simulated watts of the five channels while ``row`` runs over and over."""
    watts = power(_activity(row, gpu, constants), row.clocks, model)
    return sum(watts[name] for name in CHANNELS)


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


def nonnegative(columns: Vector, target: Vector) -> Vector:
    """Returns the least-squares weights of ``columns`` among those that are not negative, by trying every subset."""
    count = columns.shape[1]
    best, least = np.zeros(count), float(target @ target)
    for size in range(1, count + 1):
        for chosen in map(list, combinations(range(count), size)):
            weights, *_ = np.linalg.lstsq(columns[:, chosen], target, rcond=None)
            rest = columns[:, chosen] @ weights - target
            if (weights >= 0).all() and rest @ rest < least:
                best, least = np.zeros(count), float(rest @ rest)
                best[chosen] = weights
    return best


@cache
def _stacked(row: Row) -> Work:
    """Returns all layers as one Work whose numbers are arrays: the formulas are plain arithmetic and do all at once."""
    layers = row.works()
    numbers = {
        name: np.array([getattr(work, name) for work in layers], float)
        for name in ("flops", "bytes", "outputs", "launches", "columns")
    }
    return Work(name=row.network, precision=row.precision, **cast(dict[str, Any], numbers))


def _batch_s(stacked: Work, clocks: Clocks, gpu: Gpu, constants: TimeConstants) -> float:
    limits = [limit(stacked, clocks, gpu, constants) for limit in (arithmetic_s, memory_s, launch_s)]
    return float(np.max(np.array(limits), axis=0).sum())


@cache
def _activity(row: Row, gpu: Gpu, constants: TimeConstants) -> Activity:
    layers = row.works()
    times = [layer_time(work, row.clocks, gpu, constants) for work in layers]
    return activity(layers, times, spinning=row.flavour == "caffe")


@dataclass(frozen=True)
class Model:
    """The board's constants: by set for time, shared for power."""

    gpu: Gpu
    times: Mapping[str, TimeConstants]
    power: PowerModel

    @classmethod
    def stored(cls) -> Model:
        """Returns what the specification of the TX1 holds."""
        twin = load_board("tx1").twin
        times = {name: record(TimeConstants, table) for name, table in twin["time"].items()}
        return cls(record(Gpu, twin["gpu"]), times, PowerModel.of(twin))

    def fitted(self, without: Row | None = None) -> Model:
        """Returns the constants fitted to all rows, or to all but one. What is assumed stays."""
        sets = {name: [row for row in rows if row != without] for name, rows in measured().items()}
        times = {name: fit_time(rows, self.gpu, FREE[name]) for name, rows in sets.items()}
        watts = fit_power(sets["caffe-cudnn4"], self.power, self.gpu, times["caffe-cudnn4"])
        return Model(self.gpu, times, replace(self.power, constants=watts))

    def speed_error(self, name: str, row: Row) -> float:
        """Returns the relative error of images per second of a row of the set ``name``: 0.1 is 10 % too fast."""
        return row.seconds / batch_s(row, self.gpu, self.times[name]) - 1.0

    def power_error(self, name: str, row: Row) -> float:
        """Returns the relative error of watts of a row, NaN where none were measured."""
        return total_w(row, self.power, self.gpu, self.times[name]) / row.watts - 1.0 if row.watts else np.nan


def report() -> Iterator[str]:
    """Yields the lines that `main` prints."""
    stored = Model.stored()
    fitted = stored.fitted()
    for name in measured():
        yield from _constants(f"twin.time.{name}", asdict(stored.times[name]), asdict(fitted.times[name]))
    yield from _constants("twin.power", asdict(stored.power.constants), asdict(fitted.power.constants))
    for name, rows in measured().items():
        yield f"\n{name}: errors of the simulated board, and with the row left out of the fit"
        yield _line("", "images/s", "error", "left out", "watts", "error", "left out")
        errors = [_errors(name, row, fitted) for row in rows]
        for row, (speed, blind_speed, watts, blind_watts) in zip(rows, map(_percents, errors), strict=True):
            what = f"{row.network} {row.precision} batch {row.batch}"
            measured_w = f"{row.watts:.1f}" if row.watts else ""
            yield _line(what, f"{row.images_per_s:.1f}", speed, blind_speed, measured_w, watts, blind_watts)
        sizes = np.abs(errors)
        for label, one in (("mean", sizes.mean(axis=0)), ("worst", sizes.max(axis=0))):
            speed, blind_speed, watts, blind_watts = (text.lstrip("+") for text in _percents(one))
            yield _line(label, "", speed, blind_speed, "", watts, blind_watts)


def _errors(name: str, row: Row, fitted: Model) -> Vector:
    """Returns the relative errors of speed (fitted, left out) and of power (fitted, left out; NaN where unknown)."""
    blind = fitted.fitted(without=row)
    both = [one.speed_error(name, row) for one in (fitted, blind)]
    return np.array(both + [one.power_error(name, row) for one in (fitted, blind)])


def _constants(title: str, stored: Mapping[str, float], fitted: Mapping[str, float]) -> Iterator[str]:
    yield f"[{title}]"
    yield from (f"{name} = {value:.4g}  # stored: {stored[name]:.4g}" for name, value in fitted.items() if value)


def _percents(errors: Vector) -> list[str]:
    return ["" if np.isnan(error) else f"{100 * error:+.1f} %" for error in errors]


def _line(what: str, *cells: str) -> str:
    return (f"{what:24}" + "".join(f"{cell:>10}" for cell in cells)).rstrip()


def main() -> None:
    """Prints the fit."""
    for line in report():
        print(line)


if __name__ == "__main__":
    main()
