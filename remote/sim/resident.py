"""An on-board program that lives on a twin among others: what goes wrong in it ends it alone."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any, cast

from remote import boards, bundle
from remote.onboard.agent import Agent
from remote.onboard.clockd import Clockd
from remote.onboard.journal import Journal
from remote.onboard.program import Program
from remote.onboard.system import System
from remote.sim.kernel.node import fail
from remote.sim.machine import Machine
from remote.sim.processes import Pipe
from remote.sim.system import TwinSystem

PROGRAMS: Mapping[str, type[Program]] = {"agent": Agent, "clockd": Clockd}
"""The on-board programs by the word that starts them."""

_BOOT_ID = "/proc/sys/kernel/random/boot_id"


class ServedSystem(TwinSystem):
    """A user's view of a machine that others reach over a network."""

    def __init__(self, machine: Machine, user: str) -> None:
        super().__init__(machine, user)
        self._guard: Guard | None = None

    def link(self, source: str, path: str) -> None:
        """Raises OSError: whoever comes from outside reaches no file of this machine."""
        fail(errno.EXDEV, path)

    def guarded(self) -> bool:
        """Says whether a guard runs that this program has started."""
        return self._guard is not None and not self._guard.closed

    def start_guard(self) -> None:
        """Starts the guard, which outlives this program and its line."""
        self._guard = Guard(self.machine)


class Guard:
    """Puts back what has run out when nobody else is there to do it: `remote.onboard.guard`, without its own loop."""

    def __init__(self, machine: Machine) -> None:
        self.closed = False
        self._system = TwinSystem(machine, "root")
        self._keeper = Clockd(cast(System, self._system), boards.table(), bundle.build_id())
        self._due_s = self._next_s()
        machine.attach(self, self._system)

    def awaited(self) -> list[Any]:
        """Returns nothing: it waits for a moment only."""
        return []

    def due(self) -> float | None:
        """Returns when something runs out, None for never."""
        return self._due_s

    def turn(self) -> None:
        """Puts back what has run out; ends when nothing else will."""
        self._keeper.put_back_due()
        self._due_s = self._next_s()
        self.closed = self._due_s is None

    def _next_s(self) -> float | None:
        layers = Journal(cast(System, self._system), self._keeper.texts[_BOOT_ID]).layers
        return min((float(layer["until"]) for layer in layers if layer["until"] is not None), default=None)


class Resident:
    """The program ``word`` on ``system``, attached to its machine. ``failure`` is what ended it, "" for no mistake.

    A host that it loses may come back within ``grace_s``, on the board's clock.
    """

    def __init__(self, word: str, system: ServedSystem, grace_s: float = 0.0) -> None:
        self.word = word
        self.system = system
        self.failure = ""
        guard: dict[str, Any] = {"guard": True} if word == Clockd.name else {}
        start = partial(PROGRAMS[word], cast(System, system), boards.table(), bundle.build_id(), **guard)
        self._program = start(grace_s=grace_s)
        system.machine.attach(self, system)
        self._program.start()

    @property
    def closed(self) -> bool:
        """Whether it has ended."""
        return self._program.closed

    @closed.setter
    def closed(self, closed: bool) -> None:
        self._program.closed = closed

    @property
    def alone(self) -> bool:
        """Whether it waits for a host that was lost."""
        return not self.closed and not self._program.connection.linked

    def awaited(self) -> list[Any]:
        """Returns what it waits on."""
        return self._program.awaited()

    def due(self) -> float | None:
        """Returns when it next does something by itself, None for never."""
        return self._program.due()

    def turn(self) -> None:
        """Does one round. A mistake in the program ends it, and what it had set is put back where that is possible."""
        try:
            self._program.turn()
        except Exception as error:
            self.failure = f"{type(error).__name__}: {error}"
            self.closed = True
            with suppress(Exception):
                self._program.on_close()

    def knock(self) -> None:
        """Lets a host in that comes back: the program tells it from the start what it is."""
        cast(Pipe, self._program.connection.handle).feed(b"\n")
        self.turn()

    def leave(self) -> None:
        """Tells it that the host is gone. It ends, or waits for the host to come back."""
        self.system.input.feed(b"")
        while not self.closed and not self.alone:
            self.turn()

    def end(self) -> None:
        """Ends it now, which puts back what it holds."""
        self._program.connection.grace_s = 0.0
        self.leave()
        if self.alone:
            self.turn()
