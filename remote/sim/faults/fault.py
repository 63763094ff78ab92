"""What every fault of a simulated board is, and what it needs of the board."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from remote.sim.kernel.node import Node
from remote.sim.process import Program

Now = Callable[[], float]
"""Gives the board's clock in seconds."""


class Victim(Protocol):
    """What a fault needs of the machine that it befalls."""

    wall_step_s: float
    silence: tuple[float, float]

    def throttle(self, steps: int) -> None:
        """Takes operating points off the highest rates, as heat does."""

    def limit(self, clock: str, share: float) -> None:
        """Holds ``gpu`` or ``emc`` below a share of its highest rate, whatever is set."""

    def start(self, name: str, program: Program) -> Callable[[], None]:
        """Starts a program that nobody asked for; returns what ends it."""

    def count_over_current(self, events: int, alarm: bool) -> None:
        """Adds to the counters of over-current, and sets the alarm of the input's monitor."""

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

    def begin(self, board: Victim) -> None:
        """Breaks something."""

    def end(self, board: Victim) -> None:
        """Mends it."""

    def is_on(self, now_s: float) -> bool:
        """Says whether it holds now."""
        return self.start_s <= now_s < self.stop_s

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
