"""Twins behind an SSH server: what starts edgeperf's programs on a board starts them here. The importer of asyncssh.

It serves whoever has one of the keys, as ``nvidia`` and as root, and nobody else. Nothing of this machine can be
reached through it: it forwards nothing, the only files are the twin's, and a shell is one in the twin's own root.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn

import asyncssh

from remote.errors import HostError, UsageError
from remote.hosts import Twin
from remote.sim.live import LiveBoard
from remote.sim.process import Program
from remote.sim.serve.program import USER
from remote.sim.serve.session import Place, Session

HOST_KEY_NAME = "edgeperf-sim"
"""The name under which ``known_hosts`` beside the host key has the server, whatever its port."""

_VERSION = "OpenSSH_9.9 edgeperf"
"""OpenSSH's client tells servers of that name only when its own output is not read any more (its PROTOCOL, 2.1)."""
_UNREAD = "_process_eow_at_openssh_dot_com_request"
"""Where a channel of asyncssh looks for who takes that."""
_SILENCE_S = 10
_PATIENCE_S = 3.0
_LAST_ROUNDS = 10
_USERS = (USER, "root")
Rooted = Callable[[LiveBoard], AbstractContextManager[Place]]
"""Makes the place where a board's shells run, for the length of a ``with``."""

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
    try:
        lines = "\n".join(path.read_text("utf-8") for path in _key_files(file))
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


def identities(file: Path | None) -> tuple[Path, ...]:
    """Returns the private keys that lie beside the public ones of `public_keys`."""
    found = [path.with_suffix("").absolute() for path in _key_files(file) if path.suffix == ".pub"]
    return tuple(path for path in found if path.is_file())


def new_key(folder: Path) -> Path:
    """Makes a pair of keys for a client in ``folder``; returns the private one. Its other half is beside it."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    key, file = asyncssh.generate_private_key("ssh-ed25519"), folder / "id_ed25519"
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as private:
        private.write(key.export_private_key())
    file.with_suffix(".pub").write_bytes(key.export_public_key())
    return file


def _key_files(file: Path | None) -> list[Path]:
    own = sorted((Path.home() / ".ssh").glob("*.pub")) if file is None else [file]
    return [path for path in own if not path.name.endswith("-cert.pub")]


def config_lines(served: Sequence[Served], folder: Path, keys: Sequence[Path] = ()) -> str:
    """Returns what an SSH config needs to reach boards; ``folder`` is where `serving` keeps the host key.

    ``keys`` are the private keys to log in with; without any, those that an SSH client offers by itself.
    """
    named = "".join(f"    IdentityFile {_word(key)}\n" for key in keys)
    blocks = [
        f"Host {one.name}\n    HostName {_reached(one.address)}\n    Port {one.port}\n    User {USER}\n{named}"
        f"    HostKeyAlias {HOST_KEY_NAME}\n    UserKnownHostsFile {_word(folder / 'known_hosts')}\n"
        for one in served
    ]
    return "\n".join(blocks)


def _word(path: Path) -> str:
    """Returns a path as an SSH config takes it."""
    return f'"{path}"' if " " in str(path) else str(path)


def _reached(address: str) -> str:
    """Returns where to find a server that listens at an address: everywhere means under this machine's name."""
    return socket.gethostname() if address in ("", "0.0.0.0", "::") else address


