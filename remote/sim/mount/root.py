"""A root of its own for a twin: its files, its programs, and processes that cannot get out of it."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remote.errors import HostError
from remote.sim.live import LiveBoard
from remote.sim.mount import fuse, namespaces
from remote.sim.mount.broker import Broker
from remote.sim.mount.disk import Opener
from remote.sim.mount.furniture import furniture

_PROGRAM = Path(namespaces.__file__)
_IDS = 4096
"""The users of the namespaces are taken so far below the highest one that there is, where nobody is."""
_HIGHEST = 1 << 31
_START_S = 30.0
_DEVICE = "let this user read and write /dev/fuse: chmod 666 /dev/fuse; a container needs --device /dev/fuse"
_MORE = "allow more namespaces: sysctl user.max_user_namespaces=10000"
_RESTRICTED = (
    "user namespaces are restricted here: on Ubuntu 24.04 allow them by sysctl "
    "kernel.apparmor_restrict_unprivileged_userns=0; start a container with --privileged"
)


@dataclass(frozen=True)
class Root:
    """A root that is there: ``pid`` is its first process, ``users`` says which users out here its own are."""

    pid: int
    users: tuple[tuple[int, str], ...]

    def command(self, line: str | None, user: str) -> tuple[str, ...]:
        """Returns the words that start ``bash -c line`` in it as ``nvidia`` or ``root``, or a login shell.

        What they start has the caller's stdin, stdout and stderr, and ends with the exit code of what it ran.
        """
        return self.words(user, "", (namespaces.SHELL, *(("-l",) if line is None else ("-c", line))))

    def words(self, user: str, folder: str, words: Sequence[str]) -> tuple[str, ...]:
        """Returns the words that start a command in it in a folder, "" for the user's home."""
        return (sys.executable, "-ESs", str(_PROGRAM), "enter", str(self.pid), user, folder, *words)

    def run(self, words: Sequence[str]) -> int:
        """Runs words that `command` or `words` gave; returns the exit code. Ctrl-C is theirs. For the main thread.

        So are the signals that this process gets.
        """
        started: list[subprocess.Popen[bytes]] = []
        early: list[int] = []  # signals that come before it is there
        terminal = namespaces.has_terminal()

        def pass_on(number: int, frame: object) -> None:
            if number in (signal.SIGTERM, signal.SIGHUP) or not terminal:  # which sends the others to them too
                started[0].send_signal(number) if started else early.append(number)

        taken = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)
        kept = {number: signal.signal(number, pass_on) for number in taken}
        try:
            with subprocess.Popen(words) as process:
                started.append(process)
                for number in early:
                    process.send_signal(number)
                code = process.wait()
        finally:
            for number, handler in kept.items():
                signal.signal(number, handler)
        return code if code >= 0 else 128 - code

    def is_root(self, uid: int, pid: int) -> bool:
        """Says whether a process in it is the board's root, by how its user is called in there and itself out here."""
        return uid == 0 if len(self.users) > 1 else self.user_of(uid, pid) == "root"

    def user_of(self, uid: int, pid: int) -> str:
        """Returns which user of the board a process in it is, by how its user and itself are called out here."""
        if len(self.users) > 1:
            return dict(self.users).get(uid, "nvidia")
        with suppress(OSError):
            if os.stat(f"/proc/{pid}/ns/user").st_ino == os.stat(f"/proc/{self.pid}/ns/user").st_ino:
                return "root"
        return "nvidia"


@contextmanager
def rooted(board: LiveBoard, binds: Iterable[tuple[Path, str]] = ()) -> Iterator[Root]:
    """Makes a root for a board for the length of a ``with``. ``binds`` are (folder here, place there), read-only there.

    Needs Linux 5.12 with FUSE, and namespaces that this user may make. Raises HostError that says what is missing.
    """
    fuse.required()
    users = _users()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    maker = [sys.executable, "-ESs", str(_PROGRAM), "make", str(theirs.fileno())]
    # What is in the environment out here is nobody's business in there.
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    with (
        ours,
        # In a session of its own, where a terminal's Ctrl-C does not reach it: it ends with `ours`.
        subprocess.Popen(
            maker, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, env=kept, start_new_session=True
        ) as process,
    ):
        theirs.close()
        ours.settimeout(_START_S)
        try:
            wanted = furniture(board, binds, single=len(users) == 1) | {"uname": board.call(lambda: _uname(board))}
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
            ours.send(json.dumps(wanted).encode())
            yield from _made(board, ours, process.pid, users)
        finally:
            ours.close()  # which is what the namespaces' first process waits for


