"""Twins behind an SSH server: what starts edgeperf's programs on a board starts them here. The importer of asyncssh.

It serves whoever has one of the keys, as ``nvidia`` and as root, and nobody else. Nothing of this machine can be
reached through it: it runs no shell, forwards nothing, and the only files are the twin's.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import get_args

import asyncssh

from remote import start
from remote.errors import HostError, UsageError
from remote.hosts import Twin
from remote.sim.live import PROGRAMS, Line, LiveBoard
from remote.sim.process import Program

USER = "nvidia"
HOST_KEY_NAME = "edgeperf-sim"
"""The name under which ``known_hosts`` beside the host key has the server, whatever its port."""

_SILENCE_S = 10
_BEFORE_WORDS = len(shlex.split(start.command(())))
_NO_SHELL = "edgeperf: this simulated board only starts the programs of its own version of edgeperf, not {}\n"
_Connections = set[asyncssh.SSHServerConnection]


@dataclass(frozen=True)
class Served:
    """A twin at a port, under the name that it has in the lines for an SSH config."""

    name: str
    address: str
    port: int
    board: LiveBoard


def public_keys(file: Path | None) -> str:
    """Returns the lines of public keys that may log in: those of ``file``, or else the user's own in ``~/.ssh``.

    Raises UsageError where there are none.
    """
    own = sorted((Path.home() / ".ssh").glob("*.pub")) if file is None else [file]
    try:
        lines = "\n".join(path.read_text("utf-8") for path in own if not path.name.endswith("-cert.pub"))
        if not lines.strip():
            raise ValueError
        asyncssh.import_authorized_keys(lines)
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}", "name a file with a public key in each line") from error
    except ValueError as error:
        raise UsageError(
            f"there is no public key in {file or '~/.ssh/*.pub'}, so nobody could log in",
            "make one with ssh-keygen, or name a file: --authorized-keys FILE",
        ) from error
    return lines


def config_lines(served: Sequence[Served], folder: Path) -> str:
    """Returns what an SSH config needs to reach boards; ``folder`` is where `serving` keeps the host key."""
    blocks = [
        f"Host {one.name}\n    HostName {one.address}\n    Port {one.port}\n    User {USER}\n"
        f"    HostKeyAlias {HOST_KEY_NAME}\n    UserKnownHostsFile {folder / 'known_hosts'}\n"
        for one in served
    ]
    return "\n".join(blocks)


@contextmanager
def serving(
    hosts: Sequence[Twin], programs: Mapping[str, Program], keys: str, folder: Path, *, address: str, port: int
) -> Iterator[tuple[Served, ...]]:
    """Serves boards for the length of a ``with``, each at a port of its own from ``port`` on; 0 for any free ones.

    ``keys`` are the lines of `public_keys`, ``folder`` is where the server's host key is kept. Raises HostError for an
    address or port that cannot be had, and what `LiveBoard` does.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="ssh server", daemon=True)
    boards: list[LiveBoard] = []
    acceptors: list[asyncssh.SSHAcceptor] = []
    connections: _Connections = set()
    thread.start()
    try:
        key = _host_key(folder)
        for number, host in enumerate(hosts):
            boards.append(LiveBoard(host, programs))
            server = partial(_Server, boards[-1], connections)
            listening = _listen(server, key, keys, address, port + number if port else 0)
            try:
                acceptors.append(asyncio.run_coroutine_threadsafe(listening, loop).result())
            except (OSError, OverflowError) as error:
                told = f"{address}:{port + number} cannot be listened on: {error}"
                raise HostError(told, "is it in use? name another with --port") from error
        names = [f"sim-{board.name}" + (f"-{n}" if len(boards) > 1 else "") for n, board in enumerate(boards, 1)]
        pairs = zip(names, acceptors, boards, strict=True)
        yield tuple(Served(name, address, acceptor.get_port(), board) for name, acceptor, board in pairs)
    finally:
        asyncio.run_coroutine_threadsafe(_end(acceptors, connections), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        for board in boards:
            board.close()


async def _listen(
    server: Callable[[], _Server], key: asyncssh.SSHKey, keys: str, address: str, port: int
) -> asyncssh.SSHAcceptor:
    return await asyncssh.listen(
        address,
        port,
        server_factory=server,
        server_host_keys=[key],
        authorized_client_keys=asyncssh.import_authorized_keys(keys),
        password_auth=False,
        kbdint_auth=False,
        gss_host=None,
        host_based_auth=False,
        allow_pty=False,
        agent_forwarding=False,
        encoding=None,
        keepalive_interval=_SILENCE_S,
    )


async def _end(acceptors: Sequence[asyncssh.SSHAcceptor], connections: _Connections) -> None:
    for acceptor in acceptors:
        acceptor.close()
    for connection in list(connections):
        connection.abort()
    for acceptor in acceptors:
        await acceptor.wait_closed()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.wait(others, timeout=1.0) if others else None


def _host_key(folder: Path) -> asyncssh.SSHKey:
    """Returns the server's own key, made at its first start, with a file of known hosts beside it. Raises HostError."""
    file = folder / "host_key"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with suppress(FileExistsError), open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as new:
            new.write(asyncssh.generate_private_key("ssh-ed25519").export_private_key())
        key = asyncssh.read_private_key(file)
        public = key.export_public_key().decode().split()
        (folder / "known_hosts").write_text(f"{HOST_KEY_NAME} {public[0]} {public[1]}\n", "utf-8")
    except (OSError, asyncssh.KeyImportError) as error:
        raise HostError(f"{file}: the server's host key cannot be used: {error}", "remove that file") from error
    return key


class _Server(asyncssh.SSHServer):
    """One connection to a board, listed in ``connections`` as long as it is there."""

    def __init__(self, board: LiveBoard, connections: _Connections) -> None:
        self._board = board
        self._connections = connections
        self._connection: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connections.add(conn)
        self._connection = conn

    def connection_lost(self, exc: Exception | None) -> None:
        if self._connection:
            self._connections.discard(self._connection)

    def session_requested(self) -> asyncssh.SSHServerSession[bytes]:
        return _Session(self._board)


class _Session(asyncssh.SSHServerSession[bytes]):
    """One channel: an on-board program, or a refusal. What concerns the program is posted to the board's thread."""

    def __init__(self, board: LiveBoard) -> None:
        self._board = board
        self._command = ""
        self._line: Line | None = None
        self._loop = asyncio.get_running_loop()

    def connection_made(self, chan: asyncssh.SSHServerChannel[bytes]) -> None:
        self._channel = chan

    def exec_requested(self, command: str) -> bool:
        self._command = command
        return True

    def shell_requested(self) -> bool:
        return True

    def session_started(self) -> None:
        word, user = program_of(self._command)
        if word in PROGRAMS:
            self._board.post(partial(self._open, word, user))
        elif word == "relay":
            what, hint = "nothing is running here that could be picked up", "a simulated board ends with its line"
            self._refuse(what, hint)
        elif word:
            self._refuse(f"a simulated board takes no `{word}`", "its root needs no rule of its own")
        else:
            self._channel.write_stderr(_NO_SHELL.format(self._command[:60] or "a shell").encode())
            self._channel.exit(127)

    def _refuse(self, what: str, hint: str) -> None:
        answer = {"id": 0, "kind": "error", "error": "board", "what": what, "hint": hint}
        self._channel.write(json.dumps(answer).replace('{"id": 0', '{"id":0', 1).encode() + b"\n")
        self._channel.exit(1)

    def data_received(self, data: bytes, datatype: int | None) -> None:
        self._tell_line(lambda line: line.hear(data))

    def eof_received(self) -> bool:
        self._tell_line(lambda line: line.hear(b""))
        return True  # the program may still have something to say

    def connection_lost(self, exc: Exception | None) -> None:
        self._tell_line(lambda line: line.hear(b""))
        self._tell_line(lambda line: line.pause(False))

    def pause_writing(self) -> None:
        self._tell_line(lambda line: line.pause(True))

    def resume_writing(self) -> None:
        self._tell_line(lambda line: line.pause(False))

    # On the board's thread

    def _tell_line(self, act: Callable[[Line], None]) -> None:
        self._board.post(lambda: act(self._line) if self._line else None)

    def _open(self, word: str, user: str) -> None:
        self._line = self._board.open_line(word, user, partial(self._soon, self._write), partial(self._soon, self._end))

    def _soon(self, act: Callable[..., None], *arguments: object) -> None:
        with suppress(RuntimeError):  # the server has ended meanwhile
            self._loop.call_soon_threadsafe(act, *arguments)

    # On the server's

    def _write(self, data: bytes) -> None:
        if not self._channel.is_closing():
            self._channel.write(data)

    def _end(self, lost: bool) -> None:
        if lost:
            self._channel.get_connection().abort()
        elif not self._channel.is_closing():
            self._channel.exit(0)


def program_of(line: str) -> tuple[str, str]:
    """Returns the on-board program that a command line starts and the user that it runs as, ("", "") for any other."""
    with suppress(ValueError):
        words = shlex.split(line)[_BEFORE_WORDS:]
        for root in get_args(start.Root):
            if words and any(line == start.command(words, root, installed=there) for there in (False, True)):
                return words[0], USER if root == "none" else "root"
    return "", ""
