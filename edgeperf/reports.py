"""A saved result or a recording looked at again: all its figures made anew, without a board.

A result is made again from the samples that it keeps, a recording by having it answer the same measurement.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clockprofiles.targets import Asked
from edgeperf import __version__, bench, execute, raw, store
from edgeperf.left import Left, Locked, Request
from edgeperf.lost import RunFailed, RunLost
from edgeperf.record import Bench, Cooling, Exec, plain, to_json
from edgeperf.report import labelled, report
from engines.precision import Found
from engines.reference import OutputCheck
from engines.spec import Options, Protocol
from engines.toolchains import Built, EngineRun
from remote import boards, replay
from remote.board import Board
from remote.errors import BoardError, HostError, UsageError
from remote.hosts import Replay

_SHARED = (Locked, Asked)
_KINDS: Mapping[str, tuple[type, ...]] = {
    "bench": (
        *(*_SHARED, raw.Measured, raw.Ran, Cooling, Request, Options, Protocol),
        *(EngineRun, Built, Found, OutputCheck),
    ),
    "exec": (*_SHARED, execute.Followed, execute.Request),
}
_NO_FIGURES = frozenset({"created", "host", "made_with", "notes", "no_gain", "raw"})


@dataclass(frozen=True)
class Difference:
    """A figure that is another now: its place in the record, such as ``power_w.total``, and both values."""

    field: str
    saved: Any
    now: Any


@dataclass(frozen=True)
class Report:
    """A ``record`` as this edgeperf makes it. ``differences`` are None for a recording, which holds no figures."""

    schema: int
    kind: str
    simulated: bool
    file: str
    saved_with: str
    differences: tuple[Difference, ...] | None
    record: Bench | Exec

    @property
    def exit_code(self) -> int:
        """Returns 8 for a result that is INVALID, else 0."""
        return 8 if self.record.verdict.state == "INVALID" else 0


def look(name: str, results: Path, cache: Path) -> Report:
    """Returns a result or recording as it is now understood. ``name`` is a file, a saved result's name or ``last``.

    ``results`` and ``cache`` are folders of this machine. Raises UsageError for what cannot be made again, HostError
    for a damaged recording.
    """
    path = Path(name)
    if path.is_file() and replay.is_recording(path):
        return _of_recording(path, cache)
    return _of_result(store.find(results, name), cache)


def _of_result(saved: store.Saved, cache: Path) -> Report:
    data = saved.data
    record = _again(saved, cache)
    if isinstance(record, Bench):
        record = replace(record, no_gain=data["no_gain"])
    found = tuple(differences(_figures(data), _figures(json.loads(to_json(record)))))
    made_with = str(data["made_with"].get("edgeperf", "?"))
    return Report(1, "report", record.simulated, str(saved.path), made_with, found, record)


def _again(saved: store.Saved, cache: Path) -> Bench | Exec:
    data = saved.data
    if data["raw"] is None:
        version = data["made_with"].get("edgeperf", "?")
        what = f"{saved.path} was saved by edgeperf {version}, which kept too little to make its figures again"
        raise UsageError(what, f"`edgeperf results show {saved.path.stem}` shows it as it is")
    try:
        board = raw.board(data["raw"], saved.path, data["host"])
        made = raw.restore(data["raw"], _KINDS[data["kind"]]).with_samples(data)
    except (KeyError, TypeError, ValueError, AttributeError, HostError) as error:
        what = f"{saved.path} is damaged, or of another edgeperf: {error or type(error).__name__}"
        raise UsageError(what, "it was to be as `edgeperf bench` or `edgeperf exec` saved it") from error
    return bench.again(made, board, cache) if isinstance(made, raw.Measured) else execute.made(made, board)


def _of_recording(path: Path, cache: Path) -> Report:
    recorded = replay.load(path)
    request = _request(recorded)
    transport = replay.Replay(recorded)
    board = Board(
        Replay(str(path), f"replay:{path}"), boards.met(transport.facts.board, transport.facts.twin), transport
    )
    try:
        record = _measured(request, board, cache)
    except (RunLost, RunFailed) as cut:
        record = cut.record
    return Report(1, "report", record.simulated, str(path), recorded.version, None, record)


def _measured(request: Request | execute.Request, board: Board, cache: Path) -> Bench | Exec:
    def phase(text: str, expected_s: float) -> AbstractContextManager[None]:
        return nullcontext()

    if isinstance(request, execute.Request):
        return execute.execute(request, board, phase, lambda line: None)
    return bench.measure(request, board, cache, phase)


def _request(recorded: replay.Recorded) -> Request | execute.Request:
    """Returns what was to be measured, as it was left on the board beside the job."""
    notes = (call.asked["job"]["note"] for call in recorded.calls if "job" in call.asked)
    note = next(filter(None, notes), "")
    try:
        return execute.Request.parse(note) or Left.parse(note).request
    except BoardError as error:
        what = f"{recorded.path} holds no measurement that was begun"
        raise UsageError(what, f"give the recorded command again, with --host replay:{recorded.path}") from error


def _figures(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in _NO_FIGURES}


def differences(saved: Any, now: Any, place: str = "") -> Iterator[Difference]:
    """Yields what differs between two records as JSON holds them."""
    if isinstance(saved, Mapping) and isinstance(now, Mapping):
        for name in dict.fromkeys((*saved, *now)):
            yield from differences(saved.get(name), now.get(name), f"{place}.{name}" if place else name)
    elif isinstance(saved, list) and isinstance(now, list) and len(saved) == len(now):
        for index, (one, other) in enumerate(zip(saved, now, strict=True)):
            yield from differences(one, other, f"{place}[{index}]")
    elif saved != now:
        yield Difference(place, saved, now)


def text(made: Report) -> str:
    """Returns the report of the record, and what differs from what was saved."""
    if made.differences is None:
        found = f"from what the board said, recorded by edgeperf {made.saved_with}"
    else:
        count = len(made.differences)
        found = f"from the samples that edgeperf {made.saved_with} kept; "
        found += f"{count} of the saved figures differ:" if count else "every figure is as it was saved"
    rows = labelled("made again", f"by edgeperf {__version__} {found}")
    for row in made.differences or ():
        rows += labelled("", f"{row.field}: {_shown(row.saved)} was saved, {_shown(row.now)} now")
    return "\n".join([report(plain(made.record), Path(made.file)), *rows])


def _shown(value: Any) -> str:
    shown = json.dumps(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
