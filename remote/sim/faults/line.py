"""Faults of the line between host and board."""

from __future__ import annotations

from math import inf

from remote.sim.faults.fault import Fault, Victim

_STALL_S = 6.0


class LinkStall(Fault):
    """The line carries nothing; for 6 s where FOR is not given."""

    def begin(self, board: Victim) -> None:
        board.reach.silence = (self.start_s, self.start_s + _STALL_S if self.stop_s == inf else self.stop_s)


class LinkDrop(Fault):
    """The connection ends without a word, and new ones are refused."""

    def begin(self, board: Victim) -> None:
        board.hang_up(reset=False)
        board.reach.refuses = True

    def end(self, board: Victim) -> None:
        board.reach.refuses = False


class LinkReset(Fault):
    """The connection is reset; new ones are taken at once, so FOR has no effect."""

    def begin(self, board: Victim) -> None:
        board.hang_up(reset=True)


class LinkSlow(Fault):
    """The line is slow. ARGUMENT: by how many seconds each message is late, in both directions."""

    usual = 0.3

    def begin(self, board: Victim) -> None:
        board.reach.delay_s = max(0.0, self.argument)

    def end(self, board: Victim) -> None:
        board.reach.delay_s = 0.0
