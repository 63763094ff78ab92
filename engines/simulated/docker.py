"""The twin's docker: starts one of its own programs, as in a container of an image that the board has."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from pathlib import PurePosixPath
from typing import Any

from remote.sim.process import Action, Context, Died, Err, Program, Sleep

_START_S = 0.8  # assumed
_DAEMON_ERROR = 125
_NOT_FOUND = 127
_SIGNAL = 128
_VALUED = ("--runtime", "--network", "--volume", "-v", "--entrypoint", "--env", "-e", "--user", "-u", "--workdir", "-w")


def docker(context: Context, programs: Mapping[str, Program]) -> Generator[Action, None, int]:
    """``docker run [OPTIONS] IMAGE COMMAND ...``. Its images are the list ``images`` of the twin."""
    if context.argv[1:2] != ("run",):
        yield Err("docker: the simulated one only knows: run\n")
        return 1
    image, argv = _command(context.argv[2:])
    twin: Mapping[str, Any] = context.twin
    name = image if ":" in image else f"{image}:latest"
    if name not in twin.get("images", ()):
        yield Err(f"Unable to find image '{name}' locally\n")
        yield Err(
            f"docker: Error response from daemon: pull access denied for {image.partition(':')[0]}, "
            "repository does not exist or may require 'docker login'.\nSee 'docker run --help'.\n"
        )
        return _DAEMON_ERROR
    names = [PurePosixPath(word).name for word in argv]
    names = names[1:] if names and names[0].startswith("python") else names
    program = programs.get(names[0]) if names else None
    if program is None:
        what = argv[0] if argv else ""
        yield Err(f'docker: Error response from daemon: exec: "{what}": executable file not found in $PATH: unknown.\n')
        return _NOT_FOUND
    yield Sleep(_START_S)
    context.argv = argv
    try:
        return (yield from program(context))
    except Died as died:
        return died.code if died.code >= 0 else _SIGNAL - died.code


def _command(words: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Returns the image and what is started in it."""
    rest, entry = list(words), ""
    while rest and rest[0].startswith("-"):
        name, equals, value = rest.pop(0).partition("=")
        if name in _VALUED and not equals:
            value = rest.pop(0) if rest else ""
        entry = value if name == "--entrypoint" else entry
    image = rest.pop(0) if rest else ""
    return image, (*([entry] if entry else []), *rest)
