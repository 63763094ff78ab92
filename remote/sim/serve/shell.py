"""A command line, or a login shell, on a twin over SSH: a process of this machine that sees the twin alone."""

from __future__ import annotations

import asyncio
import fcntl
import inspect
import os
import pty
import shlex
import signal
import struct
import termios
from collections.abc import Callable, Mapping
from contextlib import suppress

import asyncssh

from remote.sim.serve import sftp_program

FILES = shlex.join(("exec", "python3", "-ISs", "-c", inspect.getsource(sftp_program)))
"""The command line that serves the files of the place where it runs over SFTP."""
_PIECE_BYTES = 1 << 16
_NOT_FOUND = 127
_HANGUP_S = 2.0
_LAST_WORDS_S = 1.0
_END_OF_FILE = b"\x04"
_KEPT = ("PATH", "LANG", "LC_ALL")
_NUMBERS = {number.name.removeprefix("SIG"): number for number in signal.Signals}


async def run(process: asyncssh.SSHServerProcess[bytes], argv: tuple[str, ...], unread: asyncio.Event) -> None:
    """Runs what a client asked for, until it ends or the client has gone; ``unread`` tells that nobody reads it."""
    try:
        code = await (_on_pipes if process.term_type is None else _on_terminal)(process, argv, unread)
    except OSError as error:
        process.stderr.write(f"edgeperf: {argv[0]}: {error.strerror}\n".encode())
        code = _NOT_FOUND
    if code < 0:
        process.exit_with_signal(signal.Signals(-code).name.removeprefix("SIG"))
    else:
        process.exit(code)


async def _on_pipes(client: asyncssh.SSHServerProcess[bytes], argv: tuple[str, ...], unread: asyncio.Event) -> int:
    """Returns the exit code of a program with three pipes. Its output is closed where nobody reads it: SIGPIPE."""
    pipe = asyncio.subprocess.PIPE
    ours, theirs = os.pipe()
    try:
        child = await asyncio.create_subprocess_exec(
            *argv, stdin=pipe, stdout=theirs, stderr=pipe, env=_environment({}), start_new_session=True
        )
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    assert child.stdin is not None
    assert child.stderr is not None
    stdout, reading = await _reader(ours)
    said = _copies((stdout, client.stdout), (child.stderr, client.stderr))
    heard = asyncio.create_task(_pass_on(client, child.stdin, child.pid))
    closes = asyncio.create_task(_after(unread, reading.close))
    try:
        return await _ended(client, child, heard, said, None)
    finally:
        closes.cancel()
        reading.close()


class _Output(asyncio.StreamReaderProtocol):
    """What a program says to its end. That of a terminal is an error (EIO), which would hide what is not read yet."""

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(None)


async def _reader(fd: int) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
    """Returns what reads a pipe or a terminal, and closes it."""
    reader = asyncio.StreamReader()
    opened = os.fdopen(fd, "rb", 0)
    reading, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: _Output(reader), opened)
    return reader, reading


async def _after(event: asyncio.Event, act: Callable[[], object]) -> None:
    await event.wait()
    act()


async def _on_terminal(client: asyncssh.SSHServerProcess[bytes], argv: tuple[str, ...], unread: asyncio.Event) -> int:
    """Returns the exit code of a program with a terminal of its own, which is hung up where nobody reads it."""
    ours, theirs = pty.openpty()
    try:
        _resize(ours, client.term_size)
        child = await asyncio.create_subprocess_exec(
            "setsid", "--ctty", *argv, stdin=theirs, stdout=theirs, stderr=theirs,
            env=_environment({"TERM": client.term_type or "dumb"}),
        )  # fmt: skip
    except BaseException:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    loop = asyncio.get_running_loop()
    reader, reading = await _reader(os.dup(ours))
    writing, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(ours, "wb", 0)
    )
    writer = asyncio.StreamWriter(writing, protocol, None, loop)
    said = _copies((reader, client.stdout))
    heard = asyncio.create_task(_pass_on(client, writer, child.pid, terminal=ours))
    hangs_up = asyncio.create_task(_after(unread, lambda: _signal(child.pid, signal.SIGHUP)))
    try:
        return await _ended(client, child, heard, said, _LAST_WORDS_S)
    finally:
        hangs_up.cancel()
        reading.close()
        writer.close()


