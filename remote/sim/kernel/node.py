"""Nodes: what a file below /sys, /proc or debugfs answers when it is read or written."""

from __future__ import annotations

import errno
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
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

    def links(self) -> dict[str, str]:
        """Returns the other names of its folders: {path: target}."""
        return {}

    def save(self) -> dict[str, Any]:
        """Returns its state, ready for JSON."""
        return {name: getattr(self, name) for name in self.keeps}

    def load(self, saved: Mapping[str, Any]) -> None:
        """Takes up a state that `save` gave."""
        for name in self.keeps:
            if name in saved:  # what a state of an earlier edgeperf does not know is as at boot
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
    """All nodes of the machine, with a kernel's permissions. Every method that takes a path follows links."""

    def __init__(self) -> None:
        self.links: dict[str, str] = {}
        """Folders that are another one's second name: {path: target}, both in full, the target no link itself."""
        self._nodes: dict[str, Node] = {}
        self._names: dict[str, dict[str, None]] = {}
        self._refused: dict[str, int] = {}
        self._real: dict[str, str] = {}

    def add(self, nodes: Mapping[str, Node]) -> None:
        """Adds files."""
        for path, node in nodes.items():
            self._nodes[path] = node
            self._enter(path)

    def link(self, links: Mapping[str, str]) -> None:
        """Adds links, {path: target}."""
        for path, target in links.items():
            folder, _, name = path.rpartition("/")
            path, target = f"{self.real(folder)}/{name}", self.real(target)
            if path not in (target, *self.links):
                self.links[path] = target
                self._enter(path)
                self._real.clear()

    def _enter(self, path: str) -> None:
        while path:
            folder, _, name = path.rpartition("/")
            known = folder in self._names
            self._names.setdefault(folder, {})[name] = None
            if known:
                return
            path = folder

    def real(self, path: str) -> str:
        """Returns ``path`` without links in it."""
        if path in self._nodes:
            return path
        found = self._real.get(path)
        if found is None:
            found = ""
            for name in filter(None, path.split("/")):
                found = f"{found}/{name}"
                found = self.links.get(found, found)
            self._real[path] = found
        return found

    def names(self, folder: str) -> list[str]:
        """Returns what lies in a folder, be it there now or not."""
        return list(self._names.get(self.real(folder), ()))

    def node(self, path: str) -> Node | None:
        """Returns the file at ``path``, be it there now or not; None for a folder, and where there is nothing."""
        return self._nodes.get(self.real(path))

    def nodes(self, paths: Iterable[str]) -> dict[str, Node]:
        """Returns files by path, to be put before by others through `add`."""
        return {real: self._nodes[real] for real in map(self.real, paths)}

    def paths(self) -> list[str]:
        """Returns the paths of all files, be they there now or not, without those through links."""
        return list(self._nodes)

    def refuse(self, path: str, number: int) -> None:
        """Lets every further write to ``path`` fail with errno ``number``; 0 ends that."""
        self._refused[self.real(path)] = number

    def knows(self, path: str) -> bool:
        """Says whether ``path`` belongs to the kernel, be it there now or not."""
        real = self.real(path)
        return real in self._nodes or real in self._names

    def exists(self, path: str, root: bool) -> bool:
        """Says whether a user sees a file or folder there. Debugfs shows itself to root only."""
        path = self.real(path)
        if path.startswith(DEBUGFS) and not root:
            return False
        node = self._nodes.get(path)
        if node is not None:
            return node.present is None or node.present()
        names = self._names.get(path)
        if names is None:
            return False
        inside = self._nodes.get(f"{path}/{next(iter(names))}")  # a folder goes with the files that come and go
        return inside is None or inside.present is None or inside.present()

    def match(self, path: str, root: bool) -> list[str]:
        """Returns the existing files and folders that a shell pattern stands for."""
        found = [""]
        for part in path.split("/")[1:]:
            shape = pattern(part) if set(part) & set("*?") else None
            found = [
                f"{folder}/{name}"
                for folder in found
                for name in (self.names(folder) if shape else [part])
                if shape is None or shape.fullmatch(name)
            ]
        return [p for p in found if self.exists(p, root)]

    def read(self, path: str, root: bool) -> str:
        """Returns a node's text. Raises OSError as the kernel does."""
        real = self.real(path)
        node = self._nodes.get(real)
        if node is None or (node.present is not None and not node.present()):
            fail(errno.EISDIR if real in self._names else errno.ENOENT, path)
        if node.private and not root:
            fail(errno.EACCES, path)
        return node.read()

    def write(self, path: str, text: str, root: bool) -> None:
        """Writes a node. Raises OSError as the kernel does."""
        real = self.real(path)
        if real in self._names:
            fail(errno.EISDIR, path)
        if real.startswith(DEBUGFS) and not root:
            fail(errno.EACCES, path)
        node = self._nodes.get(real)
        if node is None or (node.present is not None and not node.present()):
            fail(errno.ENOENT, path)
        if node.write is None or not root:
            fail(errno.EACCES, path)
        if self._refused.get(real):
            fail(self._refused[real], path)
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


def below(folder: str, nodes: Mapping[str, Node]) -> dict[str, Node]:
    """Returns the files named in ``nodes`` in ``folder``."""
    return {f"{folder}/{name}": node for name, node in nodes.items()}


def aliases(folders: Sequence[str]) -> dict[str, str]:
    """Returns links from all but the first of ``folders`` to the first."""
    return dict.fromkeys(folders[1:], folders[0])
