"""`pycuda.driver` over the fake GPU: objects that give back what they hold, and a context that must be current."""

from __future__ import annotations

import enum
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from tests.engines.trt.fake_gpu import ERRORS, Gpu, GpuError

_TEXTS = {2: "out of memory", 35: "CUDA driver version is insufficient", 100: "no CUDA-capable device is detected"}


def driver(gpu: Gpu) -> Any:
    """Returns the module."""
    module: Any = ModuleType("pycuda.driver")
    module.Error = type("Error", (Exception,), {})
    module.LogicError = type("LogicError", (module.Error,), {})
    module.RuntimeError = type("RuntimeError", (module.Error,), {})
    module.MemoryError = type("MemoryError", (module.Error,), {})
    state = {"begun": False, "contexts": 0}

    def run(name: str, function: str, act: Callable[..., Any], *arguments: Any, bare: bool = False) -> Any:
        """Calls with the runtime's name for faults; pycuda's errors name the driver's function."""
        if not bare and not state["contexts"]:
            raise module.LogicError(f"{function} failed: invalid device context")
        try:
            gpu.enter(name)
            return act(*arguments)
        except GpuError as error:
            kind = module.MemoryError if error.number == 2 else module.LogicError
            raise kind(f"{function} failed: {_TEXTS.get(error.number, ERRORS[error.number])}") from None

    def init(flags: int = 0) -> None:
        run("cudaGetDeviceCount", "cuInit", lambda: None, bare=True)
        state["begun"] = True

    class Context:
        def push(self) -> None:
            state["contexts"] += 1

        @staticmethod
        def pop() -> None:
            if not state["contexts"]:
                raise module.LogicError("context::pop failed: invalid device context - cannot pop non-current context")
            state["contexts"] -= 1

        def detach(self) -> None:
            """Gives the context back."""

    class Device:
        def __init__(self, number: int) -> None:
            if not state["begun"]:
                raise module.LogicError("cuDeviceGet failed: initialization error")
            if number >= gpu.devices:
                raise module.LogicError("cuDeviceGet failed: invalid device ordinal")

        @staticmethod
        def count() -> int:
            if not state["begun"]:
                raise module.LogicError("cuDeviceGetCount failed: initialization error")
            return gpu.devices

        def get_attribute(self, attribute: Any) -> int:
            return gpu.attribute(_Attribute(attribute).value)

        def compute_capability(self) -> tuple[int, int]:
            return gpu.capability

        def name(self) -> str:
            return "fake"

        def retain_primary_context(self) -> Context:
            return Context()

    module.init, module.Device, module.Context = init, Device, Context
    module.device_attribute = _Attribute
    module.event_flags = _EventFlags
    module.get_version = lambda: (gpu.runtime // 1000, gpu.runtime % 1000 // 10, 0)
    module.get_driver_version = lambda: gpu.runtime
    module.mem_get_info = lambda: run("cudaMemGetInfo", "cuMemGetInfo", lambda: (gpu.free_bytes, 1 << 32))
    _memory(module, gpu, run)
    _queues(module, gpu, run)
    return module


class _EventFlags(enum.IntEnum):
    DEFAULT = 0
    BLOCKING_SYNC = 1
    DISABLE_TIMING = 2


class _Attribute(enum.IntEnum):
    MULTIPROCESSOR_COUNT = 16
    INTEGRATED = 18
    COMPUTE_CAPABILITY_MAJOR = 75
    COMPUTE_CAPABILITY_MINOR = 76


class _Held:
    """Memory that is given back once: by ``free``, or when nobody holds it any more."""

    def __init__(self, gpu: Gpu, address: int, size: int, *, pinned: bool) -> None:
        self._gpu, self._address, self._size, self._pinned = gpu, address, size, pinned

    def free(self) -> None:
        if not self._address:
            raise AssertionError("freed twice")
        self._gpu.free(self._address, pinned=self._pinned)
        self._address = 0

    def __del__(self) -> None:
        if self._address:
            self.free()


class _Device(_Held):
    def __int__(self) -> int:
        return self._address

    __index__ = __int__


class _Pinned(_Held):
    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"version": 3, "shape": (self._size,), "typestr": "|u1", "data": (self._address, False)}


def _memory(module: Any, gpu: Gpu, run: Callable[..., Any]) -> None:
    def mem_alloc(size: int) -> _Device:
        return _Device(gpu, run("cudaMalloc", "cuMemAlloc", gpu.malloc, size), size, pinned=False)

    def pagelocked_empty(shape: Any, dtype: Any, order: str = "C", mem_flags: int = 0) -> Any:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        address = run("cudaMallocHost", "cuMemHostAlloc", lambda: gpu.malloc(size, pinned=True))
        flat = np.asarray(_Pinned(gpu, address, size, pinned=True))
        # As in pycuda the array's base is the allocation itself; a view of another type or shape would hide it.
        return flat if np.dtype(dtype) == np.uint8 and np.ndim(shape) == 0 else flat.view(dtype).reshape(shape)

    def address_of(buffer: Any) -> tuple[int, int]:
        view = np.frombuffer(buffer, np.uint8) if not isinstance(buffer, np.ndarray) else buffer
        return int(view.ctypes.data), int(view.nbytes)

    def to_device(dest: Any, src: Any, stream: Any = None) -> None:
        address, size = address_of(src)
        run("cudaMemcpyAsync", "cuMemcpyHtoDAsync", gpu.copy, int(dest), address, size, 1, _handle(stream))

    def to_host(dest: Any, src: Any, stream: Any = None) -> None:
        address, size = address_of(dest)
        run("cudaMemcpyAsync", "cuMemcpyDtoHAsync", gpu.copy, address, int(src), size, 2, _handle(stream))

    module.mem_alloc, module.pagelocked_empty = mem_alloc, pagelocked_empty
    module.memcpy_htod_async, module.memcpy_dtoh_async = to_device, to_host


def _handle(stream: Any) -> int:
    return 0 if stream is None else int(stream.handle)


def _queues(module: Any, gpu: Gpu, run: Callable[..., Any]) -> None:
    class Stream:
        def __init__(self, flags: int = 0) -> None:
            self.handle = 0
            self.handle = run("cudaStreamCreateWithFlags", "cuStreamCreate", gpu.stream)

        def synchronize(self) -> None:
            run("cudaStreamSynchronize", "cuStreamSynchronize", gpu.finish, self.handle)

        def wait_for_event(self, event: Event) -> None:
            run("cudaStreamWaitEvent", "cuStreamWaitEvent", gpu.hold, self.handle, event._handle)

        def __del__(self) -> None:
            if self.handle:
                gpu.end_stream(self.handle)

    class Event:
        def __init__(self, flags: int = 0) -> None:
            self._handle = 0
            self._handle = run("cudaEventCreateWithFlags", "cuEventCreate", gpu.event, int(flags))

        def record(self, stream: Stream | None = None) -> Event:
            run("cudaEventRecord", "cuEventRecord", gpu.record, self._handle, _handle(stream))
            return self

        def synchronize(self) -> Event:
            run("cudaEventSynchronize", "cuEventSynchronize", gpu.wait, self._handle)
            return self

        def time_till(self, event: Event) -> float:
            return float(run("cudaEventElapsedTime", "cuEventElapsedTime", gpu.elapsed_ms, self._handle, event._handle))

        def __del__(self) -> None:
            if self._handle:
                gpu.end_event(self._handle)

    module.Stream, module.Event = Stream, Event
