"""Three ways to the fake GPU with the manners of the real ones: libcudart, cuda-python, and pycuda.

``modules(way, gpu)`` are entries for ``sys.modules``; those of the other ways are None, so that importing them fails.
"""

from __future__ import annotations

import ctypes
import enum
from collections.abc import Callable
from types import ModuleType
from typing import Any

from tests.engines.trt.fake_gpu import ERRORS, Gpu, GpuError
from tests.engines.trt.fake_pycuda import driver

_NAMES = ("pycuda", "pycuda.driver", "cuda", "cuda.bindings", "cuda.bindings.runtime", "cuda.cudart")

Function = Callable[..., Any]


def functions(gpu: Gpu) -> dict[str, tuple[str, Function]]:
    """Returns the CUDA runtime: the kinds of arguments (p pointer, z size, i number, o returned) and what it does.

    Returned values stand where C has their pointers.
    """
    return {
        "cudaGetDeviceCount": ("o", lambda: gpu.devices),
        "cudaRuntimeGetVersion": ("o", lambda: gpu.runtime),
        "cudaDriverGetVersion": ("o", lambda: gpu.runtime),
        "cudaDeviceGetAttribute": ("oii", lambda number, device: gpu.attribute(number)),
        "cudaMemGetInfo": ("oo", lambda: (gpu.free_bytes, 1 << 32)),
        "cudaSetDevice": ("i", lambda device: None),
        "cudaSetDeviceFlags": ("i", gpu.set_schedule),
        "cudaMalloc": ("oz", gpu.malloc),
        "cudaFree": ("p", lambda pointer: gpu.free(pointer) if pointer else None),
        "cudaMallocHost": ("oz", lambda size: gpu.malloc(size, pinned=True)),
        "cudaHostAlloc": ("ozi", lambda size, flags: gpu.malloc(size, pinned=True)),
        "cudaFreeHost": ("p", lambda pointer: gpu.free(pointer, pinned=True)),
        "cudaMemcpyAsync": ("ppzip", lambda to, of, size, kind, stream: gpu.copy(to, of, size, kind, stream or 0)),
        "cudaStreamCreate": ("o", gpu.stream),
        "cudaStreamCreateWithFlags": ("oi", lambda flags: gpu.stream()),
        "cudaStreamDestroy": ("p", gpu.end_stream),
        "cudaStreamSynchronize": ("p", gpu.finish),
        "cudaStreamWaitEvent": ("ppi", lambda stream, event, flags: gpu.hold(stream, event)),
        "cudaDeviceSynchronize": ("", gpu.finish_all),
        "cudaEventCreate": ("o", lambda: gpu.event(0)),
        "cudaEventCreateWithFlags": ("oi", gpu.event),
        "cudaEventDestroy": ("p", gpu.end_event),
        "cudaEventRecord": ("pp", gpu.record),
        "cudaEventSynchronize": ("p", gpu.wait),
        "cudaEventElapsedTime": ("opp", gpu.elapsed_ms),
        "cudaStreamBeginCapture": ("pi", lambda stream, mode: gpu.begin_capture(stream)),
        "cudaStreamEndCapture": ("po", gpu.end_capture),
        "cudaGraphInstantiate": ("oppiz", lambda graph, node, log, size: gpu.instantiate(graph)),
        "cudaGraphInstantiateWithFlags": ("opz", lambda graph, flags: gpu.instantiate(graph)),
        "cudaGraphLaunch": ("pp", gpu.launch_graph),
        "cudaGraphDestroy": ("p", gpu.end_graph),
        "cudaGraphExecDestroy": ("p", gpu.end_graph),
        "cudaGetLastError": ("", lambda: None),
    }


class Library:
    """libcudart as ctypes loads it. Pointers and sizes must come as such: a plain number is cut to 32 bits."""

    def __init__(self, gpu: Gpu) -> None:
        table = functions(gpu)
        # The third to fifth of these are pointers up to release 11 and flags later: zeros fit both.
        table["cudaGraphInstantiate"] = ("oppp*", lambda graph, node, log, size=None: gpu.instantiate(graph))
        for name, (kinds, act) in table.items():
            setattr(self, name, _CFunction(gpu, name, kinds, act))
        self.cudaGetErrorName = _CText(lambda number: ERRORS.get(number, "unrecognized error code").encode())
        self.cudaGetErrorString = _CText(lambda number: ERRORS.get(number, "unrecognized error code").encode())


