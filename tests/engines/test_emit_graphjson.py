"""The JSON of a network holds all that a board needs to build it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.emit.graphjson import graph_json, parse_graph
from engines.network import Conv, Eltwise, Input, Layer, Network, Other, Pool, ReLU, Reshape, inputs_of
from engines.networks import BUILTIN
from engines.weights import ALGORITHM, draw, recipe
from remote.errors import UsageError


@given(name=st.sampled_from(sorted(BUILTIN)), batch=st.integers(1, 128), seed=st.integers(0, 99))
def test_built_in_networks_come_back_equal(name: str, batch: int, seed: int) -> None:
    network = BUILTIN[name]()
    assert parse_graph(graph_json(network, batch, "fp16", seed)) == network


@given(
    filters=st.integers(1, 9),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    dims=st.sampled_from([(-1,), (2, -1)]),
)
def test_any_layer_comes_back_equal(filters: int, kernel: tuple[int, int], dims: tuple[int, ...]) -> None:
    layers: tuple[Layer, ...] = (
        Conv("c", ("x",), 2 * filters, kernel, (1, 1), (0, 0, 0, 0), (1, 1), bias=False),
        Pool("p", ("c",), "avg"),
        Eltwise("e", ("c", "p"), "mul"),
        Reshape("r", ("e",), dims),
        Other("o", ("r", "y"), "Einsum", (3, 7), 5, 6, (("o2", (1,)),)),
        ReLU("last", ("o2",)),
    )
    inputs = (Input("x", (3, 6, 6)), Input("y", (4,), batched=False, dtype="int64"))
    network = Network("mine", inputs, layers, ("last",), fixed_batch=3)
    assert parse_graph(graph_json(network, 3, "fp32", 0)) == network


def test_a_board_can_draw_the_weights_from_the_json_alone() -> None:
    network = BUILTIN["googlenet"]()
    graph = json.loads(graph_json(network, 2, "fp16", seed=7))
    assert (graph["batch"], graph["precision"], graph["algorithm"]) == (2, "fp16", ALGORITHM)
    row = graph["layers"][0]
    assert row["shape"] == [2, 64, 112, 112]
    generator = np.random.RandomState(row["weights"]["seed"])
    arrays = [
        (mean + deviation * generator.standard_normal(int(np.prod(shape)))).astype(np.float32).reshape(shape)
        for shape, mean, deviation in row["weights"]["arrays"]
    ]
    layer = network.layers[0]
    wanted = draw(recipe(layer, inputs_of(layer, network.shapes(2)), 7, 0))
    assert all(np.array_equal(a, b) for a, b in zip(arrays, wanted, strict=True))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"graph": 2}',
        '{"graph":1,"name":"n","inputs":[],"layers":[{"kind":"prod"}],"outputs":[],"fixed_batch":0}',
    ],
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_graph(text)
