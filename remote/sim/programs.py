"""Programs that every simulated board has: tegrastats, nvpmodel, and the small ones of a shell."""

from __future__ import annotations

from collections.abc import Generator

from remote.sim.nvpmodel import nvpmodel
from remote.sim.process import Action, Context, Out, Program, Sleep
from remote.sim.tegrastats import tegrastats


def true(context: Context) -> Generator[Action, None, int]:
    """Ends well at once."""
    yield from ()
    return 0


def false(context: Context) -> Generator[Action, None, int]:
    """Ends badly at once."""
    yield from ()
    return 1


def echo(context: Context) -> Generator[Action, None, int]:
    """Prints its arguments."""
    yield Out(" ".join(context.argv[1:]) + "\n")
    return 0


def cat(context: Context) -> Generator[Action, None, int]:
    """Prints files, or its input."""
    if len(context.argv) == 1:
        yield Out(context.stdin)
    for path in context.argv[1:]:
        yield Out(context.load(path).decode("utf-8", "replace"))
    return 0


def sleep(context: Context) -> Generator[Action, None, int]:
    """Waits for simulated seconds."""
    yield Sleep(sum(float(word) for word in context.argv[1:]))
    return 0


PROGRAMS: dict[str, Program] = {
    "true": true,
    "false": false,
    "echo": echo,
    "cat": cat,
    "sleep": sleep,
    "tegrastats": tegrastats,
    "nvpmodel": nvpmodel,
}