class _CFunction:
    restype: Any = ctypes.c_int
    argtypes: Any = None

    def __init__(self, gpu: Gpu, name: str, kinds: str, act: Function) -> None:
        self._gpu, self._name, self._kinds, self._act = gpu, name, kinds, act

    def __call__(self, *arguments: Any) -> int:
        kinds = self._kinds.rstrip("*")
        if len(arguments) < len(kinds) or (len(arguments) > len(kinds) and not self._kinds.endswith("*")):
            raise AssertionError(f"{self._name} called with {len(arguments)} arguments")
        # Instantiation takes five arguments up to release 11 and reads only three later.
        taken = [self._value(kind, value) for kind, value in zip(kinds, arguments, strict=False) if kind != "o"]
        made = [value._obj for kind, value in zip(kinds, arguments, strict=False) if kind == "o"]
        try:
            self._gpu.enter(self._name)
            answer = self._act(*taken)
        except GpuError as error:
            return error.number
        for slot, value in zip(made, answer if isinstance(answer, tuple) else (answer,), strict=False):
            slot.value = value
        return 0

    def _value(self, kind: str, value: Any) -> Any:
        if value is None:
            return None
        if isinstance(value, int):
            if kind in "pz" and self.argtypes is None:
                raise AssertionError(f"{self._name}: a bare number where C reads 64 bits")
            return value
        if ctypes.sizeof(value) != (8 if kind in "pz" else 4):
            raise AssertionError(f"{self._name}: {value!r} has the wrong width")
        return value.value


class _CText:
    restype: Any = ctypes.c_int

    def __init__(self, act: Callable[[int], bytes]) -> None:
        self._act = act

    def __call__(self, number: Any) -> Any:
        text = self._act(getattr(number, "value", number))
        return text if self.restype is ctypes.c_char_p else 0


class _Handle:
    """A stream, event or graph of cuda-python: a number only where asked for one."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __int__(self) -> int:
        return self._handle


_ENUMERATED = {
    ("cudaDeviceGetAttribute", 0): "cudaDeviceAttr",
    ("cudaMemcpyAsync", 3): "cudaMemcpyKind",
    ("cudaStreamBeginCapture", 1): "cudaStreamCaptureMode",
}
_HANDLED = ("cudaStream", "cudaEventCreate", "cudaGraphInst")
_PROVIDED = {
    "cudaDeviceAttr": {
        "cudaDevAttrMultiProcessorCount": 16,
        "cudaDevAttrIntegrated": 18,
        "cudaDevAttrComputeCapabilityMajor": 75,
        "cudaDevAttrComputeCapabilityMinor": 76,
    },
    "cudaMemcpyKind": {"cudaMemcpyHostToDevice": 1, "cudaMemcpyDeviceToHost": 2},
    "cudaStreamCaptureMode": {"cudaStreamCaptureModeGlobal": 0, "cudaStreamCaptureModeThreadLocal": 1},
}


def cuda_python(gpu: Gpu, name: str) -> Any:
    """Returns the module of the CUDA runtime in cuda-python: its functions return (error, value...)."""
    module: Any = ModuleType(name)
    names = {"cudaSuccess": 0, **{name: number for number, name in ERRORS.items()}}
    functional: Any = enum.IntEnum
    error = functional("cudaError_t", names)
    module.cudaError_t = error
    for kind, members in _PROVIDED.items():
        setattr(module, kind, functional(kind, members))

    def wrapped(function: str, kinds: str, act: Function) -> Function:
        wanted = kinds.replace("o", "")

        def call(*arguments: Any) -> tuple[Any, ...]:
            if len(arguments) != len(wanted):
                raise TypeError(f"{function}() takes exactly {len(wanted)} arguments ({len(arguments)} given)")
            for place, value in enumerate(arguments):
                kind = _ENUMERATED.get((function, place))
                if kind and not isinstance(value, getattr(module, kind)):
                    raise TypeError(f"{function}: argument {place} must be of {kind}")
            try:
                gpu.enter(function)
                answer = act(*(value if isinstance(value, float) else int(value) for value in arguments))
            except GpuError as failure:
                return (error(failure.number), *(None for _ in range(kinds.count("o"))))
            values = () if answer is None else answer if isinstance(answer, tuple) else (answer,)
            handled = function.startswith(_HANDLED) and kinds.count("o") == 1
            return (error(0), *(_Handle(value) if handled else value for value in values))

        return call

    for function, (kinds, act) in functions(gpu).items():
        if function == "cudaGraphInstantiate":  # its arguments differ between releases: not to be relied on
            continue
        setattr(module, function, wrapped(function, kinds, act))
    module.cudaGetErrorName = lambda number: (error(0), ERRORS.get(int(number), "unknown").encode())
    return module


def modules(way: str, gpu: Gpu) -> dict[str, ModuleType | None]:
    """Returns entries for ``sys.modules``: "pycuda", "cuda-python", "cudart" (its older name), or "" for none."""
    found: dict[str, ModuleType | None] = dict.fromkeys(_NAMES)
    if way == "pycuda":
        package: Any = ModuleType("pycuda")
        package.driver = found["pycuda.driver"] = driver(gpu)
        found["pycuda"] = package
    elif way == "cuda-python":
        found |= {"cuda": ModuleType("cuda"), "cuda.bindings": ModuleType("cuda.bindings")}
        found["cuda.bindings.runtime"] = cuda_python(gpu, "cuda.bindings.runtime")
    elif way == "cudart":
        found |= {"cuda": ModuleType("cuda"), "cuda.cudart": cuda_python(gpu, "cuda.cudart")}
    for name, module in found.items():
        if module is not None and "." in name:
            setattr(found[name.rpartition(".")[0]], name.rpartition(".")[2], module)
    return found
