"""Runs a network on the twin, batch after batch, in simulated time."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from itertools import accumulate
from typing import Any

from engines.cost import Precision
from engines.network import Network
from engines.simulated.noise import Noise
from engines.simulated.protocol import Physics
from engines.simulated.work import works
from remote.sim.physics import Activity, Clocks, Gpu, TimeConstants, activity, layer_time, record
from remote.sim.process import Action, Busy, Context

_CHUNK_S = 0.5
"""Clocks are looked at anew this often. Batches in between are drawn in one go."""

_FREE_CHUNK_S = 0.1
"""How often where governors choose the clocks."""

_ROUNDING_S = 1e-6
_NO_LIMIT = 1 << 30
_NOTHING, _FULL = Activity(), Activity(gpu_load=1.0, cpu_load=1.0)
_STEPS = 8
_TENSORRT_RUN = 0.001
"""Assumed: from run to run TensorRT differs less than Caffe does, since batches are queued ahead."""

At = Callable[[Clocks], tuple[float, Activity]]
"""The mean seconds from one batch to the next under clocks, and what the chip does meanwhile."""


class Pace:
    """How fast a network runs on a board under the clocks of the moment, and what that does to the chip."""

    def __init__(self, context: Context, at: At, noise: Noise) -> None:
        self._context, self._at, self._noise = context, at, noise
        self._known: dict[Clocks, tuple[float, Activity]] = {}

    @classmethod
    def of_caffe(cls, context: Context, network: Network, batch: int, precision: Precision) -> Pace:
        """Returns that of Caffe, whose host waits busily for the GPU."""
        twin: Mapping[str, Any] = context.twin
        gpu, constants = record(Gpu, twin["gpu"]), record(TimeConstants, twin["time"]["caffe-cudnn4"])
        layers = works(network, batch, precision, "caffe")

        def at(clocks: Clocks) -> tuple[float, Activity]:
            times = [layer_time(work, clocks, gpu, constants) for work in layers]
            return sum(t.seconds for t in times), activity(layers, times, True)

        return cls(context, at, Noise(context.random()))

    @classmethod
    def of_tensorrt(cls, context: Context, physics: Physics) -> Pace:
        """Returns that of an engine."""

        def at(clocks: Clocks) -> tuple[float, Activity]:
            batch = physics.batch(clocks)
            return batch.period_s, batch.activity

        return cls(context, at, Noise(context.random(), _TENSORRT_RUN))

    def run(self, done: list[float], least: int, duration_s: float) -> Generator[Action, None, None]:
        """Runs ``least`` batches, and on until ``duration_s`` is over. Adds the seconds of each to ``done``.

        Ctrl-C passes through, after the batches that were finished by then have been added.
        """
        until_s = self._context.now() + duration_s
        least += len(done)
        while (left_s := until_s - self._context.now()) > 0 or len(done) < least:
            mean_s, load = self._beside(*self._of(self._context.clocks()))
            chunk_s = _FREE_CHUNK_S if self._free() else _CHUNK_S
            if left_s > 0:
                drawn = self._noise.batches(mean_s, min(chunk_s, left_s), _NO_LIMIT)
            else:
                drawn = self._noise.batches(mean_s, chunk_s, least - len(done))
            since_s = self._context.now()
            try:
                yield Busy(sum(drawn), load)
            except KeyboardInterrupt:
                spent_s = self._context.now() - since_s
                done += [s for s, end_s in zip(drawn, accumulate(drawn), strict=True) if end_s <= spent_s]
                raise
            held_s = self._context.now() - since_s - sum(drawn)
            if held_s > _ROUNDING_S:  # by a GPU that hung: which batch waited is not known here, and one did
                drawn[-1] += held_s
            done += drawn

    def clocks(self) -> Clocks:
        """Returns the clocks at which governors settle under the load, whatever was done before.

        A load shrinks as its clock rises, so a governor may go to and fro between two rates: one of them is taken.
        """
        clocks = self._context.clocks(_FULL)
        for _ in range(_STEPS):
            _, load = self._of(clocks)
            wanted = self._context.clocks(load)
            if wanted == clocks:
                break
            clocks = wanted
        return clocks

    def _beside(self, mean_s: float, load: Activity) -> tuple[float, Activity]:
        """Returns what becomes of a batch and of what the chip does for it where others compute on the GPU as well."""
        slower = load.gpu_load / self._context.gpu_share()
        if slower <= 1.0:
            return mean_s, load
        rates = (load.flops_per_s / slower, load.bytes_per_s / slower, load.gpu_load / slower)
        return mean_s * slower, replace(load, flops_per_s=rates[0], bytes_per_s=rates[1], gpu_load=rates[2])

    def _free(self) -> bool:
        return self._context.clocks(_NOTHING) != self._context.clocks(_FULL)

    def _of(self, clocks: Clocks) -> tuple[float, Activity]:
        if clocks not in self._known:
            self._known[clocks] = self._at(clocks)
        return self._known[clocks]
