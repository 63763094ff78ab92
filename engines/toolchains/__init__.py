"""What runs a network on a board: ``tensorrt``, ``trtexec``, ``caffe`` or ``onnxruntime``.

A toolchain needs no connection: it is a generator that asks (`Put`, `Run`), is answered, and returns what was measured.
"""

from __future__ import annotations

import difflib

from engines.toolchains import caffe, onnxruntime, tensorrt, trtexec
from engines.toolchains.conversation import Built, Conversation, EngineRun, Put, Request, Run, Toolchain, release
from remote.errors import UsageError
from remote.types import Facts

__all__ = ["Built", "Conversation", "EngineRun", "Put", "Request", "Run", "Toolchain", "default", "names", "toolchain"]

_ALL: dict[str, Toolchain] = {
    "caffe": Toolchain("caffe", caffe.bench, caffe.build),
    "onnxruntime": Toolchain("onnxruntime", onnxruntime.bench, onnxruntime.build),
    "tensorrt": Toolchain("tensorrt", tensorrt.bench, tensorrt.build, keeps=True),
    "trtexec": Toolchain("trtexec", trtexec.bench, trtexec.build, keeps=True),
}


def names() -> tuple[str, ...]:
    """Returns the names of all toolchains."""
    return tuple(_ALL)


def toolchain(name: str) -> Toolchain:
    """Returns the toolchain of that name. Raises UsageError with the nearest one."""
    if name not in _ALL:
        near = difflib.get_close_matches(name, _ALL, 1)
        guess = f"did you mean {near[0]}? " if near else ""
        raise UsageError(f"there is no toolchain {name!r}", f"{guess}toolchains: {', '.join(_ALL)}")
    return _ALL[name]


def default(facts: Facts) -> str:
    """Returns the toolchain that a board is measured with unless another is asked for."""
    major = release(facts)
    if major is None:
        return "onnxruntime"
    return "tensorrt" if major >= tensorrt.FIRST_RELEASE else "caffe"
