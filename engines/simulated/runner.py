"""The on-board runner on the twin: speaks as `engines.onboard.runner` does on a board that has TensorRT.

The cache of engines is the on-board one itself, over the twin's files. The twin computes nothing, so it tells no
outputs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from typing import Any

from engines.onboard import kept
from engines.onboard.failure import Failed
from engines.onboard.loop import Interrupt
from engines.simulated import around_trtexec, tensorrt
from engines.simulated.drawer import Drawer
from engines.simulated.site import Request, Site, say
from engines.simulated.stack import Stack
from remote.sim.physics import Activity
from remote.sim.process import Action, Busy, Context, Out

# Assumed, as the module's other constants.
_PYTHON_START_S = 0.2
_START_S = 3.0  # loading Python, CUDA and TensorRT

_TOOLCHAINS: dict[str, Callable[[Site], Generator[Action, None, None]]] = {
    "tensorrt": tensorrt.answer,
    "trtexec": around_trtexec.answer,
}


def run(context: Context) -> Generator[Action, None, int]:
    """Answers the request on stdin; see `engines.onboard.runner`."""
    try:
        yield from _answer(context, json.loads(context.stdin))
    except Failed as failed:
        yield say("failed", kind=failed.kind, what=failed.what, hint=failed.hint, log=failed.log)
        return 1
    except KeyboardInterrupt:
        yield say("done", interrupted=True)
        return 0
    yield say("done")
    return 0


def _answer(context: Context, request: Request) -> Generator[Action, None, None]:
    name = request["toolchain"]
    if not name:
        yield Busy(_PYTHON_START_S, Activity(cpu_load=1.0))
        yield from _kept(context, request)
        return
    if name not in _TOOLCHAINS:
        raise Failed("missing", f"No module named '{name}' on the simulated board", "it has tensorrt or caffe")
    yield Busy(_START_S, Activity(cpu_load=1.0))
    yield from _TOOLCHAINS[name](Site.of(context, request, Stack.of(context)))


class _Never(Interrupt):
    """Ctrl-C ends a simulated program between its actions, so nothing is noted for later."""

    def __init__(self) -> None:
        self.seen = False


def _kept(context: Context, request: Request) -> Generator[Action, None, None]:
    said: list[Out] = []

    def collect(event: str, **fields: Any) -> None:
        said.append(say(event, **fields))

    stack: Any = context.twin.get("tensorrt")  # which the real program knows by the name of its library
    board = {**request["content"]["board"], **({"tensorrt": stack["tensorrt"]} if stack else {})}
    kept.answer({**request, "content": {"board": board}}, _Never(), collect, Drawer(context))
    yield from said
