"""Ctrl-C where it does no harm: raised in the midst of a library's locks, KeyboardInterrupt would leave them broken."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def noted(note: Callable[[], object]) -> Iterator[None]:
    """Has Ctrl-C call ``note`` in place of raising KeyboardInterrupt, for the length of a ``with``.

    Only the main thread ever meets Ctrl-C; in another one, and where Ctrl-C is dealt with already, this does nothing.
    """
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        note()

    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
