"""The on-board programs in this process, on the twin's system: a byte stream that advances simulated time."""

from __future__ import annotations

from typing import Any, cast

from remote import boards, bundle
from remote.channel import ChannelTransport, Pulse
from remote.errors import LinkLost
from remote.hosts import Twin
from remote.interrupts import noted
from remote.onboard.agent import Agent
from remote.onboard.clockd import Clockd
from remote.onboard.program import Program as OnBoard
from remote.onboard.system import System
from remote.sim import state
from remote.sim.process import Program
from remote.sim.system import TwinSystem

_PULSE = Pulse()
_MOST_IDLE_TURNS = 10_000
"""Turns in which no time passes and nothing is said: so many mean that nothing ever will be."""


class TwinLink:
    """Lets a program have its turns until it has something to say.

    ``silent_s`` is the longest time for which a fault kept the line silent.
    """

    def __init__(self, program: OnBoard, system: TwinSystem) -> None:
        self.silent_s = 0.0
        self._program = program
        self._system = system
        self._boots = system.machine.boots

    def send(self, data: bytes) -> None:
        if self._program.closed:
            raise self._lost()
        self._system.input.feed(data)

    def receive(self, timeout_s: float | None) -> bytes:
        broken: list[bool] = []
        began_s = self._system.now()
        with noted(lambda: broken.append(True)):  # not in the middle of a turn
            idle = 0
            while not self._system.outbox and not broken:
                if self._program.closed or idle > _MOST_IDLE_TURNS:
                    raise self._lost()
                before_s = self._system.now()
                self._program.turn()
                idle = idle + 1 if self._system.now() == before_s else 0
            self._sit_out(began_s)
        if broken:
            raise KeyboardInterrupt
        data = b"".join(self._system.outbox)
        self._system.outbox.clear()
        return data

    def _lost(self) -> LinkLost:
        ended = "has ended" if self._system.machine.boots == self._boots else "restarted, which ended"
        return LinkLost(f"the simulated board {ended} the connection")

    def _sit_out(self, began_s: float) -> None:
        """Lets the program go on while a fault keeps the line silent. Raises LinkLost where that takes too long."""
        since_s, until_s = self._system.machine.silence
        lost_s = max(since_s, began_s) + _PULSE.silence_s
        end_s = min(until_s, lost_s)
        while self._system.now() < end_s and not self._program.closed:
            due_s = self._program.deadline()
            handles: list[Any] = [self._system.input, *self._program.handles()]
            ready = self._system.wait(handles, end_s if due_s is None else min(end_s, due_s))
            if ready or (due_s is not None and due_s <= self._system.now()):
                self._program.turn()
        if until_s > lost_s:
            raise LinkLost(f"the simulated board has said nothing for {_PULSE.silence_s:g} s")
        self.silent_s = max(self.silent_s, min(until_s, self._system.now()) - max(since_s, began_s))

    def close(self) -> None:
        self._system.input.feed(b"")
        while not self._program.closed:
            self._program.turn()


class TwinTransport(ChannelTransport):
    """The five verbs on a twin. Closing it saves the twin's state where that was asked for."""

    def __init__(self, host: Twin, programs: dict[str, Program], kept: state.Kept | None = None) -> None:
        self._kept = kept or state.open_machine(host, boards.load(host.board).twin, programs)
        self._host, self._programs = host, programs
        machine = self._kept.machine
        self.machine = machine
        links: list[TwinLink] = []
        self._links = links
        for kind, user in ((Agent, "nvidia"), (Clockd, "root")):
            system = TwinSystem(machine, user)
            # Of the same shape as System, which a test compares, but not of its kind: it shares none of its code.
            program = kind(cast(System, system), boards.table(), bundle.build_id())
            machine.attach(program, system)
            program.start()
            links.append(TwinLink(program, system))
        super().__init__(links[0], links[1], bundle.build_id())

    def _silent_s(self) -> float:
        return max(link.silent_s for link in self._links)

    def again(self) -> TwinTransport:
        """Returns another connection to the same board; only closing the first one saves its state."""
        return TwinTransport(self._host, self._programs, state.Fleeting(self.machine))

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._kept.close()
