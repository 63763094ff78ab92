"""CUDA as a run needs it: one small interface over pycuda, cuda-python or the runtime library itself.

A way to CUDA is a function that is called as ``call(name, *arguments)``: the functions of the CUDA runtime by their
name, without the arguments that C returns values in, and these values returned. It raises `CudaError`.
"""

import ctypes
import importlib
import os
from contextlib import ExitStack, suppress
from typing import Any, Callable, Iterable, List, Optional, Tuple

from engines.onboard.failure import Failed

WAYS = ("pycuda", "cuda-python", "ctypes")
"""In the order in which they are tried: what the user has installed, then what is always there."""

_MODULES = {"pycuda": "cuda_pycuda", "cuda-python": "cuda_python", "ctypes": "cuda_ctypes"}
_NODES = ("/dev/nvmap", "/dev/nvhost-ctrl", "/dev/nvhost-gpu", "/dev/nvidiactl", "/dev/nvidia0")
_OUT_OF_MEMORY = 2
_NOT_STARTED = (3, 35, 46, 100, 101, 304, 801, 999)
_ALREADY_SET = (36, 708)  # cudaErrorSetOnActiveProcess, before and from release 10.1 on
_WITHOUT_GRAPHS = ("pycuda",)
_COMPUTE_CAPABILITY = (75, 76)  # attribute numbers of the CUDA runtime, the same in all its releases
_MULTIPROCESSORS = 16
_INTEGRATED = 18
_SPIN, _BLOCK = 1, 4  # cudaDeviceScheduleSpin, cudaDeviceScheduleBlockingSync
_BLOCKING_EVENT = 1
_NON_BLOCKING_STREAM = 1
_TO_DEVICE, _TO_HOST = 1, 2
_THREAD_LOCAL = 1


class CudaError(Exception):
    """A CUDA function failed with this number (0: it has told none) and name."""

    def __init__(self, number: int, name: str) -> None:
        Exception.__init__(self, "CUDA error %d (%s)" % (number, name) if number else name)
        self.number = number


class Cuda(object):
    """The first device. Streams, events and graphs are whatever the way to CUDA has for them.

    ``name`` is the way. What is made here lives until `close`. Everything raises Failed.
    """

    def __init__(self, name: str, call: Callable[..., Any]) -> None:
        self.name = name
        self._call_it = call
        self._made = ExitStack()

    def _call(self, function: str, *arguments: Any) -> Any:
        try:
            return self._call_it(function, *arguments)
        except CudaError as error:
            raise explained(function, error) from error

    def _free(self, function: str, made: Any) -> None:
        with suppress(CudaError):  # after a failure all calls fail, and the first one is what the user has to know
            self._call_it(function, made)

    def close(self) -> None:
        """Frees all that was made, the latest first."""
        self._made.close()

    def device_count(self) -> int:
        """Returns how many devices there are."""
        return int(self._call("cudaGetDeviceCount"))

    def version(self) -> str:
        """Returns the release of the CUDA runtime, as in "10.2"."""
        return _release(self._call("cudaRuntimeGetVersion"))

    def driver_version(self) -> str:
        """Returns the newest CUDA release that the driver can serve."""
        return _release(self._call("cudaDriverGetVersion"))

    def compute_capability(self) -> Tuple[int, int]:
        """Returns major and minor number."""
        major, minor = (int(self._call("cudaDeviceGetAttribute", number, 0)) for number in _COMPUTE_CAPABILITY)
        return major, minor

    def multiprocessors(self) -> int:
        """Returns how many multiprocessors can be used."""
        return int(self._call("cudaDeviceGetAttribute", _MULTIPROCESSORS, 0))

    def integrated(self) -> bool:
        """Says whether the device shares the memory of the processor."""
        return bool(self._call("cudaDeviceGetAttribute", _INTEGRATED, 0))

    def memory(self) -> Tuple[int, int]:
        """Returns free and total bytes of the device's memory."""
        free_bytes, total_bytes = self._call("cudaMemGetInfo")
        return int(free_bytes), int(total_bytes)

    def schedule(self, spin: bool) -> None:
        """Sets how the processor waits: busily or asleep. Has to come before anything is made on the device."""
        try:
            self._call_it("cudaSetDeviceFlags", _SPIN if spin else _BLOCK)
        except CudaError as error:
            if error.number not in _ALREADY_SET:  # events still wait as they are told to
                raise explained("cudaSetDeviceFlags", error) from error

    def malloc(self, size_bytes: int) -> int:
        """Returns the address of new memory of the device."""
        pointer = int(self._call("cudaMalloc", size_bytes))
        self._made.callback(self._free, "cudaFree", pointer)
        return pointer

    def host_array(self, size_bytes: int) -> Any:
        """Returns a numpy array of bytes in pinned memory."""
        import numpy

        pointer = int(self._call("cudaMallocHost", size_bytes))
        self._made.callback(self._free, "cudaFreeHost", pointer)
        memory: Any = (ctypes.c_uint8 * size_bytes).from_address(pointer)
        return numpy.frombuffer(memory, numpy.uint8)

    def to_device(self, pointer: int, array: Any, stream: Any) -> None:
        """Starts to copy a `host_array` to the device."""
        self._call("cudaMemcpyAsync", pointer, array.ctypes.data, array.nbytes, _TO_DEVICE, stream)

    def to_host(self, array: Any, pointer: int, stream: Any) -> None:
        """Starts to fill a `host_array` from the device."""
        self._call("cudaMemcpyAsync", array.ctypes.data, pointer, array.nbytes, _TO_HOST, stream)

    def stream(self) -> Any:
        """Returns a new stream; ``int`` of it is what TensorRT takes."""
        stream = self._call("cudaStreamCreateWithFlags", _NON_BLOCKING_STREAM)
        self._made.callback(self._free, "cudaStreamDestroy", stream)
        return stream

    def finish(self, stream: Any) -> None:
        """Waits until all that ``stream`` was given is done."""
        self._call("cudaStreamSynchronize", stream)

    def event(self, spin: bool) -> Any:
        """Returns a new event; with ``spin`` whoever waits for it may do so busily."""
        event = self._call("cudaEventCreateWithFlags", 0 if spin else _BLOCKING_EVENT)
        self._made.callback(self._free, "cudaEventDestroy", event)
        return event

    def record(self, event: Any, stream: Any) -> None:
        """Lets ``event`` happen when ``stream`` gets there."""
        self._call("cudaEventRecord", event, stream)

    def hold(self, stream: Any, event: Any) -> None:
        """Lets ``stream`` go on only after ``event``."""
        self._call("cudaStreamWaitEvent", stream, event, 0)

    def wait(self, event: Any) -> None:
        """Waits until ``event`` has happened."""
        self._call("cudaEventSynchronize", event)

    def elapsed_s(self, first: Any, last: Any) -> float:
        """Returns the time between two events."""
        return float(self._call("cudaEventElapsedTime", first, last)) / 1000.0

    def begin_capture(self, stream: Any) -> None:
        """Notes from here on what ``stream`` is given instead of doing it."""
        self._call("cudaStreamBeginCapture", stream, _THREAD_LOCAL)

    def end_capture(self, stream: Any) -> Any:
        """Returns what was noted, ready to be launched."""
        graph = self._call("cudaStreamEndCapture", stream)
        self._made.callback(self._free, "cudaGraphDestroy", graph)
        launchable = self._call("cudaGraphInstantiate", graph)
        self._made.callback(self._free, "cudaGraphExecDestroy", launchable)
        return launchable

    def launch(self, graph: Any, stream: Any) -> None:
        """Does again what was noted."""
        self._call("cudaGraphLaunch", graph, stream)


