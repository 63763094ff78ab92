"""What the simulated runner knows when it is asked for something: the board, the request, the cache of engines."""

from __future__ import annotations

import json
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from engines.onboard.cache import Cache
from engines.onboard.failure import Failed
from engines.onboard.key import engine_key
from engines.simulated.drawer import Drawer
from engines.simulated.stack import Stack
from remote.sim.process import Action, Context, Out

Request = dict[str, Any]
_ACCESS = "ctypes"


@dataclass(frozen=True)
class Site:
    """One request on one board. ``content`` is what the engine is made of, the board's TensorRT and GPU included."""

    context: Context
    request: Request
    stack: Stack
    content: dict[str, Any]
    cache: Cache

    @classmethod
    def of(cls, context: Context, request: Request, stack: Stack) -> Site:
        """Returns what the request means there. Raises Failed for a way to CUDA that the twin does not have."""
        if request.get("cuda") not in (None, _ACCESS):
            what = f"No module named '{request['cuda']}' on the simulated board"
            raise Failed("missing", what, f"leave --cuda out, or use {_ACCESS}")
        content = request.get("content") or {}
        content = {**content, "board": stack.board(content.get("board", {}))}
        return cls(context, request, stack, content, Cache(Drawer(context), request["cache"]))

    @property
    def key(self) -> str:
        """The engine's key."""
        return engine_key(self.content)

    @property
    def device(self) -> str:
        """What the GPU is."""
        return f"{self.stack.architecture}, {self.stack.sms} multiprocessor{'s' if self.stack.sms > 1 else ''}"

    @property
    def variant(self) -> int | None:
        """Which of several engines is meant, None for the one that is kept."""
        number = self.request.get("variant")
        return None if number is None else int(number)

    def path(self, end: str) -> str:
        """Returns where a file of this engine lies beside its plan."""
        return f"{self.cache.folder}/{self.key}.{end}"

    def part(self) -> str:
        """Returns where the engine is built, in a folder that exists."""
        number = self.variant
        return self.cache.part(self.key) if number is None else self.cache.variant(self.key, number)

    def timing(self) -> str | None:
        """Returns the file of the timing cache; one of several engines has none, or they would all be the same."""
        return self.cache.timing_path(self.content["board"]) if self.variant is None and self._remembers else None

    @property
    def _remembers(self) -> bool:
        return self.stack.numbers >= (8,)

    def hello(self) -> Out:
        """Returns the greeting."""
        board = {name: self.content["board"][name] for name in ("tensorrt", "gpu", "active_sms")}
        return say("hello", versions=self.stack.versions(), device=self.device, board=board, key=self.key)

    def keep(self, part: str, built: dict[str, Any]) -> dict[str, Any]:
        """Makes the plan at ``part`` the kept engine; returns its side-car."""
        built = {name: built[name] for name in ("seconds", "workspace_bytes", "notes")}
        entry = self.cache.keep(self.content, self.request["name"], part, {**built, "versions": self.stack.versions()})
        return dict(entry)

    def choose(self) -> str:
        """Returns where the chosen one of several engines lies. Raises Failed where it is not there."""
        path = self.part()
        if not self.context.match(path):
            raise Failed("engine", f"the engine number {self.variant} was not built", "build again")
        return path


Answer = Generator[Action, None, None]


def say(event: str, **fields: Any) -> Out:
    """Returns one line of the runner."""
    return Out(json.dumps({**fields, "event": event}) + "\n")
