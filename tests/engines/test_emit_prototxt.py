"""Deploy files read as Caffe's own do, and refuse what Caffe would compute otherwise."""

from __future__ import annotations

import re
from typing import Any

import pytest

from engines.emit.prototxt import prototxt
from engines.network import (
    BatchNorm,
    Concat,
    Conv,
    Eltwise,
    FullyConnected,
    Input,
    Layer,
    MatMul,
    Network,
    Pool,
    ReLU,
    Reshape,
    Softmax,
)
from engines.networks import BUILTIN, alexnet, googlenet
from remote.errors import UsageError


def parse(text: str) -> dict[str, list[Any]]:
    """Reads protobuf's text format: a name gives the list of its values, blocks are dicts again."""
    tokens = re.findall(r'"[^"]*"|[{}:]|[^\s{}:]+', text)
    position = 0

    def block() -> dict[str, list[Any]]:
        nonlocal position
        found: dict[str, list[Any]] = {}
        while position < len(tokens) and tokens[position] != "}":
            key, mark = tokens[position], tokens[position + 1]
            position += 2
            if mark == "{":
                found.setdefault(key, []).append(block())
            else:
                assert mark == ":"
                found.setdefault(key, []).append(tokens[position].strip('"'))
            position += 1
        return found

    result = block()
    assert position == len(tokens)
    return result


def layers_of(network: Network, batch: int = 1) -> dict[str, dict[str, list[Any]]]:
    return {layer["name"][0]: layer for layer in parse(prototxt(network, batch))["layer"]}


def with_layer(layer: Layer, *shape: int) -> Network:
    return Network("net", (Input("x", shape), Input("y", (1,))), (layer,), (layer.name,))


@pytest.mark.parametrize("name", sorted(BUILTIN))
def test_the_first_dim_is_the_batch(name: str) -> None:
    text = prototxt(BUILTIN[name](), 37)
    assert re.findall(r"dim: (\d+)", text)[0] == "37"
    assert parse(text)["input_shape"][0]["dim"][1] == "3"


@pytest.mark.parametrize("name", sorted(BUILTIN))
def test_every_layer_is_there_and_reads_what_was_made(name: str) -> None:
    network = BUILTIN[name]()
    parsed = parse(prototxt(network, 1))
    assert [layer["name"][0] for layer in parsed["layer"]] == [layer.name for layer in network.layers]
    blobs = set(parsed["input"])
    for layer in parsed["layer"]:
        assert set(layer["bottom"]) <= blobs
        blobs |= set(layer["top"])
    assert parsed["layer"][-1]["top"] == ["prob"]


def test_alexnet_has_the_parameters_of_bvlc() -> None:
    layers = layers_of(alexnet())
    conv2 = layers["conv2"]["convolution_param"][0]
    assert (conv2["num_output"], conv2["kernel_size"], conv2["pad"], conv2["group"]) == (["256"], ["5"], ["2"], ["2"])
    assert conv2["weight_filler"][0]["type"] == ["gaussian"]
    assert layers["norm1"]["lrn_param"] == [{"local_size": ["5"], "alpha": ["0.0001"], "beta": ["0.75"]}]
    assert layers["pool5"]["pooling_param"] == [{"pool": ["MAX"], "kernel_size": ["3"], "stride": ["2"]}]
    assert layers["fc8"]["inner_product_param"][0]["num_output"] == ["1000"]
    assert layers["relu1"]["top"] == layers["relu1"]["bottom"] == ["conv1"]


def test_googlenet_joins_its_branches() -> None:
    layers = layers_of(googlenet())
    wanted = [f"inception_3a/{branch}" for branch in ("1x1", "3x3", "5x5", "pool_proj")]
    assert layers["inception_3a/output"]["bottom"] == wanted
    assert layers["pool5/7x7_s1"]["pooling_param"] == [{"pool": ["AVE"], "kernel_size": ["7"]}]


def test_a_tensor_that_others_read_too_is_not_overwritten() -> None:
    layers = (Conv.square("c", "x", 4, 3), ReLU("r", ("c",)), Concat("both", ("c", "r")))
    relu = layers_of(Network("net", (Input("x", (3, 8, 8)),), layers, ("both",)))["r"]
    assert (relu["bottom"], relu["top"]) == (["c"], ["r"])
    on_input = layers_of(with_layer(ReLU("r", ("x",)), 3))["r"]
    assert on_input["top"] == ["r"]


def test_what_differs_from_the_defaults_is_written() -> None:
    conv = layers_of(with_layer(Conv("c", ("x",), 4, (1, 3), (2, 1), (0, 1, 0, 1), (2, 2), bias=False), 3, 8, 8))["c"]
    wanted = {
        "kernel_h": ["1"],
        "kernel_w": ["3"],
        "stride_h": ["2"],
        "stride_w": ["1"],
        "pad_h": ["0"],
        "pad_w": ["1"],
    }
    assert wanted.items() <= conv["convolution_param"][0].items()
    assert conv["convolution_param"][0]["dilation"] == ["2", "2"]
    assert conv["convolution_param"][0]["bias_term"] == ["false"]
    pool = layers_of(with_layer(Pool("p", ("x",), "avg"), 3, 8, 8))["p"]
    assert pool["pooling_param"] == [{"pool": ["AVE"], "global_pooling": ["true"]}]
    assert layers_of(with_layer(Softmax("s", ("x",), 2), 3, 8))["s"]["softmax_param"] == [{"axis": ["2"]}]
    assert layers_of(with_layer(Reshape("r", ("x",)), 3, 8))["r"]["reshape_param"][0]["shape"][0]["dim"] == ["0", "-1"]
    assert layers_of(with_layer(Eltwise("e", ("x", "x"), "mul"), 3))["e"]["eltwise_param"] == [{"operation": ["PROD"]}]


@pytest.mark.parametrize(
    ("layer", "why"),
    [
        (BatchNorm("odd", ("x",)), "no layer for BatchNorm"),
        (MatMul("odd", ("x", "x")), "no layer for MatMul"),
        (Pool("odd", ("x",), "max", (3, 3), (2, 2), (0,) * 4, ceil=False), "rounds the size"),
        (Pool("odd", ("x",), "avg", (3, 3), (1, 1), (1,) * 4, count_pad=False), "counts padding"),
        (Conv("odd", ("x",), 4, (3, 3), (1, 1), (1, 1, 0, 0), (1, 1)), "as much padding before as after"),
        (Eltwise("odd", ("x", "x"), "div"), "only adds and multiplies"),
        (FullyConnected("odd", ("x",), 4, axis=-1), "axis -1"),
    ],
)
def test_what_caffe_would_compute_otherwise_is_refused(layer: Layer, why: str) -> None:
    with pytest.raises(UsageError, match="'odd'") as caught:
        prototxt(with_layer(layer, 3, 8, 8), 1)
    assert why in str(caught.value)
