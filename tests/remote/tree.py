"""A board as a dict of files, for what only needs reading and writing of nodes."""

from __future__ import annotations

import errno
import fnmatch
import os
from collections.abc import Callable, Mapping, Sequence


class Output:
    """What a program printed, to be read once."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self) -> bytes:
        data, self._data = self._data, b""
        return data


class Ended:
    """A program that has ended already."""

    def __init__(self, stdout: str) -> None:
        self.stdout, self.stderr = Output(stdout.encode()), Output(b"")

    def exit_code(self) -> int:
        return 0


class Opened:
    """A file that stays open."""

    def __init__(self, tree: Tree, path: str) -> None:
        self._tree, self._path = tree, path

    def read(self) -> bytes:
        return self._tree.read(self._path).encode()

    def close(self) -> None:
        pass


class Tree:
    """Stands in for `remote.onboard.system.System`: ``files`` by path; ``run`` answers programs by their argv."""

    def __init__(self, files: Mapping[str, str], run: Callable[[Sequence[str]], str] | None = None) -> None:
        self.files = dict(files)
        self.written: list[tuple[str, str]] = []
        self._run = run

    def exists(self, path: str) -> bool:
        return path in self.files or any(name.startswith(path + "/") for name in self.files)

    def read(self, path: str) -> str:
        if path not in self.files:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        return self.files[path]

    def open(self, path: str) -> Opened:
        return Opened(self, path)

    def write(self, path: str, text: str) -> None:
        self.read(path)
        self.files[path] = text
        self.written.append((path, text))

    def glob(self, pattern: str) -> list[str]:
        parts = pattern.split("/")
        return sorted(
            path
            for path in self.files
            if len(path.split("/")) == len(parts) and all(map(fnmatch.fnmatchcase, path.split("/"), parts))
        )

    def path(self, path: str) -> str:
        return path

    def now(self) -> float:
        return 0.0

    def wait(self, handles: Sequence[Output], until_s: float | None) -> list[Output]:
        return list(handles)

    def spawn(self, argv: Sequence[str], env: Mapping[str, str], stdin: str) -> Ended:
        if self._run is None:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        return Ended(self._run(argv))
