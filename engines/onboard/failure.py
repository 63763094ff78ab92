"""The one way in which the on-board programs give up."""

from typing import Iterable


class Failed(Exception):
    """Ends the run with ``{"event": "failed"}``.

    ``kind`` is "out_of_memory", "model", "unsupported", "missing", "permission", "version", "device", "usage" or
    "engine";
    ``hint`` is what to do next, ``log`` the last lines of the library that failed.
    """

    def __init__(self, kind: str, what: str, hint: str = "", log: Iterable[str] = ()) -> None:
        Exception.__init__(self, what)
        self.kind = kind
        self.what = what
        self.hint = hint
        self.log = list(log)
