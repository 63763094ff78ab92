"""Building an engine several times and keeping the fastest: tactics are timed anew for each, and builds differ."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

from engines.toolchains.conversation import Put, Request, Run
from engines.toolchains.talk import Said, ask

WARMUP_S = 1.0
DURATION_S = 2.0

Variant = Callable[[int], Generator[Put | Run, Any, tuple[Said, float]]]
"""Builds one of them and times it: what was said while building, and images per second."""


def fastest(
    request: Request, runner: str, variant: Variant
) -> Generator[Put | Run, Any, tuple[Said, tuple[float, ...]]]:
    """Builds as often as ``request.options.builds`` says and keeps the fastest engine as the one of its key.

    Returns what was said while that one was built, and the images per second of all.
    """
    made = []
    for number in range(request.options.builds):
        made.append((yield from variant(number)))
    best = max(range(len(made)), key=lambda number: made[number][1])
    built = {name: made[best][0].one("built")[name] for name in ("seconds", "workspace_bytes", "notes", "why")}
    yield from ask(request, runner, "choose", variant=best, built=built)
    return made[best][0], tuple(per_s for _, per_s in made)


def trial(request: Request) -> Request:
    """Returns the request for the short run by which engines are compared, no longer than the run asked for."""
    return replace(
        request,
        warmup_s=min(WARMUP_S, request.warmup_s),
        duration_s=min(DURATION_S, request.duration_s),
        iterations=None,
    )


def images_per_s(ran: Said, batch: int) -> float:
    """Returns images per second of a short run, 0 where it gave none."""
    start, stop = ran.one("start"), ran.one("stop")
    seconds = stop.get("t_s", 0.0) - start.get("t_s", 0.0)
    return float(batch * stop["iterations"] / seconds) if stop and seconds > 0 else 0.0
