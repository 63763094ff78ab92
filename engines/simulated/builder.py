"""How a simulated TensorRT builds: time, memory, and what it remembers of the tactics that it timed."""

from __future__ import annotations

import json
import random
from collections.abc import Generator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from engines.cost import cost
from engines.onboard.failure import Failed
from engines.onboard.memory import HINT, LIBRARIES_BYTES, SMALL_WORKSPACE_BYTES, reduced
from engines.simulated.plan import Plan
from engines.simulated.protocol import Engine
from engines.simulated.stack import Stack
from remote.sim.physics import Activity
from remote.sim.process import Action, Busy, Context, Died, OutOfBoardMemory

# Assumed, as the module's other constants: nothing published says how long these boards build.
_BUILD_S = 10.0
_BUILD_PER_LAYER_S = 0.5  # and once more for FP16, where kernels of both precisions are tried
_KNOWN_LAYER = 0.05  # of that time for a layer whose tactics were timed before
_LOAD_BYTES_PER_S = 100e6
_STEP_S = 1.0
_SIGKILL = 9

_MOST_USED_BYTES = 512 << 20  # a limit on the workspace is not what is used


def build(context: Context, engine: Engine, timing: str | None) -> Generator[Action, None, Plan]:
    """Builds ``engine`` and returns its plan. ``timing`` is the file of a timing cache, None for none.

    Memory is taken for good: build in a process of its own. Raises OutOfBoardMemory.
    """
    plan = Plan.of(engine, Stack.of(context))
    workspace = min(engine.workspace_bytes, _MOST_USED_BYTES)
    context.allocate(LIBRARIES_BYTES + workspace + 2 * plan.engine_bytes + plan.tensor_bytes)
    known = _known(context, timing)
    layers = _layers(engine)
    each_s = _BUILD_PER_LAYER_S * (2 if engine.precision == "fp16" else 1)
    left_s = _BUILD_S + sum(each_s * (_KNOWN_LAYER if layer in known else 1.0) for layer in layers)
    while left_s > 0:
        if _short_of_memory(context):
            raise Died(-_SIGKILL)
        yield Busy(min(_STEP_S, left_s), Activity(gpu_load=0.5, cpu_load=1.0))
        left_s -= _STEP_S
    if timing is None:
        return replace(plan, engine=replace(engine, speed=_luck(context)))
    with suppress(OSError):  # without it the next build takes longer, no more
        context.save(timing, json.dumps(sorted(known | set(layers))).encode())
    return plan


def build_or_smaller(
    context: Context, engine: Engine, timing: str | None
) -> Generator[Action, None, tuple[Plan, list[str]]]:
    """Builds, on a shortage of memory once more with a smaller workspace. Returns plan and notes. Raises Failed."""
    try:
        return (yield from build(context, engine, timing)), []
    except OutOfBoardMemory as error:
        if engine.workspace_bytes <= SMALL_WORKSPACE_BYTES:
            raise out_of_memory(error) from None
    smaller = replace(engine, workspace_bytes=SMALL_WORKSPACE_BYTES)
    try:
        plan = yield from build(context, smaller, timing)
    except OutOfBoardMemory as error:
        raise out_of_memory(error) from None
    return plan, [reduced(engine.workspace_bytes, SMALL_WORKSPACE_BYTES)]


def check(context: Context, request: Mapping[str, Any]) -> tuple[int, list[str]]:
    """Returns the workspace that fits the memory and what to tell of it, as `engines.onboard.memory.check` does.

    Takes that memory. Raises Failed where not even a small workspace fits.
    """
    need, asked = request["need"], request["options"]["workspace_bytes"]
    fixed = LIBRARIES_BYTES + 2 * need["weight_bytes"] + 2 * need["tensor_bytes"]
    try:
        context.allocate(fixed + min(asked, _MOST_USED_BYTES))
    except OutOfBoardMemory:
        small = min(asked, SMALL_WORKSPACE_BYTES)
        try:
            context.allocate(fixed + small)
        except OutOfBoardMemory as error:
            raise out_of_memory(error) from None
        return small, [reduced(asked, small)]
    return asked, []


def load_s(plan: Plan) -> float:
    """Returns how long loading a plan takes, in seconds."""
    return plan.engine_bytes / _LOAD_BYTES_PER_S


def take_memory(context: Context, plan: Plan) -> None:
    """Takes what running an engine needs. Raises OutOfBoardMemory."""
    context.allocate(LIBRARIES_BYTES + plan.engine_bytes + plan.tensor_bytes)


def out_of_memory(error: OutOfBoardMemory) -> Failed:
    """Returns the failure of the runner where memory is short."""
    return Failed("out_of_memory", f"Cuda Runtime (out of memory): {error}", HINT)


def _short_of_memory(context: Context) -> bool:
    """Says whether the kernel ends the build now: a fault of the board."""
    is_on: Any = context.twin.get("build_oom")
    return is_on is not None and bool(is_on(context.now()))


def _layers(engine: Engine) -> list[str]:
    """Returns what tactics are timed for."""
    rows = cost(engine.network, engine.batch, engine.precision)
    return [f"{engine.precision} {row.kind} {row.input_shapes} {row.output_shape}" for row in rows if row.macs]


def _known(context: Context, timing: str | None) -> set[str]:
    """Returns the layers in a timing cache; one that cannot be read is as good as none."""
    if timing is None:
        return set()
    try:
        known: Any = json.loads(context.load(timing))
        return set(map(str, known))
    except (OSError, ValueError, TypeError):
        return set()


def _luck(context: Context) -> float:
    """Returns the speed of an engine whose tactics were timed anew: timings differ, and so do choices."""
    table: Mapping[str, Any] = context.twin
    return max(0.5, random.Random(f"tactics {context.random()}").gauss(1.0, table["protocol"]["tactics"]))
