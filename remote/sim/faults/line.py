"""Faults of the line between host and board."""

from __future__ import annotations

from math import inf

from remote.sim.faults.fault import Fault, Victim

_STALL_S = 6.0


class LinkStall(Fault):
    """The line carries nothing; for 6 s where FOR is not given."""

    def begin(self, board: Victim) -> None:
        board.silence = (self.start_s, self.start_s + _STALL_S if self.stop_s == inf else self.stop_s)
