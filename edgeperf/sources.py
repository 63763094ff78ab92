"""Where the watts come from: the board's own sensors, or a tool of the board that reads them.

A tool runs beside the job. What it prints is turned into the series that the sampler would have made, so that whoever
holds the `Transport` need not know which it was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from edgeperf.power import choose_total
from edgeperf.tegrastats import parse, rails_w
from remote.board import Board
from remote.errors import BoardError, EngineError, Interrupted, UsageError
from remote.transport import Transport
from remote.types import Apply, Blob, Completed, Ended, Event, Facts, Job, Line, Rail, Readout, Series, Undo, Written

CHOICES = ("auto", "sysfs", "tegrastats", "jtop")

_MILLIWATTS_PER_WATT = 1e3
_LOOK_S = 2.0
_FIRST_USR_BIN = 31  # the L4T release from which tegrastats lies in the search path, and not in the user's home
_FASTEST_JTOP_S = 0.1

# The names that tegrastats gives to rails whose monitors say another one: energymon, jetson/JetsonPowerRails.md.
_TEGRASTATS_NAMES: Mapping[str, Mapping[str, str]] = {
    "tx2": {
        "VDD_CPU": "VDD_SYS_CPU",
        "VDD_GPU": "VDD_SYS_GPU",
        "VDD_SOC": "VDD_SYS_SOC",
        "VDD_DDR": "VDD_SYS_DDR",
        "VDD_WIFI": "VDD_4V0_WIFI",
    }
}

# Runs on the board, with its own Python and the jtop that is installed there.
_JTOP = """
import json, sys
from jtop import jtop
with jtop(interval=float(sys.argv[1])) as board:
    while board.ok():
        print(json.dumps({name: rail["power"] for name, rail in board.power["rail"].items()}), flush=True)
"""


@dataclass(frozen=True)
class Tool:
    """A program of the board that shows rails. ``watts`` reads a line, {} for one that has none."""

    name: str
    argv: Callable[[float], tuple[str, ...]]
    watts: Callable[[str], Mapping[str, float]]
    hint: str


def through(board: Board, source: str, *, look: bool = True) -> Board:
    """Returns the board with its rails read by ``source``, one of `CHOICES`.

    The board's own sensors are preferred; "auto" asks tegrastats where they do not make up a total. Without ``look``,
    as while a job runs, a tool is taken to show all rails that such a board has. Raises UsageError for a source that
    there is not, BoardError for a tool that shows no rails.
    """
    if source not in CHOICES:
        raise UsageError(f"--rails {source!r} is not known", f"give {', '.join(CHOICES)}")
    if source == "auto":
        return _auto(board, look)
    return board if source == "sysfs" else _sourced(board, _tool(board, source), look)


def source_of(rails: Mapping[str, Rail]) -> str:
    """Returns which source reads these rails."""
    return next((rail.path for rail in rails.values() if rail.path in CHOICES), "sysfs")


def named_as_on_the_board(watts: Mapping[str, float], board: str) -> dict[str, float]:
    """Returns rails by the names of the board's monitors, for those to which tegrastats gives another one."""
    names = _TEGRASTATS_NAMES.get(board, {})
    return {names.get(name, name): value for name, value in watts.items()}


def _auto(board: Board, look: bool) -> Board:
    totals = board.spec.totals
    if not (look and totals and board.transport.facts.l4t) or choose_total(totals, board.transport.rails):
        return board
    try:
        found = _sourced(board, _tool(board, "tegrastats"), look)
    except BoardError:
        return board
    return found if choose_total(totals, found.transport.rails) else board


def _tool(board: Board, source: str) -> Tool:
    facts = board.transport.facts
    if source == "jtop":
        hint = "it needs jetson-stats on the board, and its service: systemctl status jtop"
        return Tool("jtop", _jtop_argv, _jtop_watts, hint)
    if not facts.l4t:
        raise UsageError(f"--rails tegrastats: {board.host.text} has no NVIDIA L4T", "give --rails sysfs")

    def watts(line: str) -> Mapping[str, float]:
        try:
            return named_as_on_the_board(rails_w(parse(line)), board.spec.name)
        except BoardError:
            return {}

    hint = "some releases show rails to root only; --rails sysfs reads the sensors themselves"
    return Tool("tegrastats", lambda every_s: _tegrastats_argv(facts, every_s), watts, hint)


def _tegrastats_argv(facts: Facts, every_s: float) -> tuple[str, ...]:
    interval_ms = str(max(1, round(every_s * 1e3)))
    if int(facts.l4t.partition(".")[0]) >= _FIRST_USR_BIN:
        return ("tegrastats", "--interval", interval_ms)
    return (f"{facts.cache.partition('/.cache/')[0]}/tegrastats", interval_ms)


