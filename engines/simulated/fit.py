"""Fits the simulated boards' constants to published measurements: ``python -m engines.simulated.fit``.

Prints the constants, and the error of every row twice: with all rows fitted, and without the row, without all rows of
its network on that board, or without its set. Least squares of the logarithm of time, in which no source counts for
more than a dozen rows; of the relative error of power, whose constants may not be negative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engines.simulated.measured import Row, Set, measured
from engines.simulated.simplex import minimum
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
    tiled,
)

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Table:
    """A table of constants: the ``board`` that holds it under ``key``, and what is ``free``: first guess, and most.

    With ``after`` it starts from that table, is held to it by `PRIOR`, and keeps what is not free.
    """

    board: str
    key: str
    free: Mapping[str, tuple[float, float]]
    after: str = ""


_TENSOR = {"fp16_efficiency": (0.8, 1.0), "bandwidth_efficiency": (0.55, 0.85)}
_SHARED = {**_TENSOR, "launch_s": (3e-5, 1.0)}
_BOTH = {"fp32_efficiency": (0.7, 1.0), **_SHARED}
_OUTPUT = {"macs_per_output": (60.0, 1e4)}
TABLES: Mapping[str, Table] = {
    "caffe-cudnn4": Table("tx1", "caffe-cudnn4", _BOTH | {"macs_per_output": (200.0, 1e4)}),
    "tensorrt-maxwell": Table("tx1", "tensorrt", _BOTH | _OUTPUT | {"winograd": (1.4, 2.25)}),
    "tensorrt-pascal": Table("tx2", "tensorrt", _BOTH, "tensorrt-maxwell"),
    "tensorrt-volta": Table("agx-xavier", "tensorrt", _SHARED, "tensorrt-pascal"),
    "tensorrt-ampere": Table("agx-orin", "tensorrt", _SHARED, "tensorrt-volta"),
    "tensorrt-blackwell": Table("agx-thor", "tensorrt", _TENSOR, "tensorrt-ampere"),
}
"""What is fitted. A GPU's generation that follows another one keeps most of what is known of that."""

PRIOR = 0.002
"""Assumed: what a constant's squared logarithmic distance from the generation before weighs, beside a row's error."""

_COUNTED_ROWS = 12


def fit_time(
    rows: Sequence[Row],
    free: Mapping[str, tuple[float, float]],
    start: TimeConstants | None = None,
    weights: Sequence[float] | None = None,
) -> TimeConstants:
    """Returns the constants in ``free`` that bring the times of ``rows`` closest; the others are as in ``start``."""
    target = np.log([row.seconds for row in rows])
    share = np.array(weights or [1.0] * len(rows)) / sum(weights or [1.0] * len(rows))
    stack = Stacked(rows)
    base = start or TimeConstants(0.0, 0.0, 0.0, 0.0)
    most = np.log([high for _, high in free.values()])
    first = np.log([getattr(start, name) if start else guess for name, (guess, _) in free.items()])

    def constants(x: Vector) -> TimeConstants:
        values = np.exp(np.minimum(x, most))
        return replace(base, **dict(zip(free, map(float, values), strict=True)))

    def loss(x: Vector) -> float:
        missed = (np.log(stack.seconds(constants(x))) - target) ** 2
        beyond = float(np.maximum(x - most, 0.0).sum())
        return float(missed @ share) + beyond + (PRIOR * float(((x - first) ** 2).sum()) if start else 0.0)

    return constants(minimum(loss, minimum(loss, first, 0.4), 0.15))


