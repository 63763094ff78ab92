"""A run that came to a bad end, with what there was by then."""

from __future__ import annotations

from edgeperf.record import Bench, Exec
from remote.board import Board
from remote.errors import EdgeperfError, LinkLost


class RunLost(LinkLost):
    """The line was lost in the middle of a run. ``record`` is what the board had told until then."""

    def __init__(self, lost: LinkLost, record: Bench | Exec) -> None:
        super().__init__(lost.what, lost.hint)
        self.record = record


class RunFailed(EdgeperfError):
    """The program that was measured crashed or hung, or the board was not put back. ``record`` is what there is."""

    def __init__(self, failure: EdgeperfError, record: Bench | Exec) -> None:
        super().__init__(failure.what, failure.hint)
        self.exit_code, self.transient, self.record = failure.exit_code, failure.transient, record


def restarted(board: Board) -> bool:
    """Says whether a board whose line was lost has restarted, as far as that can be told at once."""
    try:
        other = board.transport.again()
        if other is None:
            return False
        with other:
            return other.facts.boot_id != board.transport.facts.boot_id
    except EdgeperfError:
        return False
