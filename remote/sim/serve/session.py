"""One channel of a connection: what it is for shows in its first request, and somebody else does it from then on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol, cast

import asyncssh

from remote.sim.live import LiveBoard
from remote.sim.serve.program import ProgramSession, order_of
from remote.sim.serve.sftp import Sftp

_SFTP_VERSION = 3
_NO_SHELL = "edgeperf: this simulated board only starts the programs of its own version of edgeperf, not {}\n"
_NOT_FOUND = 127


class Place(Protocol):
    """Where a board's shells run (`remote.sim.mount.Root`)."""

    def command(self, line: str | None, user: str) -> tuple[str, ...]:
        """Returns what this machine has to run for ``sh -c line`` on the board as ``user``, None for a login shell."""


class Session(asyncssh.SSHServerSession[bytes]):
    """Edgeperf's own programs, files, and a shell where the board has a ``place`` for it: the files are its, then."""

    def __init__(self, board: LiveBoard, login: str, place: Place | None) -> None:
        self._board = board
        self._login = login
        self._place = place
        self._unread = asyncio.Event()
        self._for_files = False
        self._does: asyncssh.SSHServerSession[bytes] = asyncssh.SSHServerProcess(
            self._shell, None if place else self._files, _SFTP_VERSION, allow_scp=place is None
        )

    def _files(self, channel: object) -> Sftp:
        return Sftp(cast("asyncssh.SSHServerChannel[bytes]", channel), self._board, self._login)

    async def _shell(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        if self._place is None:
            process.stderr.write(_NO_SHELL.format((process.command or "a shell")[:60]).encode())
            process.exit(_NOT_FOUND)
            return
        from remote.sim.serve.shell import FILES, run  # needs what Windows does not have

        line = FILES if self._for_files else process.command
        await run(process, self._place.command(line, self._login), self._unread)

    def connection_made(self, chan: asyncssh.SSHServerChannel[bytes]) -> None:
        self._channel = chan
        self._does.connection_made(chan)

    def output_unread(self, packet: object) -> bool:
        """Takes word that nobody reads any more what is sent, as in ``ssh board tegrastats | head -1``."""
        self._unread.set()
        return True

    def pty_requested(self, term_type: str, size: tuple[int, int, int, int], modes: Mapping[int, int]) -> bool:
        return self._place is not None

    def exec_requested(self, command: str) -> bool:
        order = order_of(command)
        if order is not None:
            self._does = ProgramSession(self._board, order, self._login)
            self._does.connection_made(self._channel)
        return True

    def shell_requested(self) -> bool:
        return True

    def subsystem_requested(self, subsystem: str) -> bool:
        self._for_files = subsystem == "sftp"
        if self._for_files and self._place is not None:
            vars(self._channel)["get_subsystem"] = lambda: None  # or asyncssh would serve files of its own
        return self._for_files

    def session_started(self) -> None:
        self._does.session_started()

    def data_received(self, data: bytes, datatype: int | None) -> None:
        self._does.data_received(data, datatype)

    def eof_received(self) -> bool:
        return bool(self._does.eof_received())

    def connection_lost(self, exc: Exception | None) -> None:
        self._does.connection_lost(exc)

    def pause_writing(self) -> None:
        self._does.pause_writing()

    def resume_writing(self) -> None:
        self._does.resume_writing()

    def signal_received(self, signal: str) -> None:
        self._does.signal_received(signal)

    def break_received(self, msec: int) -> bool:
        return self._does.break_received(msec)

    def terminal_size_changed(self, width: int, height: int, pixwidth: int, pixheight: int) -> None:
        self._does.terminal_size_changed(width, height, pixwidth, pixheight)
