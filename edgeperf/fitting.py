"""Fits a simulated board to results of `bench`: how well, what of it the results decide, and a TOML to keep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from statistics import mean

from edgeperf.fit_points import Measured, Refused, Usable
from engines.simulated.calibration import Constant, Fit, How, Predicted, fit, left_out, predict
from engines.simulated.explain import FLAVOURS
from remote.boards import BoardSpec
from remote.errors import UsageError

NEEDED = 3
"""Fewer different points than this can be met by constants that predict nothing."""

_HEAD = "# Made by `edgeperf sim fit`, which may replace it."

_NEXT: Mapping[str, str] = {
    "fp32_efficiency": "a large batch in FP32",
    "fp16_efficiency": "a large batch in FP16",
    "bandwidth_efficiency": "a lower memory clock, as with `--clock emc=50%`",
    "launch_s": "googlenet at batch 1",
    "macs_per_output": "small and large batches of one network",
    "winograd": "a network of many 3x3 convolutions at a large batch, beside one of few",
    "idle_w": "any network, with `--idle` and power rails",
    "gpu_busy_w": "a network at batch 1 and at a large batch, with power rails",
    "j_per_flop": "a large batch in FP32, with power rails",
    "j_per_byte": "a lower memory clock, with power rails",
}


_ORIGIN: Mapping[How, str] = {
    "fitted": "fitted",
    "partly": "fitted, though the results decide only a combination of several",
    "kept": "kept: as {} has it",
}


@dataclass(frozen=True)
class Compared:
    """A figure as measured, and as predicted by the fit, by a fit without this point, and by the shipped constants."""

    measured: float
    predicted: float
    left_out: float
    shipped: float

    def errors(self) -> tuple[float, float, float]:
        """Returns how much too high the three predictions are, as a share of what was measured."""
        one, two, three = (value / self.measured - 1.0 for value in (self.predicted, self.left_out, self.shipped))
        return one, two, three


@dataclass(frozen=True)
class Row:
    """One point, measured ``results`` times. ``watts`` are those of the scope of the results."""

    network: str
    precision: str
    batch: int
    gpu_hz: float
    emc_hz: float
    results: int
    images_per_s: Compared
    watts: Compared | None


@dataclass(frozen=True)
class Errors:
    """Sizes of relative errors: of the fit, of points left out, and of the shipped constants."""

    points: int
    mean: float
    worst: float
    left_out_mean: float
    left_out_worst: float
    shipped_mean: float
    shipped_worst: float

    @property
    def better(self) -> bool:
        """Says whether points that were left out are met better than by the shipped constants."""
        return self.left_out_mean < self.shipped_mean


@dataclass(frozen=True)
class Fitting:
    """What `sim fit` found. ``folds`` is in how many parts the points were left out, ``next`` what to measure next.

    ``watts_missing`` says why power was not fitted, "" where it was.
    """

    schema: int
    kind: str
    simulated: bool
    created: str
    board: str
    name: str
    file: str
    toolchain: str
    l4t: tuple[str, ...]
    modules: int
    results: int
    folds: int
    rows: tuple[Row, ...]
    constants: tuple[Constant, ...]
    speed: Errors
    power: Errors | None
    watts_missing: str
    next: tuple[str, ...]
    refused: tuple[Refused, ...]


def fitted(
    measured: Sequence[Measured], refused: Sequence[Refused], spec: BoardSpec, path: Path, folds: int | None
) -> Fitting:
    """Returns what the results say about the board ``spec``; the TOML is to be at ``path``.

    ``folds`` None leaves out one point at a time. Raises UsageError for fewer than `NEEDED` different points.
    """
    if len(measured) < NEEDED:
        raise UsageError(_too_few(measured, refused), f"measure next: {_measure_next(measured)}")
    points, twin = [one.point for one in measured], spec.twin
    results = [result for one in measured for result in one.results]
    table = FLAVOURS[results[0].toolchain][1]
    folds = min(folds or len(points), len(points))
    found: Fit = fit(points, twin, table)
    blind = left_out(points, twin, table, folds)
    rows = tuple(
        _row(one, predict(one.point, found.twin, table), out, predict(one.point, twin, table))
        for one, out in zip(measured, blind, strict=True)
    )
    watts = [row.watts for row in rows if row.watts]
    power_fitted = any(row.how != "kept" for row in found.constants if row.table == "power")
    return Fitting(
        schema=1,
        kind="fit",
        simulated=any(result.simulated for result in results),
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        board=spec.name,
        name=path.stem,
        file=str(path),
        toolchain=table,
        l4t=tuple(sorted({result.l4t for result in results})),
        modules=len({result.serial for result in results}),
        results=len(results),
        folds=folds,
        rows=rows,
        constants=found.constants,
        speed=_errors([row.images_per_s for row in rows]),
        power=_errors(watts) if watts else None,
        watts_missing="" if power_fitted else _watts_missing(results, len(watts)),
        next=_next(found.constants),
        refused=tuple(refused),
    )


def _row(one: Measured, known: Predicted, out: Predicted, shipped: Predicted) -> Row:
    point, result = one.point, one.results[0]
    batch = point.engine.batch
    speeds = Compared(*(batch / item.seconds for item in (point, known, out, shipped)))
    watts = None
    if point.watts and known.watts and out.watts and shipped.watts:
        watts = Compared(point.watts, known.watts, out.watts, shipped.watts)
    clocks = point.clocks
    return Row(result.network, result.precision, batch, clocks.gpu_hz, clocks.emc_hz, len(one.results), speeds, watts)


def _errors(rows: Sequence[Compared]) -> Errors:
    columns = [[abs(error) for error in column] for column in zip(*(row.errors() for row in rows), strict=True)]
    known, out, shipped = ((mean(column), max(column)) for column in columns)
    return Errors(len(rows), *known, *out, *shipped)


def _too_few(measured: Sequence[Measured], refused: Sequence[Refused]) -> str:
    count = len(measured)
    has = f"there {'is' if count == 1 else 'are'} {count or 'none'}" + (f"; {len(refused)} refused" if refused else "")
    return "\n".join(
        [
            f"at least {NEEDED} different points are needed, by network, batch, precision or clocks: {has}",
            *(f"{one.file}: {one.reason}" for one in refused),
        ]
    )


def _measure_next(measured: Sequence[Measured]) -> str:
    batches = {one.point.engine.batch for one in measured}
    precisions = {one.point.engine.precision for one in measured}
    wanted = [] if {1} & batches else ["batch 1"]
    wanted += [] if max(batches, default=1) >= 16 else ["a large batch"]
    wanted += [f"{name.upper()}" for name in ("fp32", "fp16") if name not in precisions]
    return f"{', '.join(wanted or ['another network or other clocks'])}, as with `edgeperf bench googlenet --batch 32`"


def _watts_missing(results: Sequence[Usable], points: int) -> str:
    if not points:
        return next((result.watts_missing for result in results if result.watts_missing), "no watts were measured")
    return f"{points} points with watts decide none of its constants"


def _next(constants: Sequence[Constant]) -> tuple[str, ...]:
    kept = [row for row in constants if row.how != "fitted" and row.name in _NEXT]
    return tuple(f"{row.name}: {_NEXT[row.name]}" for row in kept)


def toml(found: Fitting) -> str:
    """Returns the file of a simulated board that has the fitted constants, each with where it comes from."""
    tables: dict[str, list[Constant]] = {}
    for row in found.constants:
        tables.setdefault(row.table, []).append(row)
    blocks = [f'{_HEAD}\n\ninherits = "{found.board}"\n']
    for table, rows in tables.items():
        if any(row.how != "kept" for row in rows):
            blocks.append("\n".join([f"[{table}]", *_lines(found, table, rows), ""]))
    return "\n".join(blocks)


def _lines(found: Fitting, table: str, rows: Sequence[Constant]) -> Iterator[str]:
    errors = found.power if table == "power" and found.power else found.speed
    kind = "simulated, not real, " if found.simulated else ""
    left = f"mean error {100 * errors.left_out_mean:.1f} % on points left out"
    yield f'source = "measured: fitted by edgeperf sim fit to {found.results} {kind}results of {_day(found)}, {left}"'
    if table != "power":
        yield f'l4t = "{found.l4t[-1].partition(".")[0]}"'
    for row in rows:
        yield f"{row.name} = {row.value:.5g} # {_ORIGIN[row.how].format(found.board)}"


def _day(found: Fitting) -> str:
    return found.created.partition("T")[0]


def write(found: Fitting, path: Path) -> None:
    """Writes the TOML. Raises UsageError where another file is in its place, or it cannot be written."""
    try:
        if path.exists() and not path.read_text("utf-8").startswith(_HEAD):
            what = f"{path} is there, and was not made by `edgeperf sim fit`"
            raise UsageError(what, "give another name with --name, or move it away")
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.part")
        part.write_text(toml(found), "utf-8")
        part.replace(path)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be written: {error}", "give a file of your own with --output") from error
