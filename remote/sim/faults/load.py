"""Faults that keep the board busy with what nobody asked for."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import ClassVar

from remote.sim.faults.fault import Fault, Now, Victim
from remote.sim.kernel.node import Node, fixed
from remote.sim.physics import Activity
from remote.sim.process import Action, Busy, Context


class _Program(Fault):
    """Programs run that nobody asked for."""

    names: ClassVar[Sequence[str]] = ()
    _stops: Sequence[Callable[[], None]] = ()

    def activity(self) -> Activity:
        """Returns what all of them do together."""
        return Activity()

    def begin(self, board: Victim) -> None:
        first, *others = self.names
        busy = [(first, self.activity()), *((name, Activity()) for name in others)]
        self._stops = [board.start(name, partial(_forever, does)) for name, does in busy]

    def end(self, board: Victim) -> None:
        for stop in self._stops:
            stop()


class ForeignLoad(_Program):
    """Another program keeps processor cores busy. ARGUMENT: how many."""

    usual = 1.0
    names = ("updatedb",)

    def activity(self) -> Activity:
        return Activity(cpu_load=self.argument)


class GpuLoad(_Program):
    """Another program keeps the GPU busy. ARGUMENT: which share of its time."""

    usual = 0.3
    names = ("camera",)

    def activity(self) -> Activity:
        return Activity(gpu_load=self.argument)


class Desktop(_Program):
    """Somebody is logged in at a screen. ARGUMENT: the share of the GPU that the desktop takes."""

    usual = 0.03
    names = ("gnome-shell", "Xorg", "gdm3")

    def activity(self) -> Activity:
        return Activity(gpu_load=self.argument)

    def files(self, now: Now) -> Mapping[str, Node]:
        present = partial(_while_on, self, now)
        texts = {f"/proc/{801 + n}/comm": f"{name}\n" for n, name in enumerate(self.names)}
        return {path: Node(fixed(text).read, present=present) for path, text in texts.items()}


def _forever(does: Activity, context: Context) -> Generator[Action, None, int]:
    while True:
        yield Busy(3600.0, does)


def _while_on(fault: Fault, now: Now) -> bool:
    return fault.is_on(now())