def _made(board: LiveBoard, control: socket.socket, maker: int, users: tuple[tuple[int, str], ...]) -> Iterator[Root]:
    """Does its part of making the namespaces; yields the root, and cleans up after it."""
    if len(users) > 1:
        _expect(control, "map")
        _map(maker, users)
        control.send(b"mapped")
    files = fuse.Files(board, beyond=namespaces.PROC)
    _, (handle,) = _expect(control, "fuse")
    over = fuse.serve(files, f"/dev/fd/{handle}")
    root = Root(int(_expect(control, "pid")[0]["pid"]), users)
    files.is_root = root.is_root
    _, (socket_fd, files.forward) = _expect(control, "ready")
    with socket.socket(fileno=socket_fd) as listener:
        Broker(board, listener, Opener(control), root)
        try:
            yield root
        finally:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            control.close()
            over.wait(_START_S)
            os.close(files.forward)


def _uname(board: LiveBoard) -> dict[str, str]:
    """Returns what the board's kernel says of itself, by the fields of struct new_utsname."""
    machine = board.machine
    release = machine.read("/proc/sys/kernel/osrelease", "root").strip()
    version = machine.read("/proc/version", "root").strip()
    return {"release": release, "version": version[version.index("#") :], "machine": "aarch64"}


def _users() -> tuple[tuple[int, str], ...]:
    """Returns the users out here that are the board's in there: who runs this, if there are no others to be had."""
    with open("/proc/self/uid_map") as file:
        first, _, count = map(int, file.readlines()[-1].split())
    base = min(first + count, _HIGHEST) - _IDS
    if os.geteuid() != 0 or base <= 0:
        return ((os.geteuid(), "root"),)
    return (base, "root"), (base + 1, "nvidia")


def can_read(folder: Path) -> bool:
    """Says whether the board's users, who for root are others than it, will be able to read a folder that is bound."""
    return len(_users()) == 1 or folder.stat().st_mode & 0o5 == 0o5


def _map(pid: int, users: Sequence[tuple[int, str]]) -> None:
    lines = "".join(f"{namespaces.USERS[name]} {uid} 1\n" for uid, name in users)
    for kind in ("gid_map", "uid_map"):
        with open(f"/proc/{pid}/{kind}", "w") as file:
            file.write(lines)


def _expect(control: socket.socket, step: str) -> tuple[dict[str, Any], list[int]]:
    """Returns the next message from the namespaces, which has to be about ``step``. Raises HostError."""
    try:
        data, fds, _, _ = socket.recv_fds(control, 1 << 16, 2)
    except TimeoutError as error:
        raise HostError(f"the simulated board's namespaces are not ready after {_START_S:g} s", fuse.WORKS) from error
    message = json.loads(data or b"{}")
    if "why" in message:
        raise _trouble(str(message["what"]), int(message["errno"] or 0), str(message["why"]))
    if message.get("step") != step:
        raise HostError(f"the program that makes the simulated board's namespaces ended before {step}", fuse.WORKS)
    return message, fds


def _trouble(what: str, number: int, why: str) -> HostError:
    """Returns what to say when the system refuses something."""
    hint = {errno.ENOSYS: "it needs Linux 5.12 or newer", errno.ENOSPC: _MORE}.get(number, _RESTRICTED)
    if number in (errno.EEXIST, errno.EROFS, errno.ENOTDIR, errno.EISDIR):
        hint = "the board has something of its own there: name another place in --bind"
    if what == "/dev/fuse":
        hint = _DEVICE
    return HostError(f"a root for the simulated board cannot be made: {what}: {why}", f"{hint}; {fuse.WORKS}")
