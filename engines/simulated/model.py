"""ONNX files on a simulated board: those of users, and skeletons that stand for the file written from them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path

from engines.cost import Precision
from engines.importer import read_onnx, read_skeleton
from engines.network import Network
from remote.errors import UsageError

Model = tuple[Network, int, Precision]
"""A network, its batch, and the precision of the file itself."""


def onnx_model(data: bytes, shapes: Mapping[str, tuple[int, ...]]) -> Model:
    """Returns what is in a file, with open dimensions as in ``shapes``. Raises UsageError for what is no model."""
    if data.startswith(b"{"):
        text = data.decode("utf-8", "replace")
        network = read_skeleton(text)
        typed: Precision = "fp16" if any(row["type"] == "f2" for row in json.loads(text)["weights"]) else "fp32"
        return network, network.fixed_batch, typed
    return _of_user(data, shapes)


def _of_user(data: bytes, shapes: Mapping[str, tuple[int, ...]]) -> Model:
    import onnx
    from google.protobuf.message import DecodeError

    try:
        graph = onnx.load_model_from_string(data).graph
    except DecodeError as error:
        raise UsageError("this is not an ONNX model", "export it again") from error
    weights = {tensor.name for tensor in graph.initializer}
    fed = [value for value in graph.input if value.name not in weights]
    dims = [dim.dim_value for dim in fed[0].type.tensor_type.shape.dim] if fed else []
    if fed and fed[0].name in shapes:
        dims = list(shapes[fed[0].name])
    batch = dims[0] if dims and dims[0] > 0 else 1
    with tempfile.TemporaryDirectory() as folder:  # the importer reads files, to find weights beside them
        path = Path(folder) / "model.onnx"
        path.write_bytes(data)
        try:
            found = read_onnx(path, batch, shapes)
        except UsageError as error:  # which names the file by a path that nobody knows
            raise UsageError(error.what.removeprefix(f"{path}: "), error.hint) from error
    return found.network, batch, found.typed
