from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.emit.prototxt import prototxt
from engines.network import Concat, Conv, Eltwise, FullyConnected, Input, Network, Pool, ReLU, Reshape, Softmax
from engines.networks import BUILTIN
from engines.simulated.deploy import read_deploy

MIXED = Network(
    "mixed",
    (Input("data", (4, 9, 7)),),
    (
        Conv("wide", ("data",), 6, (3, 1), (2, 1), (1, 0, 1, 0), (1, 1), 2, False),
        Conv("far", ("data",), 6, (3, 1), (2, 1), (1, 0, 1, 0), (1, 1)),
        Eltwise("sum", ("wide", "far"), "add"),
        Concat("both", ("sum", "far"), 2),
        Pool("mean", ("both",), "avg"),
        Reshape("flat", ("mean",), (-1,)),
        FullyConnected("scores", ("flat",), 5, False),
        ReLU("relu", ("scores",)),
        Softmax("prob", ("relu",)),
    ),
    ("prob",),
)


@pytest.mark.parametrize("network", [*(make() for make in BUILTIN.values()), MIXED], ids=lambda n: n.name)
@pytest.mark.parametrize("batch", [1, 64])
def test_a_deploy_file_is_read_as_it_was_written(network: Network, batch: int) -> None:
    read = read_deploy(prototxt(network, batch))
    assert read.network == network
    assert read.batch == batch


def test_layers_that_overwrite_their_input_are_known() -> None:
    assert read_deploy(prototxt(MIXED, 1)).in_place == {"relu"}


@given(st.data())
def test_a_damaged_file_is_a_value_error_and_nothing_else(data: st.DataObject) -> None:
    text = prototxt(MIXED, 1)
    at = data.draw(st.integers(0, len(text) - 1))
    damaged = text[:at] + data.draw(st.sampled_from(["", "}", "{", '"', " 1 ", "\0"])) + text[at + 9 :]
    with suppress(ValueError):
        read_deploy(damaged)


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "not complete"),
        ('name: "x" layer {', "missing"),
        ("}", "no value"),
        ('name: "a', "cannot read"),
        (prototxt(MIXED, 1).replace("Softmax", "Sofmax"), "Unknown layer type: Sofmax"),
    ],
    ids=["empty", "open", "closed", "quote", "type"],
)
def test_what_is_wrong_is_said(text: str, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        read_deploy(text)
