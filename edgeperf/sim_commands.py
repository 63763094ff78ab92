"""The commands about simulated boards themselves."""

from __future__ import annotations

import json as json_module
import signal
import time
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeperf.catalog import JsonOption
from edgeperf.options import QuietOption
from edgeperf.ui import Ui, table
from remote.errors import EdgeperfError, UsageError

if TYPE_CHECKING:
    from remote.hosts import Twin

sim = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Simulated boards.")

_LONG_S = 3600.0


@sim.command("faults")
def faults(json: JsonOption = False) -> None:
    """Lists what can go wrong on a simulated board."""
    from edgeperf.faults import FORM, kinds

    found = kinds()
    if json:
        Ui().result(json_module.dumps([asdict(kind) for kind in found]))
        return
    rows = [(k.name, "-" if k.usual_argument is None else f"{k.usual_argument:g}", k.summary) for k in found]
    times = "START after the board was opened, FOR how long: 3s, 500ms, 2m; without FOR it stays"
    Ui().result(table(["fault", "ARGUMENT", "what happens"], rows, right=(1,)) + f"\n\n{FORM}\n{times}")


BoardArgument = Annotated[
    str, typer.Argument(metavar="BOARD", help="BOARD[@RELEASE][,KEY=VALUE...], as in --host sim:BOARD.")
]


@sim.command("serve")
def serve(
    board: BoardArgument,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any free one.")] = 2222,
    address: Annotated[str, typer.Option("--address", help="Where to listen.")] = "127.0.0.1",
    speed: Annotated[str | None, typer.Option("--speed", metavar="1|max", help="1: real time. Default: max.")] = None,
    count: Annotated[int, typer.Option("--count", min=1, max=1000, help="So many, at ports in a row.")] = 1,
    keys: Annotated[
        Path | None, typer.Option("--authorized-keys", metavar="FILE", help="Who may log in. Default: ~/.ssh/*.pub.")
    ] = None,
    quiet: QuietOption = False,
) -> None:
    """Serves simulated boards over SSH until Ctrl-C, and prints the lines for ~/.ssh/config."""
    from edgeperf import config
    from engines.simulated.programs import programs

    ui = Ui(quiet)
    twins = _rack(board, speed, count)
    try:
        from remote.sim import serve as server
    except ImportError as error:
        raise EdgeperfError(f"`sim serve` needs {error.name}", "install it: pip install 'edgeperf[sim]'") from error
    folder = config.cache_folder() / "sim"
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a script's `kill` ends it as Ctrl-C does
    with (
        suppress(KeyboardInterrupt),
        server.serving(twins, programs(), server.public_keys(keys), folder, address=address, port=port) as served,
    ):
        ui.result(server.config_lines(served, folder))
        ui.note(f"serving; with these lines in ~/.ssh/config: edgeperf doctor --host {served[0].name}; Ctrl-C ends it")
        while True:
            time.sleep(_LONG_S)
    ui.note("ended")


def _rack(board: str, speed: str | None, count: int) -> list[Twin]:
    """Returns the boards to serve: each another specimen. Raises UsageError."""
    from remote import hosts

    host = hosts.parse(f"sim:{board}" + (f",speed={speed}" if speed else ""))
    assert isinstance(host, hosts.Twin)
    if count > 1 and host.state:
        raise UsageError("several boards cannot keep their state in one file", "leave out state= or --count")
    return [replace(host, seed=host.seed + number) for number in range(count)]
