"""The one way in which the on-board programs give up."""


class Failed(Exception):
    """Ends the run with ``{"event": "failed"}``.

    ``kind`` is "out_of_memory", "model", "engine", "unsupported" or "missing"; ``hint`` is what to do next.
    """

    def __init__(self, kind: str, what: str, hint: str = "") -> None:
        Exception.__init__(self, what)
        self.kind = kind
        self.what = what
        self.hint = hint
