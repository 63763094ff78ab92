"""Who holds a board, and ending what someone holds."""

from __future__ import annotations

from dataclasses import dataclass

from edgeperf.clocks import Changes, changes, held_by
from remote.board import Board
from remote.types import Held, Undo


@dataclass(frozen=True)
class Holding:
    """What is in force on a board: the settings of a running measurement, and those of `apply` below them."""

    schema: int
    kind: str
    simulated: bool
    host: str
    board: str
    l4t: str
    lease: Held | None
    apply: Held | None


def show(board: Board) -> Holding:
    """Returns who holds a board."""
    facts, journal = board.transport.facts, board.transport.journal
    return Holding(
        1, "lease", facts.simulated, board.host.text, board.spec.name, facts.l4t, journal.lease, journal.apply
    )


def end(board: Board) -> Changes:
    """Puts back what a measurement has set, whoever it belongs to."""
    outcomes = board.transport.write(Undo(others=True)).outcomes
    notes = () if outcomes else ("nobody holds this board",)
    return changes(board, "restore", "", outcomes, notes)


def text(holding: Holding) -> str:
    """Returns a line each for the measurement and for what was applied."""
    lease = f"held by a measurement of {held_by(holding.lease)}" if holding.lease else "no measurement holds this board"
    lines = [lease]
    if holding.lease:
        lines.append(f"sets     {', '.join(holding.lease.knobs) or 'nothing'}")
        lines.append(f"end it   edgeperf lease break --host {holding.host}")
    if holding.apply:
        lines.append(f"applied by {held_by(holding.apply)}; undo: edgeperf restore --host {holding.host}")
    return "\n".join(lines)
