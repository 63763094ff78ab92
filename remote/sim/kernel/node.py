"""Nodes: what a file below /sys, /proc or debugfs answers when it is read or written."""

from __future__ import annotations

import errno
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, NoReturn

DEBUGFS = "/sys/kernel/debug/"
Version = tuple[int, int]
"""A kernel's version, such as (4, 9)."""


@dataclass(frozen=True, slots=True)
class Node:
    """One file. Only root writes; a ``private`` one only root reads (mode 0400 or debugfs).

    ``present`` says whether the file exists now: cpufreq nodes come and go with their core.
    """

    read: Callable[[], str]
    write: Callable[[str], None] | None = None
    private: bool = False
    present: Callable[[], bool] | None = None


def fail(number: int, path: str = "") -> NoReturn:
    """Raises the OSError that a kernel answers with ``number``."""
    raise OSError(number, os.strerror(number), path)


def whole(text: str) -> int:
    """Returns the number that a kernel reads from ``text``: leading digits count, anything else is EINVAL."""
    found = re.match(r"\s*(\d{1,19})", text)
    return int(found.group(1)) if found else fail(errno.EINVAL)


def switch(text: str) -> int:
    """Returns 0 or 1 as the kernel's boolean parser reads ``text``: by its first letter. EINVAL otherwise."""
    value = {"0": 0, "n": 0, "N": 0, "1": 1, "y": 1, "Y": 1}.get(text.strip()[:1])
    return value if value is not None else fail(errno.EINVAL)


def word(text: str, choices: Iterable[str]) -> str:
    """Returns the word in ``text``. EINVAL when it is not among ``choices``."""
    value = text.strip()
    return value if value in choices else fail(errno.EINVAL)


class Part(ABC):
    """A piece of hardware with nodes. Its attributes named in ``keeps`` are its whole state."""

    keeps: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def nodes(self) -> dict[str, Node]:
        """Returns its files by path."""

    def save(self) -> dict[str, Any]:
        """Returns its state, ready for JSON."""
        return {name: getattr(self, name) for name in self.keeps}

    def load(self, saved: Mapping[str, Any]) -> None:
        """Takes up a state that `save` gave."""
        for name in self.keeps:
            setattr(self, name, saved[name])


@cache
def pattern(path: str) -> re.Pattern[str]:
    """Returns a shell pattern as an expression; ``*`` and ``?`` do not cross folders."""
    return re.compile(re.escape(path).replace(r"\*", "[^/]*").replace(r"\?", "[^/]"))


def folders_of(paths: Iterable[str]) -> set[str]:
    """Returns all folders above ``paths``."""
    found = set()
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder and folder not in found:
            found.add(folder)
            folder = folder.rpartition("/")[0]
    return found


class Tree:
    """All nodes of the machine, with a kernel's permissions."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._folders: set[str] = set()
        self._refused: dict[str, int] = {}

    def add(self, nodes: Mapping[str, Node]) -> None:
        """Adds files."""
        self._nodes.update(nodes)
        self._folders |= folders_of(nodes)

    def nodes(self, paths: Iterable[str]) -> dict[str, Node]:
        """Returns files by path, to be put before by others through `add`."""
        return {path: self._nodes[path] for path in paths}

    def paths(self) -> list[str]:
        """Returns the paths of all files, be they there now or not."""
        return list(self._nodes)

    def refuse(self, path: str, number: int) -> None:
        """Lets every further write to ``path`` fail with errno ``number``; 0 ends that."""
        self._refused[path] = number

    def knows(self, path: str) -> bool:
        """Says whether ``path`` belongs to the kernel, be it there now or not."""
        return path in self._nodes or path in self._folders

    def exists(self, path: str, root: bool) -> bool:
        """Says whether a user sees a file or folder there. Debugfs shows itself to root only."""
        if path.startswith(DEBUGFS) and not root:
            return False
        node = self._nodes.get(path)
        if node is None:
            return path in self._folders
        return node.present is None or node.present()

    def match(self, path: str, root: bool) -> list[str]:
        """Returns the existing files and folders that a shell pattern stands for."""
        shape = pattern(path)
        literal = path.split("*", 1)[0].split("?", 1)[0]
        places = (*self._nodes, *self._folders)
        return [p for p in places if p.startswith(literal) and shape.fullmatch(p) and self.exists(p, root)]

    def read(self, path: str, root: bool) -> str:
        """Returns a node's text. Raises OSError as the kernel does."""
        node = self._nodes.get(path)
        if node is None or (node.present is not None and not node.present()):
            fail(errno.EISDIR if path in self._folders else errno.ENOENT, path)
        if node.private and not root:
            fail(errno.EACCES, path)
        return node.read()

    def write(self, path: str, text: str, root: bool) -> None:
        """Writes a node. Raises OSError as the kernel does."""
        if path in self._folders:
            fail(errno.EISDIR, path)
        if path.startswith(DEBUGFS) and not root:
            fail(errno.EACCES, path)
        node = self._nodes.get(path)
        if node is None or (node.present is not None and not node.present()):
            fail(errno.ENOENT, path)
        if node.write is None or not root:
            fail(errno.EACCES, path)
        if self._refused.get(path):
            fail(self._refused[path], path)
        node.write(text)

    def settable(self) -> dict[str, str]:
        """Returns {path: text} of all nodes that root may write now; for one that cannot be read <ERRNO>."""
        found = {}
        for path, node in self._nodes.items():
            if node.write and self.exists(path, True):
                try:
                    found[path] = node.read()
                except OSError as error:
                    found[path] = f"<{errno.errorcode[error.errno or errno.EIO]}>"
        return found


def fixed(text: str) -> Node:
    """Returns a file that always says the same."""
    return Node(lambda: text)


def below(folders: Iterable[str], nodes: Mapping[str, Node]) -> dict[str, Node]:
    """Returns the files named in ``nodes`` in each of ``folders``: a folder and the links to it."""
    return {f"{folder}/{name}": node for folder in folders for name, node in nodes.items()}
