"""What a board said, kept in a file of JSON lines: a wrapper around any `Transport`. docs/recording.md has the format.

Passwords never cross the seam, so none can be kept here. Of environment variables only the names are kept, and of
files that are put on the board their name, size and hash.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TextIO, TypeVar

from remote import types
from remote.errors import EdgeperfError, UsageError
from remote.transport import Transport
from remote.types import Apply, Blob, Completed, Event, Job, Readout, Undo, Written

FORMAT = "edgeperf recording"
SCHEMA = 1
HELLO = tuple(Transport.__annotations__)
"""What a transport knows from the board's first message."""

_KIND = "$"
_KINDS: dict[str, Any] = {name: kind for name, kind in vars(types).items() if is_dataclass(kind)}
_LONG_TEXT = 1 << 16
_FLUSH_S = 1.0

Answer = TypeVar("Answer")


def plain(value: Any) -> Any:
    """Returns a record of the seam as JSON can hold it: an object names its class under "$"."""
    if is_dataclass(value):
        return {_KIND: type(value).__name__, **{f.name: plain(getattr(value, f.name)) for f in fields(value)}}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return value


def record(value: Any, kinds: Mapping[str, Any] = MappingProxyType({})) -> Any:
    """Returns what `plain` was given, bit for bit; fields that this version does not know are left out.

    ``kinds`` are the classes that are not of the seam, by name. Raises TypeError and KeyError for what it never makes.
    """
    if isinstance(value, list):
        return tuple(record(item, kinds) for item in value)
    if not isinstance(value, dict):
        return value
    read = {key: record(item, kinds) for key, item in value.items() if key != _KIND}
    if _KIND not in value:
        return read
    kind = kinds.get(value[_KIND]) or _KINDS[value[_KIND]]
    return kind(**{field.name: read[field.name] for field in fields(kind) if field.name in read})


def question(verb: str, **arguments: Any) -> dict[str, Any]:
    """Returns a call of one of the five verbs as it is kept, and as a replay compares it with what was kept."""
    return {"verb": verb, **plain(arguments)}


def of_job(job: Job) -> dict[str, Any]:
    """Returns a job as it is kept: without the values of its environment, a long input by its hash."""
    asked: dict[str, Any] = plain(job)
    stdin = job.stdin if len(job.stdin) <= _LONG_TEXT else _hashed(job.stdin.encode())
    return {**asked, "env": sorted(job.env), "stdin": stdin}


def of_blob(blob: Blob) -> dict[str, Any]:
    """Returns a file as it is kept. Raises OSError when it cannot be read."""
    return {"name": blob.name, **_hashed(blob.path.read_bytes() if blob.path else blob.data)}


def _hashed(data: bytes) -> dict[str, Any]:
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _opened(path: Path) -> TextIO:
    return gzip.open(path, "wt", encoding="utf-8") if path.suffix == ".gz" else path.open("w", encoding="utf-8")


class Tape:
    """The file that a recording is written to, compressed where its name ends in ``.gz``.

    A disk that takes no more does not end the measurement: ``failed`` then says why the file is not whole.
    Raises UsageError for a file that cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.failed = ""
        self._start_s = self._flushed_s = time.monotonic()
        try:
            self._file = _opened(path)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            hint = "give --record FILE in a folder that is there and yours"
            raise UsageError(f"{path} cannot be written: {why}", hint) from error

    def write(self, kind: str, value: Any, *, flush: bool = True, **beside: Any) -> None:
        """Writes a line, with the seconds since the file was opened; none any more once one has failed."""
        if self.failed:
            return
        now_s = time.monotonic()
        entry = {"t_s": round(now_s - self._start_s, 6), kind: value, **beside}
        with self._noting_failure():
            self._file.write(json.dumps(entry, separators=(",", ":")) + "\n")
            if flush or now_s - self._flushed_s > _FLUSH_S:
                self._file.flush()
                self._flushed_s = now_s

    def close(self) -> None:
        """Ends the file."""
        with self._noting_failure():
            self._file.close()

    @contextmanager
    def _noting_failure(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.failed = self.failed or error.strerror or str(error)


class Recording(Transport):
    """A transport that writes down what it is asked and what it answers. ``host`` and ``version`` go into the header.

    A line is written before a call and after it, so that what was under way when a program died is known too.
    """

    def __init__(self, inner: Transport, tape: Tape, host: str, version: str) -> None:
        self._inner = inner
        self._tape = tape
        header: dict[str, Any] = {"schema": SCHEMA, "edgeperf": version, "host": host, "wall_s": time.time()}
        tape.write("format", FORMAT, **header, hello=plain(self._learned()))

    def read(self, paths: Sequence[str] = (), *, settings: bool = False) -> Readout:
        asked = question("read", paths=list(paths), settings=settings)
        return self._answer(asked, lambda: self._inner.read(paths, settings=settings))

    def write(self, change: Apply | Undo) -> Written:
        return self._answer(question("write", change=change), lambda: self._inner.write(change))

    def run(self, job: Job) -> Completed:
        return self._answer(question("run", job=of_job(job)), lambda: self._inner.run(job))

    def stream(self, job: Job) -> Generator[Event, None, None]:
        with self._noting(question("stream", job=of_job(job))), closing(self._inner.stream(job)) as events:
            event = next(events, None)
            while event is not None:
                self._tape.write("said", plain(event), flush=False)
                try:
                    yield event
                except KeyboardInterrupt as stop:
                    event = events.throw(stop)
                else:
                    event = next(events, None)
            self._answered(None)

    def put(self, blob: Blob) -> str:
        return self._answer(question("put", blob=of_blob(blob)), lambda: self._inner.put(blob))

    def again(self) -> Transport | None:
        with self._noting(question("again")):
            other = self._inner.again()
            self._answered(other and {name: getattr(other, name) for name in HELLO})
            return other

    def close(self) -> None:
        self._inner.close()

    def _answer(self, asked: dict[str, Any], ask: Callable[[], Answer]) -> Answer:
        with self._noting(asked):
            answer = ask()
            self._answered(answer)
            return answer

    @contextmanager
    def _noting(self, asked: dict[str, Any]) -> Iterator[None]:
        self._tape.write("asked", asked)
        try:
            yield
        except EdgeperfError as error:
            self._tape.write("raised", {"error": type(error).__name__, "what": error.what, "hint": error.hint})
            raise
        except KeyboardInterrupt:
            self._tape.write("raised", {"error": "KeyboardInterrupt", "what": "", "hint": ""})
            raise

    def _answered(self, answer: Any) -> None:
        self._tape.write("answered", plain(answer), now=plain(self._learned()))

    def _learned(self) -> dict[str, Any]:
        """Returns what the board has said of itself since this was last asked, and takes it over."""
        now = {name: getattr(self._inner, name) for name in HELLO}
        new = {name: value for name, value in now.items() if name not in vars(self) or getattr(self, name) != value}
        vars(self).update(new)
        return new
