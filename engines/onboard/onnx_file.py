"""Writes the ONNX file of a built-in network on the board: its weights never travel.

What travels is a skeleton, made by `engines.emit.onnx.skeleton`: one JSON object with

- ``onnx``: 1, the format;
- ``parts``: what the file holds besides weights, each part as base64 of zlib: the fields of the ModelProto before the
  graph, those of the graph before its initializers, those behind them, and the fields behind the graph;
- ``weights``: rows in the order of the file, each with ``names``, ``type`` ("f4", "f2" or "i8") and either ``seed`` and
  ``arrays``, from which `engines.onboard.weights.draw` draws them, or ``values``, lists of integers.

How fields and lengths are written is in protobuf's "Encoding" guide, their numbers in onnx.proto.
"""

import base64
import json
import zlib
from typing import IO, Any, Dict, List, Tuple

FORMAT = 1

_TYPES = {"f4": 1, "f2": 10, "i8": 7}  # TensorProto.DataType
_ITEM_BYTES = {"f4": 4, "f2": 2, "i8": 8}
_LENGTH_DELIMITED = 2
_GRAPH, _INITIALIZER = 7, 5
_DIMS, _DATA_TYPE, _NAME, _RAW_DATA = 1, 2, 8, 9


def write(out: "IO[bytes]", skeleton: str) -> None:
    """Writes the ONNX file of ``skeleton`` to ``out``, never more of it in memory than one layer's weights."""
    import numpy

    from engines.onboard.weights import draw

    tree = json.loads(skeleton)
    head, graph_head, graph_tail, tail = parts(tree)
    sizes = (_size(row, name, dims) for row in tree["weights"] for name, dims in named(row))
    out.write(head + _field(_GRAPH, len(graph_head) + sum(sizes) + len(graph_tail)) + graph_head)
    for row in tree["weights"]:
        arrays = draw(row["seed"], row["arrays"]) if "seed" in row else [numpy.array(value) for value in row["values"]]
        for number, (name, dims) in enumerate(named(row)):
            out.write(_before_data(row, name, dims))
            # As a view: a copy of the largest layer's bytes would not fit beside it on a small board.
            out.write(arrays[number].astype("<" + row["type"], copy=False).reshape(-1).view("u1").data)
        del arrays
    out.write(graph_tail + tail)


def parts(tree: Dict[str, Any]) -> List[bytes]:
    """Returns the four parts of a skeleton. Raises ValueError for another format."""
    if tree["onnx"] != FORMAT:
        raise ValueError("an ONNX skeleton of format %s, not %d" % (tree["onnx"], FORMAT))
    return [zlib.decompress(base64.b64decode(part)) for part in tree["parts"]]


def named(row: Dict[str, Any]) -> List[Tuple[str, List[int]]]:
    """Returns the tensors of a row of weights: name and dimensions."""
    shapes = [array[0] for array in row["arrays"]] if "seed" in row else [[len(value)] for value in row["values"]]
    return [(name, shapes[number]) for number, name in enumerate(row["names"])]


def _size(row: Dict[str, Any], name: str, dims: List[int]) -> int:
    """Returns the bytes that an initializer takes in the graph."""
    return len(_before_data(row, name, dims)) + _data_bytes(row, dims)


def _data_bytes(row: Dict[str, Any], dims: List[int]) -> int:
    count = _ITEM_BYTES[row["type"]]
    for size in dims:
        count *= size
    return count


def _before_data(row: Dict[str, Any], name: str, dims: List[int]) -> bytes:
    """Returns an initializer up to its data, which is its last field."""
    text = name.encode("utf-8")
    fields = b"".join(_varint(_DIMS << 3) + _varint(size) for size in dims)
    fields += _varint(_DATA_TYPE << 3) + _varint(_TYPES[row["type"]]) + _field(_NAME, len(text)) + text
    fields += _field(_RAW_DATA, _data_bytes(row, dims))
    return _field(_INITIALIZER, len(fields) + _data_bytes(row, dims)) + fields


def _field(number: int, length: int) -> bytes:
    return _varint(number << 3 | _LENGTH_DELIMITED) + _varint(length)


def _varint(value: int) -> bytes:
    """Returns seven bits per byte, the lowest first, with the top bit set in all but the last."""
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)
