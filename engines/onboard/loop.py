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


def measure(run: Callable[[], Any], request: Dict[str, Any], interrupt: Interrupt, say: Say) -> None:
    """Says ``warm``, ``start``, ``stop`` and ``latencies`` (seconds per run).

    Runs ``iterations`` times where that is given, else for ``duration_s`` and at least ``min_iterations`` times.
    """
    count = 0
    until_s = clock() + request["warmup_s"]
    while not interrupt.seen and (count == 0 or clock() < until_s):
        run()
        count += 1
    say("warm", t_s=clock(), iterations=count)
    if interrupt.seen:
        return
    gc.collect()
    gc.disable()
    start_s = clock()
    say("start", t_s=start_s)
    if request["iterations"] is None:
        latencies = _timed(run, request["min_iterations"], start_s + request["duration_s"], interrupt)
    else:
        latencies = _timed(run, request["iterations"], 0.0, interrupt)
    stop_s = clock()
    gc.enable()
    say("stop", t_s=stop_s, iterations=len(latencies))
    for first in range(0, len(latencies), _CHUNK):
        say("latencies", seconds=[round(seconds, 9) for seconds in latencies[first : first + _CHUNK]])


def _timed(run: Callable[[], Any], least: int, until_s: float, interrupt: Interrupt) -> List[float]:
    latencies = []  # type: List[float]
    end_s = clock()
    while (end_s < until_s or len(latencies) < least) and not interrupt.seen:
        begin_s = clock()
        run()
        end_s = clock()
        latencies.append(end_s - begin_s)
    return latencies
