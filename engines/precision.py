"""In which precision an engine computes, as the engine itself tells. Pure.

Asked for FP16, TensorRT may keep any layer in FP32 and does not say so. Its inspector (from 8.2 on) shows the number
type of each layer: the `layers` event of the on-board runner holds a row per layer, ``name``, ``type`` (TensorRT's
word for the kind of layer, "" where it gives none), ``precision`` ("fp16", "fp32", "int8" ..., "" where it is not
known) and ``seconds`` (None where it was not profiled).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

_FIRST_INSPECTOR = (8, 2)
_ARITHMETIC = ("conv", "gemm", "matmul", "matrixmultiply", "fullyconnected", "fully_connected", "einsum", "myelin")
_MOVES = (
    *("reformat", "copy", "memset", "shuffle", "transpose", "reshape", "constant", "noop", "cast", "identity"),
    *("concat", "slice", "gather", "shape", "signal", "wait", "event"),
)
_MOVING_NAMES = ("reformatting copynode", "copy_node")
_LARGEST_UNKNOWN_SHARE = 0.5


@dataclass(frozen=True)
class Found:
    """What was found. ``precision`` is that of most of the arithmetic (see `found`), None where unknown.

    ``layers`` counts the layers that compute and tell their precision, ``fp16_layers`` those of them in FP16, and
    ``fp16_time_share`` is the latter's part of the time of the former (0 to 1), None where they were not all profiled.
    ``text`` says it in words.
    """

    precision: Literal["fp16", "fp32", "mixed"] | None
    layers: int
    fp16_layers: int
    fp16_time_share: float | None
    text: str


def found(rows: Iterable[Mapping[str, Any]], tensorrt: str) -> Found:
    """Returns what the ``rows`` of an engine's layers say; ``tensorrt`` is the version that made it.

    Only layers that compute count, not those that move, convert or reshape numbers. The verdict is that of the
    arithmetic layers (convolutions and matrix products; where the engine has none, of all that compute), weighed by
    time where each was profiled, else by number: "fp16" for more than half in FP16, "fp32" for all in FP32 or TF32,
    else "mixed". It is None where half of the weight or more does not tell its precision.
    """
    computing = [row for row in rows if not _moves(row)]
    known = [row for row in computing if row["precision"]]
    if not known:
        return Found(None, 0, 0, None, _silent(tensorrt))
    halves = [row for row in known if row["precision"] == "fp16"]
    arithmetic = [row for row in computing if _is_arithmetic(row)] or computing
    share = _time_share(halves, known)
    verdict = _verdict(arithmetic)
    text = _words(halves, known, share)
    if verdict is None:
        text += "; most of the arithmetic does not tell its precision"
    return Found(verdict, len(known), len(halves), share, text)


def _is_arithmetic(row: Mapping[str, Any]) -> bool:
    return any(word in row["type"].lower() for word in _ARITHMETIC)


def _moves(row: Mapping[str, Any]) -> bool:
    """Says whether a layer computes nothing. A fused one may be called after both: what computes decides."""
    kind = row["type"].lower()
    if _is_arithmetic(row):
        return False
    return any(word in kind for word in _MOVES) or row["name"].lower().startswith(_MOVING_NAMES)


def _verdict(arithmetic: list[Mapping[str, Any]]) -> Literal["fp16", "fp32", "mixed"] | None:
    timed = all(row["seconds"] is not None for row in arithmetic) and any(row["seconds"] for row in arithmetic)
    weights: dict[str, float] = {}
    for row in arithmetic:
        weights[row["precision"]] = weights.get(row["precision"], 0.0) + (row["seconds"] if timed else 1.0)
    unknown = weights.pop("", 0.0)
    known = sum(weights.values())
    if unknown >= _LARGEST_UNKNOWN_SHARE * (known + unknown):
        return None
    if weights.get("fp16", 0.0) > known / 2:
        return "fp16"
    return "fp32" if set(weights) <= {"fp32", "tf32"} else "mixed"


def _time_share(halves: list[Mapping[str, Any]], known: list[Mapping[str, Any]]) -> float | None:
    if any(row["seconds"] is None for row in known):
        return None
    whole = sum(row["seconds"] for row in known)
    return sum(row["seconds"] for row in halves) / whole if whole > 0 else None


def _words(halves: list[Mapping[str, Any]], known: list[Mapping[str, Any]], share: float | None) -> str:
    if not halves:
        full = sum(row["precision"] == "fp32" for row in known)
        return f"FP32 in {full or 'none'} of {len(known)} layers" + _others(known)
    time = f", {_percent(share)} of the time" if share is not None else ""
    return f"FP16 in {len(halves)} of {len(known)} layers" + time + _others(known)


def _percent(share: float) -> str:
    """Returns whole percents; "over 99 %" and "under 1 %" rather than a wrong 100 or 0."""
    if 0.99 < share < 1:
        return "over 99 %"
    return "under 1 %" if 0 < share < 0.01 else f"{share * 100:.0f} %"


def _others(known: list[Mapping[str, Any]]) -> str:
    """Returns the layers in neither FP16 nor FP32, as ", INT8 in 3"."""
    kinds = sorted({row["precision"] for row in known} - {"fp16", "fp32"})
    return "".join(f", {kind.upper()} in {sum(row['precision'] == kind for row in known)}" for kind in kinds)


def _silent(tensorrt: str) -> str:
    parts = tensorrt.split(".")[:2]
    if len(parts) == 2 and all(part.isdigit() for part in parts) and tuple(map(int, parts)) < _FIRST_INSPECTOR:
        return f"the layers of TensorRT {'.'.join(parts)} cannot be inspected"
    return f"TensorRT {tensorrt} does not tell the precision of its layers".replace("  ", " ")
