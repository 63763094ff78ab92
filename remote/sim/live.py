"""A twin that many hosts talk to at once: it lives on a thread of its own, where all that happens to it happens.

At full speed its time passes only while somebody waits for an answer, as in `remote.sim.link`; in real time always.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TypeVar, cast

from remote import boards, bundle
from remote.channel import Pulse
from remote.hosts import Twin
from remote.onboard.agent import Agent
from remote.onboard.clockd import Clockd
from remote.onboard.program import Program as OnBoard
from remote.onboard.system import System
from remote.sim import state
from remote.sim.process import Program
from remote.sim.processes import Pipe
from remote.sim.system import TwinSystem

_Answer = TypeVar("_Answer")

PROGRAMS: Mapping[str, type[OnBoard]] = {"agent": Agent, "clockd": Clockd}
"""The on-board programs by the word that starts them."""

_BEAT = b'{"id":null,"kind":"beat"}\n'
_PULSE = Pulse()
_BEAT_S = _PULSE.beat_s / 2
_STEP_S = 0.05
"""How much time passes at once in real time while nobody waits for anything."""
_MOST_IDLE_TURNS = 10_000
"""Turns in which no time passes and nothing is said: so many mean that nothing ever will be."""
_UNANSWERED = ("ping", "bye")


class Line:
    """One on-board program and the host that it talks to. Used on its board's thread only.

    What the program says is given to ``say``; ``end`` is told when nothing more will come,
    and whether that is because the connection broke.
    """

    def __init__(self, program: OnBoard, system: TwinSystem, say: Callable[[bytes], None], end: Callable[[bool], None]):
        self.paused = False
        self.ended = False
        self._program, self._system = program, system
        self._say, self._end = say, end
        self._boots = system.machine.boots
        self._partial = b""
        self._asked: set[int] = set()
        self._idle_turns = 0
        self._held_s: float | None = None
        self._said_s = time.monotonic()

    def hear(self, data: bytes) -> None:
        """Takes what the host sent, b"" when it is gone."""
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            with suppress(ValueError, LookupError, TypeError):  # the program will say what is wrong with it
                request = json.loads(line)
                if request["verb"] not in _UNANSWERED:
                    self._asked.add(request["id"])
        self._system.input.feed(data)

    def pause(self, paused: bool) -> None:
        """Keeps the program from saying more than the host can take."""
        self.paused = paused

    @property
    def waits(self) -> bool:
        """Whether its program has something to do for the host."""
        if self.ended or self.paused:
            return False
        return bool(self._asked) or bool(self._system.outbox) or self._system.input.ready

    def turn(self) -> None:
        """Lets the program have a turn, in which time may pass."""
        before_s = self._system.now()
        if self._silent():
            self._sit_out()
        elif not self._program.closed:
            self._program.turn()
        if not self._system.outbox and self._system.now() == before_s:
            self._idle_turns += 1
        else:
            self._idle_turns = 0

    def tell(self) -> None:
        """Passes on what the program has said since; a beat where it has said nothing for long."""
        if self.ended:
            return
        if self._silent():
            if self._system.now() >= self._lost_s():
                self._finish(True)
            return
        self._held_s = None
        outbox = self._system.outbox
        for message in map(json.loads, outbox):
            if message["kind"] in ("end", "error"):
                self._asked.discard(message["id"])
        now_s = time.monotonic()
        if outbox or now_s >= self._said_s + _BEAT_S:
            self._say(b"".join(outbox) or _BEAT)
            self._said_s = now_s
            outbox.clear()
        lost = self._idle_turns > _MOST_IDLE_TURNS or self._system.machine.boots > self._boots
        if lost or self._program.closed:
            self._finish(lost)

    def _finish(self, lost: bool) -> None:
        self.ended = True
        self.close()
        self._end(lost)

    def _lost_s(self) -> float:
        """Returns when the host gives up on a line that is silent now, counted from the first turn in the silence."""
        if self._held_s is None:
            self._held_s = self._system.now()
        return self._held_s + _PULSE.silence_s

    def _sit_out(self) -> None:
        """Lets the program go on while nothing that it says arrives."""
        due_s, until_s = self._program.deadline(), min(self._lost_s(), self._system.machine.silence[1])
        handles = [self._system.input, *self._program.handles()]
        ready = self._system.wait(cast("list[Pipe]", handles), until_s if due_s is None else min(until_s, due_s))
        if ready or (due_s is not None and due_s <= self._system.now()):
            self._program.turn()

    def _silent(self) -> bool:
        """Says whether a fault keeps the line silent now."""
        since_s, until_s = self._system.machine.silence
        return since_s <= self._system.now() < until_s and not self._program.closed

    def close(self) -> None:
        """Ends the program, which puts back what it holds."""
        self._system.input.feed(b"")
        while not self._program.closed:
            self._program.turn()


class LiveBoard:
    """The board that a host string names. ``programs`` are what it can run beside its own. Raises as `state` does."""

    def __init__(self, host: Twin, programs: Mapping[str, Program]) -> None:
        self.name = host.board
        self._kept = state.open_machine(host, boards.load(host.board).twin, programs)
        self.machine = self._kept.machine
        self._clock = TwinSystem(self.machine, "root") if host.speed == "1" else None
        self._inbox: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._lines: list[Line] = []
        self._closing = False
        self._thread = threading.Thread(target=self._live, name=f"twin {host.text}", daemon=True)
        self._thread.start()

    def open_line(self, word: str, user: str, say: Callable[[bytes], None], end: Callable[[bool], None]) -> Line:
        """Starts an on-board program as ``user``; returns its line. For the board's thread, as `Line` is."""
        system = TwinSystem(self.machine, user)
        program = PROGRAMS[word](cast(System, system), boards.table(), bundle.build_id())
        self.machine.attach(program, system)
        program.start()
        line = Line(program, system, say, end)
        self._lines.append(line)
        return line

    def post(self, act: Callable[[], object]) -> None:
        """Has something done on the board's thread, after all that was posted before."""
        self._inbox.put(act)

    def call(self, act: Callable[[], _Answer]) -> _Answer:
        """Returns what a function gives on the board's thread; raises what it raises."""
        answer: Future[_Answer] = Future()

        def run() -> None:
            try:
                answer.set_result(act())
            except BaseException as error:
                answer.set_exception(error)

        self.post(run)
        return answer.result()

    def close(self) -> None:
        """Ends the programs, which put back what they hold, and saves the state where that was asked for."""
        if self._thread.is_alive():
            self.call(self._stop)
            self._thread.join()
            self._kept.close()

    def _stop(self) -> None:
        for line in self._lines:
            line.close()
        self._closing = True

    def _live(self) -> None:
        while not self._closing:
            busy = [line for line in self._lines if line.waits]
            self._take(0.0 if busy or self._clock else _BEAT_S)
            for line in busy:
                line.turn()
            if self._clock and not busy:
                self.machine.wait(self._clock, [], self.machine.now_s + _STEP_S)
            for line in self._lines:
                line.tell()
            self._lines = [line for line in self._lines if not line.ended]

    def _take(self, patience_s: float) -> None:
        """Does what was posted; waits a while for the first of it."""
        with suppress(Empty):
            self._inbox.get(timeout=patience_s)() if patience_s else self._inbox.get_nowait()()
            while True:
                self._inbox.get_nowait()()
