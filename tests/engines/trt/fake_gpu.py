"""A GPU that is none: memory is the host's, work waits in streams until somebody waits for it, time is simulated.

Because nothing happens before it is waited for, whoever reads a result too early reads an old one.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

BYTES_PER_SECOND = 1e9
ERRORS = {
    **{1: "cudaErrorInvalidValue", 2: "cudaErrorMemoryAllocation", 35: "cudaErrorInsufficientDriver"},
    **{100: "cudaErrorNoDevice", 201: "cudaErrorDeviceUninitialized", 400: "cudaErrorInvalidResourceHandle"},
    **{
        600: "cudaErrorNotReady",
        708: "cudaErrorSetOnActiveProcess",
        900: "cudaErrorStreamCaptureUnsupported",
        999: "cudaErrorUnknown",
    },
}


class GpuError(Exception):
    """A function failed with this number of the CUDA runtime."""

    def __init__(self, number: int) -> None:
        super().__init__(ERRORS.get(number, "cudaErrorUnknown"))
        self.number = number


@dataclass
class _Stream:
    now_s: float = 0.0
    waiting: list[tuple[Callable[[], None], float, int]] = field(default_factory=list)
    noted: list[tuple[Callable[[], None], float, int]] | None = None
    batches: int = 0


@dataclass
class _Event:
    blocking: bool
    timed: bool = True
    t_s: float | None = None
    stream: int = 0
    pending: bool = False


@dataclass
class Gpu:
    """``faults`` gives the error number of functions that fail. ``free_bytes`` is what can still be allocated."""

    devices: int = 1
    capability: tuple[int, int] = (5, 3)
    multiprocessors: int = 1
    integrated: bool = True
    runtime: int = 10020
    free_bytes: int = 1 << 32
    faults: dict[str, int] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    schedule: int | None = None
    deepest: int = 0
    graph_launches: int = 0
    most_events: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._memory: dict[int, Any] = {}
        self._pinned: dict[int, Any] = {}
        self._streams: dict[int, _Stream] = {0: _Stream()}
        self._events: dict[int, _Event] = {}
        self._graphs: dict[int, list[Any]] = {}
        self._handles = count(0x5000_0000_1000, 64)  # wider than an int: whoever cuts a pointer short is found out

    @property
    def broken(self) -> bool:
        """Whether CUDA has no device here."""
        return self.devices < 1 or "cudaGetDeviceCount" in self.faults

    def left(self) -> dict[str, int]:
        """Returns how much of each kind was made and not given back."""
        gc.collect()  # pycuda's objects give themselves back, those in a circle once it is found
        kinds = {"memory": self._memory, "pinned": self._pinned, "events": self._events, "graphs": self._graphs}
        return {name: len(kept) for name, kept in kinds.items() if kept} | (
            {"streams": len(self._streams) - 1} if len(self._streams) > 1 else {}
        )

    def enter(self, name: str) -> None:
        """Every function begins here."""
        self.calls.append(name)
        if name in self.faults:
            raise GpuError(self.faults[name])
        if self.devices < 1 and name not in ("cudaRuntimeGetVersion", "cudaDriverGetVersion"):
            raise GpuError(100)

    def malloc(self, size: int, *, pinned: bool = False) -> int:
        """Returns the address of memory full of garbage."""
        if self.capturing():
            raise GpuError(900)
        if size > self.free_bytes:
            raise GpuError(2)
        buffer = (ctypes.c_char * max(size, 1)).from_buffer(bytearray(b"\xa5" * max(size, 1)))
        address = ctypes.addressof(buffer)
        (self._pinned if pinned else self._memory)[address] = buffer
        self.free_bytes -= size
        return address

    def free(self, address: int, *, pinned: bool = False) -> None:
        """Takes back what `malloc` gave. Work that still waits is done first, as CUDA does."""
        for stream in self._streams.values():
            self._run(stream)
        kept = (self._pinned if pinned else self._memory).pop(address, None)
        if kept is None:
            raise GpuError(1)
        self.free_bytes += len(kept)

    def reach(self, address: int, size: int, *, device: bool = True) -> None:
        """Raises AssertionError where ``size`` bytes from ``address`` on were not all allocated."""
        for kept in (self._memory, *(() if device else (self._pinned,))):
            if any(start <= address and address + size <= start + len(memory) for start, memory in kept.items()):
                return
        raise AssertionError(f"{size} bytes at {address:#x} are not memory of the {'device' if device else 'program'}")

    def stream(self) -> int:
        handle = next(self._handles)
        self._streams[handle] = _Stream()
        return handle

    def end_stream(self, handle: int) -> None:
        self._run(self._at(self._streams, handle))
        del self._streams[handle]

    def set_schedule(self, flags: int) -> None:
        """Older releases take this only before anything was made on the device."""
        if self._memory or self._pinned or self._events or len(self._streams) > 1:
            raise GpuError(708)
        self.schedule = flags

    def event(self, flags: int) -> int:
        handle = next(self._handles)
        self._events[handle] = _Event(bool(flags & 1), timed=not flags & 2)
        self.most_events.append(bool(flags & 1))
        return handle

    def end_event(self, handle: int) -> None:
        self._at(self._events, handle)
        del self._events[handle]

    def _at(self, kept: dict[int, Any], handle: int) -> Any:
        if handle not in kept:
            raise GpuError(400)
        return kept[handle]

    def launch(self, stream: int, work: Callable[[], None], seconds: float) -> None:
        """Queues a batch."""
        self._queue(stream, work, seconds, 1)

    def copy(self, target: int, source: int, size: int, kind: int, stream: int) -> None:
        """Queues a copy: kind 1 is to the device, 2 from it."""
        if kind not in (1, 2):
            raise GpuError(1)
        device, host = (target, source) if kind == 1 else (source, target)
        self.reach(device, size)
        self.reach(host, size, device=False)  # only pinned memory is copied in the background

        def move() -> None:
            ctypes.memmove(target, source, size)

        self._queue(stream, move, size / BYTES_PER_SECOND, 0)

    def _queue(self, handle: int, work: Callable[[], None], seconds: float, batches: int) -> None:
        stream = self._at(self._streams, handle)
        if stream.noted is not None:
            stream.noted.append((work, seconds, batches))
            return
        stream.waiting.append((work, seconds, batches))
        self.deepest = max(self.deepest, sum(item[2] for item in stream.waiting))

    def record(self, handle: int, stream: int) -> None:
        event, queue = self._at(self._events, handle), self._at(self._streams, stream)
        event.stream, event.pending = stream, True

        def happen() -> None:
            event.t_s, event.pending = queue.now_s, False

        self._queue(stream, happen, 0.0, 0)

    def hold(self, stream: int, handle: int) -> None:
        """Lets the stream wait for the event."""
        event, queue = self._at(self._events, handle), self._at(self._streams, stream)

        def wait() -> None:
            self._until(event)
            queue.now_s = max(queue.now_s, event.t_s or 0.0)

        self._queue(stream, wait, 0.0, 0)

    def _until(self, event: _Event) -> None:
        if event.pending:
            self._run(self._streams[event.stream], lambda: not event.pending)

    def _run(self, stream: _Stream, enough: Callable[[], bool] = lambda: False) -> None:
        while stream.waiting and not enough():
            work, seconds, batches = stream.waiting.pop(0)
            work()
            stream.now_s += seconds
            stream.batches += batches

    def finish(self, handle: int) -> None:
        stream = self._at(self._streams, handle)
        if stream.noted is not None:
            raise GpuError(900)
        self._run(stream)

    def finish_all(self) -> None:
        for handle in list(self._streams):
            self.finish(handle)

    def wait(self, handle: int) -> None:
        event = self._at(self._events, handle)
        if event.pending and self._streams[event.stream].noted is not None:
            raise GpuError(900)
        self._until(event)

    def elapsed_ms(self, first: int, last: int) -> float:
        one, two = self._at(self._events, first), self._at(self._events, last)
        if one.t_s is None or two.t_s is None or not (one.timed and two.timed):
            raise GpuError(400)
        if one.pending or two.pending:
            raise GpuError(600)
        return float((two.t_s - one.t_s) * 1000.0)

    def capturing(self) -> int:
        """Returns the stream that is being captured; 0 for none."""
        return next((handle for handle, stream in self._streams.items() if stream.noted is not None), 0)

    def begin_capture(self, stream: int) -> None:
        if stream == 0:
            raise GpuError(900)
        self._at(self._streams, stream).noted = []

    def end_capture(self, stream: int) -> int:
        queue, handle = self._at(self._streams, stream), next(self._handles)
        if queue.noted is None:
            raise GpuError(1)
        self._graphs[handle], queue.noted = queue.noted, None
        return handle

    def instantiate(self, graph: int) -> int:
        handle = next(self._handles)
        self._graphs[handle] = list(self._at(self._graphs, graph))
        return handle

    def launch_graph(self, graph: int, stream: int) -> None:
        self.graph_launches += 1
        for work, seconds, batches in self._at(self._graphs, graph):
            self._queue(stream, work, seconds, batches)

    def end_graph(self, graph: int) -> None:
        self._at(self._graphs, graph)
        del self._graphs[graph]

    def attribute(self, number: int) -> int:
        found = {75: self.capability[0], 76: self.capability[1], 16: self.multiprocessors, 18: int(self.integrated)}
        if number not in found:
            raise GpuError(1)
        return found[number]
