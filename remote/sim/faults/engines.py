"""Faults of programs that build and run networks, whichever they are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from remote.sim.faults.fault import Fault, Now
from remote.sim.process import Action, Busy, Died, Program, Sleep, altered

_SIGSEGV = 11
_SHELL = 128  # docker, as a shell, adds it to the signal that ended its program
_LONG_S = 3600.0


class BuildOom(Fault):
    """The kernel ends whatever builds an engine, as it does where memory is short: SIGKILL."""

    def alter(self, twin: dict[str, Any]) -> None:
        twin["build_oom"] = self.is_on


class _OnGpu(Fault, ABC):
    """Something happens to a program while it keeps the GPU busy."""

    def program(self, name: str, program: Program, now: Now) -> Program:
        def change(action: Action) -> Iterator[Action]:
            after_s = self.after_s(now(), action)
            if after_s is None or not isinstance(action, Busy) or action.activity.gpu_load <= 0:
                yield action
                return
            yield replace(action, seconds=after_s)
            yield from self.instead(name, replace(action, seconds=action.seconds - after_s), now)

        return lambda context: altered(program(context), change)

    @abstractmethod
    def instead(self, name: str, rest: Busy, now: Now) -> Iterator[Action]:
        """Yields what the program does instead of the rest of what it was about to do."""


class EngineHang(_OnGpu):
    """A program that computes on the GPU waits for it in vain and hears no Ctrl-C; after FOR it goes on."""

    def instead(self, name: str, rest: Busy, now: Now) -> Iterator[Action]:
        while self.is_on(now()):
            with suppress(KeyboardInterrupt):
                yield Sleep(min(_LONG_S, self.stop_s - now()))
        yield rest


class EngineCrash(_OnGpu):
    """A program that computes on the GPU is ended by SIGSEGV."""

    def instead(self, name: str, rest: Busy, now: Now) -> Iterator[Action]:
        yield from ()
        raise Died(_SHELL + _SIGSEGV if name == "docker" else -_SIGSEGV)
