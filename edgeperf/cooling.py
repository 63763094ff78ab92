"""Waiting for a board to cool down before it is measured. A flow: it shows how far it is, and gives up in time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from edgeperf import heat
from edgeperf.record import Cooling
from remote.board import Board
from remote.errors import Interrupted
from remote.hosts import Replay, Twin
from remote.types import Job, Sampling

Phase = Callable[[str, float], AbstractContextManager[None]]
"""Tells what is going on and how many seconds it will take."""

_LOOK_S = 5.0


def paced(board: Board) -> bool:
    """Says whether a run takes real time; a twin's does not unless it was asked to, nor does that of a recording."""
    if isinstance(board.host, Twin):
        return board.host.speed == "1"
    return not isinstance(board.host, Replay)


def cool(board: Board, to_c: float, limit_s: float, phase: Phase) -> Cooling | None:
    """Waits until the hottest zone of a board is at ``to_c`` degrees Celsius or below, ``limit_s`` at most.

    Returns how that went, None where the board shows no temperature. Raises Interrupted at Ctrl-C.
    """
    first = _hottest_c(board, 0.0)
    if first is None:
        return None
    now, waited_s = first, 0.0
    while now > to_c and waited_s < limit_s:
        span_s = min(_LOOK_S, limit_s - waited_s)
        told = f"waiting for {board.host.text} to cool down: {now:.1f} C, {to_c:g} C asked"
        with phase(told, span_s if paced(board) else 0.0):
            found = _hottest_c(board, span_s)
        now = now if found is None else found
        waited_s += span_s
    return Cooling(to_c, first, now, waited_s)


def _hottest_c(board: Board, after_s: float) -> float | None:
    """Returns the hottest zone's temperature after a while, None where none can be read."""
    zones = heat.zones(board.transport.readings)
    if not zones:
        return None
    completed = board.transport.run(Job(duration_s=after_s, sampling=Sampling(readings=zones)))
    if completed.reason == "cancelled":
        raise Interrupted("interrupted while the board cooled down")
    return heat.hottest_c(series.values[-1] for series in completed.series if series.values)