class Stacked:
    """The layers of all rows as two arrays, one per precision: the formulas are plain arithmetic and do all at once."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._parts = [part for name in ("fp32", "fp16") if (part := _part(rows, name))]
        self._count = len(rows)

    def seconds(self, constants: TimeConstants) -> Vector:
        """Returns the simulated seconds of one batch of each row."""
        found = np.zeros(self._count)
        for work, clocks, gpu, places in self._parts:
            layers_s = np.maximum(arithmetic_s(work, clocks, gpu, constants), memory_s(work, clocks, gpu, constants))
            layers_s += launch_s(work, clocks, gpu, constants)
            found += np.bincount(places, layers_s, self._count)
        return found


def _part(rows: Sequence[Row], precision: str) -> tuple[Work, Clocks, Gpu, NDArray[np.int64]] | None:
    pairs = ((n, row, work) for n, row in enumerate(rows) for work in row.works() if work.precision == precision)
    layers = [(n, row, tiled(work, row.gpu)) for n, row, work in pairs]
    if not layers:
        return None

    def arrays(values: Sequence[Any], names: Sequence[str]) -> dict[str, Any]:
        return {name: np.array([getattr(value, name) for value in values], float) for name in names}

    names = ("flops", "bytes", "outputs", "launches", "winograd")
    work = replace(layers[0][2], **arrays([work for *_, work in layers], names))
    clocks = replace(
        layers[0][1].clocks, **arrays([row.clocks for _, row, _ in layers], ("cpu_hz", "gpu_hz", "emc_hz"))
    )
    limits = ("lanes", "fp16_rate", "bytes_per_emc_clock", "reference_cpu_hz")
    gpu = replace(layers[0][1].gpu, **arrays([row.gpu for _, row, _ in layers], limits))
    return work, clocks, gpu, np.array([n for n, *_ in layers])


def fit_power(loads: Sequence[tuple[Row, TimeConstants]], model: PowerModel) -> PowerConstants:
    """Returns the power constants that bring the watts of rows closest, at the speeds that their constants give."""
    known = [(row, times) for row, times in loads if row.watts is not None]
    names = tuple(asdict(model.constants))
    zero = PowerConstants(0.0, 0.0, 0.0, 0.0)
    units = [replace(zero, **{name: 1.0}) for name in names]

    # Power is linear in its constants: its columns are what each contributes alone.
    def watts(one: PowerConstants) -> Vector:
        return np.array([total_w(row, replace(model, constants=one), times) for row, times in known])

    target, fixed = np.array([row.watts for row, _ in known]), watts(zero)
    columns = np.stack([(watts(unit) - fixed) / target for unit in units], axis=1)
    values = nonnegative(columns, 1.0 - fixed / target)
    return PowerConstants(**dict(zip(names, map(float, values), strict=True)))


def batch_s(row: Row, constants: TimeConstants) -> float:
    """Returns the simulated seconds of one batch of ``row``."""
    return float(Stacked([row]).seconds(constants)[0])


def total_w(row: Row, model: PowerModel, constants: TimeConstants) -> float:
    """Returns the simulated watts of the five channels while ``row`` runs over and over."""
    watts = power(_activity(row, constants), row.clocks, model)
    return sum(watts[name] for name in CHANNELS)


@cache
def _activity(row: Row, constants: TimeConstants) -> Activity:
    layers = row.works()
    times = [layer_time(work, row.clocks, row.gpu, constants) for work in layers]
    return activity(layers, times, spinning=row.flavour == "caffe")


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


def fit_scale(loads: Sequence[tuple[Row, TimeConstants]], model: PowerModel) -> PowerConstants:
    """Returns the power constants with all but idle power changed in proportion, so as to come closest to the watts."""
    load = {name: value for name, value in asdict(model.constants).items() if name != "idle_w"}
    idle = replace(model, constants=replace(model.constants, **dict.fromkeys(load, 0.0)))
    watts = np.array([[row.watts, total_w(row, idle, t), total_w(row, model, t)] for row, t in loads if row.watts])
    target, base, full = watts.T
    column = (full - base) / target
    factor = float(column @ (1.0 - base / target) / (column @ column))
    return replace(model.constants, **{name: value * factor for name, value in load.items()})


POWER: Mapping[str, Callable[[Sequence[tuple[Row, TimeConstants]], PowerModel], PowerConstants]] = {
    "tx1": fit_power,
    "tx2": fit_scale,
}
"""The boards of which watts are published, and how their constants are found: all of them, or one factor."""


@dataclass(frozen=True)
class Model:
    """The boards' constants: of time by table, of power by board."""

    times: Mapping[str, TimeConstants]
    power: Mapping[str, PowerModel]

    @classmethod
    def stored(cls) -> Model:
        """Returns what the specifications of the boards hold."""
        twins = {name: load_board(table.board).twin for name, table in TABLES.items()}
        times = {name: record(TimeConstants, twins[name]["time"][table.key]) for name, table in TABLES.items()}
        return cls(times, {board: PowerModel.of(load_board(board).twin) for board in POWER})

    def fitted(self, without: str = "", last: str = "") -> Model:
        """Returns the constants fitted to all rows but those whose ``left_out`` is ``without``. What is assumed stays.

        Tables after ``last`` stay as they are.
        """
        times: dict[str, TimeConstants] = {}
        for name, table in TABLES.items():
            sets = [one for one in measured().values() if one.fit and one.constants == name]
            rows = [(row, min(1.0, _COUNTED_ROWS / len(one.rows))) for one in sets for row in one.rows]
            kept = [(row, weight) for row, weight in rows if row.left_out != without]
            if len(kept) == len(rows) and without and table.after not in times:
                times[name] = self.times[name]  # nothing that matters here is left out
                continue
            start = times.get(table.after, self.times[table.after]) if table.after else None
            times[name] = fit_time([row for row, _ in kept], table.free, start, [weight for _, weight in kept])
            if name == last:
                break
        known = {**self.times, **times}
        loads = {board: _loads(board, known, without) for board in POWER}
        found = {board: fit(loads[board], self.power[board]) for board, fit in POWER.items()}
        return Model(known, {board: replace(self.power[board], constants=one) for board, one in found.items()})

    def speed_error(self, name: str, row: Row) -> float:
        """Returns the relative error of images per second of a row of the table ``name``: 0.1 is 10 % too fast."""
        return row.seconds / batch_s(row, self.times[name]) - 1.0

    def power_error(self, name: str, row: Row) -> float:
        """Returns the relative error of watts of a row, NaN where none were measured."""
        return total_w(row, self.power[row.board], self.times[name]) / row.watts - 1.0 if row.watts else np.nan


