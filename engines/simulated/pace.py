"""Runs a network on the twin, batch after batch, in simulated time."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from itertools import accumulate
from typing import Any

from engines.cost import Precision
from engines.network import Network
from engines.simulated.noise import Noise
from engines.simulated.work import Flavour, works
from remote.sim.physics import Activity, Clocks, Gpu, TimeConstants, activity, layer_time, record
from remote.sim.process import Action, Busy, Context

_CHUNK_S = 0.5
"""Clocks are looked at anew this often. Batches in between are drawn in one go."""

_NO_LIMIT = 1 << 30
_CONSTANTS = {"caffe": "caffe-cudnn4", "tensorrt": "tensorrt"}


class Pace:
    """How fast a network runs on a board under the clocks of the moment, and what that does to the chip.

    Caffe's host waits busily for the GPU; the TensorRT runner sleeps until it is done.
    """

    def __init__(self, context: Context, network: Network, batch: int, precision: Precision, flavour: Flavour) -> None:
        twin: Mapping[str, Any] = context.twin
        self._context = context
        self._noise = Noise(context.random())
        self._works = works(network, batch, precision, flavour)
        self._gpu = record(Gpu, twin["gpu"])
        self._constants = record(TimeConstants, twin["time"][_CONSTANTS[flavour]])
        self._spinning = flavour == "caffe"
        self._known: dict[Clocks, tuple[float, Activity]] = {}

    def run(self, done: list[float], least: int, duration_s: float) -> Generator[Action, None, None]:
        """Runs ``least`` batches, and on until ``duration_s`` is over. Adds the seconds of each to ``done``.

        Ctrl-C passes through, after the batches that were finished by then have been added.
        """
        until_s = self._context.now() + duration_s
        least += len(done)
        while (left_s := until_s - self._context.now()) > 0 or len(done) < least:
            mean_s, load = self._now()
            if left_s > 0:
                drawn = self._noise.batches(mean_s, min(_CHUNK_S, left_s), _NO_LIMIT)
            else:
                drawn = self._noise.batches(mean_s, _CHUNK_S, least - len(done))
            since_s = self._context.now()
            try:
                yield Busy(sum(drawn), load)
            except KeyboardInterrupt:
                spent_s = self._context.now() - since_s
                done += [s for s, end_s in zip(drawn, accumulate(drawn), strict=True) if end_s <= spent_s]
                raise
            done += drawn

    def _now(self) -> tuple[float, Activity]:
        """Returns the mean seconds of a batch and what the chip does, once governors have followed the load."""
        _, load = self.at(self._context.clocks())
        return self.at(self._context.clocks(load))

    def at(self, clocks: Clocks) -> tuple[float, Activity]:
        """Returns the mean seconds of one batch under ``clocks``, and what the chip does meanwhile."""
        if clocks not in self._known:
            times = [layer_time(work, clocks, self._gpu, self._constants) for work in self._works]
            self._known[clocks] = sum(t.seconds for t in times), activity(self._works, times, self._spinning)
        return self._known[clocks]
