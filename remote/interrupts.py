"""What ends a command, Ctrl-C and its like, where it does no harm.

Raised in the midst of a library's locks, KeyboardInterrupt would leave them broken.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_ALSO = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


def interrupt_when_ended() -> None:
    """Has SIGTERM and SIGHUP interrupt this process as Ctrl-C does, so that what was measured is saved.

    They come of `kill`, `timeout`, a cancelled CI job, a terminal that is closed. What is ignored, as SIGHUP is under
    nohup, stays so.
    """
    for number in _ALSO:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _once)


def _once(number: int, frame: FrameType | None) -> NoReturn:
    """Is not interrupted again while it saves: a terminal that is closed can send two."""
    for other in _ALSO:
        signal.signal(other, signal.SIG_IGN)
    raise KeyboardInterrupt


@contextmanager
def interrupted_once() -> Iterator[None]:
    """Has the first of Ctrl-C, SIGTERM and SIGHUP raise KeyboardInterrupt, and the others do nothing any more.

    For a ``with`` that ends soon then, has something to save, and after which the process has little left to do.
    """
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, *_ALSO)}
    kept = {number: handler for number, handler in kept.items() if handler is not signal.SIG_IGN}

    def end(number: int, frame: FrameType | None) -> NoReturn:
        for other in kept:
            signal.signal(other, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in kept:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in kept.items():
            if signal.getsignal(number) is end:
                signal.signal(number, handler)


@contextmanager
def noted(note: Callable[[], object]) -> Iterator[None]:
    """Has Ctrl-C and its like call ``note`` in place of raising KeyboardInterrupt, for the length of a ``with``.

    Only the main thread ever meets them; in another one, and where they are dealt with already, this does nothing.
    """

    def handle(number: int, frame: FrameType | None) -> None:
        note()

    kept = {}
    if threading.current_thread() is threading.main_thread():
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, *_ALSO)}
        kept = {n: handler for n, handler in handlers.items() if handler in (signal.default_int_handler, _once)}
    for number in kept:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
