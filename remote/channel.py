"""JSON lines to the on-board programs, over any byte stream, turned into `Transport` results."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from remote.answers import events_of, held_of, rails_of, readings_of, series_of, snapshot_of
from remote.errors import BoardError, EdgeperfError, EngineError, HostError, LeaseHeld, LinkLost, UsageError
from remote.transport import Transport
from remote.types import (
    Apply,
    Blob,
    Completed,
    Ended,
    Event,
    Facts,
    Job,
    Journal,
    Line,
    Outcome,
    Readout,
    Series,
    Text,
    Undo,
    Written,
)

_PIECE_BYTES = 1 << 20

Progress = Callable[[str, int, int], None]
"""Is told a file's name, how many of its bytes are on the board, and how many there are in all."""

_ERRORS: Mapping[str, type[EdgeperfError]] = {
    "usage": UsageError,
    "board": BoardError,
    "held": LeaseHeld,
    "lost": LinkLost,
    "start": EngineError,
    "protocol": HostError,
}


class Link(Protocol):
    """A byte stream to one on-board program."""

    def send(self, data: bytes) -> None:
        """Sends all of ``data``. Raises LinkLost."""

    def receive(self, timeout_s: float | None) -> bytes:
        """Returns what came, at least one byte. Raises LinkLost when nothing will, or nothing did for ``timeout_s``."""

    def close(self) -> None:
        """Closes the stream; the program then ends by itself."""


@dataclass(frozen=True)
class Pulse:
    """The heartbeat of a line that can be lost.

    Each end says every ``beat_s`` that it is there, and is lost when it was silent for ``silence_s``; the board then
    holds what it was doing for ``grace_s``, for a host that comes back.
    """

    beat_s: float = 2.0
    silence_s: float = 10.0
    grace_s: float = 60.0

    def options(self) -> tuple[str, ...]:
        """Returns the same as options of the on-board programs."""
        return ("--beat", f"{self.beat_s:g}", "--silence", f"{self.silence_s:g}", "--grace", f"{self.grace_s:g}")


class Channel:
    """Requests to one program and their answers. The first message is in ``hello``.

    A board that says nothing for ``silence_s`` is lost; None for one that cannot be. ``silent_s`` is the longest time
    for which such a one said nothing while it was waited for.
    """

    def __init__(self, link: Link, build: str, silence_s: float | None = None) -> None:
        self._link = link
        self._silence_s = silence_s
        self._sending = threading.Lock()
        self._partial = bytearray()
        self._messages: list[dict[str, Any]] = []
        self._number = 0
        self.silent_s = 0.0
        self.hello = self.receive(0)
        if self.hello.get("build") != build:
            raise HostError(
                f"the program on the board is {self.hello.get('build')}, this edgeperf needs {build}",
                "bring the board to this version: edgeperf hosts setup HOST",
            )

    def send(self, verb: str, **fields: object) -> int:
        """Sends a request; returns its number."""
        with self._sending:
            self._number += 1
            text = json.dumps({"id": self._number, "verb": verb, **fields}, separators=(",", ":"))
            self._link.send(text.encode() + b"\n")
            return self._number

    def receive(self, number: int) -> dict[str, Any]:
        """Returns the next answer to a request; raises the error that the program answered.

        Answers to requests that nobody waits for any more are dropped.
        """
        while True:
            while self._messages:
                message = self._messages.pop(0)
                if message["id"] != number:
                    continue
                if message["kind"] == "error":
                    raise _ERRORS.get(message["error"], HostError)(message["what"], message["hint"])
                return message
            since_s = time.monotonic()
            data = self._link.receive(self._silence_s)
            if self._silence_s is not None:
                self.silent_s = max(self.silent_s, time.monotonic() - since_s)
            self._partial += data
            if b"\n" in data:  # so that a long line is not looked through again with each piece
                *lines, self._partial = self._partial.split(b"\n")
                self._messages.extend(map(_message, lines))

    def ask(self, verb: str, **fields: object) -> dict[str, Any]:
        """Returns the end of a request that has no data."""
        return self.receive(self.send(verb, **fields))

    def close(self) -> None:
        """Takes leave and closes the stream."""
        with suppress(LinkLost):
            self.send("bye")
        self._link.close()


