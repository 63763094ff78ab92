"""Faults of NVIDIA's tools on the board: nvpmodel and tegrastats."""

from __future__ import annotations

import errno
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from typing import Any, cast

from remote.sim.faults.fault import Fault, Now
from remote.sim.kernel.node import fail
from remote.sim.process import Action, Context, Died, Err, Out, Program, altered

_NVPMODEL_FAILED = 255
_SETS = {"-m", "--mode"}


class _Tegrastats(Fault, ABC):
    """Something is wrong with the outputs of tegrastats."""

    def program(self, name: str, program: Program, now: Now) -> Program:
        if name != "tegrastats":
            return program
        return lambda context: altered(program(context), self.change(now))

    @abstractmethod
    def change(self, now: Now) -> Callable[[Action], Iterator[Action]]:
        """Returns what makes of the actions of one started tegrastats what they are with the fault."""


class TegrastatsDies(_Tegrastats):
    """tegrastats ends, and cannot be started again while it lasts. ARGUMENT: its exit code."""

    usual = 1.0

    def change(self, now: Now) -> Callable[[Action], Iterator[Action]]:
        def ended(action: Action) -> Iterator[Action]:
            after_s = self.after_s(now(), action)
            if after_s is None or isinstance(action, Out | Err):
                yield action
                return
            yield replace(action, seconds=after_s)
            raise Died(int(self.argument))

        return ended


class TegrastatsGarbage(_Tegrastats):
    """tegrastats breaks off in its lines and goes on with something else. ARGUMENT: in which share of them."""

    usual = 0.5

    def change(self, now: Now) -> Callable[[Action], Iterator[Action]]:
        def broken(action: Action) -> Iterator[Action]:
            chance = random.Random(f"{now():.9f}")
            if isinstance(action, Out) and self.is_on(now()) and chance.random() < self.argument:
                kept = action.text[: chance.randrange(len(action.text) or 1)]
                yield Out(f"{kept}\x00\ufffd{chance.getrandbits(24):x}\n")
            else:
                yield action

        return broken


class TegrastatsSilent(_Tegrastats):
    """tegrastats does not flush: its lines come in blocks, and what is left at its end never. ARGUMENT: bytes."""

    usual = 4096.0

    def change(self, now: Now) -> Callable[[Action], Iterator[Action]]:
        held: list[str] = []

        def late(action: Action) -> Iterator[Action]:
            if not isinstance(action, Out):
                yield action
                return
            held.append(action.text)
            if not self.is_on(now()) or sum(map(len, held)) >= self.argument:
                yield Out("".join(held))
                held.clear()

        return late


class Nvpmodel255(Fault):
    """nvpmodel sets no power mode: it changes nothing and ends with 255."""

    def program(self, name: str, program: Program, now: Now) -> Program:
        if name != "nvpmodel" or not self.is_on(now()):
            return program
        return lambda context: _refuses() if _SETS.intersection(context.argv) else program(context)


class NvpmodelHalf(Fault):
    """nvpmodel sets part of a mode, then can write no more, and ends with 255. ARGUMENT: how many settings."""

    usual = 6.0

    def program(self, name: str, program: Program, now: Now) -> Program:
        if name != "nvpmodel" or not self.is_on(now()):
            return program
        return lambda context: program(cast(Context, _Tiring(context, int(self.argument))))


class _Tiring:
    """A program's context in which only the first ``left`` writes are taken."""

    def __init__(self, context: Context, left: int) -> None:
        self._context, self._left = context, left

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def write(self, path: str, text: str) -> None:
        """Writes a node as the program's user. Raises OSError."""
        self._left -= 1
        if self._left < 0:
            fail(errno.EIO, path)
        self._context.write(path, text)


def _refuses() -> Generator[Action, None, int]:
    yield Err("NVPM ERROR: failed to set power mode!\n")
    return _NVPMODEL_FAILED
