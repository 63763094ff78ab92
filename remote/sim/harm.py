"""What faults do to a simulated board: the `remote.sim.faults.fault.Victim` of a `Machine`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from remote.sim.process import Program
from remote.sim.processes import SimProcess
from remote.sim.reach import Reach

if TYPE_CHECKING:
    from remote.sim.machine import Machine


class Harm:
    """Breaks and mends one machine. ``reach`` is how hosts come to it."""

    def __init__(self, machine: Machine) -> None:
        self.reach: Reach = machine.reach
        self._machine = machine

    def throttle(self, steps: int) -> None:
        """Takes operating points off the highest rates, as heat does."""
        self._machine.throttle("fault", steps)

    def limit(self, clock: str, share: float) -> None:
        """Holds ``gpu`` or ``emc`` below a share of its highest rate, whatever is set."""
        self._machine.kernel.limit(clock, share)

    def start(self, name: str, program: Program) -> Callable[[], None]:
        """Starts a program that nobody asked for; returns what ends it."""
        process = SimProcess(self._machine, program, (name,), {}, "", "root")
        self._machine.run(process)
        return process.kill

    def count_over_current(self, events: int, alarm: bool) -> None:
        """Adds to the counters of over-current, and sets the alarm of the input's monitor."""
        self._machine.kernel.protection.events += events
        self._machine.kernel.protection.alarm = alarm

    def set_calendar(self, by_s: float) -> None:
        """Moves the calendar; the monotonic clock goes on."""
        self._machine.wall_step_s += by_s

    def fill_disk(self, left_bytes: int | None) -> None:
        """Leaves so much room on the disk, None for as much as there was."""
        self._machine.files.fill(left_bytes)

    def protect_disk(self, protected: bool) -> None:
        """Has the disk refuse every change, or take changes again."""
        self._machine.files.read_only = protected

    def hang_up(self, reset: bool) -> None:
        """Ends all connections, as the network does: nobody has taken leave."""
        self._machine.hang_up(reset)

    def reboot(self) -> None:
        """Starts again: settings, processes and connections are lost."""
        self._machine.restart()
