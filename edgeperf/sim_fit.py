"""The command `edgeperf sim fit`: a simulated board with the constants of one's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeperf.catalog import JsonOption
from edgeperf.options import QuietOption
from edgeperf.ui import Ui, table
from remote.errors import UsageError

if TYPE_CHECKING:
    from edgeperf.fitting import Compared, Errors, Fitting
    from remote.boards import BoardSpec


def fit(
    results: Annotated[
        list[str] | None,
        typer.Argument(metavar="RESULTS...", help="Files, folders, patterns or names of saved results."),
    ] = None,
    board: Annotated[str, typer.Option("--board", metavar="BOARD", help="The kind of board they are of.")] = "",
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="Of the fitted board. Default: my-BOARD.")] = "",
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="A TOML in a place of its own, named as the board.")
    ] = None,
    folds: Annotated[
        int | None, typer.Option("--folds", min=2, help="Leave points out in so many parts. Default: one at a time.")
    ] = None,
    published: Annotated[
        bool, typer.Option("--published", help="Show how the shipped constants were fitted, and their errors.")
    ] = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Fits a simulated board to results of `bench`, for --host sim:NAME; errors are on points that were left out."""
    ui = Ui(quiet)
    if published:
        from engines.simulated.fit import report

        ui.result("\n".join(report()))
        return
    from edgeperf import config, fit_points, fitting
    from edgeperf.record import to_json

    if not results or not board:
        raise UsageError("which results, and of which board?", "edgeperf sim fit RESULTS... --board tx1")
    spec, path = _shipped(board), _path(board, name, output)
    folder = config.data_folder() / "results"
    usable, refused = fit_points.read(fit_points.files(results, folder), spec, folder)
    found = fitting.fitted(fit_points.points(usable), refused, spec, path, folds)
    fitting.write(found, path)
    for one in refused:
        ui.warn(f"not used: {one.file}: {one.reason}")
    ui.result(to_json(found) if json else text(found))
    ui.note(f"saved {path}; to use it: {_use(found, path)}")


def _shipped(board: str) -> BoardSpec:
    """Returns the specification of a board that comes with edgeperf and can be simulated. Raises UsageError."""
    from remote import boards

    if board in boards.of_user():
        shipped = boards.load(board).name
        raise UsageError(f"{board} is a board of your own", f"name the one that it is made from: --board {shipped}")
    spec = boards.load(board)
    if not spec.twin:
        raise UsageError(f"there is no simulated {board}", f"simulated boards: {', '.join(boards.twins())}")
    return spec


def _path(board: str, name: str, output: Path | None) -> Path:
    """Returns the file of the fitted board. Raises UsageError for a name that it cannot have."""
    from remote import boards, own_boards

    chosen = output.stem if output else name or f"my-{board}"
    if output and (output.suffix != ".toml" or name not in ("", chosen)):
        raise UsageError(
            f"{output}: the board is named as its file", f"--output {output.with_name(name or chosen)}.toml"
        )
    if not own_boards.is_name(chosen):
        raise UsageError(f"{chosen!r} cannot be the name of a board", "small letters, digits and dashes: my-tx1")
    if boards.is_shipped(chosen):
        raise UsageError(f"{chosen} is a board that comes with edgeperf", f"another name: --name my-{chosen}")
    return output or own_boards.path(chosen)


def _use(found: Fitting, path: Path) -> str:
    from remote import own_boards

    command = f"edgeperf bench alexnet --host sim:{found.name}"
    return command if path == own_boards.path(found.name) else f"EDGEPERF_BOARDS={path.parent} {command}"


def text(found: Fitting) -> str:
    """Returns what was found, for people."""
    kind = "SIMULATED results" if found.simulated else "results"
    modules = f" of {found.modules} modules" if found.modules > 1 else ""
    lines = [
        f"{found.name}: {found.board} fitted to {found.results} {kind}{modules} with {found.toolchain}, "
        f"L4T {', '.join(found.l4t)}",
        "",
        _points(found),
        "",
        _constants(found),
        "",
        _judged("images/s", found.speed, found.board),
    ]
    if found.power and not found.watts_missing:
        lines.append(_judged("watts", found.power, found.board))
    else:
        lines.append(f"watts: power is kept as {found.board} has it: {found.watts_missing}")
    lines += [f"to decide more, measure: {hint}" for hint in found.next]
    return "\n".join(lines)


def _points(found: Fitting) -> str:
    head = ["", "GPU MHz", "EMC MHz", "results", "img/s", "predicted", "error", "left out"]
    head += ["W", "predicted", "error", "left out"] if found.power else []
    rows = [
        [
            f"{row.network} {row.precision} batch {row.batch}",
            *(f"{hz / 1e6:.0f}" for hz in (row.gpu_hz, row.emc_hz)),
            str(row.results),
            *_compared(row.images_per_s, 1),
            *(_compared(row.watts, 2) if found.power else ()),
        ]
        for row in found.rows
    ]
    rows += [[label, "", "", "", *cells] for label, cells in _sizes(found)]
    return table(head, rows, right=range(1, len(head)))


def _compared(one: Compared | None, digits: int) -> list[str]:
    if one is None:
        return [""] * 4
    error, blind, _ = one.errors()
    return [f"{one.measured:.{digits}f}", f"{one.predicted:.{digits}f}", f"{error:+.1%}", f"{blind:+.1%}"]


def _sizes(found: Fitting) -> Iterator[tuple[str, list[str]]]:
    both = [errors for errors in (found.speed, found.power) if errors]
    for label in ("mean", "worst"):
        cells = [[getattr(errors, f"{kind}{label}") for kind in ("", "left_out_")] for errors in both]
        yield label, [text for pair in cells for text in ("", "", *(f"{error:.1%}" for error in pair))]


def _constants(found: Fitting) -> str:
    rows = [(f"{row.table}.{row.name}", f"{row.value:.4g}", f"{row.shipped:.4g}", row.how) for row in found.constants]
    return table(["constant", "value", found.board, ""], rows, right=(1, 2))


def _judged(what: str, errors: Errors, board: str) -> str:
    """Returns whether the fit is any better than the shipped board, on points that it was not fitted to."""
    sizes = f"{errors.left_out_mean:.1%} mean error on points left out, {board} as shipped {errors.shipped_mean:.1%}"
    if errors.better:
        return f"{what}: {sizes}"
    return f"{what}: NOT better than the shipped constants: {sizes}; use sim:{board}, or measure more"