def _loads(board: str, times: Mapping[str, TimeConstants], without: str) -> list[tuple[Row, TimeConstants]]:
    sets = [one for one in measured().values() if one.fit and one.board == board]
    return [(row, times[one.constants]) for one in sets for row in one.rows if row.watts and row.left_out != without]


@cache
def _blind(without: str, table: str) -> Model:
    return Model.stored().fitted(without, table)


def errors(one: Set, row: Row, fitted: Model) -> Vector:
    """Returns the relative errors of speed (fitted, left out) and of power (fitted, left out; NaN where unknown)."""
    blind = _blind(row.left_out, one.constants) if one.fit else fitted
    both = [model.speed_error(one.constants, row) for model in (fitted, blind)]
    return np.array(both + [model.power_error(one.constants, row) for model in (fitted, blind)])


def report() -> Iterator[str]:
    """Yields the lines that `main` prints."""
    stored = Model.stored()
    fitted = stored.fitted()
    for name in TABLES:
        yield from _constants(f"twin.time of {name}", asdict(stored.times[name]), asdict(fitted.times[name]))
    for board in POWER:
        before, after = (asdict(model.power[board].constants) for model in (stored, fitted))
        yield from _constants(f"twin.power of {board}", before, after)
    sizes: dict[str, Vector] = {}
    for name, one in measured().items():
        yield f"\n{name}: {one.board}, {one.constants}" + ("" if one.fit else ", in no fit")
        yield _line("", "images/s", "error", "left out", "watts", "error", "left out")
        found = np.array([errors(one, row, fitted) for row in one.rows])
        for row, (speed, blind_speed, watts, blind_watts) in zip(one.rows, map(_percents, found), strict=True):
            what = f"{row.network} {row.precision} batch {row.batch}"
            measured_w = f"{row.watts:.1f}" if row.watts else ""
            yield _line(what, f"{row.images_per_s:.1f}", speed, blind_speed, measured_w, watts, blind_watts)
        sizes[name] = np.abs(found)
    yield from summary(sizes)


def summary(sizes: Mapping[str, Vector]) -> Iterator[str]:
    """Yields a line per set with the mean and the worst of the sizes of its errors."""
    yield "\nmean and worst error, with all rows fitted and with the rows left out"
    yield _line("", "rows", "speed", "left out", "worst", "power", "left out")
    for name, found in sizes.items():
        speed, blind_speed, watts, blind_watts = _percents(found.mean(axis=0))
        worst = _percents(found[:, 1:2].max(axis=0))[0]
        cells = (speed, blind_speed, worst, watts, blind_watts)
        yield _line(name, str(len(found)), *(cell.lstrip("+") for cell in cells))


def _constants(title: str, stored: Mapping[str, float], fitted: Mapping[str, float]) -> Iterator[str]:
    yield f"[{title}]"
    yield from (f"{name} = {value:.4g}  # stored: {stored[name]:.4g}" for name, value in fitted.items() if value)


def _percents(errors: Vector) -> list[str]:
    return ["" if np.isnan(error) else f"{100 * error:+.1f} %" for error in errors]


def _line(what: str, *cells: str) -> str:
    return (f"{what:26}" + "".join(f"{cell:>10}" for cell in cells)).rstrip()


def main() -> None:
    """Prints the fit."""
    for line in report():
        print(line)


if __name__ == "__main__":
    main()
