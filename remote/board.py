"""A board at hand: open it, hold its clocks for a measurement. Thin effects over the `Transport` seam."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from remote import boards
from remote.access import DEFAULT, Access
from remote.boards import BoardSpec
from remote.errors import EdgeperfError, KnobRefused
from remote.hosts import Host, Replay, Ssh, Twin
from remote.transport import Transport
from remote.types import Apply, Outcome, Step, Undo

if TYPE_CHECKING:
    from remote.sim.process import Program


@dataclass(frozen=True)
class Board:
    """An open connection with the specification of the board at its other end."""

    host: Host
    spec: BoardSpec
    transport: Transport


@contextmanager
def open_board(host: Host, programs: Mapping[str, Program], cache: Path, access: Access = DEFAULT) -> Iterator[Board]:
    """Connects for the length of a ``with``. ``programs`` are what a twin can run beside its own.

    ``cache`` is a folder of this machine, ``access`` how boards over SSH are reached. Raises HostError, and UsageError
    for a state file of another board.
    """
    with _connect(host, programs, cache, access) as transport:
        yield Board(host, boards.met(transport.facts.board, transport.facts.twin), transport)


def _connect(host: Host, programs: Mapping[str, Program], cache: Path, access: Access) -> Transport:
    if isinstance(host, Twin):
        from remote.sim.link import TwinTransport

        return TwinTransport(host, dict(programs))
    if isinstance(host, Ssh):
        from remote import ssh

        return ssh.connect(host, access)
    if isinstance(host, Replay):
        from remote import replay

        return replay.Replay(replay.load(Path(host.path).expanduser()))
    from remote.local import connect

    return connect(cache, host.root)


@contextmanager
def leased(board: Board, steps: Sequence[Step], owner: str) -> Iterator[tuple[Outcome, ...]]:
    """Holds settings for the length of a ``with``; yields a row per knob. They are put back however it ends.

    Without steps it still keeps others from the board, which could change what happens to be as wanted. What could not
    be put back is raised as BoardError unless another error is on its way.
    """
    if not (steps or board.transport.facts.root):
        yield ()
        return
    written = board.transport.write(Apply(tuple(steps), owner, lease=True))
    try:
        yield written.outcomes
    except BaseException:
        with suppress(EdgeperfError):  # the first error is the one to tell; the board puts back what this cannot
            board.transport.write(Undo(lease=written.lease))
        raise
    _check(board.transport.write(Undo(lease=written.lease)).outcomes)


def release(board: Board) -> None:
    """Ends a lease that an earlier connection took, once this one has picked its measurement up. Raises as `leased`."""
    _check(board.transport.write(Undo(lease="lease")).outcomes)


def _check(rows: Sequence[Outcome]) -> None:
    stuck = [f"{row.knob}: {row.why}" for row in rows if row.result == "refused"]
    if stuck:
        raise KnobRefused(
            f"not put back after the measurement: {'; '.join(stuck)}",
            "`edgeperf restore` tries it again, `edgeperf status` shows what is set",
        )
