"""The layers of a simulated engine, as the runner's event ``layers`` tells of them. Pure."""

from __future__ import annotations

from typing import Any

from engines.simulated.protocol import Batch, Engine, Physics

_TYPES = {
    "Conv": "Convolution",
    "Pool": "Pooling",
    "FullyConnected": "Convolution",
    "MatMul": "MatrixMultiply",
    "Softmax": "SoftMax",
}
_SINGLE = ("Softmax",)  # kept in FP32, as TensorRT often does


def layer_rows(engine: Engine, physics: Physics, batch: Batch) -> list[dict[str, Any]]:
    """Returns ``name``, ``type``, ``precision`` and ``seconds`` of each layer."""
    return [
        {
            "name": name,
            "type": _TYPES.get(kind, kind),
            "precision": "fp32" if kind in _SINGLE else engine.precision,
            "seconds": seconds,
        }
        for name, kind, seconds in physics.rows(batch)
    ]
