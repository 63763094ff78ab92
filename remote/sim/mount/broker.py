"""Answers the programs in a twin's own root: starts the twin's programs for them, and commands as another user.

What comes through the socket was written by whoever runs something in there. A file that is sent along is never written
to out here, only handed to a process in there.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, Protocol

from remote.sim.live import LiveBoard
from remote.sim.mount.disk import Disk, Opener
from remote.sim.processes import TYPED, SimProcess
from remote.sim.system import TwinSystem

_LOOK_S = 0.02
"""How often a program's output is looked for in real time."""
_STEP_S = 1.0
"""How much simulated time passes at once for a program that says nothing."""
_MOST_BYTES = 1 << 20


class Inside(Protocol):
    """What the broker needs to know of a root (`remote.sim.mount.root.Root`)."""

    def user_of(self, uid: int, pid: int) -> str:
        """Returns which user of the board a process is."""

    def words(self, user: str, folder: str, words: Sequence[str]) -> Sequence[str]:
        """Returns the words that start a command in the root."""


class Broker:
    """Takes requests at ``listener`` until that is closed."""

    def __init__(self, board: LiveBoard, listener: socket.socket, opener: Opener, root: Inside) -> None:
        self._board, self._listener, self._opener, self._root = board, listener, opener, root
        threading.Thread(target=self._accept, name="broker", daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                line, _ = self._listener.accept()
            except OSError as error:
                if error.errno in (errno.EINVAL, errno.EBADF):  # closed
                    return
                time.sleep(_LOOK_S)  # too many open files, for now
                continue
            try:
                threading.Thread(target=self._answer, args=(line,), daemon=True).start()
            except RuntimeError:  # too many threads, for now
                line.close()

    def _answer(self, line: socket.socket) -> None:
        fds: list[int] = []
        try:
            # Whatever they send. RuntimeError: JSON that is nested too deeply.
            with suppress(OSError, ValueError, LookupError, TypeError, AttributeError, RuntimeError):
                data, fds, _, _ = socket.recv_fds(line, _MOST_BYTES, 3)
                while data and not data.endswith(b"\n") and len(data) < _MOST_BYTES:
                    data += line.recv(_MOST_BYTES)
                request: dict[str, Any] = json.loads(data)
                folder = str(request["folder"])
                if "argv" in request:
                    argv, env = [str(word) for word in request["argv"]], dict(request["env"])
                    disk = Disk(self._opener, folder, self._board.machine.files)
                    Session(self._board, line, self._root.user_of(*_peer(line)), disk).run(argv, env)
                else:
                    words = [str(word) for word in request["command"]]
                    if self._board.machine.reach.sudo_asks and self._root.user_of(*_peer(line)) != "root":
                        _say(line, {"to": 2, "text": "sudo: a password is required\n", "code": 1})
                    else:
                        self._start(line, self._root.words(str(request["user"]), folder, words), fds)
        finally:
            with suppress(OSError):  # or it stays open as long as `Signals` listens to it, and who asked waits
                line.shutdown(socket.SHUT_RDWR)
            for fd in fds:
                os.close(fd)
            line.close()

    def _start(self, line: socket.socket, command: Sequence[str], fds: Sequence[int]) -> None:
        """Runs a command with the caller's files, and sends it the signals that the caller gets."""
        stdin, stdout, stderr = fds
        with subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True) as process:
            signals = Signals(line, process.send_signal)
            code = process.wait()
            signals.forget()
        _say(line, {"code": code if code >= 0 else 128 - code})


class Session:
    """A program of the twin that somebody waits for at the other end of ``line``."""

    def __init__(self, board: LiveBoard, line: socket.socket, user: str, disk: Disk) -> None:
        self._board, self._line, self._user, self._disk = board, line, user, disk
        self._system = board.call(lambda: TwinSystem(board.machine, user))

    def run(self, argv: Sequence[str], env: dict[str, str]) -> None:
        """Runs it to its end, or until nobody waits any more."""
        board = self._board
        try:
            process = board.call(lambda: board.machine.spawn(argv, env, TYPED, self._user, self._disk))
        except OSError as error:
            _say(self._line, {"to": 2, "text": f"{argv[0]}: {error.strerror}\n", "code": 127})
            return
        boots = board.machine.boots
        signals = Signals(self._line, lambda number: board.post(lambda: _end(process, number)))
        try:
            ended = False
            while not ended and board.machine.boots == boots:
                ended, texts = board.call(lambda: self._look(process))
                for to, data in texts:
                    _say(self._line, {"to": to, "text": data.decode("utf-8", "replace")})
                    # Otherwise time would go on behind the back of a reader that is slow or gone.
                    if not signals.taken.get():
                        return
                if process.asking and not ended:
                    if not signals.answered():
                        return
                    board.call(partial(process.answer, signals.typed))
                if board.real and not ended:
                    time.sleep(_LOOK_S)
            try:
                code = process.exit_code() if ended else -signal.SIGKILL
            except Exception as error:  # a mistake in the program
                _say(self._line, {"to": 2, "text": f"{argv[0]}: {type(error).__name__}: {error}\n", "code": 1})
                return
            _say(self._line, {"code": 128 - code if code is not None and code < 0 else code})
        finally:
            signals.forget()
            board.post(process.kill)

    def _look(self, process: SimProcess) -> tuple[bool, list[tuple[int, bytes]]]:
        """Returns whether the program has ended and what it has said; at full speed time passes meanwhile."""
        machine = self._board.machine
        if not self._board.real:
            machine.wait(self._system, [process.stdout, process.stderr], machine.now_s + _STEP_S)
        ended = process.due_s is None
        texts = [(1, process.stdout.read()), (2, process.stderr.read())]
        return ended, [(to, data) for to, data in texts if data]


class Signals:
    """Passes on the signals that arrive at a line, and says that the line's other end is gone by SIGKILL.

    ``taken`` has True for each piece of output that was written at the other end, and for each answer, which then is
    in ``typed``; False when the other end is gone.
    """

    def __init__(self, line: socket.socket, send: Callable[[int], object]) -> None:
        self.taken: SimpleQueue[bool] = SimpleQueue()
        self.typed = ""
        self._asking = False
        self._line, self._send = line, send
        self._over = False
        threading.Thread(target=self._listen, daemon=True).start()

    def answered(self) -> bool:
        """Asks for an answer and waits for it, or for a signal; returns whether the other end is still there."""
        self.typed, self._asking = "", True  # before it is asked: the answer may come at once
        _say(self._line, {"asks": True})
        there = self.taken.get()
        self._asking = False
        return there

    def forget(self) -> None:
        """Sends nothing any more."""
        self._over = True

    def _listen(self) -> None:
        with suppress(Exception), self._line.makefile("rb") as lines:  # whatever they send
            for text in lines:
                message = json.loads(text)
                if "signal" in message:
                    self._pass(int(message["signal"]))
                    if self._asking:
                        self.taken.put(True)
                else:
                    self.typed = str(message.get("typed", ""))
                    self.taken.put(True)
        self._pass(signal.SIGKILL)
        self.taken.put(False)

    def _pass(self, number: int) -> None:
        if not self._over:
            self._send(number)


def _end(process: SimProcess, number: int) -> None:
    if number in (signal.SIGINT, signal.SIGTERM):
        process.interrupt()
    else:
        process.kill()


def _say(line: socket.socket, message: dict[str, object]) -> None:
    line.sendall(json.dumps(message).encode() + b"\n")


def _peer(line: socket.socket) -> tuple[int, int]:
    """Returns the user and the process at the other end, as they are called out here."""
    pid, uid, _ = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return uid, pid
