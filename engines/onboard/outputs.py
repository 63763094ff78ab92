"""What a run computed, in a form small enough to be sent and compared."""

from typing import Any, Dict, Iterable, List, Tuple

MOST = 4096
"""So many numbers of an output are told at most."""


def tensors(arrays: Iterable[Tuple[str, Any]], batch: int) -> List[Dict[str, Any]]:
    """Returns the rows of the ``outputs`` event: of each named array the first image's numbers.

    All of an array whose first dimension is not the batch. Of more than `MOST` numbers every n-th, n being ``index``.
    """
    rows = []
    for name, array in arrays:
        first = array[0] if array.ndim and array.shape[0] == batch else array
        flat = first.reshape(-1)
        stride = max(1, -(-flat.size // MOST))
        rows.append(
            {
                "name": name,
                "shape": list(array.shape),
                "dtype": str(array.dtype),
                "index": stride,
                "values": [_short(value) for value in flat[::stride].tolist()],
            }
        )
    return rows


def _short(value: Any) -> Any:
    """Returns eight digits of a float, whose bytes have no more than that to say."""
    return float("%.8g" % value) if isinstance(value, float) else value
