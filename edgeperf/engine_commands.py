"""The commands about engines that are kept on a board."""

from __future__ import annotations

from typing import Annotated

import typer

from edgeperf.options import AcceptOption, HostOption, JsonOption, opened
from edgeperf.ui import Ui
from remote.errors import UsageError

engines = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Engines kept on a board.")


@engines.command("list")
def show(host: HostOption = None, json: JsonOption = False, accept: AcceptOption = False) -> None:
    """Lists the kept engines, and whether they still fit."""
    from edgeperf import config, kept
    from edgeperf.record import to_json

    ui = Ui()
    chosen = config.choose(host)
    if chosen.note:
        ui.note(chosen.note)
    with opened(chosen.host, engines=True, accept=accept) as board:
        found = kept.listed(board)
    ui.result(to_json(found) if json else kept.text(found))


@engines.command("prune")
def prune(
    keys: Annotated[list[str] | None, typer.Argument(metavar="[KEY]...", help="These, by the start of a key.")] = None,
    host: HostOption = None,
    everything: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    json: JsonOption = False,
    accept: AcceptOption = False,
) -> None:
    """Removes engines that are of no use any more, or those named.

    Of no use are damaged ones, those that no longer fit the board, and those unused for 30 days.
    """
    from edgeperf import config, kept
    from edgeperf.record import to_json

    if keys and everything:
        raise UsageError("keys and --all were given together", "name keys, or give --all")
    (chosen,) = config.require([host] if host is not None else None)
    with opened(chosen, engines=True, accept=accept) as board:
        found = kept.prune(board, "named" if keys else "all" if everything else "stale", keys or ())
    Ui().result(to_json(found) if json else kept.text(found))
