"""The timed loop: warm up, then run until there is enough, and nothing else meanwhile."""

import gc
import signal
import time
from typing import Any, Callable, Dict, List

clock = time.monotonic  # what the board's samples are stamped with

Say = Callable[..., None]
_CHUNK = 20000


class Interrupt(object):
    """Notes Ctrl-C instead of letting it strike in the middle of a run."""

    def __init__(self) -> None:
        self.seen = False
        signal.signal(signal.SIGINT, self._note)

    def _note(self, number: int, frame: Any) -> None:
        self.seen = True


class Batches(object):
    """What is run batch by batch; this one has each batch done before the next is begun.

    ``latencies_s`` and ``host_s`` hold a number for every batch that is done; ``host_s`` stays empty where the
    latencies are host times themselves.
    """

    def __init__(self, run: Callable[[], Any]) -> None:
        self.latencies_s: List[float] = []
        self.host_s: List[float] = []
        self._run = run

    def submit(self) -> None:
        """Begins another batch, waiting for an earlier one where as many as can be are under way."""
        begin_s = clock()
        self._run()
        self.latencies_s.append(clock() - begin_s)

    def drain(self) -> None:
        """Waits until all batches are done."""


def measure(batches: Batches, request: Dict[str, Any], interrupt: Interrupt, say: Say) -> None:
    """Says ``warm``, ``start``, ``stop``, ``latencies`` and, where it differs, ``host`` (seconds per batch).

    Runs ``iterations`` batches where that is given, else for ``duration_s`` and at least ``min_iterations``.
    """
    _run(batches, 1, clock() + request["warmup_s"], interrupt)
    say("warm", t_s=clock(), iterations=len(batches.latencies_s))
    if interrupt.seen:
        return
    batches.latencies_s, batches.host_s = [], []
    gc.collect()
    gc.disable()
    start_s = clock()
    say("start", t_s=start_s)
    if request["iterations"] is None:
        _run(batches, request["min_iterations"], start_s + request["duration_s"], interrupt)
    else:
        _run(batches, request["iterations"], 0.0, interrupt)
    stop_s = clock()
    gc.enable()
    say("stop", t_s=stop_s, iterations=len(batches.latencies_s))
    for event, seconds in (("latencies", batches.latencies_s), ("host", batches.host_s)):
        for first in range(0, len(seconds), _CHUNK):
            say(event, seconds=[round(value, 9) for value in seconds[first : first + _CHUNK]])


def _run(batches: Batches, least: int, until_s: float, interrupt: Interrupt) -> None:
    begun = 0
    while (begun < least or clock() < until_s) and not interrupt.seen:
        batches.submit()
        begun += 1
    batches.drain()
