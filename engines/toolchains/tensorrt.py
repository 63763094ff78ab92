"""TensorRT, through the Python that JetPack brings for it: L4T r32 and later."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from engines.emit.graphjson import graph_json
from engines.toolchains.conversation import Conversation, Put, Request, check_memory, release
from engines.toolchains.talk import Timed, converse
from remote.errors import UsageError
from remote.types import Blob

FIRST_RELEASE = 32
"""The first L4T release whose TensorRT has a Python API."""

_TIMED = Timed(
    "host time of one batch, input and output on the GPU",
    "TensorRT: after a warm-up, every batch was timed on the board from enqueuing to the end of a blocking "
    "synchronisation, without copies. images/s = batch x iterations / time from the first start to the last end.",
)


def bench(request: Request) -> Conversation:
    """Builds the engine, unless the board has it, and measures it. Raises UsageError for a board without TensorRT."""
    return (yield from _converse(request, "bench"))


def build(request: Request) -> Conversation:
    """Builds the engine, unless the board has it. Raises UsageError for a board without TensorRT."""
    return (yield from _converse(request, "build"))


def _converse(request: Request, action: Literal["build", "bench"]) -> Conversation:
    major, model = release(request.facts), request.model
    if major is None:
        raise UsageError(
            f"tensorrt: {request.facts.board} is not a Jetson with JetPack",
            "use --toolchain onnxruntime on this machine",
        )
    if major < FIRST_RELEASE:
        raise UsageError(
            f"tensorrt: on L4T {request.facts.l4t} it has no Python API (that came with r{FIRST_RELEASE})",
            "use --toolchain caffe on this board",
        )
    check_memory(request)
    path = None
    if model.source != "builtin":
        path = yield Put(Blob(Path(model.source).name, path=Path(model.source)))
    spec = request.spec
    graph = graph_json(model.network, spec.batch, spec.precision, spec.seed)
    return (yield from converse(request, action, _TIMED, path, graph))
