"""What every fault of a simulated board is, and what it needs of the board."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from remote.sim.kernel.node import Node
from remote.sim.process import Action, Err, Out, Program
from remote.sim.reach import Reach

Now = Callable[[], float]
"""Gives the board's clock in seconds."""


class Victim(Protocol):
    """What a fault needs of the machine that it befalls."""

    reach: Reach

    def throttle(self, steps: int) -> None:
        """Takes operating points off the highest rates, as heat does."""

    def limit(self, clock: str, share: float) -> None:
        """Holds ``gpu`` or ``emc`` below a share of its highest rate, whatever is set."""

    def start(self, name: str, program: Program) -> Callable[[], None]:
        """Starts a program that nobody asked for; returns what ends it."""

    def count_over_current(self, events: int, alarm: bool) -> None:
        """Adds to the counters of over-current, and sets the alarm of the input's monitor."""

    def set_calendar(self, by_s: float) -> None:
        """Moves the calendar; the monotonic clock goes on."""

    def fill_disk(self, left_bytes: int | None) -> None:
        """Leaves so much room on the disk, None for as much as there was."""

    def protect_disk(self, protected: bool) -> None:
        """Has the disk refuse every change, or take changes again."""

    def hang_up(self, reset: bool) -> None:
        """Ends all connections, as the network does: nobody has taken leave."""

    def reboot(self) -> None:
        """Starts again: settings, processes and connections are lost."""


@dataclass
class Fault:
    """Something that goes wrong from ``start_s`` until ``stop_s``, on the board's clock; ``argument`` is its size."""

    start_s: float
    stop_s: float
    argument: float

    usual: ClassVar[float] = 0.0
    """The argument where none is given."""
    words: ClassVar[tuple[str, ...]] = ()
    """Where the argument is a word: which, the usual one first; ``argument`` is its place among them."""
    lasts: ClassVar[bool] = False
    """Whether a restart of the board, in which `begin` is undone, does not end it."""

    def begin(self, board: Victim) -> None:
        """Breaks something."""

    def end(self, board: Victim) -> None:
        """Mends it."""

    def is_on(self, now_s: float) -> bool:
        """Says whether it holds now."""
        return self.start_s <= now_s < self.stop_s

    def after_s(self, now_s: float, action: Action) -> float | None:
        """Returns how far into what a program does now this holds; None where it does not."""
        span_s = 0.0 if isinstance(action, Out | Err) else action.seconds
        begin_s = max(now_s, self.start_s)
        return begin_s - now_s if begin_s < min(now_s + span_s, self.stop_s) else None

    def sensor(self, path: str, node: Node, now: Now) -> Node:
        """Returns a file of a power monitor as this fault makes it."""
        return node

    def node(self, path: str, node: Node, now: Now) -> Node:
        """Returns a file of the kernel, those of power monitors excepted, as this fault makes it."""
        return node

    def program(self, name: str, program: Program, now: Now) -> Program:
        """Returns a program that is about to be started, by its name, as this fault makes it."""
        return program

    def files(self, now: Now) -> Mapping[str, Node]:
        """Returns the files that are there because of it."""
        return {}

    def alter(self, twin: dict[str, Any]) -> None:
        """Changes the table of the board, for as long as it is open."""