class ChannelTransport(Transport):
    """The five verbs over two channels: ``agent`` as the login user, ``clockd`` as root.

    An ``agent`` given as a function is started when it is first needed; until then ``facts`` are those of ``clockd``.

    ``pulse`` is for links that can be lost: then both ends say regularly that they are there.
    """

    def __init__(
        self,
        agent: Link | Callable[[], Link],
        clockd: Link,
        build: str,
        *,
        same_machine: bool = False,
        pulse: Pulse | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._pulse = pulse
        silence_s = pulse.silence_s if pulse else None

        def meet_agent() -> Channel:
            return Channel(agent() if callable(agent) else agent, build, silence_s)

        self._meet_agent = meet_agent
        self._user = None if callable(agent) else meet_agent()
        self._clockd = Channel(clockd, build, silence_s)
        self._same_machine = same_machine
        self._progress = progress
        self._stopped = threading.Event()
        self._unheld: LinkLost | None = None
        if pulse:
            threading.Thread(target=self._beat, args=(pulse.beat_s,), daemon=True).start()
        root = self._clockd.hello
        user = self._user.hello if self._user else root
        self.facts = Facts(**user["facts"], root=root["root"])
        self.rails = {**rails_of(root["rails"]), **rails_of(user["rails"])}
        self.readings = {**readings_of(root["readings"]), **readings_of(user["readings"])}
        journal = root["journal"]
        self.journal = Journal(held_of(journal.get("apply")), held_of(journal.get("lease")), tuple(journal["notes"]))
        self.note = str(user.get("note", ""))
        self.found = snapshot_of(root["settings"])

    def _beat(self, every_s: float) -> None:
        """Tells the board that this host is there, whatever else the host is busy with."""
        with suppress(LinkLost):  # whoever waits for an answer is told
            while not self._stopped.wait(every_s):
                if self._user:
                    self._user.send("ping")
                try:
                    self._clockd.send("ping")
                except LinkLost as lost:
                    self._let_go(lost)

    def _let_go(self, lost: LinkLost) -> None:
        """Ends the job that runs, for which nobody holds the clocks any more."""
        if not self._stopped.is_set():
            self._unheld = LinkLost(lost.what, "the clocks were put back and the measurement was ended: try again")
            if self._user:
                self._user.send("cancel")
        raise lost

    @property
    def _agent(self) -> Channel:
        if self._user is None:
            self._user = self._meet_agent()
            self.facts = Facts(**self._user.hello["facts"], root=self.facts.root)
        return self._user

    def read(self, paths: Sequence[str] = (), *, settings: bool = False) -> Readout:
        texts = self._agent.ask("read", paths=list(paths))["texts"] if paths else {}
        found = snapshot_of(self._clockd.ask("settings")) if settings else None
        return Readout({path: Text(**text) for path, text in texts.items()}, found)

    def write(self, change: Apply | Undo) -> Written:
        if isinstance(change, Apply):
            steps = [{"knob": step.knob, "value": step.value} for step in change.steps]
            fields = {"owner": change.owner, "lease": change.lease, "ttl_s": change.ttl_s, "reboot": change.reboot}
            answer = self._clockd.ask("write", steps=steps, **fields)
        elif change.others:
            answer = self._clockd.ask("break")
        else:
            answer = self._clockd.ask("undo", lease=change.lease, force=change.force)
        return Written(tuple(Outcome(**row) for row in answer["outcomes"]), answer["lease"])

    def run(self, job: Job) -> Completed:
        lines: list[Line] = []
        beside: list[Line] = []
        series: list[Series] = []
        try:
            for event in self.stream(job):
                if isinstance(event, Line):
                    (beside if event.source == "beside" else lines).append(event)
                elif isinstance(event, Series):
                    series.append(event)
                else:
                    end = event
        except LinkLost as lost:
            lost.said = tuple(lines)
            raise
        return Completed(
            job.argv,
            end.exit_code,
            tuple(lines),
            tuple(series),
            end.started_s,
            end.ended_s,
            end.reason,
            tuple(beside),
            end.silent_s,
        )

    def stream(self, job: Job) -> Generator[Event, None, None]:
        # clockd samples what only root may read; what both can read is the agent's, beside the job.
        asked = asdict(job.sampling) if job.sampling else None
        rooted = self._only_root(asked) if asked else None
        self._agent.silent_s = 0.0
        if rooted and not job.resume:
            self._clockd.ask("sample", sampling=rooted)
        number = self._agent.send(
            "resume" if job.resume else "stream",
            argv=list(job.argv),
            stdin=job.stdin,
            env=dict(job.env),
            duration_s=job.duration_s,
            timeout_s=job.timeout_s,
            sampling=asked,
            note=job.note,
            beside=list(job.beside),
        )
        dropped, ended = False, False
        try:
            while (message := self._patiently(number))["kind"] == "data":
                for event in events_of(message):
                    dropped = True  # unless the caller comes back for more
                    try:
                        yield event
                    except KeyboardInterrupt:  # met by the caller between two events, and thrown in
                        self._agent.send("cancel")
                    dropped = False
            ended = True
        finally:
            if dropped:
                self._give_up(number)
            if rooted and not ended:
                with suppress(LinkLost):
                    self._clockd.send("collect")  # ends the sampling; the answer is nobody's
        if self._unheld:
            raise self._unheld
        if rooted:
            yield from map(series_of, self._clockd.ask("collect")["series"])
        ended_s, reason = message["ended_s"], message["reason"]
        yield Ended(message["exit_code"], message["started_s"], ended_s, reason, self._silent_s())

    def _silent_s(self) -> float:
        """Returns for how long the board was silent beyond two of its heartbeats, 0.0 where it was not."""
        silent_s = self._agent.silent_s
        return silent_s if self._pulse and silent_s > 2 * self._pulse.beat_s else 0.0

    def _patiently(self, number: int) -> dict[str, Any]:
        """Returns the next message of a job. At the first Ctrl-C the job is asked to end and to say what it has."""
        try:
            return self._agent.receive(number)
        except KeyboardInterrupt:
            self._agent.send("cancel")
            return self._agent.receive(number)

    def _only_root(self, asked: Mapping[str, Any]) -> dict[str, Any] | None:
        rails = [name for name in asked["rails"] if name not in self._agent.hello["rails"]]
        readings = [name for name in asked["readings"] if name not in self._agent.hello["readings"]]
        return {**asked, "rails": rails, "readings": readings} if rails or readings else None

    def _give_up(self, number: int) -> None:
        """Ends a job whose caller has lost interest. What it still says is dropped."""
        with suppress(EdgeperfError):
            self._agent.send("cancel")
            while self._agent.receive(number)["kind"] == "data":
                pass

    def put(self, blob: Blob) -> str:
        digest, size = _digest(blob)
        fields = {"name": blob.name, "sha256": digest, "size": size}
        source = str(blob.path.resolve()) if blob.path and self._same_machine else ""
        answer: dict[str, Any] = {"offset": 0}
        with suppress(BoardError):  # a hard link works only within one file system; then the bytes are sent
            answer = self._agent.ask("put", **fields, source=source)
        while answer["offset"] < size:
            piece = base64.b64encode(_piece(blob, answer["offset"])).decode()
            answer = self._agent.ask("put", **fields, offset=answer["offset"], data=piece)
            if self._progress:
                self._progress(blob.name, answer["offset"], size)
        return str(answer["path"])

    def close(self) -> None:
        self._stopped.set()
        try:
            self._clockd.close()
        finally:
            if self._user:
                self._user.close()


def _message(line: bytearray) -> dict[str, Any]:
    """Returns the message of a line. Raises HostError for what no on-board program says."""
    try:
        message = json.loads(line)
    except ValueError:
        message = None
    if not isinstance(message, dict) or not {"id", "kind"} <= set(message):
        raise HostError(
            f"this is no answer of the program on the board: {line[:80].decode(errors='replace')!r}",
            "something else writes into the connection, such as a login script",
        )
    return message


def _digest(blob: Blob) -> tuple[str, int]:
    if blob.path is None:
        return hashlib.sha256(blob.data).hexdigest(), len(blob.data)
    digest = hashlib.sha256()
    with blob.path.open("rb") as file:
        for piece in iter(lambda: file.read(_PIECE_BYTES), b""):
            digest.update(piece)
    return digest.hexdigest(), blob.path.stat().st_size


def _piece(blob: Blob, offset: int) -> bytes:
    if blob.path is None:
        return blob.data[offset : offset + _PIECE_BYTES]
    with blob.path.open("rb") as file:
        file.seek(offset)
        return file.read(_PIECE_BYTES)
