"""A board that answers from a recording: what was asked then is answered as it was then, and nothing else is."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from remote import errors
from remote.errors import EdgeperfError, HostError
from remote.recording import FORMAT, HELLO, SCHEMA, of_blob, of_job, question, record
from remote.transport import Transport
from remote.types import Apply, Blob, Completed, Event, Job, Readout, Undo, Written

_FREE = frozenset({"note", "timeout_s", "readings", "why", "was"})
"""Arguments of jobs and steps that may be others than they were: they do not change what the board answers."""

_ZIPPED = b"\x1f\x8b"
_ABOUT = 24
"""Characters shown on either side of the first that differs."""


@dataclass
class Call:
    """A call as it was kept. ``end`` is its answer or what it raised; None where the recording breaks off before it."""

    asked: Mapping[str, Any]
    said: list[Any] = field(default_factory=list)
    end: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Recorded:
    """A recording: who made it (``version`` of edgeperf), of which host and when, and the calls in their order."""

    path: Path
    version: str
    host: str
    wall_s: float
    hello: Mapping[str, Any]
    calls: tuple[Call, ...]


def is_recording(path: Path) -> bool:
    """Says whether a file is a recording, of whatever version."""
    try:
        return bool(_header(_lines(path)).get("format") == FORMAT)
    except OSError:
        return False


def _header(lines: Iterator[Any]) -> Mapping[str, Any]:
    """Returns the first entry, nothing for text that cannot be one."""
    try:
        found = next(lines, None)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {}


def load(path: Path) -> Recorded:
    """Returns what a file holds; one that was broken off up to there. Raises HostError for a file that is none."""
    try:
        lines = _lines(path)
        header = _header(lines)
        if header.get("format") != FORMAT:
            raise HostError(f"{path} is not a recording", "`--record FILE` on a command makes one")
        if header["schema"] != SCHEMA:
            what = f"{path} has schema {header['schema']}, this edgeperf reads {SCHEMA}"
            raise HostError(what, f"it was recorded by edgeperf {header['edgeperf']}: use that version")
        hello, calls = record(header["hello"]), tuple(_calls(lines))
        return Recorded(path, header["edgeperf"], header["host"], header["wall_s"], hello, calls)
    except HostError:
        raise
    except OSError as error:
        raise HostError(f"{path} cannot be read: {error.strerror or error}", "is it a recording?") from error
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        what = f"{path} is damaged, or of another edgeperf: {error or type(error).__name__}"
        raise HostError(what, "record it again") from error


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yields the entries up to where the file breaks off."""
    with path.open("rb") as raw, gzip.open(raw) if raw.peek(2)[:2] == _ZIPPED else nullcontext(raw) as file:
        while True:
            try:
                line = file.readline()
            except (EOFError, zlib.error):
                return
            if not line.endswith(b"\n"):
                return
            yield json.loads(line)


def _calls(lines: Iterator[dict[str, Any]]) -> Iterator[Call]:
    call: Call | None = None
    for entry in lines:
        if "asked" in entry:
            if call:
                yield call
            call = Call(entry["asked"])
        elif call and "said" in entry:
            call.said.append(record(entry["said"]))
        elif call:
            call.end = entry
    if call:
        yield call


class Replay(Transport):
    """The five verbs, answered in the order in which they were. Raises HostError for what was not asked then."""

    def __init__(self, recorded: Recorded) -> None:
        self._recorded = recorded
        self._path = recorded.path
        self._next = 0
        if missing := [name for name in HELLO if name not in recorded.hello]:
            raise HostError(f"{recorded.path} does not say {missing[0]!r}", self._origin())
        vars(self).update(recorded.hello)

    def read(self, paths: Sequence[str] = (), *, settings: bool = False) -> Readout:
        answer: Readout = self._answer(self._take(question("read", paths=list(paths), settings=settings)))
        return answer

    def write(self, change: Apply | Undo) -> Written:
        answer: Written = self._answer(self._take(question("write", change=change)))
        return answer

    def run(self, job: Job) -> Completed:
        answer: Completed = self._answer(self._take(question("run", job=of_job(job))))
        return answer

    def stream(self, job: Job) -> Generator[Event, None, None]:
        call = self._take(question("stream", job=of_job(job)))
        for event in call.said:
            try:
                yield event
            except KeyboardInterrupt:  # then too it had been said already
                continue
        self._answer(call)

    def put(self, blob: Blob) -> str:
        answer: str = self._answer(self._take(question("put", blob=of_blob(blob))))
        return answer

    def again(self) -> Transport | None:
        hello = self._answer(self._take(question("again")))
        return Replay(replace(self._recorded, hello=hello, calls=())) if hello else None

    def close(self) -> None:
        """There is nothing to end."""

    def _take(self, asked: Mapping[str, Any]) -> Call:
        calls, number = self._recorded.calls, self._next + 1
        if self._next >= len(calls):
            raise HostError(
                f"{self._path} ends after {len(calls)} calls, and another is asked: {asked['verb']}", self._origin()
            )
        call = calls[self._next]
        if found := difference(call.asked, asked):
            raise HostError(f"call {number} of {self._path} was another one: {found}", self._origin())
        self._next += 1
        return call

    def _answer(self, call: Call) -> Any:
        end = call.end
        if end is None:
            raise HostError(f"{self._path} breaks off in call {self._next}, {call.asked['verb']}", self._origin())
        if "raised" in end:
            raise _error(end["raised"])
        vars(self).update(record(end["now"]))
        return record(end["answered"])

    def _origin(self) -> str:
        made = self._recorded
        return f"edgeperf {made.version} recorded it on {made.host}: give the same command, to the same version"


def difference(then: Any, now: Any, place: str = "") -> str:
    """Returns the first argument that differs, with both values; "" where none does."""
    if isinstance(then, Mapping) and isinstance(now, Mapping):
        free = _FREE | ({"sha256", "bytes"} if _program(then) and _program(now) else set())
        for name in dict.fromkeys((*then, *now)):
            if name not in free and (
                found := difference(then.get(name), now.get(name), f"{place}.{name}" if place else str(name))
            ):
                return found
        return ""
    if then == now:
        return ""
    if place.endswith("sha256"):
        return f"{place.rpartition('.')[0]} had other content"
    if isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        pairs = enumerate(zip(then, now, strict=True))
        return next(filter(None, (difference(a, b, f"{place}[{index}]") for index, (a, b) in pairs)), "")
    return "{} was {}, now it is {}".format(place, *_shortened(then, now))


def _program(blob: Mapping[str, Any]) -> bool:
    """Says whether this is a program of edgeperf itself: what it is asked counts, not how it does it."""
    return str(blob.get("name", "")).endswith(".zip")


def _shortened(then: Any, now: Any) -> tuple[str, str]:
    texts = [value if isinstance(value, str) else json.dumps(value) for value in (then, now)]
    pairs = zip(*texts, strict=False)
    first = next((index for index, (a, b) in enumerate(pairs) if a != b), min(map(len, texts)))
    start = max(0, first - _ABOUT)
    shown = [f"{'...' if start else ''}{text[start : first + _ABOUT]}" for text in texts]
    return repr(shown[0]), repr(shown[1])


def _error(raised: Mapping[str, str]) -> BaseException:
    if raised["error"] == "KeyboardInterrupt":
        return KeyboardInterrupt()
    kind = getattr(errors, raised["error"], HostError)
    known = isinstance(kind, type) and issubclass(kind, EdgeperfError)
    return kind(raised["what"], raised["hint"]) if known else HostError(raised["what"], raised["hint"])
