"""Weights from their recipe, the same on the host and on a board."""

from typing import Any, Iterable, List, Sequence

_CHUNK = 1 << 20


def draw(seed: int, arrays: Iterable[Sequence[Any]]) -> List[Any]:
    """Returns float32 arrays, one for each ``(shape, mean, deviation)``, one after the other from one generator."""
    import numpy

    generator = numpy.random.RandomState(seed)
    drawn = []
    for shape, mean, deviation in arrays:
        array = numpy.empty(tuple(shape), numpy.float32)
        flat = array.reshape(-1)
        # In pieces: the generator makes float64, which would triple the memory that a layer needs.
        for start in range(0, flat.size, _CHUNK):
            piece = flat[start : start + _CHUNK]
            piece[:] = mean + deviation * generator.standard_normal(piece.size)
        drawn.append(array)
    return drawn
