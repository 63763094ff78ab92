"""What both on-board programs share: JSON lines in and out, one event loop without threads.

A request is ``{"id", "verb", ...}``; its answers are ``{"id", "kind": "data"|"end"|"error", ...}``.
"""

import json

from remote.onboard import probe

MYPY = False
if MYPY:  # the typing module is newer than the oldest Python of the boards
    from typing import Any  # novm

    from remote.onboard.system import Handle, System


class Fault(Exception):
    """An answer of kind ``error``: which error the host shall raise, what happened and what to do."""

    def __init__(self, error: str, what: str, hint: str = "") -> None:
        Exception.__init__(self, what)
        self.error = error
        self.what = what
        self.hint = hint


class Program(object):
    """Answers requests. `turn` does one round of the loop; the twin calls it in process."""

    name = ""

    def __init__(self, system: "System", boards: "dict[str, dict[str, Any]]", build: str) -> None:
        self.system = system
        self.build = build
        self.closed = False
        self._partial = bytearray()
        self.texts = {path: probe.text_of(system, path) for path in probe.IDENTITY}
        self.spec = boards[probe.identify(self.texts, boards)]

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
        self.system.send(json.dumps(message, separators=(",", ":")).encode("utf-8") + b"\n")

    def turn(self) -> None:
        """Waits for whatever comes first and deals with it."""
        source = self.system.input
        for handle in self.system.wait([source] + self.handles(), self.deadline()):
            if handle is source:
                self._feed(handle.read())
            else:
                self.on_ready(handle)
        self.on_time()

    def serve(self) -> None:
        """Runs until the host closes the connection."""
        self.start()
        while not self.closed:
            self.turn()

    def _feed(self, data: bytes) -> None:
        if not data:
            self.closed = True
            self.on_close()
            return
        self._partial += data
        if b"\n" in data:  # so that a long line is not looked through again with each piece
            lines = self._partial.split(b"\n")
            self._partial = lines.pop()
            for line in lines:
                self._answer(bytes(line))

    def _answer(self, line: bytes) -> None:
        number = None
        try:
            request = json.loads(line.decode("utf-8"))
            number = request["id"]
            handler = self.verbs().get(request["verb"])
            if handler is None:
                raise Fault("protocol", "%s does not know the verb %r" % (self.name, request["verb"]))
            end = handler(request)
            if end is not None:
                self.send(dict(end, id=number, kind="end"))
        except Fault as fault:
            self.send({"id": number, "kind": "error", "error": fault.error, "what": fault.what, "hint": fault.hint})
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, OSError) as error:
            self.send(
                {
                    "id": number,
                    "kind": "error",
                    "error": "protocol",
                    "what": "%s: %s" % (type(error).__name__, error),
                    "hint": "",
                }
            )
