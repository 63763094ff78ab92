"""What a host starts on a twin over SSH as on a board: edgeperf's own programs, and what became of that."""

from __future__ import annotations

import asyncio
import json
import shlex
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import get_args

import asyncssh

from remote import start
from remote.sim.line import Line
from remote.sim.live import LiveBoard
from remote.sim.reach import SUDO_ASKS
from remote.sim.resident import PROGRAMS
from remote.ssh_link import START_S

USER = "nvidia"
"""Who logs in, but for root."""

_BEFORE_WORDS = len(shlex.split(start.command(())))
_NOBODY = "nothing is running here that could be picked up"
_LATER = "it may have ended meanwhile: see `edgeperf results list`"
_PATIENCE_S = 3.0
_LOOK_S = 0.1


@dataclass(frozen=True)
class Order:
    """What a command line starts: a word with options, and how it becomes root."""

    word: str
    root: start.Root
    options: Mapping[str, str] = field(default_factory=dict)

    def user(self, login: str) -> str:
        """Returns whom the program runs as."""
        return login if self.root == "none" else "root"


def order_of(line: str) -> Order | None:
    """Returns what a command line of this very version of edgeperf starts, None for any other line."""
    with suppress(ValueError):
        words = shlex.split(line)[_BEFORE_WORDS:]
        for root in get_args(start.Root):
            if words and any(line == start.command(words, root, installed=there) for there in (False, True)):
                return Order(words[0], root, dict(zip(words[1::2], words[2::2], strict=False)))
    return None


class ProgramSession(asyncssh.SSHServerSession[bytes]):
    """An on-board program, or a refusal. What concerns the program is posted to the board's thread."""

    def __init__(self, board: LiveBoard, order: Order, login: str) -> None:
        self._board = board
        self._order = order
        self._login = login
        self._line: Line | None = None
        self._loop = asyncio.get_running_loop()
        self._asked_until_s = time.monotonic() + _PATIENCE_S
        self._asks = False
        self._gone = False

    def connection_made(self, chan: asyncssh.SSHServerChannel[bytes]) -> None:
        self._channel = chan
        self._connection = chan.get_connection()

    def session_started(self) -> None:
        word = self._order.word
        if self._order.root != "none" and self._login != "root" and self._board.machine.reach.sudo_asks:
            self._ask_password()
        elif word in PROGRAMS:
            self._board.post(self._open)
        elif word == "relay":
            self._board.post(self._pick_up)
        else:
            self._refuse(f"a simulated board takes no `{word}`", "its root needs no rule of its own")

    def _ask_password(self) -> None:
        """Does what sudo does for somebody whose password nobody knows."""
        self._asks = self._order.root == "password"
        self._channel.write_stderr(start.PROMPT.encode() if self._asks else f"{SUDO_ASKS}\n".encode())
        if not self._asks:
            self._channel.exit(1)

    def data_received(self, data: bytes, datatype: int | None) -> None:
        if self._asks:
            self._channel.write_stderr(b"Sorry, try again.\n" + start.PROMPT.encode())
        self._tell_line(lambda line: line.hear(data))

    def eof_received(self) -> bool:
        self._tell_line(lambda line: line.hear(b""))
        return True  # the program may still have something to say

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone = True
        self._tell_line(lambda line: line.hear(b""))
        self._tell_line(lambda line: line.pause(False))

    def pause_writing(self) -> None:
        self._tell_line(lambda line: line.pause(True))

    def resume_writing(self) -> None:
        self._tell_line(lambda line: line.pause(False))

    # On the board's thread

    def _tell_line(self, act: Callable[[Line], None]) -> None:
        self._board.post(lambda: act(self._line) if self._line else None)

    def _ends(self) -> tuple[Callable[[bytes], None], Callable[[bool, str], None]]:
        """Returns the functions that take what a line says, and its end."""
        return partial(self._soon, self._write), partial(self._soon, self._end)

    def _open(self) -> None:
        word, user = self._order.word, self._order.user(self._login)
        if self._board.machine.reach.python_s > START_S:
            self._soon(self._end, False, "")
            return
        try:
            self._line = self._board.open_line(word, user, float(self._order.options.get("--grace", 0)), *self._ends())
        except Exception as error:  # of the program as it starts; the board lives on
            self._soon(self._end, False, f"{type(error).__name__}: {error}")

    def _pick_up(self) -> None:
        """Takes the host to the program that waits for it. The board may notice a cut after the host does."""
        if self._gone:
            return  # or the program would take it for there, and wait for it forever
        self._line = self._board.pick_up(self._order.options.get("--to", ""), *self._ends())
        if self._line is None and time.monotonic() < self._asked_until_s:
            self._soon(self._loop.call_later, _LOOK_S, self._board.post, self._pick_up)
        elif self._line is None:
            self._soon(self._refuse, _NOBODY, _LATER)

    def _soon(self, act: Callable[..., object], *arguments: object) -> None:
        with suppress(RuntimeError):  # the server has ended meanwhile
            self._loop.call_soon_threadsafe(act, *arguments)

    # On the server's

    def _refuse(self, what: str, hint: str) -> None:
        answer = {"kind": "error", "error": "board", "what": what, "hint": hint}
        self._write(b'{"id":0,' + json.dumps(answer).encode()[1:] + b"\n")
        self._end(False, "")

    def _write(self, data: bytes) -> None:
        if not self._channel.is_closing():
            self._channel.write(data)

    def _end(self, lost: bool, failure: str) -> None:
        if lost:
            self._connection.abort()
        elif not self._channel.is_closing():
            self._channel.write_stderr(f"{failure}\n".encode() if failure else b"")
            self._channel.exit(1 if failure else 0)
