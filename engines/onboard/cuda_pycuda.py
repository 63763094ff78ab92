"""CUDA through pycuda, in the device's primary context: that is the one that TensorRT uses."""

import atexit
import ctypes
from typing import Any, Callable, Dict

from engines.onboard.cuda import CudaError

_ATTRIBUTES = {
    75: "COMPUTE_CAPABILITY_MAJOR",
    76: "COMPUTE_CAPABILITY_MINOR",
    16: "MULTIPROCESSOR_COUNT",
    18: "INTEGRATED",
}
_TO_DEVICE = 1


def connect() -> Callable[..., Any]:
    """Returns the way to CUDA. Raises ImportError where it is not installed, CudaError where CUDA does not start."""
    import pycuda.driver as driver

    try:
        driver.init()
        if driver.Device.count():
            context = driver.Device(0).retain_primary_context()
            context.push()
            atexit.register(context.pop)  # pycuda ends the process with an error where one is left
    except driver.Error as error:
        raise _error(error) from error
    return Calls(driver)


def _error(error: Exception) -> CudaError:
    """Returns pycuda's error, which says "FUNCTION failed: what" and has no number."""
    text = str(error)
    return CudaError(2 if "out of memory" in text else 0, text)


class Stream(object):
    """A stream whose ``int`` is its handle, as with the other ways."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __int__(self) -> int:
        return int(self.stream.handle)


class Calls(object):
    """Answers for the functions of the CUDA runtime with pycuda's own."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self._memory: Dict[int, Any] = {}  # pycuda frees what nobody holds

    def __call__(self, name: str, *arguments: Any) -> Any:
        """Returns what a function of the CUDA runtime returns. Raises CudaError."""
        function = getattr(self, "_" + name, None)
        if function is None:
            raise CudaError(0, "pycuda has no %s" % name)
        try:
            return function(*arguments)
        except self._driver.Error as error:
            raise _error(error) from error

    def _cudaGetDeviceCount(self) -> Any:
        return self._driver.Device.count()

    def _cudaRuntimeGetVersion(self) -> Any:
        major, minor = self._driver.get_version()[:2]
        return major * 1000 + minor * 10

    def _cudaDriverGetVersion(self) -> Any:
        return self._driver.get_driver_version()

    def _cudaDeviceGetAttribute(self, number: int, device: int) -> Any:
        attribute = getattr(self._driver.device_attribute, _ATTRIBUTES[number])
        return self._driver.Device(device).get_attribute(attribute)

    def _cudaMemGetInfo(self) -> Any:
        return self._driver.mem_get_info()

    def _cudaSetDeviceFlags(self, flags: int) -> None:
        """Does nothing: the context is there already. What is waited for are events, with flags of their own."""

    def _cudaMalloc(self, size_bytes: int) -> int:
        memory = self._driver.mem_alloc(size_bytes)
        self._memory[int(memory)] = memory
        return int(memory)

    def _cudaFree(self, pointer: int) -> None:
        self._memory.pop(pointer).free()

    def _cudaMallocHost(self, size_bytes: int) -> int:
        array = self._driver.pagelocked_empty(size_bytes, "uint8")
        self._memory[array.ctypes.data] = array
        return int(array.ctypes.data)

    def _cudaFreeHost(self, pointer: int) -> None:
        self._memory.pop(pointer).base.free()

    def _cudaMemcpyAsync(self, target: int, source: int, size_bytes: int, kind: int, stream: Any) -> None:
        if kind == _TO_DEVICE:
            self._driver.memcpy_htod_async(target, _buffer(source, size_bytes), stream.stream)
        else:
            self._driver.memcpy_dtoh_async(_buffer(target, size_bytes), source, stream.stream)

    def _cudaStreamCreateWithFlags(self, flags: int) -> Stream:
        return Stream(self._driver.Stream(flags))

    def _cudaStreamDestroy(self, stream: Stream) -> None:
        """Does nothing: pycuda does it when nobody holds the stream."""

    def _cudaStreamSynchronize(self, stream: Stream) -> None:
        stream.stream.synchronize()

    def _cudaStreamWaitEvent(self, stream: Stream, event: Any, flags: int) -> None:
        stream.stream.wait_for_event(event)

    def _cudaEventCreateWithFlags(self, flags: int) -> Any:
        return self._driver.Event(flags)

    def _cudaEventDestroy(self, event: Any) -> None:
        """Does nothing: pycuda does it when nobody holds the event."""

    def _cudaEventRecord(self, event: Any, stream: Stream) -> None:
        event.record(stream.stream)

    def _cudaEventSynchronize(self, event: Any) -> None:
        event.synchronize()

    def _cudaEventElapsedTime(self, first: Any, last: Any) -> Any:
        return first.time_till(last)


def _buffer(address: int, size_bytes: int) -> Any:
    return (ctypes.c_uint8 * size_bytes).from_address(address)
