"""A twin that outlives a command: settings, time, heat and files of a `Machine` in a JSON file.

The file is locked by a second one beside it (``NAME.lock``) for as long as it is in use, and replaced in one move.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from remote.errors import HostError, UsageError
from remote.hosts import Twin
from remote.sim.machine import Machine
from remote.sim.process import Program

if sys.platform == "win32":
    import msvcrt

    def _lock(fd: int) -> None:
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _lock(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


_SCHEMA = 1


class Kept(Protocol):
    """A machine in use; `close` ends that."""

    @property
    def machine(self) -> Machine:
        """The machine."""

    def save(self) -> None:
        """Saves what is to be kept. Raises HostError."""

    def close(self) -> None:
        """Saves what is to be kept, for the last time. Raises HostError."""


@dataclass(frozen=True)
class Fleeting:
    """A machine that nothing is kept of."""

    machine: Machine

    def save(self) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Does nothing."""


def open_machine(
    host: Twin,
    twin: Mapping[str, Any],
    programs: Mapping[str, Program],
    sleep: Callable[[float], None] = time.sleep,
) -> Kept:
    """Returns the machine that a host string names, in the state kept for it. Raises what `StateFile` does.

    ``sleep`` is how real time passes for one with ``speed=1``.
    """
    machine = Machine(
        host.board,
        host.release,
        twin,
        seed=host.seed,
        cores=host.cores,
        mode=host.mode,
        probe=host.probe,
        speed=host.speed,
        programs=programs,
        faults=host.faults,
        sleep=sleep,
    )
    return StateFile(Path(host.state), machine) if host.state else Fleeting(machine)


class StateFile:
    """Takes a machine's state from ``path`` (where there is one) and puts it back there on `close`.

    Raises HostError when another command has the file in use, UsageError when it is no state of this board and release.
    """

    def __init__(self, path: Path, machine: Machine) -> None:
        self._path, self._machine = path, machine
        try:
            if path.exists() and not path.is_file():
                raise UsageError(f"state={path} is no file", "name a file in a folder that you may write to")
            self._fd = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise HostError(
                f"state={path}: {error.strerror}", "name a file in a folder that you may write to"
            ) from error
        try:
            _lock(self._fd)
        except OSError as error:
            os.close(self._fd)
            raise HostError(
                f"state={path} is in use by another command", "wait for it, or name another file for another board"
            ) from error
        try:
            self._restore()
        except BaseException:
            os.close(self._fd)
            raise

    @property
    def machine(self) -> Machine:
        """The machine whose state this is."""
        return self._machine

    def _restore(self) -> None:
        path, machine = self._path, self._machine
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise UsageError(f"state={path} cannot be read: {error.strerror}", "name another file") from error
        try:
            saved: dict[str, Any] = json.loads(text)
            kept = (saved["schema"], saved["board"], saved["release"])
            if kept == (_SCHEMA, machine.board, machine.release):
                machine.restore(saved["machine"])
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise UsageError(
                f"state={path} is not the state of a simulated board", "remove it or name another file"
            ) from error
        if kept != (_SCHEMA, machine.board, machine.release):
            raise UsageError(
                f"state={path} is of {kept[1]}@{kept[2]}, not of {machine.board}@{machine.release}",
                f"use sim:{kept[1]}@{kept[2]}, or another file",
            )

    def save(self) -> None:
        """Saves the machine as it is now. Raises HostError."""
        machine = self._machine
        record = {"schema": _SCHEMA, "board": machine.board, "release": machine.release, "machine": machine.save()}
        part = self._path.with_name(f"{self._path.name}.part")
        try:
            part.write_text(json.dumps(record, indent=1), "utf-8")
            os.replace(part, self._path)
        except OSError as error:
            raise HostError(
                f"state={self._path} cannot be saved: {error.strerror}", "name a file in a folder that you may write to"
            ) from error

    def close(self) -> None:
        """Saves the machine and gives the file free. Raises HostError."""
        try:
            self.save()
        finally:
            os.close(self._fd)
