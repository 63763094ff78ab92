"""ONNX Runtime: real inference on the processor of any machine that has it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any, Literal

from engines.emit import onnx
from engines.toolchains.conversation import Conversation, Put, Request, Run, check_memory, model_blob, release
from engines.toolchains.talk import ask, run_of, runner_blob
from remote.errors import UsageError
from remote.types import Blob

_FIRST_RELEASE = 32
_SCOPE = "host time of one batch"
_PROTOCOL = (
    "ONNX Runtime on the CPU: after a warm-up, every batch was timed on the board from call to return. "
    "images/s = batch x iterations / time from the first call to the last return."
)


def bench(request: Request) -> Conversation:
    """Measures on the board's processor. Raises UsageError for a board that has no ONNX Runtime, OutOfMemory."""
    return (yield from _converse(request, "bench"))


def build(request: Request) -> Conversation:
    """Loads the network once. Raises UsageError for a board that has no ONNX Runtime, OutOfMemory."""
    return (yield from _converse(request, "build"))


def _converse(request: Request, action: Literal["build", "bench"]) -> Conversation:
    major = release(request.facts)
    if major is not None and major < _FIRST_RELEASE:
        raise UsageError(
            f"onnxruntime: the Python of L4T {request.facts.l4t} is too old for it",
            "use --toolchain caffe on this board, or --host local",
        )
    check_memory(request)
    runner = yield Put(runner_blob())
    if major is not None:
        # JetPack does not bring ONNX Runtime: ask before a large file is made and sent.
        yield from ask(request, runner, "probe")
    path = yield from _model(request)
    inputs = {item.name: item.dims for item in request.model.inputs}
    said = yield from ask(request, runner, action, measured=action == "bench", model=path, inputs=inputs)
    return run_of(request, said, said, _SCOPE, _PROTOCOL)


def _model(request: Request) -> Generator[Put | Run, Any, str]:
    """Puts the model's file on the board and returns its path there; a built-in network is written first."""
    if request.model.source != "builtin":
        return str((yield Put(model_blob(request))))
    path = emitted(request)
    return str((yield Put(Blob(f"{request.model.name}.onnx", path=path))))


def emitted(request: Request) -> Path:
    """Returns the ONNX file of a built-in network, written into ``request.cache`` unless it is there already."""
    spec = request.spec
    writer = hashlib.sha256(Path(onnx.__file__).read_bytes()).hexdigest()[:8]
    path = request.cache / f"{spec.key({})}-{writer}.onnx"
    if not path.exists():
        request.cache.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.{os.getpid()}")
        try:
            onnx.emit_onnx(request.model.network, spec.batch, spec.precision, spec.seed, part)
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
    return path
