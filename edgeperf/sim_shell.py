"""`edgeperf sim shell` and `edgeperf sim mount`: a simulated board's files for tools that know nothing of edgeperf."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeperf.options import QuietOption
from edgeperf.ui import Ui
from remote import interrupts
from remote.errors import UsageError

if TYPE_CHECKING:
    from remote.sim.live import LiveBoard

HERE = "/mnt"
"""Where the current folder lies in the shell."""
_BOARDS_OWN = {
    ("/", name) for name in ("bin", "dev", "etc", "lib", "lib64", "mnt", "proc", "run", "sbin", "sys", "usr")
}
_LONG_S = 3600.0

BoardArgument = Annotated[
    str, typer.Argument(metavar="BOARD", help="BOARD[@RELEASE][,KEY=VALUE...], as in --host sim:BOARD.")
]
SpeedOption = Annotated[
    str | None, typer.Option("--speed", metavar="1|max", help="1: real time, the default. max: nobody waits.")
]


def shell(
    board: BoardArgument,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- COMMAND...]", help="Default: a login shell.")
    ] = None,
    user: Annotated[str, typer.Option("--user", metavar="root|nvidia", help="Who runs it.")] = "root",
    speed: SpeedOption = None,
    bind: Annotated[
        list[str] | None,
        typer.Option("--bind", metavar="DIR[:DIR]", help="A folder to be seen there too, read-only. Can be repeated."),
    ] = None,
    quiet: QuietOption = False,
) -> None:
    """Runs a shell or a command on a simulated board's files, with its programs; exits with its exit code."""
    if user not in ("root", "nvidia"):
        raise UsageError(f"--user {user}: the board has no such user", "name root or nvidia")
    binds = [_bind(text) for text in bind or ()]
    with _board(board, speed) as live:
        from remote.sim.mount import can_read, rooted

        here = _here()
        if here is not None and can_read(here):
            binds.append((here, HERE))
        else:
            here = None
        binds += _named(command or (), here)
        with rooted(live, binds) as root:
            if command:
                code = root.run(root.words(user, HERE, command))
            else:
                Ui(quiet).note(f"a shell on the simulated {live.name}; `exit` ends it")
                code = root.run(root.command(None, user))
    raise typer.Exit(code)


def mount(
    board: BoardArgument,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="An empty folder.")],
    speed: SpeedOption = None,
    quiet: QuietOption = False,
) -> None:
    """Has a simulated board's kernel files below a folder until Ctrl-C: DIR/sys, DIR/proc, DIR/etc."""
    ui = Ui(quiet)
    with interrupts.interrupted_once(), _board(board, speed) as live, suppress(KeyboardInterrupt):
        from remote.sim.mount import mounted

        with mounted(live, folder) as there:
            ui.note(f"mounted below {folder}; Ctrl-C ends it")
            while there(_LONG_S):
                pass
    ui.note("unmounted")


@contextmanager
def _board(text: str, speed: str | None) -> Iterator[LiveBoard]:
    """Opens the board that is named, in real time unless something else is asked for."""
    from engines.simulated.programs import programs
    from remote import hosts
    from remote.sim.live import LiveBoard

    wanted = speed or ("" if ",speed=" in text else "1")
    host = hosts.parse(f"sim:{text.removeprefix('sim:')}" + (f",speed={wanted}" if wanted else ""))
    assert isinstance(host, hosts.Twin)
    live = LiveBoard(host, programs())
    try:
        yield live
    finally:
        live.close()


def _bind(text: str) -> tuple[Path, str]:
    """Returns (folder here, place there) of what was given to --bind. Raises UsageError."""
    here, _, there = text.partition(":")
    folder = Path(here).absolute()
    if not folder.is_dir():
        raise UsageError(f"--bind {text}: there is no folder {here}", "name a folder, or two as in --bind tools:/opt")
    place = there or str(folder)
    if not place.startswith("/") or ".." in Path(place).parts or not _is_free(place):
        raise UsageError(f"--bind {text}: nothing can lie at {place}", "name another place: --bind DIR:/opt/tools")
    return folder, place


def _is_free(place: str) -> bool:
    """Says whether a folder can be put there: the board has nothing of its own in it, nor the current folder."""
    parts = Path(place).parts
    if parts[1:2] in ((), ("mnt",)) or place.startswith(("//", "/.")):
        return False
    return parts[:2] not in _BOARDS_OWN or (parts[1] in ("etc", "run", "dev") and len(parts) > 2)


def _here() -> Path | None:
    """Returns the current folder, None where it holds what a script has no business with: home, or all of it."""
    here = Path.cwd()
    return None if Path.home().is_relative_to(here) else here


def _named(command: Sequence[str], seen: Path | None) -> list[tuple[Path, str]]:
    """Returns (file here, place there) of the files that a command names, but for those in the folder ``seen``.

    Relative names lead from the current folder; absolute ones keep their place, where the board has nothing of its own.
    """
    found = {}
    for word in command:
        path = Path(word)
        if ".." in path.parts or path.parts[:2] in _BOARDS_OWN or not _is_file(path):
            continue
        if path.is_absolute():
            found[str(path)] = path
        elif seen is None:
            found[f"{HERE}/{path}"] = path.absolute()
    return [(path, place) for place, path in found.items()]


def _is_file(path: Path) -> bool:
    with suppress(OSError):
        return path.is_file()
    return False
