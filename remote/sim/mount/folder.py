"""A twin's files below a folder of this machine."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from remote.errors import HostError, UsageError
from remote.sim.live import LiveBoard
from remote.sim.mount import fuse

_START_S = 10.0
_END_S = 1.0
_LOOK_S = 0.01
_UNMOUNT = 'read -r _; exec "$1" -u -z "$(readlink /proc/self/fd/$2)" 2>/dev/null'
"""Waits for the end of its stdin, which comes even when edgeperf is killed. A folder above may be renamed by then."""


@contextmanager
def mounted(board: LiveBoard, folder: Path) -> Iterator[Callable[[float], bool]]:
    """Has a board's kernel files below an empty folder for the length of a ``with``; who mounts is the board's root.

    Yields what waits for so many seconds, and says whether they are still there. Raises UsageError for a folder that
    cannot be used, HostError where there is no FUSE.
    """
    unmount = shutil.which("fusermount3")
    fuse.required()
    if unmount is None:
        raise HostError("fusermount3 is missing", f"install it: apt install fuse3; {fuse.WORKS}")
    _check(folder)
    files = fuse.Files(board, (os.getuid(), os.getgid()))
    files.is_root = lambda uid, pid: True
    below = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    unmounting = ["sh", "-c", _UNMOUNT, "sh", unmount, str(below)]
    watcher = subprocess.Popen(unmounting, stdin=subprocess.PIPE, start_new_session=True, pass_fds=[below])
    os.close(below)
    over = fuse.serve(files, str(folder))

    def there(seconds: float) -> bool:
        return not over.wait(seconds)

    try:
        until_s = time.monotonic() + _START_S
        while there(_LOOK_S) and not os.path.ismount(folder) and time.monotonic() < until_s:
            pass
        if not os.path.ismount(folder):
            raise HostError(f"{folder}: the simulated board's files cannot be mounted there", _why())
        yield there
    finally:
        if over.is_set():
            watcher.kill()
        watcher.communicate()
        over.wait(_END_S)  # longer only where somebody has files of it open still: they get ENOTCONN when edgeperf ends


def _why() -> str:
    """Returns what to do next."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return f"let this user read and write /dev/fuse; {fuse.WORKS}"
    return f"see above what FUSE said; {fuse.WORKS}"


def _check(folder: Path) -> None:
    """Raises UsageError unless ``folder`` is an empty one."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError as error:
        raise UsageError(f"{folder}: there is no such folder", f"make it: mkdir -p {folder}") from error
    except OSError as error:
        stale = error.errno == errno.ENOTCONN
        hint = f"somebody's files were there: fusermount3 -u {folder}" if stale else "name a folder of your own"
        raise UsageError(f"{folder}: {error.strerror}", hint) from error
    if names:
        raise UsageError(f"{folder} is not empty", "name an empty folder, as its own files would be hidden")
