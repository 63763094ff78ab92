"""Faults of the board as a whole: its software, its calendar, its power."""

from __future__ import annotations

from typing import Any

from remote.sim.faults.fault import Fault, Victim


class NoFp16(Fault):
    """TensorRT leaves layers in FP32, whatever START and FOR are. ARGUMENT: which share of their time, 1 for all."""

    usual = 1.0

    def alter(self, twin: dict[str, Any]) -> None:
        twin["no_fp16"] = self.argument


class Reboot(Fault):
    """The board starts again by itself."""

    def begin(self, board: Victim) -> None:
        board.reboot()


class ClockStep(Fault):
    """The board's calendar is set, as by NTP. ARGUMENT: by how many seconds; FOR has no effect."""

    usual = 3600.0

    def begin(self, board: Victim) -> None:
        board.set_calendar(self.argument)


class SudoAsks(Fault):
    """Whoever connects may become root with a password only, which nobody gives."""

    def begin(self, board: Victim) -> None:
        board.reach.sudo_asks = True

    def end(self, board: Victim) -> None:
        board.reach.sudo_asks = False


class SlowPython(Fault):
    """Python is slow: edgeperf's programs take long to start. ARGUMENT: how many seconds."""

    usual = 8.0

    def begin(self, board: Victim) -> None:
        board.reach.python_s = max(0.0, self.argument)

    def end(self, board: Victim) -> None:
        board.reach.python_s = 0.0
