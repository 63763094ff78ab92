"""The command that puts simulated boards behind an SSH server."""

from __future__ import annotations

import ipaddress
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeperf.options import QuietOption
from edgeperf.ui import Ui
from remote import interrupts
from remote.errors import HostError, UsageError

if TYPE_CHECKING:
    from remote.hosts import Twin
    from remote.sim.serve import Rooted

_LONG_S = 3600.0


def serve(
    board: Annotated[
        str, typer.Argument(metavar="BOARD", help="BOARD[@RELEASE][,KEY=VALUE...], as in --host sim:BOARD.")
    ],
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any free one.")] = 2222,
    address: Annotated[str, typer.Option("--address", help="Where to listen.")] = "127.0.0.1",
    speed: Annotated[
        str | None, typer.Option("--speed", metavar="1|max", help="1: real time. Default: max; 1 with --shell.")
    ] = None,
    count: Annotated[int, typer.Option("--count", min=1, max=1000, help="So many, at ports in a row.")] = 1,
    state: Annotated[
        Path | None,
        typer.Option("--state", metavar="FILE", help="Keep the board there; several: FILE-1, FILE-2 ..."),
    ] = None,
    keys: Annotated[
        Path | None, typer.Option("--authorized-keys", metavar="FILE", help="Who may log in. Default: ~/.ssh/*.pub.")
    ] = None,
    shell: Annotated[bool, typer.Option("--shell", help="Run any command, as `edgeperf sim shell` does.")] = False,
    quiet: QuietOption = False,
) -> None:
    """Serves simulated boards over SSH until Ctrl-C, and prints the lines for ~/.ssh/config."""
    from edgeperf import config
    from engines.simulated.programs import programs

    ui = Ui(quiet)
    if shell and not _is_loopback(address):
        raise UsageError(f"--shell is for this machine alone, not for {address}", "leave out --address, or --shell")
    twins = _rack(board, speed, count, state, shell)
    try:
        from remote.sim import serve as server
    except ImportError as error:
        raise HostError(f"`sim serve` needs {error.name}", "install it: pip install 'edgeperf[sim]'") from error
    folder = config.cache_folder() / "sim"
    rooted = _rooted() if shell else None
    known = server.public_keys(keys)
    with (
        interrupts.interrupted_once(),
        suppress(KeyboardInterrupt),
        server.serving(twins, programs(), known, folder, address=address, port=port, rooted=rooted) as served,
    ):
        ui.result(server.config_lines(served, folder, server.identities(keys)))
        first = served[0].name
        examples = f"edgeperf doctor --host {first}" + (f", or: ssh {first}" if shell else "")
        ui.note(f"serving; with these lines in ~/.ssh/config: {examples}; Ctrl-C ends it")
        while True:
            time.sleep(_LONG_S)
    ui.note("ended")


def _rooted() -> Rooted:
    from remote.sim.mount import rooted

    return rooted


def _is_loopback(address: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(address).is_loopback
    return address == "localhost"


def _rack(board: str, speed: str | None, count: int, state: Path | None, shell: bool) -> list[Twin]:
    """Returns the boards to serve: each another specimen, with a state of its own. Raises UsageError."""
    from remote import hosts

    if speed is None and shell and ",speed=" not in board:
        speed = "1"  # who types, and scripts that sleep, expect time to pass as theirs does
    host = hosts.parse(f"sim:{board.removeprefix('sim:')}" + (f",speed={speed}" if speed else ""))
    assert isinstance(host, hosts.Twin)
    if host.state and state is not None:
        raise UsageError("the board's state is named twice", "leave out state= or --state")
    host = replace(host, state=str(state or host.state))
    return [
        replace(host, seed=host.seed + number, state=_numbered(host.state, number + 1, count))
        for number in range(count)
    ]


def _numbered(file: str, number: int, count: int) -> str:
    """Returns the file of one board of several: ``rack.json`` is ``rack-1.json`` for the first."""
    path = Path(file)
    return str(path.with_name(f"{path.stem}-{number}{path.suffix}")) if file and count > 1 else file
