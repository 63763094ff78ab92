"""The seam: five verbs reach a board, whatever kind of board it is.

Every backend passes the contract suite in ``tests/contract``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from types import TracebackType

from remote.types import (
    Apply,
    Blob,
    Completed,
    Event,
    Facts,
    Job,
    Journal,
    Rail,
    Reading,
    Readout,
    Snapshot,
    Undo,
    Written,
)


class Transport(ABC):
    """A connection to one board. Close it, or use it as a context manager.

    ``facts``, ``rails``, ``readings``, ``journal`` and ``found``, the settings at that moment, come with the board's
    first message and cost no round trip.
    """

    facts: Facts
    rails: dict[str, Rail]
    readings: dict[str, Reading]
    journal: Journal
    found: Snapshot
    note: str

    @abstractmethod
    def read(self, paths: Sequence[str] = (), *, settings: bool = False) -> Readout:
        """Reads files, and with ``settings`` all settable nodes, in one round trip.

        A path with ``*`` is a pattern; it gives a key per match.
        """

    @abstractmethod
    def write(self, change: Apply | Undo) -> Written:
        """Applies steps in order, or puts back what an earlier write remembered.

        Every knob is read back. The state found is journalled on the board before the first write; when it cannot
        be, BoardError is raised and nothing was changed. A refused step does not stop the ones after it.
        Raises LeaseHeld when someone else holds the board.
        """

    @abstractmethod
    def run(self, job: Job) -> Completed:
        """Runs a job to its end and returns all that it printed and all that was sampled."""

    @abstractmethod
    def stream(self, job: Job) -> Generator[Event, None, None]:
        """Runs a job; yields its lines as they come, then the sampled series, then exactly one Ended.

        Ctrl-C while waiting ends the job as it would in a terminal; what the job then still says is delivered, and the
        reason of its end is ``cancelled``. A second Ctrl-C is raised. A caller that meets Ctrl-C between two events
        throws it in, which returns the next event: ``stream.throw(KeyboardInterrupt())``.
        """

    @abstractmethod
    def put(self, blob: Blob) -> str:
        """Puts a file into the user's cache folder on the board, unless it is there already. Returns its path."""

    def again(self) -> Transport | None:
        """Returns another connection to the same board, None where it cannot be had at once."""
        return None

    @abstractmethod
    def close(self) -> None:
        """Ends the connection. A lease still held is put back by the board."""

    def __enter__(self) -> Transport:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
