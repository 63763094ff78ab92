"""Reads the files that trtexec writes: the times of every batch and those of every layer. Pure."""

import json
import math
from typing import Any, Dict, List, Tuple

from engines.onboard.failure import Failed

_S_PER_MS = 1e-3
_NO_WARM_UPS = (8, 5)  # from this version on they are left out of the file
_SWAPPED = (8, 0)  # before this one the times of input and of enqueuing stand under each other's names


def times(text: str, version: Tuple[int, int], until_ms: float) -> Dict[str, Any]:
    """Returns ``compute_s`` and ``host_s`` of every batch, and how many warm-ups were ``dropped``.

    ``text`` is what ``--exportTimes`` wrote, ``version`` TensorRT's major and minor; up to 8.4 the file holds warm-ups
    too, which began before ``until_ms``. ``host_s`` is from the submission of a batch to the end of its output, waiting
    behind the one before included. Those times have six digits from the start of the run, so after 1000 s they are
    known to 1 ms; they are never less than copies and computing took.
    Raises Failed for a file that is cut off or holds no times.
    """
    begin = "startInMs" if version < _SWAPPED else "startEnqMs"
    end = "endOutMs" if version < _SWAPPED else "endD2hMs"
    rows = _rows(text, "times")
    measured = [row for row in rows if version >= _NO_WARM_UPS or _ms(row, "startComputeMs") >= until_ms]
    if not measured:
        raise Failed("engine", "trtexec wrote no times", "let it run for longer")
    return {
        "compute_s": [_ms(row, "computeMs") * _S_PER_MS for row in measured],
        "host_s": [max(_ms(row, end) - _ms(row, begin), _ms(row, "latencyMs")) * _S_PER_MS for row in measured],
        "dropped": len(rows) - len(measured),
    }


def warmup_ms(warmup_s: float) -> int:
    """Returns what trtexec's ``--warmUp`` is given: whole milliseconds, rounded up."""
    return math.ceil(warmup_s * 1000)


def profile(text: str) -> Dict[str, float]:
    """Returns the mean time of every layer in seconds, in the order of ``text``, which ``--exportProfile`` wrote.

    Layers of the same name are added up. Raises Failed for a file that is cut off or holds no layers.
    """
    layers: Dict[str, float] = {}
    for row in _rows(text, "layer times"):
        if "name" in row:
            name = str(row["name"])
            layers[name] = layers.get(name, 0.0) + _ms(row, "averageMs") * _S_PER_MS
    if not layers:
        raise Failed("engine", "trtexec's file of layer times names no layer")
    return layers


def _rows(text: str, what: str) -> List[Dict[str, Any]]:
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError):
        rows = None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise Failed("engine", "trtexec's file of %s is cut off or damaged" % what, "run it again")
    return rows


def _ms(row: Dict[str, Any], name: str) -> float:
    value = row.get(name)
    # NaN is not in any order, and neither it nor infinity is a time.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e15:
        raise Failed("engine", "trtexec's file has %r as %s" % (value, name), "run it again")
    return float(value)
