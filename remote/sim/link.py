"""The on-board programs in this process, on the twin's system: a byte stream that advances simulated time."""

from __future__ import annotations

from typing import cast

from remote import boards, bundle
from remote.channel import ChannelTransport
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

_MOST_IDLE_TURNS = 10_000
"""Turns in which no time passes and nothing is said: so many mean that nothing ever will be."""


class TwinLink:
    """Lets a program have its turns until it has something to say."""

    def __init__(self, program: OnBoard, system: TwinSystem) -> None:
        self._program = program
        self._system = system

    def send(self, data: bytes) -> None:
        if self._program.closed:
            raise LinkLost("the simulated board has ended the connection")
        self._system.input.feed(data)

    def receive(self, timeout_s: float | None) -> bytes:
        broken: list[bool] = []
        with noted(lambda: broken.append(True)):  # not in the middle of a turn
            idle = 0
            while not self._system.outbox and not broken:
                if self._program.closed or idle > _MOST_IDLE_TURNS:
                    raise LinkLost("the simulated board has ended the connection")
                before_s = self._system.now()
                self._program.turn()
                idle = idle + 1 if self._system.now() == before_s else 0
        if broken:
            raise KeyboardInterrupt
        data = b"".join(self._system.outbox)
        self._system.outbox.clear()
        return data

    def close(self) -> None:
        self._system.input.feed(b"")
        while not self._program.closed:
            self._program.turn()


class TwinTransport(ChannelTransport):
    """The five verbs on a twin. Closing it saves the twin's state where that was asked for."""

    def __init__(self, host: Twin, programs: dict[str, Program]) -> None:
        self._kept = state.open_machine(host, boards.load(host.board).twin, programs)
        machine = self._kept.machine
        self.machine = machine
        links = []
        for kind, user in ((Agent, "nvidia"), (Clockd, "root")):
            system = TwinSystem(machine, user)
            # Of the same shape as System, which a test compares, but not of its kind: it shares none of its code.
            program = kind(cast(System, system), boards.table(), bundle.build_id())
            machine.attach(program, system)
            program.start()
            links.append(TwinLink(program, system))
        super().__init__(links[0], links[1], bundle.build_id())

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._kept.close()
