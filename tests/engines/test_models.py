"""A model is a built-in name or a file; anything else gets an answer that helps."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.emit.onnx import emit_onnx
from engines.models import FedInput, load, names, parse_shapes
from engines.network import Conv, Input, Network
from remote.errors import UsageError


def test_built_in_names_are_found_in_any_case() -> None:
    assert names() == ("alexnet", "googlenet")
    model = load("AlexNet", 8)
    assert (model.name, model.source, model.network.name) == ("alexnet", "builtin", "alexnet")


def test_a_digest_is_of_the_content() -> None:
    assert load("alexnet", 1).digest == load("ALEXNET", 64).digest
    assert load("alexnet", 1).digest != load("googlenet", 1).digest


def test_an_unknown_name_gets_the_nearest_and_the_list() -> None:
    with pytest.raises(UsageError, match="'alxnet'") as caught:
        load("alxnet", 1)
    assert "Did you mean 'alexnet'?" in caught.value.hint
    assert "alexnet, googlenet" in caught.value.hint
    with pytest.raises(UsageError) as caught:
        load("zzz", 1)
    assert "Did you mean" not in caught.value.hint


def test_a_batch_below_one_is_refused() -> None:
    with pytest.raises(UsageError, match="batch 0"):
        load("alexnet", 0)


def test_a_file_is_a_model_and_its_digest_follows_its_bytes(tmp_path: Path) -> None:
    network = Network("tiny", (Input("data", (3, 8, 8)),), (Conv.square("conv", "data", 4, 3),), ("conv",))
    digests = set()
    for seed in (0, 1):
        path = tmp_path / f"mine{seed}.onnx"
        emit_onnx(network, 2, "fp32", seed, path)
        model = load(str(path), 2)
        assert (model.name, model.source) == (f"mine{seed}", str(path))
        assert model.network.shapes(2)["conv"] == (2, 4, 6, 6)
        digests.add(model.digest)
    assert len(digests) == 2


def test_a_model_knows_what_it_is_fed_with() -> None:
    assert load("alexnet", 8).inputs == (FedInput("data", (8, 3, 227, 227), "float32"),)


def test_the_inputs_of_a_built_in_network_are_fixed() -> None:
    with pytest.raises(UsageError, match="alexnet"):
        load("alexnet", 1, {"data": (1, 3, 64, 64)})


def test_shapes_are_read() -> None:
    assert parse_shapes(["image:1x3x224X224", " a:0:7 "]) == {"image": (1, 3, 224, 224), "a:0": (7,)}
    assert parse_shapes([]) == {}


@pytest.mark.parametrize(
    "text", ["", "x", "x:", ":1x3", "x:1x?", "x:1x0", "x:-1x3", "x:1,3", "x:1x", "x:\u0662", "x:1.5"]
)
def test_junk_for_a_shape_is_shown_an_example(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_shapes([text])
    assert repr(text) in caught.value.what
    assert "image:1x3x224x224" in caught.value.hint


def test_a_shape_given_twice_is_refused() -> None:
    with pytest.raises(UsageError, match="twice for input 'x'"):
        parse_shapes(["x:1x2", "x:1x3"])


@given(text=st.text())
def test_any_text_is_a_shape_or_refused(text: str) -> None:
    try:
        (dims,) = parse_shapes([text]).values()
    except UsageError:
        return
    assert min(dims) > 0
