"""CUDA through NVIDIA's cuda-python, whose module has moved between its releases."""

import importlib
from typing import Any, Callable

from engines.onboard.cuda import CudaError

# Arguments that have to be members of an enumeration: (position, enumeration) by function.
_ENUMERATED = {
    "cudaDeviceGetAttribute": (0, "cudaDeviceAttr"),
    "cudaMemcpyAsync": (3, "cudaMemcpyKind"),
    "cudaStreamBeginCapture": (1, "cudaStreamCaptureMode"),
}


def connect() -> Callable[..., Any]:
    """Returns the way to CUDA. Raises ImportError where it is not installed."""
    try:
        return caller(importlib.import_module("cuda.bindings.runtime"))
    except ImportError:
        return caller(importlib.import_module("cuda.cudart"))  # the name up to 12.x


def caller(runtime: Any) -> Callable[..., Any]:
    """Returns the way to CUDA through ``runtime``, the module of the CUDA runtime."""

    def call(name: str, *given: Any) -> Any:
        arguments = list(given)
        if name in _ENUMERATED:
            position, enumeration = _ENUMERATED[name]
            arguments[position] = getattr(runtime, enumeration)(arguments[position])
        if name == "cudaGraphInstantiate":
            # Its own arguments have changed between releases; those of this one have not.
            name, arguments = "cudaGraphInstantiateWithFlags", arguments + [0]
        answer = getattr(runtime, name)(*arguments)
        if int(answer[0]):
            raise CudaError(int(answer[0]), getattr(answer[0], "name", "unknown"))
        return answer[1] if len(answer) == 2 else answer[1:]

    return call
