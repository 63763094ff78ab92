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
    """A file system with owners. Every method raises OSError as a kernel would."""

    def __init__(self, room_bytes: int, users: tuple[str, ...]) -> None:
        self._room_bytes = room_bytes
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

    def _may_fill(self, folder: str, user: str) -> None:
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

    def free_bytes(self) -> int:
        """Returns how much may still be stored."""
        return self._room_bytes - sum(len(file.data) for file in self._files.values())

    def load(self, path: str, user: str) -> bytes:
        """Returns a file's bytes."""
        return self._get(path, user).load()

    def _place(self, path: str, file: _File, user: str) -> None:
        if path in self._folders:
            fail(errno.EISDIR, path)
        self._may_fill(path.rpartition("/")[0], user)
        replaced = len(self._files[path].data) if path in self._files else 0
        if len(file.data) > self.free_bytes() + replaced:
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
        self._files[path] = replace(self._get(path, user), changed_s=now_s)

    def changed_s(self, path: str, user: str) -> float:
        """Returns what `touch` was told last about a file, 0 where it was not."""
        return self._get(path, user).changed_s

    def rename(self, old: str, new: str, user: str) -> None:
        """Moves a file, replacing one that is there."""
        self._get(old, user)
        self._may_fill(new.rpartition("/")[0], user)
        self._files[new] = self._files.pop(old)

    def remove(self, path: str, user: str) -> None:
        """Removes a file; it may be gone already."""
        if path in self._files:
            self._may_fill(path.rpartition("/")[0], user)
            del self._files[path]

    def forget(self, *places: str) -> None:
        """Loses what lies in memory, as a restart does."""
        self._files = {path: file for path, file in self._files.items() if not path.startswith(places)}

    def make_folder(self, path: str, user: str) -> None:
        """Makes a private folder and those above it."""
        missing = sorted(folder for folder in {path, *folders_of([path])} if folder not in self._folders)
        for folder in missing:
            above = folder.rpartition("/")[0]
            if above:
                self._may_fill(above, user)
            elif user != "root":
                fail(errno.EACCES, folder)
            self._folders[folder] = user

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


def home(user: str) -> str:
    """Returns a user's home folder."""
    return "/root" if user == "root" else f"/home/{user}"
