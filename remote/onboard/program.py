"""What both on-board programs share: JSON lines in and out, one event loop without threads.

A request is ``{"id", "verb", ...}``; its answers are ``{"id", "kind": "data"|"end"|"error", ...}``.
"""

import json

from remote.onboard import probe
from remote.onboard.connection import Connection

MYPY = False
if MYPY:  # the typing module is newer than the oldest Python of the boards
    from typing import Any  # novm

    from remote.onboard.system import Handle, System


_LONGEST_WORDS = 2000  # of an error, which may quote what the host sent


class Fault(Exception):
    """An answer of kind ``error``: which error the host shall raise, what happened and what to do."""

    def __init__(self, error: str, what: str, hint: str = "") -> None:
        Exception.__init__(self, what)
        self.error = error
        self.what = what
        self.hint = hint


def bounded(value: "object", least: float, most: float) -> float:
    """Returns a number that a host named. Raises ValueError for anything else, and beyond these bounds."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
        raise ValueError("%r is no number from %g to %g" % (value, least, most))
    return float(value)


class Program(object):
    """Answers requests. `turn` does one round of the loop; the twin calls it in process.

    A line of more than ``longest_bytes`` is refused, so that a host cannot fill the board's memory with it.
    """

    name = ""
    longest_bytes = 1 << 20

    def __init__(
        self,
        system: "System",
        boards: "dict[str, dict[str, Any]]",
        build: str,
        beat_s: float = 0.0,
        silence_s: float = 0.0,
        grace_s: float = 0.0,
    ) -> None:
        self.system = system
        self.connection = Connection(system, self.door(), beat_s, silence_s, grace_s)
        self.build = build
        self.closed = False
        self._partial = bytearray()
        self.texts = {path: probe.text_of(system, path) for path in probe.IDENTITY}
        self.spec = boards[probe.identify(self.texts, boards)]

    def door(self) -> str:
        """Returns the path of the socket at which a host that lost its line is let in again."""
        return ""

    def worth_keeping(self) -> bool:
        """Says whether there is anything for which a lost host may come back."""
        return False

    def handles(self) -> "list[Handle]":
        """Returns what to wait on beside the host's requests."""
        return []

    def deadline(self) -> "float | None":
        """Returns the next moment at which something is due, None for never."""
        return None

    def on_ready(self, handle: "Handle") -> None:
        """Takes what a handle has."""

    def on_time(self) -> None:
        """Does what is due by now."""

    def on_close(self) -> None:
        """Cleans up when the host is gone."""

    def verbs(self) -> "dict[str, Any]":
        """Returns {verb: function(request)}; a function returns the fields of its end, or None to answer later."""
        return {}

    def hello(self) -> "dict[str, Any]":
        """Returns what the host shall know from the start."""
        return {}

    def start(self) -> None:
        """Sends the first message."""
        self.send(dict(self.hello(), id=0, kind="hello", program=self.name, build=self.build))

    def send(self, message: "dict[str, Any]") -> None:
        """Sends one message to the host."""
        self.connection.send(json.dumps(message, separators=(",", ":")).encode("utf-8") + b"\n")

    def awaited(self) -> "list[Handle]":
        """Returns all that it waits on."""
        return [self.connection.handle] + self.handles()

    def due(self) -> "float | None":
        """Returns when it next does something by itself, None for never."""
        due = [moment for moment in (self.deadline(), self.connection.deadline()) if moment is not None]
        return min(due) if due else None

    def turn(self) -> None:
        """Waits for whatever comes first and deals with it."""
        line = self.connection
        for handle in self.system.wait(self.awaited(), self.due()):
            if handle is not line.handle:
                self.on_ready(handle)
            elif line.linked:
                self._feed(line.read())
            else:
                line.admit()
                self._partial = bytearray()
                self.start()
        self.on_time()
        if line.beat_is_due():
            self.send({"id": None, "kind": "beat"})
        if line.lost():
            self._hear_out()
            self._lose()
        if line.over():
            self._close()

    def serve(self) -> None:
        """Runs until the host closes the connection."""
        self.start()
        while not self.closed:
            self.turn()

    def _feed(self, data: bytes) -> None:
        if not data:
            self._lose()
            return
        self._partial += data
        if b"\n" in data:  # so that a long line is not looked through again with each piece
            lines = self._partial.split(b"\n")
            self._partial = lines.pop()
            for line in lines:
                if not self.closed:
                    self._answer(bytes(line))
        if len(self._partial) > self.longest_bytes:
            self._partial = bytearray()
            self._refuse(None, "protocol", "a request of more than %d bytes was dropped" % self.longest_bytes)

    def _hear_out(self) -> None:
        """Takes what a host that is gone had still said, such as its goodbye."""
        line = self.connection
        while not self.closed and self.system.wait([line.handle], self.system.now()):
            data = line.read()
            if not data:
                return
            self._feed(data)

    def _lose(self) -> None:
        """Keeps what is worth it for the time of grace; else ends."""
        if self.closed:
            return
        if self.connection.grace_s and self.worth_keeping():
            self.connection.open_door()
        else:
            self._close()

    def _close(self) -> None:
        self.closed = True
        self.on_close()

    def _answer(self, line: bytes) -> None:
        number = None
        try:
            request = json.loads(line.decode("utf-8"))
            if not isinstance(request["id"], int):
                raise TypeError("the id of a request is a number")
            number = request["id"]
            if request["verb"] == "ping":
                return
            if request["verb"] == "bye":
                self._close()
                return
            handler = self.verbs().get(request["verb"])
            if handler is None:
                raise Fault("protocol", "%s does not know the verb %r" % (self.name, request["verb"]))
            end = handler(request)
            if end is not None:
                self.send(dict(end, id=number, kind="end"))
        except Fault as fault:
            self._refuse(number, fault.error, fault.what, fault.hint)
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, OSError, RuntimeError) as error:
            # RuntimeError: JSON that is nested too deeply
            self._refuse(number, "protocol", "%s: %s" % (type(error).__name__, error))

    def _refuse(self, number: "int | None", error: str, what: str, hint: str = "") -> None:
        self.send({"id": number, "kind": "error", "error": error, "what": what[:_LONGEST_WORDS], "hint": hint})
