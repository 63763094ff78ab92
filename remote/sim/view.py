"""What a twin's kernel files look like in a file system: kinds, modes, sizes, names. Used on the twin's own thread."""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass

from remote.sim.kernel.node import DEBUGFS, Node, Tree, fail
from remote.sim.machine import Machine

_PAGE_BYTES = 4096
_DEBUGFS = DEBUGFS.rstrip("/")


@dataclass(frozen=True)
class Entry:
    """A file, folder or link: ``mode`` as in ``st_mode``, ``target`` of a link."""

    mode: int
    size_bytes: int = 0
    target: str = ""


class View:
    """The files of a machine's kernel, with the permissions that ``root`` and others have."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    @property
    def _tree(self) -> Tree:
        return self._machine.kernel.tree  # another one after a reboot

    @property
    def changed_s(self) -> float:
        """When the files were made, in seconds since 1970 on the board's calendar: at boot."""
        return self._machine.wall_s - self._machine.now_s

    def entry(self, path: str, root: bool) -> Entry:
        """Returns what lies at a path. Raises OSError."""
        tree, real = self._tree, path.rstrip("/")
        if real in tree.links:
            return Entry(stat.S_IFLNK | 0o777, target=os.path.relpath(tree.links[real], real.rpartition("/")[0]))
        real = tree.real(real)
        if real.startswith(DEBUGFS) and not root:
            fail(errno.EACCES, path)
        if not tree.exists(real, True) and real:
            fail(errno.ENOENT, path)
        node = tree.node(real)
        if node is None:
            return Entry(stat.S_IFDIR | (0o700 if real == _DEBUGFS else 0o755))
        mode = (0o400 if node.private else 0o444) | (0o200 if node.write else 0)
        return Entry(stat.S_IFREG | mode, _size_bytes(real, node))

    def names(self, path: str, root: bool) -> list[str]:
        """Returns what lies in a folder now. Raises OSError."""
        folder = path.rstrip("/")
        if not root and f"{self._tree.real(folder)}/".startswith(DEBUGFS):
            fail(errno.EACCES, path)
        return [name for name in self._tree.names(folder) if self._tree.exists(f"{folder}/{name}", True)]

    def may_open(self, path: str, flags: int, root: bool) -> None:
        """Raises OSError where a file may not be opened like this: kernel files refuse root as well."""
        mode = self.entry(path, root).mode
        access = flags & os.O_ACCMODE
        if access != os.O_WRONLY and not root and not mode & stat.S_IROTH:
            fail(errno.EACCES, path)
        if access != os.O_RDONLY and not (root and mode & stat.S_IWUSR):
            fail(errno.EACCES, path)

    def read(self, path: str, root: bool) -> bytes:
        """Returns a file's content now. Raises OSError."""
        return self._machine.load(path, "root" if root else "nvidia")

    def write(self, path: str, data: bytes, root: bool) -> None:
        """Does what one call of write does. Raises OSError."""
        self._machine.write(path, data.decode("utf-8", "replace"), "root" if root else "nvidia")


def _size_bytes(path: str, node: Node) -> int:
    """Returns a file's size: a page in sysfs, nothing in procfs, elsewhere the true one, by which a shell reads it."""
    if path.startswith(("/sys/", "/proc/")):
        return _PAGE_BYTES if path.startswith("/sys/") else 0
    return len(node.read().encode())
