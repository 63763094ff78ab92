"""Programs that every simulated board has: tegrastats, nvpmodel, jetson_clocks, and the small ones of a shell."""

from __future__ import annotations

from collections.abc import Generator

from remote.sim.fancontrol import nvfancontrol, systemctl
from remote.sim.jetson_clocks import jetson_clocks, name_of
from remote.sim.nvpmodel import nvpmodel
from remote.sim.process import Action, Context, Err, Out, Program, Sleep
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


_UNAME = {
    "-s": "Linux",
    "-n": "tegra-ubuntu",
    "-v": "#1 SMP PREEMPT",
    "-m": "aarch64",
    "-p": "aarch64",
    "-o": "GNU/Linux",
}


def uname(context: Context) -> Generator[Action, None, int]:
    """Prints the board's kernel and processor: `-s`, `-n`, `-r`, `-v`, `-m`, `-p`, `-o`, all of them with `-a`."""
    said = {"-r": context.read("/proc/sys/kernel/osrelease").strip(), **_UNAME}
    letters = {f"-{letter}" for word in context.argv[1:] for letter in word.lstrip("-")} or {"-s"}
    if letters - {*said, "-a", "-i"}:
        yield Err(f"uname: unknown option {' '.join(context.argv[1:])}\n")
        return 1
    order = ("-s", "-n", "-r", "-v", "-m", "-p", "-o")
    yield Out(" ".join(said[key] for key in order if key in letters or "-a" in letters) + "\n")
    return 0


def arch(context: Context) -> Generator[Action, None, int]:
    """Prints the processor's instruction set."""
    yield Out(f"{_UNAME['-m']}\n")
    return 0


_PROGRAMS: dict[str, Program] = {
    "arch": arch,
    "true": true,
    "false": false,
    "echo": echo,
    "cat": cat,
    "sleep": sleep,
    "uname": uname,
    "tegrastats": tegrastats,
    "nvpmodel": nvpmodel,
}


def programs_of(release: str) -> dict[str, Program]:
    """Returns the programs of a release of L4T such as ``r32.7``, by the names that they have there."""
    major = int(release[1:3])
    services: dict[str, Program] = {"systemctl": systemctl} if major >= 24 else {}  # Ubuntu 14.04 has none
    if major >= 34:
        services["nvfancontrol"] = nvfancontrol
    return {**_PROGRAMS, **services, name_of(release): jetson_clocks}
