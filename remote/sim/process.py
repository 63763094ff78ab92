"""Programs of the twin: generators that say what they do next, so that simulated time passes only there.

A program is handed its `Context` and yields actions. Its return value is the exit code::

    def sleeper(context):
        yield Out("hello\\n")
        yield Busy(0.5, Activity(flops_per_s=1e9, bytes_per_s=1e8))
        return 0
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from remote.sim.physics import Activity, Clocks


@dataclass(frozen=True)
class Out:
    """Prints on stdout."""

    text: str


@dataclass(frozen=True)
class Err:
    """Prints on stderr."""

    text: str


@dataclass(frozen=True)
class Sleep:
    """Lets simulated time pass while the process does nothing."""

    seconds: float


@dataclass(frozen=True)
class Busy:
    """Lets simulated time pass while the process keeps the hardware busy."""

    seconds: float
    activity: Activity


Action = Out | Err | Sleep | Busy


class OutOfBoardMemory(MemoryError):
    """The board has less memory than was asked for."""


class Died(Exception):
    """Something ended a program: ``code`` is its exit code, -N for signal N."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Disk(Protocol):
    """Ordinary files as programs use them: `remote.sim.files.Files`, or others. Every method raises OSError."""

    def load(self, path: str, user: str) -> bytes:
        """Returns a file's bytes."""

    def save(self, path: str, data: bytes, user: str) -> None:
        """Makes or replaces a file."""

    def match(self, path: str, user: str) -> list[str]:
        """Returns what a shell pattern stands for."""

    def size(self, path: str, user: str) -> int:
        """Returns a file's length in bytes."""

    def changed_s(self, path: str, user: str) -> float:
        """Returns what `touch` was told last about a file."""

    def touch(self, path: str, user: str, now_s: float) -> None:
        """Notes when a file was used."""

    def rename(self, old: str, new: str, user: str) -> None:
        """Moves a file, replacing one that is there."""

    def remove(self, path: str, user: str) -> None:
        """Removes a file; it may be gone already."""

    def make_folder(self, path: str, user: str) -> None:
        """Makes a folder and those above it."""


class Context(Protocol):
    """What a program of the twin may ask."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    stdin: str

    def asks(self) -> bool:
        """Says that `stdin` is needed now; returns whether it is yet to come. See `answered`."""

    def now(self) -> float:
        """Returns the board's monotonic clock in seconds."""

    def random(self) -> int:
        """Returns a seed that depends on the board, its seed and the time now: noise drawn from it is repeatable."""

    def clocks(self, activity: Activity | None = None) -> Clocks:
        """Returns the clocks in effect now (settings, load and throttling considered).

        With ``activity``: those that would be in effect if this process did that; governors follow the load.
        """

    def gpu_share(self) -> float:
        """Returns the share of the GPU's time that this process can get now; the others have the rest."""

    def allocate(self, size_bytes: int) -> None:
        """Takes memory until the process ends. Raises OutOfBoardMemory."""

    def read(self, path: str) -> str:
        """Reads a node or file as the process's user. Raises OSError."""

    def write(self, path: str, text: str) -> None:
        """Writes a node as the process's user. Raises OSError."""

    def load(self, path: str) -> bytes:
        """Reads a file's bytes. Raises OSError."""

    def save(self, path: str, data: bytes) -> None:
        """Writes a file. Raises OSError."""

    def match(self, path: str) -> list[str]:
        """Returns the files and folders that a shell pattern stands for, the path itself where it is none."""

    def size(self, path: str) -> int:
        """Returns a file's length in bytes. Raises OSError."""

    def changed_s(self, path: str) -> float:
        """Returns when a file was written or touched last, in seconds since 1970. Raises OSError."""

    def touch(self, path: str) -> None:
        """Makes `changed_s` of a file now. Raises OSError."""

    def rename(self, old: str, new: str) -> None:
        """Moves a file, replacing one that is there. Raises OSError."""

    def remove(self, path: str) -> None:
        """Removes a file; it may be gone already. Raises OSError."""

    def make_folder(self, path: str) -> None:
        """Makes a private folder and those above it. Raises OSError."""

    def start(self, argv: Sequence[str]) -> None:
        """Starts another program that goes on when this one has ended. Raises OSError."""

    def stop(self, name: str) -> None:
        """Ends all other processes of that name."""

    def wall(self) -> float:
        """Returns the board's calendar, in seconds since 1970."""

    @property
    def twin(self) -> Mapping[str, object]:
        """The table of the board in boards/twins, with the release's own entries on top."""

    @property
    def release(self) -> str:
        """The simulated L4T release, such as ``r23.1``."""


_LOOK_S = 0.05
"""How often a program looks for an answer that somebody is typing."""

Program = Callable[[Context], Generator[Action, None, int]]


def answered(context: Context) -> Generator[Action, None, str]:
    """Returns the line by which whoever started the program answers a question; waits for it."""
    while context.asks():
        yield Sleep(_LOOK_S)
    return context.stdin.strip()


def altered(
    run: Generator[Action, None, int], change: Callable[[Action], Iterator[Action]]
) -> Generator[Action, None, int]:
    """Goes through a program with each of its actions as ``change`` makes it; Ctrl-C goes to the program."""
    signal = None
    try:
        while True:
            try:
                action = run.throw(signal) if signal is not None else next(run)
            except StopIteration as end:
                return int(end.value or 0)
            signal = None
            try:
                yield from change(action)
            except KeyboardInterrupt as interrupt:
                signal = interrupt
    finally:
        run.close()
