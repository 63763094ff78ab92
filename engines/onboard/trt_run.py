"""Runs an engine batch by batch: copies and computing on streams of their own, timed by events."""

from typing import Any, Dict, List

from engines.onboard.cuda import Cuda
from engines.onboard.failure import Failed
from engines.onboard.loop import Batches, clock
from engines.onboard.trt_engine import Engine, Tensor

_PROFILED_BATCHES = 10


class Buffers(object):
    """The memory of an engine's inputs and outputs on the device, and pinned on the processor's side.

    Inputs are filled: floats with ``value``, everything else with 1. So many batches can be under way in the same
    memory: what a copy overwrites is equal to it.
    """

    def __init__(self, cuda: Cuda, tensors: List[Tensor], value: float) -> None:
        import numpy

        self.arrays: Dict[str, Any] = {}
        self.addresses: Dict[str, int] = {}
        self.inputs = [tensor.name for tensor in tensors if tensor.is_input]
        self.outputs = [tensor.name for tensor in tensors if not tensor.is_input]
        self.shapes = {tensor.name: tensor.shape for tensor in tensors}
        self.types = {tensor.name: tensor.dtype for tensor in tensors}
        for tensor in tensors:
            dtype = numpy.dtype(tensor.dtype)
            size_bytes = max(1, int(numpy.prod(tensor.shape, dtype=numpy.int64))) * dtype.itemsize
            array = cuda.host_array(size_bytes)
            # An output that is never written must not look like one.
            number = value if tensor.is_input else numpy.nan
            array.view(dtype)[:] = number if dtype.kind == "f" else 1
            self.arrays[tensor.name] = array
            self.addresses[tensor.name] = cuda.malloc(size_bytes)

    def result(self, name: str) -> Any:
        """Returns what was copied back of an output."""
        return self.arrays[name].view(self.types[name]).reshape(self.shapes[name])


class Slot(object):
    """The events of one batch under way."""

    def __init__(self, cuda: Cuda, spin: bool) -> None:
        self.fed, self.begun, self.ended, self.fetched = (cuda.event(spin) for _ in range(4))
        self.submitted_s: Any = None


class Pipeline(Batches):
    """Batches of an engine, with some queued behind the one that runs.

    A latency is the GPU's time from the start of a batch's computing to its end; ``host_s`` is the time from its
    submission until it was seen to be done, so it holds the wait for those before it.
    """

    def __init__(self, cuda: Cuda, engine: Engine, buffers: Buffers, options: Dict[str, Any]) -> None:
        Batches.__init__(self, lambda: engine.enqueue(self._handle))
        self._cuda, self._engine, self._buffers = cuda, engine, buffers
        self._transfers = options["transfers"]
        self._feeding, self._computing, self._fetching = (cuda.stream() for _ in range(3))
        self._handle = int(self._computing)
        self._slots = [Slot(cuda, options["spin"]) for _ in range(1 + options["ahead"])]
        self._next = 0

    def check(self) -> None:
        """Feeds the inputs, computes one batch and fetches its outputs."""
        for name in self._buffers.inputs:
            self._cuda.to_device(self._buffers.addresses[name], self._buffers.arrays[name], self._computing)
        self._engine.enqueue(self._handle)
        for name in self._buffers.outputs:
            self._cuda.to_host(self._buffers.arrays[name], self._buffers.addresses[name], self._computing)
        self._cuda.finish(self._computing)

    def capture(self) -> str:
        """From here on a batch is one launch of a CUDA graph. Returns "", or why that cannot be: nothing changes."""
        try:
            self._cuda.begin_capture(self._computing)
            try:
                self._engine.enqueue(self._handle)
            finally:
                graph = self._cuda.end_capture(self._computing)
        except Failed as failed:
            return "without a CUDA graph: %s" % failed.what
        self._run = lambda: self._cuda.launch(graph, self._computing)
        return ""

    def submit(self) -> None:
        """Queues another batch, waiting for an earlier one where as many as can be are under way."""
        cuda, slot = self._cuda, self._slots[self._next]
        self._finish(slot)
        slot.submitted_s = clock()
        if self._transfers:
            for name in self._buffers.inputs:
                cuda.to_device(self._buffers.addresses[name], self._buffers.arrays[name], self._feeding)
            cuda.record(slot.fed, self._feeding)
            cuda.hold(self._computing, slot.fed)
        cuda.record(slot.begun, self._computing)
        self._run()
        cuda.record(slot.ended, self._computing)
        if self._transfers:
            cuda.hold(self._fetching, slot.ended)
            for name in self._buffers.outputs:
                cuda.to_host(self._buffers.arrays[name], self._buffers.addresses[name], self._fetching)
            cuda.record(slot.fetched, self._fetching)
        self._next = (self._next + 1) % len(self._slots)

    def drain(self) -> None:
        """Waits until all batches are done."""
        for number in range(len(self._slots)):
            self._finish(self._slots[(self._next + number) % len(self._slots)])

    def profile(self, profiler: Any) -> Dict[str, float]:
        """Returns the mean time of every layer, measured apart."""
        self._engine.profile(profiler)
        for _ in range(_PROFILED_BATCHES):
            self._engine.run_profiled(self._handle)
            self._cuda.finish(self._computing)
        return {name: seconds / _PROFILED_BATCHES for name, seconds in profiler.seconds.items()}

    def _finish(self, slot: Slot) -> None:
        if slot.submitted_s is None:
            return
        self._cuda.wait(slot.fetched if self._transfers else slot.ended)
        self.host_s.append(clock() - slot.submitted_s)
        self.latencies_s.append(self._cuda.elapsed_s(slot.begun, slot.ended))
        slot.submitted_s = None
