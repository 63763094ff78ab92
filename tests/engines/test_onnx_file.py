"""The board writes the very file that the host would, from little, and in little memory."""

from __future__ import annotations

import io
import json
import tracemalloc
from pathlib import Path

import numpy as np
import onnx
import pytest

from engines.cost import Precision
from engines.emit.onnx import emit_onnx, skeleton
from engines.network import Conv, FullyConnected, Input, Network, Reshape
from engines.networks import BUILTIN
from engines.onboard.onnx_file import write
from engines.weights import draw, recipe

SMALL = Network(
    "small",
    (Input("x", (3, 8, 8)),),
    (Conv.square("c", "x", 4, 3), Reshape("r", ("c",), (2, 72)), FullyConnected("f", ("r",), 300)),
    ("f",),
)


@pytest.mark.parametrize("name", sorted(BUILTIN))
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_the_skeleton_of_a_built_in_network_is_small(name: str, precision: Precision) -> None:
    assert len(skeleton(BUILTIN[name](), 64, precision, 0)) < 20_000


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_the_file_is_the_bytes_that_onnx_writes_for_it(precision: Precision, tmp_path: Path) -> None:
    path = tmp_path / "g.onnx"
    emit_onnx(BUILTIN["googlenet"](), 2, precision, 3, path)
    assert onnx.load(path).SerializeToString(deterministic=True) == path.read_bytes()
    onnx.checker.check_model(str(path), full_check=True)


def test_weights_are_those_of_the_seed_and_shapes_are_numbers() -> None:
    out = io.BytesIO()
    write(out, skeleton(SMALL, 2, "fp16", 9))
    found = {
        t.name: onnx.numpy_helper.to_array(t) for t in onnx.load_model_from_string(out.getvalue()).graph.initializer
    }
    wanted = draw(recipe(SMALL.layers[0], ((2, 3, 8, 8),), 9, 0))
    assert list(found) == ["c/w0", "c/w1", "r/shape", "f/w0", "f/w1"]
    assert all(np.array_equal(found[f"c/w{i}"], array.astype("f2")) for i, array in enumerate(wanted))
    assert found["r/shape"].tolist() == [2, 2, 72]


def test_one_layer_at_a_time_is_in_memory(tmp_path: Path) -> None:
    layers = tuple(FullyConnected(f"f{n}", (f"f{n - 1}" if n else "x",), 2000, bias=False) for n in range(6))
    text = skeleton(Network("wide", (Input("x", (2000,)),), layers, ("f5",)), 1, "fp32", 0)
    with (tmp_path / "wide.onnx").open("wb") as file:
        tracemalloc.start()
        write(file, text)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert most < 48e6  # a layer is 16 MB, all six are 96 MB, and the generator's float64 take 16 MB
    assert (tmp_path / "wide.onnx").stat().st_size > 96e6


def test_another_format_is_refused() -> None:
    tree = json.loads(skeleton(SMALL, 1, "fp32", 0))
    with pytest.raises(ValueError, match="format 2"):
        write(io.BytesIO(), json.dumps({**tree, "onnx": 2}))