@contextmanager
def serving(
    hosts: Sequence[Twin],
    programs: Mapping[str, Program],
    keys: str,
    folder: Path,
    *,
    address: str,
    port: int,
    rooted: Rooted | None = None,
) -> Iterator[tuple[Served, ...]]:
    """Serves boards for the length of a ``with``, each at a port of its own from ``port`` on; 0 for any free ones.

    ``keys`` are the lines of `public_keys`, ``folder`` is where the server's host key is kept. With ``rooted``,
    which is that of `remote.sim.mount`, any command can be run on a board. Raises HostError for an address or port that
    cannot be had, and what `LiveBoard` and ``rooted`` do.
    """
    key = _host_key(folder)
    boards: list[LiveBoard] = []
    with ExitStack() as stack:
        for host in hosts:
            boards.append(LiveBoard(host, programs))
            stack.callback(boards[-1].close)
        places = [stack.enter_context(rooted(board)) if rooted else None for board in boards]
        loop = stack.enter_context(_loop())
        connections: _Connections = set()
        acceptors: list[asyncssh.SSHAcceptor] = []
        stack.callback(lambda: asyncio.run_coroutine_threadsafe(_end(acceptors, connections), loop).result())
        for number, (board, place) in enumerate(zip(boards, places, strict=True)):
            server = partial(_Server, board, place, connections)
            listening = _listen(server, key, keys, address, port + number if port else 0)
            try:
                acceptors.append(asyncio.run_coroutine_threadsafe(listening, loop).result())
            except (OSError, OverflowError) as error:
                raise _unheard(address, port + number, error) from error
        names = [f"sim-{board.name}" + (f"-{n}" if len(boards) > 1 else "") for n, board in enumerate(boards, 1)]
        pairs = zip(names, acceptors, boards, strict=True)
        yield tuple(Served(name, address, acceptor.get_port(), board) for name, acceptor, board in pairs)


def _unheard(address: str, port: int, error: OSError | OverflowError) -> HostError:
    """Returns what to say where an address or a port cannot be had."""
    where = f"{address}:{port}" if port else address
    if isinstance(error, OverflowError):
        return HostError(f"{where}: there is no such port", "name a lower one with --port, or fewer boards")
    number = error.errno or 0
    why = error.strerror if isinstance(error, socket.gaierror) else os.strerror(number)
    hint = {
        errno.EADDRINUSE: "another program listens there: name another port with --port, or 0 for any free one",
        errno.EACCES: "ports below 1024 are root's: name another with --port",
    }.get(number, "name an address of this machine with --address")
    return HostError(f"{where} cannot be listened on: {why}", hint)


@contextmanager
def _loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Yields an event loop that runs in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="ssh server", daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


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
        server_version=_VERSION,
        host_based_auth=False,
        agent_forwarding=False,
        line_editor=False,
        encoding=None,
        keepalive_interval=_SILENCE_S,
    )


async def _end(acceptors: Sequence[asyncssh.SSHAcceptor], connections: _Connections) -> None:
    for acceptor in acceptors:
        acceptor.close()
    await asyncio.sleep(0)  # whoever was just let in becomes a connection
    for connection in list(connections):
        connection.abort()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        _, left = await asyncio.wait(others, timeout=_PATIENCE_S)
        for task in left:
            task.cancel()
    for connection in list(connections):
        connection.abort()
    for acceptor in acceptors:
        await acceptor.wait_closed()
    for _ in range(_LAST_ROUNDS):  # of the loop, in which the sockets of connections that were aborted are closed
        await asyncio.sleep(0)


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
    except OSError as error:
        told = f"the server's host key cannot be kept in {folder}: {error.strerror}"
        raise HostError(told, "let this user write there, or name another cache folder by XDG_CACHE_HOME") from error
    except asyncssh.KeyImportError as error:
        raise HostError(f"{file}: this is no host key: {error}", "remove that file") from error
    return key


class _Server(asyncssh.SSHServer):
    """One connection to a board, listed in ``connections`` as long as it is there."""

    def __init__(self, board: LiveBoard, place: Place | None, connections: _Connections) -> None:
        self._board = board
        self._place = place
        self._connections = connections
        self._connection: asyncssh.SSHServerConnection | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connections.add(conn)
        self._connection = conn
        if self._board.machine.reach.refuses:
            conn.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._connection:
            self._connections.discard(self._connection)

    def begin_auth(self, username: str) -> bool:
        if username not in _USERS and self._connection:
            self._connection.set_authorized_keys(asyncssh.import_authorized_keys(""))
        return True

    def session_requested(self) -> tuple[asyncssh.SSHServerChannel[bytes], Session]:
        assert self._connection is not None
        channel = self._connection.create_server_channel()
        session = Session(self._board, str(self._connection.get_extra_info("username")), self._place)
        vars(channel)[_UNREAD] = session.output_unread
        return channel, session

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> NoReturn:
        _forward_nothing()

    def unix_connection_requested(self, dest_path: str) -> NoReturn:
        _forward_nothing()


def _forward_nothing() -> NoReturn:
    raise asyncssh.ChannelOpenError(asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED, "a simulated board forwards nothing")
