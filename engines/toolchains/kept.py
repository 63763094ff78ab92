"""The engines that are kept on a board: listing and removing them."""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from engines.toolchains.conversation import Put, Run
from engines.toolchains.talk import Said, runner_blob, understand
from remote.types import Facts, Job

What = Literal["stale", "all", "named"]


@dataclass(frozen=True)
class Kept:
    """An engine on a board. ``state`` is "ok", or what is wrong with it; times are seconds since 1970."""

    key: str
    name: str
    precision: str
    batch: int
    toolchain: str
    plan_bytes: int
    tensorrt: str
    power_mode: str
    wall_s: float
    used_s: float
    state: str


def engines(facts: Facts, power_mode: str) -> Generator[Put | Run, Any, tuple[Kept, ...]]:
    """Asks for the engines kept on a board. Raises EngineError."""
    said = yield from _ask(facts, power_mode, "engines")
    return tuple(Kept(**row) for row in said.one("engines")["rows"])


def prune(
    facts: Facts, power_mode: str, what: What, keys: Sequence[str] = ()
) -> Generator[Put | Run, Any, tuple[tuple[Kept, ...], int]]:
    """Removes engines; returns those removed and the bytes that are free now.

    "stale" are those that this board cannot use as it is, damaged ones and those not used for long.
    """
    said = yield from _ask(facts, power_mode, "prune", what=what, keys=list(keys))
    pruned = said.one("pruned")
    return tuple(Kept(**row) for row in pruned["rows"]), int(pruned["bytes"])


def _ask(facts: Facts, power_mode: str, action: str, **more: Any) -> Generator[Put | Run, Any, Said]:
    runner = yield Put(runner_blob())
    board = {"l4t": facts.l4t, "gpu": facts.board, "power_mode": power_mode}
    asked = {"action": action, "toolchain": "", "cache": facts.cache, "content": {"board": board}, **more}
    completed = yield Run(Job((facts.python, runner), stdin=json.dumps(asked)), measured=False)
    return understand(completed, action)
