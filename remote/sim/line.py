"""One host's line to an on-board program of a twin that many hosts talk to, with what faults make of it."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import cast

from remote.channel import Pulse
from remote.sim.processes import Pipe
from remote.sim.resident import Resident

BEAT_S = Pulse().beat_s / 2
"""How often a line says at least that it is there."""

_BEAT = b'{"id":null,"kind":"beat"}\n'
_SILENCE_S = Pulse().silence_s
_MOST_IDLE_TURNS = 10_000
"""Turns in which no time passes and nothing is said: so many mean that nothing ever will be."""
_UNANSWERED = ("ping", "bye")


class Line:
    """Used on its board's thread only.

    What the program says is given to ``say``. ``end`` is told when nothing more will come: whether that is because the
    connection broke, and what was wrong with the program, "" for nothing.
    """

    def __init__(self, resident: Resident, say: Callable[[bytes], None], end: Callable[[bool, str], None]) -> None:
        self.paused = False
        self.ended = False
        self._resident, self._system = resident, resident.system
        self._say, self._end = say, end
        self._reach = self._system.machine.reach
        self._boots, self._cuts = self._system.machine.boots, self._reach.cuts
        self._partial = b""
        self._asked: set[int] = set()
        self._idle_turns = 0
        self._arriving: deque[tuple[float, bytes]] = deque()
        self._leaving: deque[tuple[float, bytes]] = deque()
        self._silent_since: tuple[float, float] | None = None
        self._said_s = time.monotonic()

    def hear(self, data: bytes) -> None:
        """Takes what the host sent, b"" when it is gone."""
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            # The program will say what is wrong with it.
            with suppress(ValueError, LookupError, TypeError, RecursionError):
                request = json.loads(line)
                if request["verb"] not in _UNANSWERED:
                    self._asked.add(request["id"])
        self._arriving.append((self._system.now() + self._reach.delay_s, data))
        self._deliver()

    def _deliver(self) -> None:
        while self._arriving and self._arriving[0][0] <= self._system.now():
            self._system.input.feed(self._arriving.popleft()[1])

    def pause(self, paused: bool) -> None:
        """Keeps the program from saying more than the host can take."""
        self.paused = paused

    @property
    def waits(self) -> bool:
        """Whether its program has something to do for the host."""
        if self.ended or self.paused or self.held:
            return False
        under_way = self._asked or self._arriving or self._leaving or self._system.outbox
        return bool(under_way) or self._system.input.ready

    @property
    def held(self) -> bool:
        """Whether a silence that is over on the board's clock is not over yet for the host."""
        if self._silent_since is None or self._silent():
            return False
        since_s, began_s = self._silent_since
        return time.monotonic() - began_s < min(self._reach.silence[1], self._system.now()) - since_s

    def turn(self) -> None:
        """Lets the program have a turn, in which time may pass."""
        before_s = self._system.now()
        if self._silent():
            self._go_on(min(self._lost_s(), self._reach.silence[1]))
        elif self._arriving or self._leaving:
            self._go_on(min(queue[0][0] for queue in (self._arriving, self._leaving) if queue))
        elif not self._resident.closed:
            self._resident.turn()
        if not self._system.outbox and self._system.now() == before_s:
            self._idle_turns += 1
        else:
            self._idle_turns = 0

    def _go_on(self, until_s: float) -> None:
        """Lets the program do what it does by itself while nothing passes over the line."""
        due_s = self._resident.due()
        handles = cast("list[Pipe]", self._resident.awaited())
        ready = self._system.wait(handles, until_s if due_s is None else min(until_s, due_s))
        if not self._resident.closed and (ready or (due_s is not None and due_s <= self._system.now())):
            self._resident.turn()

    def tell(self) -> None:
        """Passes on what the program has said since; a beat where it has said nothing for long."""
        if self.ended or self.held:
            return
        if self._silent():
            if self._system.now() >= self._lost_s():
                self._finish(True)
            return
        self._silent_since = None
        self._deliver()
        self._post()
        now_s = self._system.now()
        said = b""
        while self._leaving and (self._leaving[0][0] <= now_s or self._resident.closed):
            said += self._leaving.popleft()[1]
        if said or time.monotonic() >= self._said_s + BEAT_S:
            self._say(said or _BEAT)
            self._said_s = time.monotonic()
        broken = self._cuts < self._reach.cuts or self._boots < self._system.machine.boots
        lost = broken or self._idle_turns > _MOST_IDLE_TURNS
        if lost or self._resident.closed or self._resident.alone:
            self._finish(lost)

    def _post(self) -> None:
        """Puts what the program has said since on the way to the host."""
        for data in self._system.outbox:
            message = json.loads(data)
            if message["kind"] in ("end", "error"):
                self._asked.discard(message["id"])
            self._leaving.append((self._system.now() + self._reach.delay_s, data))
        self._system.outbox.clear()

    def _finish(self, lost: bool) -> None:
        self.ended = True
        self._resident.leave()
        self._end(lost, self._resident.failure)

    def _silent(self) -> bool:
        """Says whether a fault keeps the line silent now."""
        since_s, until_s = self._reach.silence
        return since_s <= self._system.now() < until_s and not self._resident.closed

    def _lost_s(self) -> float:
        """Returns when the host gives up on a line that is silent now, counted from the first turn in the silence."""
        if self._silent_since is None:
            self._silent_since = self._system.now(), time.monotonic()
        return self._silent_since[0] + _SILENCE_S
