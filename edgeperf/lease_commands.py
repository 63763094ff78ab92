"""The commands about measurements that hold a board: who does, ending it, and picking up one whose line was lost."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from edgeperf.options import AcceptOption, HostOption, JsonOption, QuietOption, RecordOption, opened
from edgeperf.ui import Ui

lease = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Who holds a board.")


@lease.command("show")
def show(host: HostOption = None, json: JsonOption = False, accept: AcceptOption = False) -> None:
    """Shows whose measurement holds a board, and what is applied to it."""
    from edgeperf import config, leases
    from edgeperf.record import to_json

    with opened(config.choose(host).host, accept=accept, clocks_only=True) as board:
        holding = leases.show(board)
    Ui().result(to_json(holding) if json else leases.text(holding))


@lease.command("break")
def break_(host: HostOption = None, json: JsonOption = False, accept: AcceptOption = False) -> None:
    """Ends a measurement, whoever it belongs to, and puts back what it has set."""
    from edgeperf import config, leases
    from edgeperf.record import to_json
    from edgeperf.words import changes_text

    (chosen,) = config.require([host] if host is not None else None)
    with opened(chosen, accept=accept, clocks_only=True) as board:
        changes = leases.end(board)
    Ui().result(to_json(changes) if json else changes_text(changes))
    if changes.refused:
        raise typer.Exit(4)


def attach(
    host: HostOption = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Where to save the result.")] = None,
    record: RecordOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Picks up a measurement whose connection was lost."""
    from edgeperf import commands

    raise typer.Exit(commands.attach(host, out, json, Ui(quiet), partial(opened, record=record)))
