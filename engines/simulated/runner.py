"""The on-board runner on the twin: speaks as `engines.onboard.runner` does on a board that has TensorRT.

Memory: the weights (twice while the engine is built) and twice the tensors of the largest layer, at the engine's
precision; a workspace; and CUDA with its libraries.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from engines.cost import cost
from engines.emit.graphjson import parse_graph
from engines.network import Network
from engines.simulated.pace import Pace
from remote.errors import UsageError
from remote.sim.physics import Activity
from remote.sim.process import Action, Busy, Context, Out, OutOfBoardMemory

# Assumed, as the module's other constants: nothing published says how long a TX1 builds.
_START_S = 3.0  # loading Python, CUDA and TensorRT
_BUILD_S = 10.0
_BUILD_PER_LAYER_S = 0.5  # and once more for FP16, where kernels of both precisions are tried
_LOAD_BYTES_PER_S = 100e6
_LIBRARIES_BYTES = 600_000_000
_WORKSPACE_BYTES = 256 << 20
_STEP_S = 1.0

_LATENCIES = 20_000


class _Failed(Exception):
    """Ends the run: kind, what, hint."""


@dataclass(frozen=True)
class _Engine:
    """What an engine holds: the bytes of its weights, and of the tensors in use at once."""

    weight_bytes: int
    tensor_bytes: int
    layers: int


def run(context: Context) -> Generator[Action, None, int]:
    """Answers the request on stdin; see `engines.onboard.runner`."""
    try:
        yield from _answer(context, json.loads(context.stdin))
    except _Failed as failed:
        kind, what, hint = failed.args
        yield _say("failed", kind=kind, what=what, hint=hint)
        return 1
    except KeyboardInterrupt:
        yield _say("done", interrupted=True)
        return 0
    yield _say("done")
    return 0


def _answer(context: Context, request: dict[str, Any]) -> Generator[Action, None, None]:
    yield Busy(_START_S, Activity(cpu_load=1.0))
    name, versions = request["toolchain"], context.twin.get("tensorrt")
    if name != "tensorrt" or versions is None:
        has = "tensorrt" if versions else "caffe"
        raise _Failed("missing", f"No module named '{name}' on the simulated board", f"it has {has}")
    yield _say("hello", versions=versions, device=context.twin["device"])
    if request["action"] == "probe":
        return
    network = _network(request)
    yield from _built(context, request, _engine(network, request))
    if request["action"] == "bench":
        yield from _bench(context, request, Pace(context, network, request["batch"], request["precision"], "tensorrt"))


def _network(request: dict[str, Any]) -> Network:
    try:
        return parse_graph(request["graph"] or "")
    except UsageError as error:
        raise _Failed("model", error.what, error.hint) from error


def _engine(network: Network, request: dict[str, Any]) -> _Engine:
    rows = cost(network, request["batch"], request["precision"])
    tensors = max((row.read_bytes - row.weight_bytes + row.written_bytes for row in rows), default=0)
    return _Engine(sum(row.weight_bytes for row in rows), tensors, sum(row.macs > 0 for row in rows))


def _built(context: Context, request: dict[str, Any], engine: _Engine) -> Generator[Action, None, None]:
    """Loads the engine that an earlier run left in the cache, else builds it and leaves it there."""
    plan = f"{request['cache']}/{request['key']}.plan"
    begin_s = context.now()
    try:
        context.load(plan)
        cached = True
    except OSError:
        cached = False
    copies = 1 if cached else 2
    try:
        context.allocate(_LIBRARIES_BYTES + _WORKSPACE_BYTES + copies * engine.weight_bytes + 2 * engine.tensor_bytes)
    except OutOfBoardMemory as error:
        raise _Failed("out_of_memory", f"Cuda Runtime (out of memory): {error}", "use a smaller batch") from None
    if cached:
        yield Busy(engine.weight_bytes / _LOAD_BYTES_PER_S, Activity(cpu_load=1.0))
    else:
        per_layer_s = _BUILD_PER_LAYER_S * (2 if request["precision"] == "fp16" else 1)
        left_s = _BUILD_S + engine.layers * per_layer_s
        while left_s > 0:
            yield Busy(min(_STEP_S, left_s), Activity(gpu_load=0.5, cpu_load=1.0))
            left_s -= _STEP_S
        context.save(plan, b"a simulated engine")
    yield _say(
        "built",
        seconds=context.now() - begin_s,
        cached=cached,
        engine_bytes=engine.weight_bytes,
        precision_found=request["precision"],
        note="",
    )


def _bench(context: Context, request: dict[str, Any], pace: Pace) -> Generator[Action, None, None]:
    warm: list[float] = []
    yield from pace.run(warm, 1, request["warmup_s"])
    yield _say("warm", t_s=context.now(), iterations=len(warm))
    yield _say("start", t_s=context.now())
    done: list[float] = []
    interrupt = None
    try:
        if request["iterations"] is None:
            yield from pace.run(done, request["min_iterations"], request["duration_s"])
        else:
            yield from pace.run(done, request["iterations"], 0.0)
    except KeyboardInterrupt as error:
        interrupt = error
    yield _say("stop", t_s=context.now(), iterations=len(done))
    for first in range(0, len(done), _LATENCIES):
        yield _say("latencies", seconds=[round(seconds, 9) for seconds in done[first : first + _LATENCIES]])
    if interrupt is not None:
        raise interrupt


def _say(event: str, **fields: Any) -> Out:
    return Out(json.dumps({**fields, "event": event}) + "\n")
