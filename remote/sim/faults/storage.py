"""Faults of the disk, on which all ordinary files are but those of /run and /dev/shm, which lie in memory."""

from __future__ import annotations

from remote.sim.faults.fault import Fault, Victim


class DiskFull(Fault):
    """The disk is full: what needs more room fails with ENOSPC. ARGUMENT: how many bytes are left."""

    def begin(self, board: Victim) -> None:
        board.fill_disk(max(0, int(self.argument)))

    def end(self, board: Victim) -> None:
        board.fill_disk(None)


class ReadOnly(Fault):
    """The disk takes no more changes, as after an error of its own: EROFS."""

    def begin(self, board: Victim) -> None:
        board.protect_disk(True)

    def end(self, board: Victim) -> None:
        board.protect_disk(False)
