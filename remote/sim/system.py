"""What the on-board programs ask of their machine, answered by a simulated board (see `remote.onboard.system`)."""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from remote.sim.files import home
from remote.sim.kernel.node import fail
from remote.sim.machine import Machine
from remote.sim.processes import Pipe, SimProcess


class OnBoard(Protocol):
    """An on-board program as the machine sees it (`remote.onboard.program.Program`)."""

    closed: bool

    def awaited(self) -> list[Any]:
        """Returns what it waits on."""

    def due(self) -> float | None:
        """Returns when it next does something by itself, None for never."""

    def turn(self) -> None:
        """Does one round."""


class TwinNode:
    """A file of the board that is read again and again (`remote.onboard.system.Node`)."""

    def __init__(self, system: TwinSystem, path: str) -> None:
        self._system, self._path = system, path

    def read(self) -> bytes:
        """Returns its text. Raises OSError as the kernel does."""
        return self._system.read(self._path).encode()

    def close(self) -> None:
        """Does nothing: nothing is held."""


class TwinFamily:
    """Processes of the board (`remote.onboard.system.Family`); its on-board programs take no time."""

    def __init__(self, members: Sequence[SimProcess]) -> None:
        self._members = members

    def cpu_s(self) -> float:
        """Returns the CPU seconds that they took."""
        return sum(process.cpu_s for process in self._members)


class TwinSystem:
    """One user's view of a `Machine`. The host feeds ``input`` and takes what was sent from ``outbox``."""

    simulated = True

    def __init__(self, machine: Machine, user: str = "nvidia") -> None:
        self.machine = machine
        self.twin = machine.board
        self.input = Pipe()
        self.outbox: list[bytes] = []
        self._user = user
        self._root = user == "root"
        self._identity = str(machine.take_pid())

    def send(self, data: bytes) -> None:
        """Writes to the host."""
        self.outbox.append(data)

    def listen(self, path: str) -> Pipe:
        """Returns a door for a host that comes back: whoever feeds it something is let in."""
        return Pipe()

    def accept(self, handle: Pipe) -> None:
        """Takes up the line of whoever is at a door: from now on it is ``input`` and ``outbox``, which are new."""
        self.input, self.outbox = Pipe(), []

    def guarded(self) -> bool:
        """Says that no guard runs: nothing kills the programs of a twin but its restart."""
        return False

    def start_guard(self) -> None:
        """Raises OSError: see `guarded`."""
        fail(errno.EOPNOTSUPP)

    def now(self) -> float:
        """Returns the monotonic clock in seconds."""
        return self.machine.now_s

    def wall(self) -> float:
        """Returns seconds since 1970 on the board's calendar."""
        return self.machine.wall_s

    def path(self, path: str) -> str:
        """Returns where ``path`` lies: the twin has no other place."""
        return path

    def read(self, path: str) -> str:
        """Returns a file's text. Raises OSError as the kernel does."""
        return self.machine.read(path, self._user)

    def open(self, path: str) -> TwinNode:
        """Returns a file that will be read again and again. It need not be there yet."""
        return TwinNode(self, path)

    def family(self, members: Sequence[SimProcess]) -> TwinFamily:
        """Returns processes that are counted together; ``members`` may still grow."""
        return TwinFamily(members)

    def write(self, path: str, text: str) -> None:
        """Writes a node in one write call. Raises OSError as the kernel does; never creates a file."""
        self.machine.write(path, text, self._user)

    def glob(self, pattern: str) -> list[str]:
        """Returns the existing paths that match, sorted."""
        found = self.machine.kernel.tree.match(pattern, self._root) + self.machine.files.match(pattern, self._user)
        return sorted(found)

    def exists(self, path: str) -> bool:
        """Says whether a file or folder is there."""
        return self.machine.kernel.tree.exists(path, self._root) or self.machine.files.exists(path, self._user)

    def size(self, path: str) -> int:
        """Returns a file's length in bytes; nodes say one page, as in sysfs. Raises OSError."""
        if self.machine.kernel.tree.knows(path):
            return 4096 if self.exists(path) else fail(errno.ENOENT, path)
        return self.machine.files.size(path, self._user)

    def digest(self, path: str) -> str:
        """Returns a file's SHA-256 in hex. Raises OSError."""
        return hashlib.sha256(self.load(path)).hexdigest()

    def load(self, path: str) -> bytes:
        """Returns a file's bytes. Raises OSError."""
        return self.machine.load(path, self._user)

    def append(self, path: str, data: bytes) -> None:
        """Adds to a file of the user's own; creates it."""
        self._ordinary(path)
        self.machine.files.append(path, data, self._user)

    def save(self, path: str, data: bytes) -> None:
        """Replaces a private file. Raises OSError."""
        self._ordinary(path)
        self.machine.files.save(path, data, self._user)

    def lock(self, path: str) -> AbstractContextManager[None]:
        """Does nothing: the programs of a twin have their turns one after the other."""
        return nullcontext()

    def rename(self, old: str, new: str) -> None:
        """Moves a file, replacing one that is there."""
        self._ordinary(old)
        self._ordinary(new)
        self.machine.files.rename(old, new, self._user)

    def link(self, source: str, path: str) -> None:
        """Makes ``path`` the same file as ``source``, a path of the host. Raises OSError."""
        self._ordinary(path)
        self.machine.files.link(source, path, self._user)

    def remove(self, path: str) -> None:
        """Removes a file; it may be gone already."""
        self._ordinary(path)
        self.machine.files.remove(path, self._user)

    def make_folder(self, path: str) -> None:
        """Makes a private folder and those above it."""
        if not self.machine.kernel.tree.knows(path):
            self.machine.files.make_folder(path, self._user)

    def _ordinary(self, path: str) -> None:
        """Keeps kernel files as they are: they cannot be made, moved or removed."""
        if self.machine.kernel.tree.knows(path):
            fail(errno.EACCES, path)

    def spawn(self, argv: Sequence[str], env: Mapping[str, str], stdin: str) -> SimProcess:
        """Starts a program with ``stdin`` as its whole input. Raises OSError."""
        return self.machine.spawn(argv, env, stdin, self._user)

    def wait(self, handles: Sequence[Pipe], until_s: float | None) -> list[Pipe]:
        """Returns the handles that can be read, or none when the clock reaches ``until_s``. Time passes here only."""
        return self.machine.wait(self, handles, until_s)

    def is_root(self) -> bool:
        """Says whether this program may write settings."""
        return self._root

    def user(self) -> str:
        """Returns the login name."""
        return self._user

    def cache(self) -> str:
        """Returns the user's cache folder for edgeperf."""
        return f"{home(self._user)}/.cache/edgeperf"

    def free_bytes(self, path: str) -> int:
        """Returns how much may still be stored."""
        return self.machine.files.free_bytes()

    def identity(self) -> str:
        """Returns what names this program: its number, as none is used twice."""
        return self._identity

    def alive(self, identity: str) -> bool:
        """Says whether a program runs."""
        return self.machine.alive(identity)

    def python(self) -> str:
        """Returns the board's interpreter."""
        return "/usr/bin/python3"
