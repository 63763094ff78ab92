"""What limits a network on a board whose peaks are known, and what the simulated figures rest on. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from engines.cost import Precision
from engines.network import Network
from engines.simulated.bounds import bounds
from engines.simulated.groups import groups, no_gain
from engines.simulated.work import Flavour, from_ampere, in_tf32, works
from remote.sim.physics import Clocks, Gpu, LayerTime, TimeConstants, layer_time, record

FLAVOURS: Mapping[str, tuple[Flavour, str]] = {
    "caffe": ("caffe", "caffe-cudnn4"),
    "tensorrt": ("tensorrt", "tensorrt"),
    "trtexec": ("tensorrt", "tensorrt"),
}
"""By toolchain: how it treats layers, and which table of constants it has."""


def explain(
    network: Network,
    batch: int,
    precision: Precision,
    toolchain: str,
    clocks: Clocks,
    twin: Mapping[str, Any],
    *,
    tf32: bool = False,
) -> dict[str, Any] | None:
    """Returns the fields of `engines.simulated.bounds.Bounds`; None for a board or toolchain without a model.

    With ``tf32`` products in FP32 may be computed in TF32, which GPUs have from Ampere on.
    Beside them ``groups`` has a row per kind of layer (`engines.simulated.groups.Group`), and ``no_gain`` the layers
    that FP16 does not speed up (`engines.simulated.groups.NoGain`), None for a run in FP32.
    """
    if toolchain not in FLAVOURS or "time" not in twin:
        return None
    flavour, constants = FLAVOURS[toolchain]
    ampere = from_ampere(twin)
    gpu, pace = record(Gpu, twin["gpu"]), record(TimeConstants, twin["time"][constants])

    def times(of: Precision) -> list[LayerTime]:
        layers = works(network, batch, of, flavour, curves=ampere)
        if tf32 and ampere and of == "fp32":
            layers = in_tf32(layers, twin["protocol"]["tf32_share"])
        return [layer_time(work, clocks, gpu, pace) for work in layers]

    def seconds(of: Precision) -> dict[str, float]:
        return {time.name: time.seconds for time in times(of)}

    found = times(precision)
    return {
        **asdict(bounds(found)),
        "groups": [asdict(group) for group in groups({layer.name: layer.kind for layer in network.layers}, found)],
        "no_gain": asdict(no_gain(seconds("fp32"), seconds("fp16"))) if precision == "fp16" else None,
    }


def source(toolchain: str, l4t: str, twin: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns where the constants of a simulated run come from; says "extrapolated" when that is another release."""
    if toolchain not in FLAVOURS:
        return ()
    if "time" not in twin:
        return ("simulated with constants that are not known here: those of another user's board",)
    table = twin["time"][FLAVOURS[toolchain][1]]
    origin = table["source"].removeprefix("measured: ")
    same = l4t.split(".")[0] == table["l4t"].split(".")[0]
    return (f"simulated with constants {origin}" + ("" if same else f"; extrapolated to L4T {l4t}"),)
