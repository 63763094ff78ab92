"""What a protocol does to a batch of TensorRT: copies, waiting, CUDA graphs, TF32, workspace. Pure.

A batch takes the time of its layers (`remote.sim.physics`). Copies run beside the computation of another batch where
one is queued ahead, and take memory bandwidth from it. A host that sleeps is woken late, which then costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from engines.cost import BYTES_PER_NUMBER, Precision
from engines.network import Conv, Network
from engines.simulated.work import FUSED, from_ampere, in_tf32, works
from remote.sim.physics import Activity, Clocks, Gpu, LayerTime, TimeConstants, activity, layer_time, record


@dataclass(frozen=True)
class Costs:
    """The table ``protocol`` of the twins."""

    copy_share: float
    contention: float
    wake_s: float
    graph_launch: float
    small_workspace_bytes: int
    small_workspace_speed: float
    tf32_share: float


@dataclass(frozen=True)
class Mode:
    """How an engine is run; the fields are those of `engines.spec.Protocol`."""

    transfers: bool = False
    spin: bool = False
    cuda_graph: bool = False
    ahead: int = 1


@dataclass(frozen=True)
class Engine:
    """What was built. ``speed`` is relative to the engine with the usual tactics."""

    network: Network
    batch: int
    precision: Precision
    workspace_bytes: int
    tf32: bool = False
    speed: float = 1.0


@dataclass(frozen=True)
class Batch:
    """One batch of many, in seconds.

    Its computation, its copies, the host's enqueuing; ``period_s`` from one batch to the next, ``host_s`` from
    submitting one until the host has seen its end.
    """

    compute_s: float
    h2d_s: float
    d2h_s: float
    enqueue_s: float
    period_s: float
    host_s: float
    layers: tuple[LayerTime, ...]
    activity: Activity

    @property
    def latency_s(self) -> float:
        """Copies and computation of one batch, without what it waits for another."""
        return self.h2d_s + self.compute_s + self.d2h_s


class Physics:
    """How an engine runs on the board of ``twin``.

    ``works`` is the work of its layers, that of slow ones counted as more operations; ``constants`` are those of time.
    """

    def __init__(self, twin: Mapping[str, Any], engine: Engine, mode: Mode) -> None:
        self._mode, self._engine = mode, engine
        self._costs = record(Costs, twin["protocol"])
        self._gpu = record(Gpu, twin["gpu"])
        constants = record(TimeConstants, twin["time"]["tensorrt"])
        if mode.cuda_graph:
            constants = replace(constants, launch_s=constants.launch_s * self._costs.graph_launch)
        self.constants = constants
        ampere = from_ampere(twin)
        self._works = works(engine.network, engine.batch, engine.precision, "tensorrt", curves=ampere)
        self._tf32 = engine.tf32 and engine.precision == "fp32" and ampere
        if self._tf32:
            self._works = in_tf32(self._works, self._costs.tf32_share)
        speeds = self._layer_speeds()
        self.works = tuple(replace(w, flops=w.flops / speed) for w, speed in zip(self._works, speeds, strict=True))
        shapes = engine.network.shapes(engine.batch)
        copied = [[prod(shapes[name]) * BYTES_PER_NUMBER["fp32"] for name in names] for names in _ends(engine.network)]
        self._in_bytes, self._out_bytes = map(sum, copied)

    def _layer_speeds(self) -> tuple[float, ...]:
        """Returns how fast the arithmetic of each layer is, relative to the fitted speed."""
        engine, costs = self._engine, self._costs
        slow = engine.workspace_bytes < costs.small_workspace_bytes
        return tuple(
            engine.speed * (costs.small_workspace_speed if slow and isinstance(layer, Conv) else 1.0)
            for layer in engine.network.layers
        )

    def batch(self, clocks: Clocks) -> Batch:
        """Returns what one batch of many is like under ``clocks``."""
        mode, costs = self._mode, self._costs
        layers = tuple(layer_time(work, clocks, self._gpu, self.constants) for work in self.works)
        # A copy reads and writes every byte.
        copy_rate = self._gpu.bytes_per_emc_clock * clocks.emc_hz * costs.copy_share / 2
        h2d_s, d2h_s = (size / copy_rate if mode.transfers else 0.0 for size in (self._in_bytes, self._out_bytes))
        alone_s = sum(t.seconds for t in layers)
        compute_s = alone_s + costs.contention * (h2d_s + d2h_s)
        wake_s = 0.0 if mode.spin else costs.wake_s
        if mode.ahead:
            period_s = max(compute_s, h2d_s, d2h_s)
            host_s = (1 + mode.ahead) * period_s + wake_s
        else:
            period_s = host_s = h2d_s + compute_s + d2h_s + wake_s
        load = self._activity(layers, alone_s, period_s)
        return Batch(compute_s, h2d_s, d2h_s, sum(t.launch_s for t in layers), period_s, host_s, layers, load)

    def _activity(self, layers: tuple[LayerTime, ...], alone_s: float, period_s: float) -> Activity:
        load, part = activity(self._works, layers, self._mode.spin), alone_s / period_s
        if self._tf32:  # nearly all operations are those of products, each as long and as costly as two of FP16
            load = replace(load, precision="fp16")
        copied = 2 * (self._in_bytes + self._out_bytes) if self._mode.transfers else 0
        return replace(
            load,
            flops_per_s=load.flops_per_s * part,
            bytes_per_s=load.bytes_per_s * part + copied / period_s,
            gpu_load=load.gpu_load * part,
            cpu_load=load.cpu_load if self._mode.spin else load.cpu_load * part,
        )

    def rows(self, batch: Batch) -> list[tuple[str, str, float]]:
        """Returns name, kind and seconds of each layer of the engine: activations are part of the layer before."""
        rows: list[tuple[str, str, float]] = []
        for layer, work, time in zip(self._engine.network.layers, self._works, batch.layers, strict=True):
            if work.launches:
                rows.append((layer.name, layer.kind, time.seconds))
            elif layer.kind in FUSED and rows:
                name, kind, seconds = rows[-1]
                rows[-1] = (f"{name} + {layer.name}", kind, seconds)
        return rows


def _ends(network: Network) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(entry.name for entry in network.inputs), network.outputs
