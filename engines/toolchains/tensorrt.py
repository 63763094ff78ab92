"""TensorRT, through the Python that JetPack brings for it: L4T r32.4 and later."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any

from engines.emit.graphjson import graph_json
from engines.toolchains import builds
from engines.toolchains.conversation import Conversation, Put, Request, Run, check_memory, model_blob, release
from engines.toolchains.protocol import SCOPE, protocol_text
from engines.toolchains.talk import Said, ask, run_of, runner_blob
from remote.errors import UsageError

FIRST_RELEASE = 32
"""The first L4T release whose TensorRT has a Python API."""


def bench(request: Request) -> Conversation:
    """Builds the engine, unless the board has it, and measures it. Raises UsageError for a board without TensorRT."""
    return (yield from _converse(request, bench=True))


def build(request: Request) -> Conversation:
    """Builds the engine, unless the board has it. Raises UsageError for a board without TensorRT."""
    return (yield from _converse(request, bench=False))


def check_release(request: Request) -> None:
    """Raises UsageError where the board's L4T has no TensorRT that edgeperf can use."""
    major, name = release(request.facts), request.spec.toolchain
    if major is None:
        raise UsageError(
            f"{name}: {request.facts.board} is not a Jetson with JetPack",
            "use --toolchain onnxruntime on this machine",
        )
    if major < FIRST_RELEASE:
        raise UsageError(
            f"{name}: on L4T {request.facts.l4t} TensorRT has no Python API (that came with r{FIRST_RELEASE})",
            "use --toolchain caffe on this board",
        )


def _converse(request: Request, *, bench: bool) -> Conversation:
    check_release(request)
    check_memory(request)
    model, spec = request.model, request.spec
    runner = yield Put(runner_blob())
    inputs: dict[str, Any] = {}
    if model.source == "builtin":
        what: dict[str, Any] = {"graph": graph_json(model.network, spec.batch, spec.precision, spec.seed)}
    else:
        inputs = {item.name: item.dims for item in model.inputs}
        what = {"inputs": inputs, "model": (yield Put(model_blob(request)))}
    per_s: tuple[float, ...] = ()
    if request.options.builds > 1:
        built, per_s = yield from builds.fastest(request, runner, _variant(request, runner, what))
    else:
        built = yield from ask(request, runner, "build", **what)
    ran = Said(ended_s=built.ended_s)
    if bench and not built.interrupted:
        ran = yield from ask(request, runner, "bench", measured=True, inputs=inputs)
    run = run_of(request, built, ran)
    made = replace(run.built, builds_per_s=per_s) if run.built else None
    done = run.effective or request.options.protocol
    return replace(run, built=made, scope=SCOPE, protocol=protocol_text("TensorRT", done))


def _variant(request: Request, runner: str, what: dict[str, Any]) -> builds.Variant:
    """Returns how one of several engines is built and timed shortly."""

    def make(number: int) -> Generator[Put | Run, Any, tuple[Said, float]]:
        built = yield from ask(request, runner, "build", variant=number, **what)
        short = builds.trial(request)
        ran = yield from ask(short, runner, "bench", variant=number, inputs=what.get("inputs", {}))
        return built, builds.images_per_s(ran, request.spec.batch)

    return make
