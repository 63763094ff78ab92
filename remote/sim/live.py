"""A twin that many hosts talk to at once: it lives on a thread of its own, where all that happens to it happens.

At full speed its time passes only while somebody waits for an answer, as in `remote.sim.link`; in real time always, and
so it does while a measurement waits for a host that it has lost.
"""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from remote import boards
from remote.errors import HostError
from remote.hosts import Twin
from remote.sim import state
from remote.sim.line import BEAT_S, Line
from remote.sim.process import Program
from remote.sim.resident import Resident, ServedSystem
from remote.sim.system import TwinSystem

_Answer = TypeVar("_Answer")

_STEP_S = 0.05
"""How much time passes at once where it passes by itself."""
_SAVE_S = 1.0
_MOST_BEHIND_S = 1.0
"""Real time is caught up with after a turn that took long, but not beyond this."""


class LiveBoard:
    """The board that a host string names. ``programs`` are what it can run beside its own. Raises as `state` does.

    What is asked of it from other threads goes through `post`, `ask` and `call`. What is kept of it is saved when a
    line ends, some seconds after any other change, and when it is closed.
    """

    def __init__(self, host: Twin, programs: Mapping[str, Program]) -> None:
        self.name = host.board
        self._inbox: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self._kept = state.open_machine(host, boards.load(host.board).twin, programs, self._sleep)
        self.machine = self._kept.machine
        self.real = host.speed == "1"
        """Whether its time is real, and passes by itself; its calendar is this machine's then."""
        if self.real:
            self.machine.wall_step_s += time.time() - self.machine.wall_s
        self.machine.happen()  # whoever connects meets what is wrong from the start
        self._clock = TwinSystem(self.machine, "root")
        self._lines: list[Line] = []
        self._residents: list[Resident] = []
        self._closing = self._closed = False
        self._over = threading.Event()
        self._asked: set[Future[Any]] = set()
        self._awake_s = self._passed_s = time.monotonic()
        self._save_s: float | None = None
        self._thread = threading.Thread(target=self._live, name=f"twin {host.text}", daemon=True)
        self._thread.start()

    # From any thread

    def post(self, act: Callable[[], object]) -> None:
        """Has something done on the board's thread, after all that was posted before."""
        self._inbox.put(act)

    def ask(self, act: Callable[[], _Answer]) -> Future[_Answer]:
        """Has something done on the board's thread; returns what will hold its result or what it raised.

        That is HostError where the board has ended.
        """
        answer: Future[_Answer] = Future()

        def run() -> None:
            if not answer.set_running_or_notify_cancel():
                return  # nobody waits for it any more
            try:
                answer.set_result(act())
            except BaseException as error:
                answer.set_exception(error)

        self._asked.add(answer)
        answer.add_done_callback(self._asked.discard)
        self.post(run)
        if self._over.is_set():
            self._give_up()
        return answer

    def _give_up(self) -> None:
        """Tells those who still wait for an answer that there will be none."""
        for answer in list(self._asked):
            with suppress(InvalidStateError):
                answer.set_exception(HostError("the simulated board has ended", "start it again"))

    def call(self, act: Callable[[], _Answer]) -> _Answer:
        """Returns what a function gives on the board's thread; raises what it raises."""
        return self.ask(act).result()

    def close(self) -> None:
        """Ends the programs, which put back what they hold, and saves the state where that was asked for."""
        if self._closed:
            return
        self._closed = True
        try:
            with suppress(HostError):  # it has ended by itself
                self.call(self._stop)
            self._thread.join()
        finally:
            self._kept.close()

    # On the board's thread

    def open_line(
        self, word: str, user: str, grace_s: float, say: Callable[[bytes], None], end: Callable[[bool, str], None]
    ) -> Line:
        """Starts an on-board program as ``user``; returns the line to it."""
        self._let_pass(self.machine.reach.python_s)
        resident = Resident(word, ServedSystem(self.machine, user), grace_s)
        self._residents.append(resident)
        return self._lined(resident, say, end)

    def pick_up(self, word: str, say: Callable[[bytes], None], end: Callable[[bool, str], None]) -> Line | None:
        """Returns a line to the on-board program that waits for a host which it has lost, None where there is none."""
        for resident in self._residents:
            if resident.word == word and resident.alone:
                resident.knock()
                return self._lined(resident, say, end)
        return None

    def _lined(self, resident: Resident, say: Callable[[bytes], None], end: Callable[[bool, str], None]) -> Line:
        self._lines.append(Line(resident, say, end))
        return self._lines[-1]

    def _stop(self) -> None:
        try:
            for resident in self._residents:
                resident.end()
        finally:
            self._closing = True

    def _live(self) -> None:
        try:
            self._go_round()
        finally:
            self._over.set()
            self._give_up()

    def _go_round(self) -> None:
        while not self._closing:
            busy = [line for line in self._lines if line.waits]
            if busy:
                self._take(0.0)
            elif not self.real:
                alone = self.machine.reach.refuses or any(resident.alone for resident in self._residents)
                held = any(line.held for line in self._lines)
                self._take(_STEP_S if alone or held else BEAT_S)
                self._let_pass(time.monotonic() - self._passed_s if alone else 0.0)
            else:
                self._let_pass(_STEP_S)
            for line in busy:
                line.turn()
            self._passed_s = time.monotonic()
            self._hear_out()
            self._save()

    def _hear_out(self) -> None:
        """Passes on what was said, and forgets whoever has ended."""
        for line in self._lines:
            line.tell()
        left = [line for line in self._lines if not line.ended]
        if len(left) < len(self._lines):
            self._save_s = 0.0
        self._lines = left
        self._residents = [resident for resident in self._residents if not resident.closed]

    def _let_pass(self, seconds: float) -> None:
        """Lets time pass on the board."""
        until_s = self.machine.now_s + seconds
        while self.machine.now_s < until_s and not self._closing:
            before_s, boots = self.machine.now_s, self.machine.boots
            self.machine.wait(self._clock, [], until_s)
            if (before_s, boots) == (self.machine.now_s, self.machine.boots):
                return  # asked for in the middle of somebody else's wait, where time passes already

    def _sleep(self, seconds: float) -> None:
        """Lets real time pass, in which others may ask for something."""
        self._awake_s = max(self._awake_s + seconds, time.monotonic() - _MOST_BEHIND_S)
        while (left_s := self._awake_s - time.monotonic()) > 0:
            self._take(left_s)

    def _take(self, patience_s: float) -> None:
        """Does what was posted; waits a while for the first of it."""
        with suppress(Empty):
            act = self._inbox.get(timeout=patience_s) if patience_s > 0 else self._inbox.get_nowait()
            while True:
                try:
                    act()
                except Exception:  # it is of one host; the others' board lives on
                    traceback.print_exc(file=sys.stderr)
                if self._save_s is None:
                    self._save_s = time.monotonic() + _SAVE_S
                act = self._inbox.get_nowait()

    def _save(self) -> None:
        if self._save_s is not None and time.monotonic() >= self._save_s:
            with suppress(HostError):  # it is told when the board is closed
                self._kept.save()
            self._save_s = None
