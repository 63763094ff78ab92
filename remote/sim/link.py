"""The on-board programs in this process, on the twin's system: a byte stream that advances simulated time."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import cast

from remote import boards, bundle
from remote.access import DEFAULT
from remote.channel import ChannelTransport, Pulse
from remote.errors import HostError, LinkLost
from remote.hosts import Twin
from remote.interrupts import noted
from remote.onboard.agent import Agent
from remote.onboard.clockd import Clockd
from remote.onboard.program import Program as OnBoard
from remote.onboard.system import System
from remote.sim import state
from remote.sim.machine import Machine
from remote.sim.process import Program
from remote.sim.processes import Pipe
from remote.sim.reach import SUDO_ASKS
from remote.sim.system import TwinSystem
from remote.ssh_link import START_S, NotStarted
from remote.types import Event, Job

_PULSE = Pulse()
_MOST_IDLE_TURNS = 10_000
"""Turns in which no time passes and nothing is said: so many mean that nothing ever will be."""
_ANEW = "what was set for one boot is gone with it: try again"
_AGAIN = f"what a measurement had set is put back within {_PULSE.grace_s:g} s: try again"


class TwinLink:
    """Lets a program have its turns until it has something to say.

    ``silent_s`` is the longest time for which a fault kept the line silent, since a job was started.
    """

    def __init__(self, program: OnBoard, system: TwinSystem) -> None:
        self.silent_s = 0.0
        self._program = program
        self._system = system
        self._boots = system.machine.boots
        self._cuts = system.machine.reach.cuts

    def send(self, data: bytes) -> None:
        broken: list[bool] = []
        with noted(lambda: broken.append(True)):  # not in the middle of a turn
            self._travel()
        if self._program.closed or self.cut:
            raise self._lost()
        self._system.input.feed(data)
        if broken:
            raise KeyboardInterrupt

    def receive(self, timeout_s: float | None) -> bytes:
        broken: list[bool] = []
        began_s = self._system.now()
        with noted(lambda: broken.append(True)):  # not in the middle of a turn
            idle = 0
            while not self._system.outbox and not broken:
                if self._program.closed or self.cut or idle > _MOST_IDLE_TURNS:
                    raise self._lost()
                before_s = self._system.now()
                self._program.turn()
                idle = idle + 1 if self._system.now() == before_s else 0
            self._sit_out(began_s)
            self._travel()
        if broken:
            raise KeyboardInterrupt
        data = b"".join(self._system.outbox)
        self._system.outbox.clear()
        return data

    @property
    def cut(self) -> bool:
        """Whether the connection has ended without a goodbye, the board still running."""
        return self._system.machine.reach.cuts > self._cuts

    def _lost(self) -> LinkLost:
        machine = self._system.machine
        if machine.boots > self._boots:
            return LinkLost("the simulated board restarted, which ended the connection", _ANEW)
        if self.cut:
            how = "reset" if machine.reach.was_reset else "lost"
            return LinkLost(f"the connection to the simulated board was {how}", _AGAIN)
        return LinkLost("the simulated board has ended the connection", "try again")

    def _travel(self) -> None:
        """Lets the time pass that a message is on its way."""
        self._wait_until(self._system.now() + self._system.machine.reach.delay_s)

    def _wait_until(self, until_s: float) -> None:
        """Lets the program go on meanwhile."""
        while self._system.now() < until_s and not self._program.closed:
            due_s = self._program.due()
            handles = cast("list[Pipe]", self._program.awaited())
            ready = self._system.wait(handles, until_s if due_s is None else min(until_s, due_s))
            if ready or (due_s is not None and due_s <= self._system.now()):
                self._program.turn()

    def _sit_out(self, began_s: float) -> None:
        """Waits while a fault keeps the line silent. Raises LinkLost where that takes too long."""
        since_s, until_s = self._system.machine.reach.silence
        lost_s = max(since_s, began_s) + _PULSE.silence_s
        self._wait_until(min(until_s, lost_s))
        if until_s > lost_s:
            self._system.machine.hang_up(reset=False)  # the board hears nothing either, and as soon
            raise LinkLost(f"the simulated board has said nothing for {_PULSE.silence_s:g} s", _AGAIN)
        self.silent_s = max(self.silent_s, min(until_s, self._system.now()) - max(since_s, began_s))

    def close(self) -> None:
        """Ends the program: one that was told goodbye at once, one whose line was lost when its grace is over."""
        if self.cut:
            self._system.machine.hurry()
        self._system.input.feed(b"")
        while not self._program.closed:
            self._program.turn()


class TwinTransport(ChannelTransport):
    """The five verbs on a twin. Closing it saves the twin's state where that was asked for.

    Raises HostError where a fault keeps one from connecting.
    """

    def __init__(self, host: Twin, programs: dict[str, Program], kept: state.Kept | None = None) -> None:
        self._kept = kept or state.open_machine(host, boards.load(host.board).twin, programs)
        self._host, self._programs = host, programs
        self.machine = self._kept.machine
        try:
            self._links = _connected(self.machine)
            super().__init__(self._links[0], self._links[1], bundle.build_id())
        except BaseException:
            self._kept.close()
            raise
        if not self.facts.root:
            self.journal = replace(self.journal, notes=(f"not root: {SUDO_ASKS}", *self.journal.notes))

    def stream(self, job: Job) -> Generator[Event, None, None]:
        for link in self._links:
            link.silent_s = 0.0
        yield from super().stream(job)

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


def _connected(machine: Machine) -> list[TwinLink]:
    """Returns the lines to both on-board programs, once they run. Raises HostError."""
    machine.happen()
    reach = machine.reach
    if reach.refuses:
        raise HostError("the simulated board refuses connections", "try again later")
    if 2 * reach.delay_s > DEFAULT.connect_s:
        raise HostError("the simulated board does not answer in time", "try again later")
    systems = [TwinSystem(machine), TwinSystem(machine, "nvidia" if reach.sudo_asks else "root")]
    before, starts_s = (machine.boots, reach.cuts), reach.python_s
    machine.wait(systems[0], [], machine.now_s + min(starts_s, START_S))
    if starts_s > START_S:
        raise NotStarted("the simulated board: the program did not start: it said nothing", "try again later", "")
    if before != (machine.boots, reach.cuts):
        raise LinkLost("the simulated board ended the connection before its programs had started", "try again")
    kinds: list[Callable[..., OnBoard]] = [Agent, Clockd]
    links = []
    for kind, system in zip(kinds, systems, strict=True):
        # Of the same shape as System, which a test compares, but not of its kind: it shares none of its code.
        program = kind(cast(System, system), boards.table(), bundle.build_id(), grace_s=_PULSE.grace_s)
        machine.attach(program, system)
        program.start()
        links.append(TwinLink(program, system))
    return links
