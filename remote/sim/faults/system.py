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
        board.wall_step_s += self.argument
