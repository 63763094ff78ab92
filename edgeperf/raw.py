"""What a result was made from, kept in the result itself: a later analysis can make the result again from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from edgeperf import __version__
from edgeperf.left import Locked, Request
from edgeperf.record import Cooling
from engines.toolchains import EngineRun
from remote import boards, recording
from remote.board import Board
from remote.hosts import Replay as Host
from remote.replay import Recorded, Replay
from remote.types import Series, Text

Samples = Mapping[str, Mapping[str, Sequence[Any]]]


@dataclass(frozen=True)
class Ran:
    """One run, what was sampled beside it and before it, and how the board was cooled down for it.

    ``texts`` are files that were read after it, ``silent_s`` is the longest silence of the line, ``lost`` how the line
    ended in the middle of it, ``failed`` how the program did, ``rebooted`` whether the board restarted.
    """

    run: EngineRun
    series: tuple[Series, ...]
    idle: tuple[Series, ...]
    cooling: Cooling | None = None
    texts: Mapping[str, Text] = field(default_factory=dict)
    silent_s: float = 0.0
    lost: str = ""
    rebooted: bool = False
    failed: str = ""


@dataclass(frozen=True)
class Measured:
    """What a bench is made from: the request, how the clocks were held, and the runs."""

    request: Request
    locked: Locked
    runs: tuple[Ran, ...]

    def without_samples(self, rails: Iterable[str]) -> Measured:
        """Returns it without the samples that the record has as ``samples_s`` and ``rail_samples_w``."""
        known = set(rails)
        return replace(
            self,
            runs=tuple(
                replace(done, run=replace(done.run, latencies_s=()), series=emptied(done.series, known))
                for done in self.runs
            ),
        )

    def with_samples(self, data: Mapping[str, Any]) -> Measured:
        """Returns it with the samples of a record. Raises KeyError and ValueError for one of something else."""
        kept = data["repeats"] or [data]
        return replace(
            self,
            runs=tuple(
                replace(
                    done,
                    run=replace(done.run, latencies_s=tuple(of["samples_s"])),
                    series=refilled(done.series, of["rail_samples_w"]),
                )
                for done, of in zip(self.runs, kept, strict=True)
            ),
        )


def emptied(series: Iterable[Series], rails: set[str]) -> tuple[Series, ...]:
    """Returns series with the samples of rails left out."""
    return tuple(replace(item, times_s=(), values=()) if item.id in rails else item for item in series)


def refilled(series: Iterable[Series], samples: Samples) -> tuple[Series, ...]:
    """Returns series with the samples of rails put back."""
    return tuple(
        replace(item, times_s=tuple(samples[item.id]["t_s"]), values=tuple(samples[item.id]["w"]))
        if item.id in samples
        else item
        for item in series
    )


def keep(board: Board, measured: Any) -> dict[str, Any]:
    """Returns ``measured`` and what the board said of itself, as JSON can hold them."""
    hello = {name: getattr(board.transport, name) for name in recording.HELLO}
    return {"hello": recording.plain(hello), "measured": recording.plain(measured)}


def restore(raw: Mapping[str, Any], kinds: Iterable[type]) -> Any:
    """Returns the ``measured`` that was kept; ``kinds`` are the classes of its parts that are not of the seam."""
    return recording.record(raw["measured"], {kind.__name__: kind for kind in kinds})


def board(raw: Mapping[str, Any], path: Path, host: str) -> Board:
    """Returns the board as it was: it says of itself what it said then, and answers nothing."""
    silent = Replay(Recorded(path, __version__, host, 0.0, recording.record(raw["hello"]), ()))
    return Board(Host(str(path), host), boards.met(silent.facts.board, silent.facts.twin), silent)
