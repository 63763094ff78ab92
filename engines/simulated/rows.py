"""The layers of a simulated engine, as the runner's event ``layers`` tells of them. Pure."""

from __future__ import annotations

from typing import Any

from engines.simulated.protocol import Batch, Engine, Physics

_ARITHMETIC = ("Conv", "FullyConnected", "MatMul")

_TYPES = {
    "Conv": "Convolution",
    "Pool": "Pooling",
    "FullyConnected": "Convolution",
    "MatMul": "MatrixMultiply",
    "Softmax": "SoftMax",
}
_SINGLE = ("Softmax",)  # kept in FP32, as TensorRT often does


def layer_rows(engine: Engine, physics: Physics, batch: Batch, single_share: float = 0.0) -> list[dict[str, Any]]:
    """Returns ``name``, ``type``, ``precision`` and ``seconds`` of each layer.

    ``single_share``: the first layers with arithmetic, by that share of the time of all, were left in FP32.
    """
    rows = [(name, kind, seconds, kind in _ARITHMETIC) for name, kind, seconds in physics.rows(batch)]
    single_s = single_share * sum(seconds for *_, seconds, arithmetic in rows if arithmetic)
    told = []
    for name, kind, seconds, arithmetic in rows:
        single = kind in _SINGLE or (arithmetic and single_s > 0)
        single_s -= seconds if arithmetic else 0.0
        precision = "fp32" if single else engine.precision
        told.append({"name": name, "type": _TYPES.get(kind, kind), "precision": precision, "seconds": seconds})
    return told
