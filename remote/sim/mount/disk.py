"""The ordinary files of a twin's own root, as the twin's programs use them. On the twin's thread.

They are opened by the first process in there, with the rights of the user who asks; out here only regular files are
touched that are already open, so that no name that somebody made up in there leads anywhere else.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
import threading
from typing import Any

from remote.sim.files import Files
from remote.sim.kernel.node import fail

_PATIENCE_S = 2.0
_LONGEST_BYTES = 1 << 16
"""Of a question: what the first process in a root takes at once."""


class Opener:
    """Asks the first process in a root at ``control``, which has to be free for this. Every method raises OSError."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._control.settimeout(_PATIENCE_S)
        self._lock = threading.Lock()
        self._number = 0

    def ask(self, what: str, user: str, *words: object) -> Any:
        """Returns the answer to a question; an open file is its number."""
        with self._lock:
            self._number += 1
            question = json.dumps([self._number, what, user, *words]).encode()
            if len(question) > _LONGEST_BYTES:
                raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
            self._control.send(question)
            while True:
                data, fds, _, _ = socket.recv_fds(self._control, 1 << 18, 1)  # raises TimeoutError, which is an OSError
                number, code, answer = json.loads(data) if data else (self._number, errno.EIO, None)
                if number == self._number:
                    break
                for fd in fds:  # the answer to a question that was given up
                    os.close(fd)
        if code:
            raise OSError(code, os.strerror(code), str(words[0]))
        return fds[0] if fds else answer


class Disk:
    """The files below ``folder`` and everywhere else in a root. What befalls the board's disk befalls them too."""

    def __init__(self, opener: Opener, folder: str, boards: Files) -> None:
        self._opener, self._folder, self._boards = opener, folder, boards

    def _ask(self, what: str, user: str, path: str, *words: object) -> Any:
        return self._opener.ask(what, user, os.path.join(self._folder, path), *words)

    def _may_change(self, path: str) -> None:
        if self._boards.read_only:
            fail(errno.EROFS, path)

    def load(self, path: str, user: str) -> bytes:
        """Returns a file's bytes."""
        with open(self._ask("load", user, path), "rb") as file:
            return file.read() if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else fail(errno.EINVAL, path)

    def save(self, path: str, data: bytes, user: str) -> None:
        """Makes or replaces a file."""
        self._may_change(path)
        if len(data) > self._boards.free_bytes():
            fail(errno.ENOSPC, path)
        with open(self._ask("save", user, path), "wb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                fail(errno.EINVAL, path)
            file.write(data)

    def match(self, path: str, user: str) -> list[str]:
        """Returns what a shell pattern stands for."""
        found: list[str] = self._ask("match", user, path)
        return found

    def size(self, path: str, user: str) -> int:
        """Returns a file's length in bytes."""
        return int(self._ask("size", user, path))

    def changed_s(self, path: str, user: str) -> float:
        """Returns when a file was changed or touched last."""
        return float(self._ask("changed", user, path))

    def touch(self, path: str, user: str, now_s: float) -> None:
        """Notes when a file was used."""
        self._may_change(path)
        self._ask("touch", user, path, now_s)

    def rename(self, old: str, new: str, user: str) -> None:
        """Moves a file, replacing one that is there."""
        self._may_change(old)
        self._ask("rename", user, old, os.path.join(self._folder, new))

    def remove(self, path: str, user: str) -> None:
        """Removes a file; it may be gone already."""
        self._may_change(path)
        self._ask("remove", user, path)

    def make_folder(self, path: str, user: str) -> None:
        """Makes a folder and those above it."""
        self._may_change(path)
        self._ask("folder", user, path)
