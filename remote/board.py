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
from remote.errors import BoardError, EdgeperfError, HostError, Interrupted, KnobRefused
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
    be put back is raised as BoardError; where another error is on its way, that one tells it beside its hint.
    """
    if not (steps or board.transport.facts.root):
        yield ()
        return
    written = board.transport.write(Apply(tuple(steps), owner, lease=True))
    try:
        yield written.outcomes
    except BaseException as error:
        try:
            with suppress(HostError):  # the board puts back by itself what this cannot
                release(board, written.lease)
        except BoardError as stuck:
            if not isinstance(error, EdgeperfError) or isinstance(error, Interrupted):
                raise stuck from error  # an interruption says nothing
            error.hint = "\n".join(filter(None, (error.hint, f"{stuck.what}: {stuck.hint}")))
        raise
    release(board, written.lease)


def release(board: Board, lease: str = "lease") -> None:
    """Ends a lease, also one that an earlier connection took. Raises BoardError for what could not be put back."""
    rows = board.transport.write(Undo(lease=lease)).outcomes
    stuck = [f"{row.knob}: {row.why}" for row in rows if row.result == "refused"]
    if stuck:
        raise KnobRefused(
            f"not put back after the measurement: {'; '.join(stuck)}",
            "`edgeperf restore` tries it again, `edgeperf status` shows what is set",
        )