def _jtop_argv(every_s: float) -> tuple[str, ...]:
    return ("python3", "-c", _JTOP, f"{max(_FASTEST_JTOP_S, every_s):g}")


def _jtop_watts(line: str) -> Mapping[str, float]:
    try:
        return {name: float(mw) / _MILLIWATTS_PER_WATT for name, mw in json.loads(line).items()}
    except (AttributeError, TypeError, ValueError):
        return {}


def _sourced(board: Board, tool: Tool, look: bool) -> Board:
    known = board.transport.rails
    rows = {str(row["id"]): row for row in board.spec.rails}
    names = _shown(board, tool) if look else list(rows)
    rails = {}
    for name in names:
        row = rows.get(name, {})
        rail = known.get(name) or Rail(name, tool.name, str(row.get("parent", "")), str(row.get("place", "")))
        rails[name] = replace(rail, path=tool.name)
    return replace(board, transport=Sourced(board.transport, tool, rails))


def _shown(board: Board, tool: Tool) -> list[str]:
    """Returns the rails that a tool shows on this board. Raises BoardError when there are none."""
    try:
        done = board.transport.run(Job(tool.argv(_LOOK_S / 4), duration_s=_LOOK_S))
    except EngineError as error:
        raise BoardError(f"--rails {tool.name}: {error.what}", tool.hint) from error
    if done.reason == "cancelled":
        raise Interrupted("interrupted before the measurement began")
    found = next(filter(None, (tool.watts(line.text) for line in done.lines if line.source == "stdout")), {})
    if not found:
        said = next((line.text for line in reversed(done.lines) if line.source == "stderr" and line.text), "")
        why = f"{tool.name} shows no power rails on {board.host.text}"
        raise BoardError(f"{why}: {said}" if said else why, tool.hint)
    return list(found)


class Sourced(Transport):
    """A transport whose rails a tool reads, beside each job that is to have them sampled."""

    def __init__(self, inner: Transport, tool: Tool, rails: dict[str, Rail]) -> None:
        self._inner = inner
        self._tool = tool
        self.rails = rails

    def __getattr__(self, name: str) -> Any:
        """Returns what the transport inside knows, all but its rails."""
        return getattr(self._inner, name)

    def read(self, paths: Sequence[str] = (), *, settings: bool = False) -> Readout:
        """Reads files."""
        return self._inner.read(paths, settings=settings)

    def write(self, change: Apply | Undo) -> Written:
        """Changes settings."""
        return self._inner.write(change)

    def run(self, job: Job) -> Completed:
        """Runs a job, with the rails that were asked for as the tool shows them."""
        done = self._inner.run(self._with_tool(job))
        return replace(done, series=(*done.series, *self._series(job, done.beside)), beside=())

    def stream(self, job: Job) -> Generator[Event, None, None]:
        """Runs a job; the series of rails come last before its end."""
        beside: list[Line] = []
        with closing(self._inner.stream(self._with_tool(job))) as events:
            event = next(events, None)
            while event is not None:
                if isinstance(event, Line) and event.source == "beside":
                    beside.append(event)
                    event = next(events, None)
                    continue
                if isinstance(event, Ended):
                    yield from self._series(job, beside)
                try:
                    yield event
                except KeyboardInterrupt as stop:
                    event = events.throw(stop)
                else:
                    event = next(events, None)

    def put(self, blob: Blob) -> str:
        """Puts a file on the board."""
        return self._inner.put(blob)

    def again(self) -> Transport | None:
        """Returns another connection to the same board."""
        return self._inner.again()

    def close(self) -> None:
        """Ends the connection."""
        self._inner.close()

    def _with_tool(self, job: Job) -> Job:
        if job.sampling is None or not job.sampling.rails:
            return job
        argv = self._tool.argv(1.0 / job.sampling.rate_hz)
        return replace(job, sampling=replace(job.sampling, rails=()), beside=argv)

    def _series(self, job: Job, lines: Iterable[Line]) -> list[Series]:
        """Returns the watts of the rails that were asked for, as they stood in the lines when those arrived."""
        asked = job.sampling.rails if job.sampling is not None else ()
        found = [(line.t_s, watts) for line in lines if (watts := self._tool.watts(line.text))]
        times = tuple(moment for moment, _ in found)
        return [Series(name, times, tuple(watts.get(name) for _, watts in found)) for name in asked if times]