async def _ended(
    client: asyncssh.SSHServerProcess[bytes],
    child: asyncio.subprocess.Process,
    heard: asyncio.Task[None],
    said: asyncio.Task[None],
    last_words_s: float | None,
) -> int:
    """Returns the exit code once all was said; what it left running on a terminal has ``last_words_s`` for that.

    A client that goes away ends the program.
    """
    gone = asyncio.create_task(client.channel.wait_closed())
    code = asyncio.create_task(child.wait())
    try:
        await asyncio.wait([gone, code], return_when=asyncio.FIRST_COMPLETED)
        if code.done():
            await asyncio.wait([said, gone], timeout=last_words_s, return_when=asyncio.FIRST_COMPLETED)
        return code.result() if code.done() else -signal.SIGHUP
    finally:
        for task in (heard, gone, said):
            task.cancel()
        try:
            if not code.done():
                await _hang_up(child, code)
        finally:
            if child.returncode is None:
                _signal(child.pid, signal.SIGKILL)
            vars(child)["_transport"].close()  # or its streams stay open as long as somebody else has them


async def _hang_up(child: asyncio.subprocess.Process, code: asyncio.Task[int]) -> None:
    """Ends a program and what it has started, first as a terminal does that is closed."""
    _signal(child.pid, signal.SIGHUP)
    await asyncio.wait([code], timeout=_HANGUP_S)
    _signal(child.pid, signal.SIGKILL)
    await asyncio.wait([code], timeout=_HANGUP_S)  # longer, where something else has its streams open still
    code.cancel()


def _copies(*pairs: tuple[asyncio.StreamReader, asyncssh.SSHWriter[bytes]]) -> asyncio.Task[None]:
    """Begins to pass on what a program says."""

    async def copy() -> None:
        copies = [asyncio.create_task(_copy(*pair)) for pair in pairs]
        try:
            await asyncio.wait(copies)
        finally:
            for one in copies:
                one.cancel()

    return asyncio.create_task(copy())


async def _copy(source: asyncio.StreamReader, to: asyncssh.SSHWriter[bytes]) -> None:
    """Passes on what comes, as fast as the client takes it."""
    with suppress(OSError, asyncssh.Error):
        while data := await source.read(_PIECE_BYTES):
            to.write(data)
            await to.drain()


async def _pass_on(
    client: asyncssh.SSHServerProcess[bytes], to: asyncio.StreamWriter, pid: int, *, terminal: int | None = None
) -> None:
    """Passes on what the client sends: bytes, their end, signals and the size of its terminal."""
    with suppress(OSError, asyncssh.Error):
        while True:
            try:
                data = await client.stdin.read(_PIECE_BYTES)
            except asyncssh.TerminalSizeChanged as size:
                if terminal is not None:
                    _resize(terminal, (size.width, size.height, size.pixwidth, size.pixheight))
                continue
            except asyncssh.SignalReceived as asked:
                _signal(pid, _NUMBERS.get(asked.signal, 0))
                continue
            except asyncssh.BreakReceived:
                _signal(pid, signal.SIGINT)
                continue
            if not data:
                break
            to.write(data)
            await to.drain()
        if terminal is None:
            to.close()
        else:
            to.write(_END_OF_FILE)


def _resize(terminal: int, size: tuple[int, int, int, int]) -> None:
    width, height, width_px, height_px = size
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, width_px, height_px))


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, number)


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    """Returns what the program that enters the board's root needs; the client has no say in it."""
    return {**{name: os.environ[name] for name in _KEPT if name in os.environ}, **more}
