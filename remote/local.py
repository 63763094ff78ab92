"""This machine as a board: the on-board programs as child processes. The only POSIX-bound backend."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path

from remote import bundle
from remote.access import PASSWORD_VARIABLE
from remote.channel import ChannelTransport
from remote.errors import HostError, LinkLost


class ProcessLink:
    """The standard input and output of a child process as a byte stream."""

    def __init__(self, argv: list[str]) -> None:
        # A session of its own: a closed terminal or `timeout` ends this process and its group, but not the program that
        # then has to put the clocks back.
        try:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
                env={name: text for name, text in os.environ.items() if name != PASSWORD_VARIABLE},
            )
        except OSError as error:
            raise HostError(f"{argv[0]} could not be started: {error.strerror}") from error

    def send(self, data: bytes) -> None:
        assert self._process.stdin is not None
        try:
            view = memoryview(data)
            while view:
                view = view[self._process.stdin.write(view) or 0 :]
        except (OSError, ValueError) as error:  # ValueError: it was closed here
            raise LinkLost("the program on this machine has ended", "see its message above") from error

    def receive(self, timeout_s: float | None) -> bytes:
        assert self._process.stdout is not None
        data = self._process.stdout.read(1 << 20)
        if not data:
            raise LinkLost("the program on this machine has ended", "see its message above")
        return data

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        while self._process.stdout.read(1 << 20):  # or a full pipe keeps it from noticing
            pass
        self._process.wait()
        self._process.stdout.close()


def connect(cache: Path, root: str = "") -> ChannelTransport:
    """Starts both programs, all paths below ``root`` when given, and returns the connection.

    The programs' zip is kept in ``cache``, named by its hash. Raises HostError.
    """
    start = [sys.executable, "-I", "-S", str(_zipped(cache))]
    place = ["--root", root] if root else []
    with ExitStack() as opened:
        agent = opened.enter_context(closing(ProcessLink([*start, "agent", *place])))
        clockd = opened.enter_context(closing(ProcessLink([*start, "clockd", *place, "--guard", "yes"])))
        transport = ChannelTransport(agent, clockd, bundle.build_id(), same_machine=not root)
        opened.pop_all()
    return transport


def _zipped(cache: Path) -> Path:
    """Returns the zip's file, written unless it is there as it must be: it may be run as root."""
    programs = bundle.programs()
    zipped = cache / f"onboard-{bundle.build_id()}.zip"
    try:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not zipped.is_file() or zipped.read_bytes() != programs.data:
            part = cache / f"{zipped.name}.{os.getpid()}"
            part.write_bytes(programs.data)
            part.replace(zipped)
    except OSError as error:
        raise HostError(
            f"the on-board programs cannot be kept in {cache}: {error.strerror}",
            "make that folder your own, or name another one in XDG_CACHE_HOME",
        ) from error
    return zipped
