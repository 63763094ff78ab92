"""All files of a twin as one of its users reaches them: the kernel's and the ordinary ones, below one root."""

from __future__ import annotations

import errno
import stat
from dataclasses import dataclass

from remote.sim.files import home
from remote.sim.kernel.node import fail
from remote.sim.machine import Machine
from remote.sim.view import View

_FOLDER_BYTES = 4096
_PUBLIC = ("/tmp", "/dev/shm")


@dataclass(frozen=True)
class Found:
    """What lies at a path: ``mode`` as in ``st_mode``, ``changed_s`` since 1970, ``target`` of a link."""

    mode: int
    size_bytes: int
    owner: str
    changed_s: float
    target: str = ""


class Disk:
    """Used on the board's own thread. Paths are absolute; every method raises OSError as the kernel does."""

    def __init__(self, machine: Machine, user: str) -> None:
        self._machine, self._user, self._root = machine, user, user == "root"
        self._files, self._view = machine.files, View(machine)
        self.home = home(user)

    def _kernels(self, path: str) -> bool:
        return self._machine.kernel.tree.knows(path)

    def look(self, path: str, *, follow: bool = True) -> Found:
        """Returns what lies at a path; a link itself unless ``follow``."""
        path = path.rstrip("/")
        if self._kernels(path):
            entry = self._view.entry(self._machine.kernel.tree.real(path) if follow else path, self._root)
            return Found(entry.mode, entry.size_bytes, "root", self._view.changed_s, entry.target)
        if self._files.is_folder(path):
            owner = self._files.owner(path, self._user)
            mode = 0o1777 if path in _PUBLIC else 0o700 if owner else 0o755
            return Found(stat.S_IFDIR | mode, _FOLDER_BYTES, owner or "root", self._view.changed_s)
        owner, size_bytes = self._files.owner(path, self._user), self._files.size(path, self._user)
        changed_s = self._files.changed_s(path, "root") or self._view.changed_s
        return Found(stat.S_IFREG | 0o600, size_bytes, owner or "root", changed_s)

    def names(self, path: str) -> list[str]:
        """Returns what lies in a folder."""
        path = path.rstrip("/")
        kernels = self._view.names(path, self._root) if self._kernels(path) else []
        if not kernels and not stat.S_ISDIR(self.look(path).mode):
            fail(errno.ENOTDIR, path)
        return list(dict.fromkeys([*kernels, *self._files.names(path, self._user)]))

    def load(self, path: str) -> bytes:
        """Returns a file's content now."""
        return self._machine.load(path, self._user)

    def may_open(self, path: str, flags: int) -> None:
        """Raises OSError where a kernel's file may not be opened with the ``flags`` of open(2)."""
        if self._kernels(path):
            self._view.may_open(path, flags, self._root)

    def writes_through(self, path: str) -> bool:
        """Says whether each write to a file acts at once, as the kernel's files do."""
        return self._kernels(path)

    def write(self, path: str, data: bytes) -> None:
        """Does one write to a kernel's file."""
        self._view.write(path, data, self._root)

    def save(self, path: str, data: bytes) -> None:
        """Makes or replaces an ordinary file."""
        self._ordinary(path)
        self._files.save(path, data, self._user)
        self._files.touch(path, self._user, self._machine.wall_s)

    def room(self, path: str, size_bytes: int) -> None:
        """Raises OSError where a file could not be so long."""
        there = self._files.size(path, "root") if self._files.exists(path, "root") else 0
        if size_bytes > self._files.free_bytes() + there:
            fail(errno.ENOSPC, path)

    def touch(self, path: str, changed_s: float) -> None:
        """Notes when an ordinary file was changed."""
        self._ordinary(path)
        self._files.touch(path, self._user, changed_s)

    def make_folder(self, path: str) -> None:
        """Makes a folder in one that is there."""
        self._ordinary(path)
        if self._files.is_folder(path) or self._files.exists(path, "root"):
            fail(errno.EEXIST, path)
        self.look(path.rpartition("/")[0])
        self._files.make_folder(path, self._user)

    def remove_folder(self, path: str) -> None:
        """Removes an empty folder."""
        self._ordinary(path)
        self._files.remove_folder(path, self._user)

    def remove(self, path: str) -> None:
        """Removes a file."""
        self._ordinary(path)
        if stat.S_ISDIR(self.look(path).mode):
            fail(errno.EISDIR, path)
        self._files.remove(path, self._user)

    def move(self, old: str, new: str, *, replace: bool) -> None:
        """Moves a file or folder; onto another file only to ``replace`` it."""
        self._ordinary(old)
        self._ordinary(new)
        if self._files.is_folder(old):
            self._files.move_folder(old, new, self._user)
        elif self._files.is_folder(new) or (self._files.exists(new, "root") and not replace):
            fail(errno.EEXIST, new)
        else:
            self._files.rename(old, new, self._user)

    def free_bytes(self) -> int:
        """Returns how much may still be stored."""
        return self._files.free_bytes()

    def _ordinary(self, path: str) -> None:
        """Keeps the kernel's files as they are, and the system's folders: they cannot be made, moved or removed."""
        folder = path.rpartition("/")[0]
        if self._kernels(path) or (self._kernels(folder) and not self._files.is_folder(folder)):
            fail(errno.EACCES, path)
