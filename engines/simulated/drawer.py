"""The twin's files as the on-board cache of engines sees them."""

from __future__ import annotations

import hashlib

from engines.onboard.cache import Disk
from engines.simulated.plan import engine_bytes
from remote.sim.process import Context


class Drawer(Disk):
    """Is `engines.onboard.cache.Disk` over the files of a simulated board, for one program there.

    A simulated plan is as long as the plan that it stands for.
    """

    def __init__(self, context: Context) -> None:
        self._context = context

    def names(self, folder: str) -> list[str]:
        """Returns the names in a folder, sorted; none where it does not exist."""
        return sorted(path.rpartition("/")[2] for path in self._context.match(f"{folder}/*"))

    def size(self, path: str) -> int:
        """Returns a file's length in bytes."""
        if not path.endswith((".plan", ".part")):
            return self._context.size(path)
        data = self._context.load(path)
        return engine_bytes(data) or len(data)

    def digest(self, path: str) -> str:
        """Returns a file's SHA-256 in hex."""
        return hashlib.sha256(self._context.load(path)).hexdigest()

    def load(self, path: str) -> bytes:
        """Returns a file's bytes."""
        return self._context.load(path)

    def save(self, path: str, data: bytes) -> None:
        """Writes a file."""
        self._context.save(path, data)

    def rename(self, source: str, target: str) -> None:
        """Moves a file."""
        self._context.rename(source, target)

    def remove(self, path: str) -> None:
        """Removes a file; one that is not there is fine."""
        self._context.remove(path)

    def used_s(self, path: str) -> float:
        """Returns when a file was last changed or touched, in seconds since 1970."""
        return self._context.changed_s(path)

    def touch(self, path: str) -> None:
        """Sets a file's time of change to now."""
        self._context.touch(path)

    def make_folder(self, path: str) -> None:
        """Makes a folder that only its owner may enter."""
        self._context.make_folder(path)

    def adopt(self, path: str) -> None:
        """Does nothing: programs of the twin run as the user also in a container."""

    def now_s(self) -> float:
        """Returns seconds since 1970."""
        return self._context.wall()
