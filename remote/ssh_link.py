"""One on-board program at the end of an SSH channel, from its start on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Protocol

from remote import start
from remote.errors import HostError, LinkLost
from remote.interrupts import noted

_PIECE_BYTES = 1 << 20
START_S = 30.0
"""How long a program may take to say its first word."""
_ENDED = "it was killed there, or its memory ran out; what it had set is put back: try again"


class Line(Protocol):
    """What is needed of a connection of the SSH library."""

    def is_active(self) -> bool:
        """Says whether it is there, as far as is known here."""

    def close(self) -> None:
        """Ends it with all its channels."""


class Pipe(Protocol):
    """What is needed of a channel of the SSH library. Its errors are OSErrors, and EOFError where it sends.

    ``eof_received`` says whether the other side ended what it sends. Where the connection breaks it did not.
    """

    eof_received: bool

    def settimeout(self, timeout: float | None) -> None:
        """Bounds how long the calls below may block."""

    def sendall(self, data: bytes) -> None:
        """Sends everything."""

    def recv(self, size: int) -> bytes:
        """Returns what came, b"" at the end."""

    def recv_stderr_ready(self) -> bool:
        """Says whether something came on standard error."""

    def recv_stderr(self, size: int) -> bytes:
        """Returns what came on standard error."""

    def set_combine_stderr(self, combine: bool) -> bool:
        """Has `recv` deliver standard error too, or not any more."""

    def close(self) -> None:
        """Closes both directions."""

    def get_transport(self) -> Line:
        """Returns the connection that this is a channel of."""


class NotStarted(HostError):
    """The program ended before its first message. ``said`` are the lines that came instead."""

    def __init__(self, what: str, hint: str, said: str) -> None:
        super().__init__(what, hint)
        self.said = said


class SshLink:
    """A program as a byte stream. ``ahead`` was read from it before.

    Ctrl-C is raised in `receive`, and only between two calls of the SSH library: it would leave its locks broken.
    """

    def __init__(self, pipe: Pipe, host: str, ahead: bytes) -> None:
        self._pipe = pipe
        self._host = host
        self._ahead = ahead
        self._reading = False
        self._came: SimpleQueue[bytes | None] = SimpleQueue()  # None: Ctrl-C

    def send(self, data: bytes) -> None:
        """Sends all of ``data``. Raises LinkLost."""
        try:
            with noted(self._interrupt):
                self._pipe.sendall(data)
        except (OSError, EOFError) as error:
            raise self._lost() from error

    def receive(self, timeout_s: float | None) -> bytes:
        """Returns what came. Raises LinkLost when nothing will, or nothing did for ``timeout_s``."""
        if self._ahead:
            ahead, self._ahead = self._ahead, b""
            return ahead
        try:
            data = self._next(timeout_s)
        except OSError as error:
            self._pipe.get_transport().close()  # or what goes over its other channels is waited for as well
            raise self._lost(f"it said nothing for {timeout_s:g} s") from error
        if not data:
            raise self._lost()
        return data

    def close(self) -> None:
        """Closes the stream; the program then ends by itself."""
        with suppress(OSError, EOFError):
            self._pipe.close()

    def wait_closed(self, timeout_s: float) -> None:
        """Returns once the program has ended, or after ``timeout_s`` of silence."""
        with suppress(OSError):
            while self._next(timeout_s):
                pass

    def _next(self, timeout_s: float | None) -> bytes:
        """Returns what came, b"" at the end. Raises OSError when nothing did for ``timeout_s``."""
        self._pipe.settimeout(timeout_s)
        if not self._reading:
            if threading.current_thread() is not threading.main_thread():
                return self._pipe.recv(_PIECE_BYTES)
            self._reading = True
            threading.Thread(target=self._read, daemon=True).start()
        with noted(self._interrupt):
            try:
                data = self._came.get(timeout=timeout_s)
            except Empty:
                raise TimeoutError from None
        if data is None:
            raise KeyboardInterrupt
        if not data:
            self._came.put(data)  # it stays at its end
        return data

    def _read(self) -> None:
        """Reads for the main thread, which Ctrl-C would strike while it is in the SSH library."""
        data = None
        while data != b"":
            try:
                data = self._pipe.recv(_PIECE_BYTES)
            except TimeoutError:
                continue
            except OSError:
                data = b""
            self._came.put(data)

    def _interrupt(self) -> None:
        self._came.put(None)

    def _lost(self, why: str = "") -> LinkLost:
        said = self._pipe.recv_stderr(1 << 16).decode("utf-8", "replace") if self._pipe.recv_stderr_ready() else ""
        last = (said.strip().splitlines() or [why])[-1]
        # Channels end a moment before a broken connection calls itself inactive.
        if self._pipe.eof_received and self._pipe.get_transport().is_active():
            return LinkLost(f"{self._host}: the program on the board has ended" + (f": {last}" if last else ""), _ENDED)
        return LinkLost(
            f"{self._host}: the connection to the board was lost" + (f": {last}" if last else ""),
            f"a measurement goes on for a while: edgeperf attach --host {self._host}",
        )


class _Start:
    """Reads what a program says until its first message."""

    def __init__(self, pipe: Pipe, host: str) -> None:
        self._pipe = pipe
        self._host = host
        self._until_s = time.monotonic() + START_S
        self._asked = False
        self.said = b""

    def read(self) -> None:
        """Adds what came next to ``said``. Raises HostError when nothing comes any more."""
        self._pipe.settimeout(max(0.1, self._until_s - time.monotonic()))
        try:
            data = self._pipe.recv(_PIECE_BYTES)
        except OSError:
            data = b""
        if not data:
            raise self.failed()
        self.said += data

    def give_password(self, password: str) -> None:
        """Answers sudo, once."""
        if self._asked:
            raise HostError(
                f"{self._host}: sudo did not accept the password",
                f"try again, or do without one from now on: edgeperf hosts setup {self._host}",
            )
        if not password:
            raise NotStarted(f"{self._host}: sudo wants a password", "", "sudo wants a password")
        self._asked = True
        self._until_s = time.monotonic() + START_S
        self.said = b""
        self._pipe.sendall(password.encode() + b"\n")

    def first_message(self) -> bytes:
        """Returns what came from the first message on, b"" as long as it is not whole."""
        _, found, message = (b"\n" + self.said).partition(b'\n{"')
        return b'{"' + message if found and b"\n" in message else b""

    def failed(self) -> NotStarted:
        """Returns the error for a program that has ended instead of speaking."""
        lines = self.said.decode("utf-8", "replace").replace(start.PROMPT, "").strip().splitlines()
        last = lines[-1].strip() if lines else "it said nothing"
        hint = f"the board needs Python 3.4 or newer and a POSIX shell: try `ssh {self._host} python3 --version`"
        return NotStarted(f"{self._host}: the program did not start: {last}", hint, last)


def started(pipe: Pipe, host: str, password: Callable[[], str]) -> SshLink:
    """Returns the link to a program that was just started, once it speaks.

    Sends the programs when the board does not have them, and ``password()`` when sudo asks. What a login shell or
    sudo says before is skipped. Raises NotStarted, and HostError for a password that was not accepted.
    """
    opening = _Start(pipe, host)
    pipe.set_combine_stderr(True)
    while True:
        opening.read()
        if start.PROMPT.encode() in opening.said:
            opening.give_password(password())
        message = opening.first_message()
        if message.startswith(start.NEED):
            pipe.sendall(start.programs()[0])
            opening.said = message.partition(b"\n")[2]
        elif message:
            pipe.set_combine_stderr(False)
            return SshLink(pipe, host, message)
