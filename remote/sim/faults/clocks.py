"""Faults that take clocks away."""

from __future__ import annotations

from remote.sim.faults.fault import Fault, Victim


class Throttle(Fault):
    """Cooling devices take operating points off CPU and GPU, as when the fan stops. ARGUMENT: how many."""

    usual = 3.0
    lasts = True

    def begin(self, board: Victim) -> None:
        board.throttle(int(self.argument))

    def end(self, board: Victim) -> None:
        board.throttle(0)


class OverCurrent(Fault):
    """The supply gives less than the board draws: events are counted and clocks fall. ARGUMENT: how many events."""

    usual = 3.0
    lasts = True

    def begin(self, board: Victim) -> None:
        board.count_over_current(int(self.argument), True)
        board.limit("gpu", 0.5)

    def end(self, board: Victim) -> None:
        board.count_over_current(0, False)
        board.limit("gpu", 1.0)


class EmcClamp(Fault):
    """The memory's clock is held below what is set. ARGUMENT: the share of its highest rate that is left."""

    usual = 0.5
    lasts = True

    def begin(self, board: Victim) -> None:
        board.limit("emc", self.argument)

    def end(self, board: Victim) -> None:
        board.limit("emc", 1.0)


class GpuSag(Fault):
    """The GPU's clock falls below its lock. ARGUMENT: the share of its highest rate that is left."""

    usual = 0.5
    lasts = True

    def begin(self, board: Victim) -> None:
        board.limit("gpu", self.argument)

    def end(self, board: Victim) -> None:
        board.limit("gpu", 1.0)
