"""A twin's files as a file system, by libfuse. The importer of mfusepy."""

from __future__ import annotations

import ctypes
import errno
import itertools
import os
import signal
import stat
import sys
import threading
from collections.abc import Callable
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import suppress
from types import ModuleType
from typing import Any, TypeVar

from remote.errors import HostError
from remote.sim.kernel.node import fail
from remote.sim.live import LiveBoard
from remote.sim.view import Entry, View

_Answer = TypeVar("_Answer")

_PATIENCE_S = 30.0
_CLONE_FS = 0x200  # linux/sched.h
WORKS = "what works without it: edgeperf's own commands with --host sim:BOARD, and `edgeperf sim serve`"


def required() -> ModuleType:
    """Returns mfusepy. Raises HostError where it, libfuse 3 or /dev/fuse is missing."""
    if sys.platform != "linux":
        raise HostError("a simulated board's file system needs Linux with FUSE", WORKS)
    os.environ.setdefault("FUSE_LIBRARY_NAME", "fuse3")  # where libfuse 2 is installed beside it, mfusepy takes that
    try:
        import mfusepy
    except ImportError as error:
        raise HostError("mfusepy is missing", f"install it: pip install 'edgeperf[sim]'; {WORKS}") from error
    except OSError as error:
        raise HostError("libfuse 3 is missing", f"install it: apt install fuse3; {WORKS}") from error
    if not os.path.exists("/dev/fuse"):
        raise HostError("there is no /dev/fuse", f"load it: modprobe fuse; in a container: --device /dev/fuse; {WORKS}")
    found: ModuleType = mfusepy
    return found


class Files:
    """The operations that mfusepy calls. Files belong to ``owner``, a user and a group.

    ``is_root`` says by user and process whether who asks is the board's root. ``forward`` is an open folder of the real
    procfs: what the twin has not in its /proc are links to ``beyond``, where that procfs lies for those who ask.
    """

    use_ns = True

    def __init__(self, board: LiveBoard, owner: tuple[int, int] = (0, 0), beyond: str = "") -> None:
        self.is_root: Callable[[int, int], bool] = lambda uid, pid: uid == 0
        self.forward: int | None = None
        self._board, self._view = board, View(board.machine)
        self._owner, self._beyond = owner, beyond
        self._texts: dict[int, bytes] = {}
        self._numbers = itertools.count(1)
        self._context: Callable[[], tuple[int, int, int]] = required().fuse_get_context

    def _ask(self, act: Callable[[bool], _Answer]) -> _Answer:
        uid, _, pid = self._context()
        root = self.is_root(uid, pid)
        try:
            return self._board.ask(lambda: act(root)).result(_PATIENCE_S)
        except FutureTimeout:
            fail(errno.EIO)

    def _beyond_proc(self, path: str) -> str:
        """Returns the name in the real procfs of a path that the twin does not have, "" for none."""
        if self.forward is None or not path.startswith("/proc/"):
            return ""
        name = path.removeprefix("/proc/")
        with suppress(OSError):
            os.stat(name, dir_fd=self.forward, follow_symlinks=False)
            return name
        return ""

    def init(self, path: str) -> None:
        """Gives the signals back that libfuse has taken from this process: they would end the files alone."""
        libc = ctypes.CDLL(None)
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is signal.SIG_DFL:
                libc.signal(number, None)

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        """Returns what lies at a path."""
        try:
            entry = self._ask(lambda root: self._view.entry(path, root))
        except OSError as error:
            name = self._beyond_proc(path)
            if error.errno != errno.ENOENT or not name:
                raise
            entry = Entry(stat.S_IFLNK | 0o777, target=f"{self._beyond}/{name}")
        changed = int(self._view.changed_s) * 10**9
        return {
            "st_mode": entry.mode,
            "st_size": len(entry.target) or entry.size_bytes,
            "st_nlink": 2 if stat.S_ISDIR(entry.mode) else 1,
            "st_uid": self._owner[0],
            "st_gid": self._owner[1],
            "st_atime": changed,
            "st_mtime": changed,
            "st_ctime": changed,
        }

    def readlink(self, path: str) -> str:
        """Returns where a link goes."""
        with suppress(FileNotFoundError):
            return self._ask(lambda root: self._view.entry(path, root)).target or fail(errno.EINVAL, path)
        return f"{self._beyond}/{self._beyond_proc(path) or fail(errno.ENOENT, path)}"

    def readdir(self, path: str, fh: int) -> list[str]:
        """Returns the names in a folder."""
        names = self._ask(lambda root: self._view.names(path, root))
        if self.forward is not None and f"{path}/".startswith("/proc/"):
            with suppress(OSError):
                below = os.open(f"./{path.removeprefix('/proc').lstrip('/')}", os.O_RDONLY, dir_fd=self.forward)
                with os.scandir(below) as entries:
                    names += [entry.name for entry in entries if entry.name not in names]
                os.close(below)
        return [".", "..", *names]

    def access(self, path: str, mode: int) -> int:
        """Says whether somebody may read, write or enter."""

        def check(root: bool) -> None:
            allowed = self._view.entry(path, root).mode & (0o777 if root else 0o007)
            for wanted, bits in ((os.R_OK, 0o444), (os.W_OK, 0o222), (os.X_OK, 0o111)):
                if mode & wanted and not allowed & bits:
                    fail(errno.EACCES, path)

        self._ask(check)
        return 0

    def open(self, path: str, flags: int) -> int:
        """Returns a number for an open file."""
        self._ask(lambda root: self._view.may_open(path, flags, root))
        return next(self._numbers)

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        """Returns a part of what a file said when it was read from its start."""
        text = self._texts.get(fh)
        if text is None or offset == 0:
            text = self._texts[fh] = self._ask(lambda root: self._view.read(path, root))
        return text[offset : offset + size]

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        """Writes a setting; where in the file does not matter, as in sysfs."""
        self._ask(lambda root: self._view.write(path, data, root))
        return len(data)

    def release(self, path: str, fh: int) -> int:
        """Forgets an open file."""
        self._texts.pop(fh, None)
        return 0

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        """Has no effect on a setting, but only root gets so far."""
        self._ask(lambda root: self._view.may_open(path, os.O_WRONLY, root))
        return 0

    def utimens(self, path: str, times: object = None) -> int:
        """Has no effect: a setting has no date of its own."""
        return self.truncate(path, 0)

    def create(self, path: str, mode: int, flags: int) -> int:
        """Refuses: nobody makes kernel files."""
        fail(errno.EACCES, path)

    def mkdir(self, path: str, mode: int) -> int:
        """Refuses, as `unlink` does."""
        fail(errno.EPERM, path)

    def unlink(self, path: str) -> int:
        """Refuses: kernel files stay where they are."""
        fail(errno.EPERM, path)

    rmdir = unlink


def serve(files: Files, place: str, **options: object) -> threading.Event:
    """Answers for a file system at ``place``, a folder or ``/dev/fd/N``, on a thread; returns what is set then."""
    fuse = required().FUSE
    never = dict.fromkeys(("attr_timeout", "entry_timeout", "negative_timeout"), 0.0)

    over = threading.Event()

    def run() -> None:
        # libfuse goes to the root folder: a current folder of its own keeps that from the rest of the process.
        ctypes.CDLL(None).unshare(_CLONE_FS)
        with suppress(RuntimeError):  # it says no more than that libfuse ended
            fuse(files, place, foreground=True, nothreads=True, direct_io=True, fsname="edgeperf", **never, **options)

        over.set()

    threading.Thread(target=run, name=f"files at {place}", daemon=True).start()
    return over
