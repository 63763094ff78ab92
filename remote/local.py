"""This machine as a board: the on-board programs as child processes. The only POSIX-bound backend."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from remote import bundle
from remote.channel import ChannelTransport
from remote.errors import HostError, LinkLost


class ProcessLink:
    """The standard input and output of a child process as a byte stream."""

    def __init__(self, argv: list[str]) -> None:
        try:
            self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        except OSError as error:
            raise HostError(f"{argv[0]} could not be started: {error.strerror}") from error

    def send(self, data: bytes) -> None:
        assert self._process.stdin is not None
        try:
            view = memoryview(data)
            while view:
                view = view[self._process.stdin.write(view) or 0 :]
        except OSError as error:
            raise LinkLost("the program on this machine has ended", "see its message above") from error

    def receive(self) -> bytes:
        assert self._process.stdout is not None
        data = self._process.stdout.read(1 << 20)
        if not data:
            raise LinkLost("the program on this machine has ended", "see its message above")
        return data

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def connect(cache: Path, root: str = "") -> ChannelTransport:
    """Starts both programs, all paths below ``root`` when given, and returns the connection.

    The programs' zip is kept in ``cache``, named by its hash. Raises HostError.
    """
    programs = bundle.programs()
    zipped = cache / f"onboard-{bundle.build_id()}.zip"
    if not zipped.exists():
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        part = cache / f"{zipped.name}.{os.getpid()}"
        part.write_bytes(programs.data)
        part.replace(zipped)
    start = [sys.executable, "-I", "-S", str(zipped)]
    place = ["--root", root] if root else []
    agent, clockd = (ProcessLink([*start, name, *place]) for name in ("agent", "clockd"))
    return ChannelTransport(agent, clockd, bundle.build_id(), same_machine=not root)
