"""The board's ordinary files, in memory. What a user makes is private to that user."""

from __future__ import annotations

import base64
import errno
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from remote.sim.kernel.node import fail, folders_of, pattern

_PUBLIC = ("/tmp", "/dev/shm")
_IN_MEMORY = ("/run/", "/dev/shm/")
"""What is on no disk: file systems of their own."""


@dataclass(frozen=True)
class _File:
    """Bytes in memory, or a file of the host that was linked and is read when it is asked for.

    ``changed_s`` is what `Files.touch` was told.
    """

    owner: str
    data: bytes = b""
    source: str = ""
    changed_s: float = 0.0

    def size(self) -> int:
        return Path(self.source).stat().st_size if self.source else len(self.data)

    def load(self) -> bytes:
        return Path(self.source).read_bytes() if self.source else self.data


class Files:
    """A file system with owners. Every method raises OSError as a kernel would.

    While it is ``read_only`` nothing on the disk can be changed.
    """

    def __init__(self, room_bytes: int, users: tuple[str, ...]) -> None:
        self.read_only = False
        self._room_bytes = self._disk_bytes = room_bytes
        self._files: dict[str, _File] = {}
        self._folders: dict[str, str] = dict.fromkeys(("/run", "/var/lib", "/var", "/home", *_PUBLIC), "")
        self._folders |= {home(user): user for user in users}

    def _owner_above(self, path: str) -> str:
        """Returns who owns the nearest existing folder at or above ``path``; "" is the system."""
        folder = path
        while folder and folder not in self._folders:
            folder = folder.rpartition("/")[0]
        return self._folders.get(folder, "")

    def _may_enter(self, path: str, user: str) -> None:
        if user != "root" and self._owner_above(path) not in ("", user):
            fail(errno.EACCES, path)

    def _may_change(self, path: str) -> None:
        if self.read_only and not _in_memory(path):
            fail(errno.EROFS, path)

    def _may_fill(self, folder: str, user: str) -> None:
        self._may_change(folder + "/")
        if folder not in self._folders:
            fail(errno.ENOENT, folder)
        if user != "root" and self._folders[folder] != user and folder not in _PUBLIC:
            fail(errno.EACCES, folder)

    def _get(self, path: str, user: str) -> _File:
        folder = path.rpartition("/")[0]
        self._may_enter(folder, user)
        file = self._files.get(path)
        if file is None:
            fail(errno.EISDIR if path in self._folders else errno.ENOENT, path)
        if user not in ("root", file.owner):
            fail(errno.EACCES, path)
        return file

    def exists(self, path: str, user: str) -> bool:
        """Says whether the user sees something there."""
        owner = self._owner_above(path.rpartition("/")[0])
        return (path in self._files or path in self._folders) and (user == "root" or owner in ("", user))

    def match(self, path: str, user: str) -> list[str]:
        """Returns what a shell pattern stands for."""
        shape = pattern(path)
        return [p for p in (*self._files, *self._folders) if shape.fullmatch(p) and self.exists(p, user)]

    def size(self, path: str, user: str) -> int:
        """Returns a file's length in bytes."""
        self._may_enter(path.rpartition("/")[0], user)
        return self._get(path, "root").size()

    def _used_bytes(self) -> int:
        return sum(len(file.data) for path, file in self._files.items() if not _in_memory(path))

    def free_bytes(self) -> int:
        """Returns how much may still be stored on the disk."""
        return max(0, self._room_bytes - self._used_bytes())

    def fill(self, left_bytes: int | None) -> None:
        """Leaves so much room on the disk, None for as much as there was."""
        self._room_bytes = self._disk_bytes
        if left_bytes is not None:
            self._room_bytes = min(self._disk_bytes, self._used_bytes() + left_bytes)

    def load(self, path: str, user: str) -> bytes:
        """Returns a file's bytes."""
        return self._get(path, user).load()

    def _place(self, path: str, file: _File, user: str) -> None:
        if path in self._folders:
            fail(errno.EISDIR, path)
        self._may_fill(path.rpartition("/")[0], user)
        replaced = len(self._files[path].data) if path in self._files else 0
        if not _in_memory(path) and len(file.data) > self.free_bytes() + replaced:
            fail(errno.ENOSPC, path)
        self._files[path] = file

    def save(self, path: str, data: bytes, user: str) -> None:
        """Makes or replaces a file."""
        self._place(path, _File(user, data), user)

    def append(self, path: str, data: bytes, user: str) -> None:
        """Adds to a file, or makes it."""
        old = self._get(path, user).load() if path in self._files else b""
        self._place(path, _File(user, old + data), user)

    def link(self, source: str, path: str, user: str) -> None:
        """Lets a file of the host appear at ``path``."""
        if not Path(source).is_file():
            fail(errno.ENOENT, source)
        self._place(path, _File(user, source=source), user)

    def touch(self, path: str, user: str, now_s: float) -> None:
        """Notes when a file was used."""
        file = self._get(path, user)
        self._may_change(path)
        self._files[path] = replace(file, changed_s=now_s)

    def changed_s(self, path: str, user: str) -> float:
        """Returns what `touch` was told last about a file, 0 where it was not."""
        return self._get(path, user).changed_s

    def rename(self, old: str, new: str, user: str) -> None:
        """Moves a file, replacing one that is there."""
        self._get(old, user)
        self._may_change(old)
        self._may_fill(new.rpartition("/")[0], user)
        self._files[new] = self._files.pop(old)

    def remove(self, path: str, user: str) -> None:
        """Removes a file; it may be gone already."""
        if path in self._files:
            self._may_fill(path.rpartition("/")[0], user)
            del self._files[path]

    def restart(self) -> None:
        """Loses what lies in memory, and /tmp, which is cleared when a board starts."""
        lost = (*_IN_MEMORY, "/tmp/")
        self._files = {path: file for path, file in self._files.items() if not path.startswith(lost)}
        self._folders = {path: owner for path, owner in self._folders.items() if not path.startswith(lost)}

    def make_folder(self, path: str, user: str) -> None:
        """Makes a private folder and those above it."""
        missing = sorted(folder for folder in {path, *folders_of([path])} if folder not in self._folders)
        for folder in missing:
            if not _in_memory(folder) and not self.free_bytes():
                fail(errno.ENOSPC, folder)
            above = folder.rpartition("/")[0]
            if above:
                self._may_fill(above, user)
            elif user != "root":
                fail(errno.EACCES, folder)
            self._folders[folder] = user

    def owner(self, path: str, user: str) -> str:
        """Returns whose a file or folder is, "" for the system."""
        self._may_enter(path.rpartition("/")[0], user)
        if path in self._folders:
            return self._folders[path]
        return self._get(path, "root").owner

    def names(self, folder: str, user: str) -> list[str]:
        """Returns what lies in a folder; "" is the uppermost."""
        self._may_enter(folder, user)
        start = f"{folder}/"
        below = (path[len(start) :] for path in (*self._folders, *self._files) if path.startswith(start))
        return list(dict.fromkeys(path.partition("/")[0] for path in below))

    def is_folder(self, path: str) -> bool:
        """Says whether a path is that of a folder."""
        return path in self._folders or any(folder.startswith(f"{path}/") for folder in self._folders)

    def remove_folder(self, path: str, user: str) -> None:
        """Removes an empty folder."""
        self._may_move(path, user)
        if self.names(path, user):
            fail(errno.ENOTEMPTY, path)
        del self._folders[path]

    def move_folder(self, old: str, new: str, user: str) -> None:
        """Moves a folder with all that is in it to a place where nothing is."""
        self._may_move(old, user)
        self._may_fill(new.rpartition("/")[0], user)
        if new in self._folders or new in self._files or new.startswith(f"{old}/"):
            fail(errno.EEXIST, new)
        self._folders = {_moved(path, old, new): owner for path, owner in self._folders.items()}
        self._files = {_moved(path, old, new): file for path, file in self._files.items()}

    def _may_move(self, folder: str, user: str) -> None:
        if folder not in self._folders:
            fail(errno.ENOTDIR if folder in self._files else errno.ENOENT, folder)
        self._may_fill(folder.rpartition("/")[0], user)
        if user not in ("root", self._folders[folder]):
            fail(errno.EACCES, folder)

    def save_all(self) -> dict[str, Any]:
        """Returns everything, ready for JSON."""
        files = {
            path: {
                "owner": file.owner,
                "source": file.source,
                "data": base64.b64encode(file.data).decode("ascii"),
                "changed_s": file.changed_s,
            }
            for path, file in self._files.items()
        }
        return {"folders": self._folders, "files": files}

    def load_all(self, saved: Mapping[str, Any]) -> None:
        """Takes up what `save_all` gave. Host files that were linked and are gone since are left out."""
        self._folders = dict(saved["folders"])
        for path, file in saved["files"].items():
            if not file["source"] or Path(file["source"]).is_file():
                data = base64.b64decode(file["data"])
                self._files[path] = _File(file["owner"], data, file["source"], file.get("changed_s", 0.0))


def _moved(path: str, old: str, new: str) -> str:
    return new + path[len(old) :] if path == old or path.startswith(f"{old}/") else path


def _in_memory(path: str) -> bool:
    return path.startswith(_IN_MEMORY)


def home(user: str) -> str:
    """Returns a user's home folder."""
    return "/root" if user == "root" else f"/home/{user}"