def choose(name: Optional[str], graphs: bool = False) -> Cuda:
    """Returns the first way to CUDA that is installed and sees a device; ``name``: only this one. Raises Failed.

    ``graphs``: those that can capture a CUDA graph come first.
    """
    refusals: List[Failed] = []
    for way in sorted(WAYS, key=lambda way: graphs and way in _WITHOUT_GRAPHS) if name is None else (name,):
        try:
            return _connect(way)
        except Failed as failed:
            refusals.append(failed)
    if name is not None:
        raise refusals[0]
    for kind in ("permission", "out_of_memory", "device"):
        for refusal in refusals:
            if refusal.kind == kind:
                raise refusal
    what = "; ".join(refusal.what for refusal in refusals)
    raise Failed("missing", what, "CUDA is part of JetPack: sudo apt install nvidia-jetpack.")


def _connect(way: str) -> Cuda:
    if way not in _MODULES:
        raise Failed("missing", "there is no way to CUDA called %s" % way, "use one of: %s" % ", ".join(WAYS))
    try:
        cuda = Cuda(way, importlib.import_module("engines.onboard." + _MODULES[way]).connect())
    except CudaError as error:
        raise explained("starting " + way, error) from error
    except (ImportError, OSError, RuntimeError) as error:  # the last one where it does not find its own libraries
        raise Failed("missing", "%s cannot be loaded: %s" % (way, error), "try another with --cuda") from error
    if cuda.device_count() < 1:
        raise Failed("device", "%s sees no CUDA device" % way, "run `edgeperf doctor`")
    return cuda


def explained(doing: str, error: CudaError, nodes: Iterable[str] = _NODES) -> Failed:
    """Returns what to tell the user of a CUDA error; ``nodes`` are the device files that CUDA opens.

    Where CUDA did not even start, a file that this user may not open is the cause.
    """
    what = "%s: %s" % (doing, error)
    if error.number == _OUT_OF_MEMORY:
        return Failed("out_of_memory", what, "use a smaller batch, or stop other programs that use the GPU")
    begun = not doing.startswith(("starting", "cudaGetDeviceCount")) and error.number not in _NOT_STARTED
    denied = (
        [] if begun else [node for node in nodes if os.path.exists(node) and not os.access(node, os.R_OK | os.W_OK)]
    )
    if denied:
        hint = "sudo usermod -aG video,render $USER, then log in again; in a container use --runtime nvidia"
        return Failed("permission", "%s: this user may not open %s" % (what, denied[0]), hint)
    return Failed("device", what, "run `edgeperf doctor`: the driver, the device or its state is not right")


def _release(number: int) -> str:
    return "%d.%d" % (number // 1000, number % 1000 // 10)
