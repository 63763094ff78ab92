"""What TensorRT's inspector says of layers, in the layouts of its versions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.onboard.layers import rows


def layer(name: str, reads: dict[str, str], makes: dict[str, str], kind: str = "CaskConvolution") -> dict[str, Any]:
    return {"Name": name, "LayerType": kind, "Inputs": [{"Name": "x", **reads}], "Outputs": [{"Name": "y", **makes}]}


def told(layers: list[Any], last: str = "Bindings") -> str:
    return json.dumps({"Layers": layers, last: ["x", "y"]})


@pytest.mark.parametrize(
    ("words", "precision"),
    [
        ("Row major linear FP32", "fp32"),
        ("Channel major FP16 format where channel % 8 == 0", "fp16"),
        ("Thirty-two wide channel vectorized row major Int8 format", "int8"),
        ("Half", "fp16"),
        ("Float", "fp32"),
        ("BFloat16", "bf16"),
        ("BF16", "bf16"),
        ("Int32", "int32"),
        ("FP8", "fp8"),
        ("a format of tomorrow", ""),
    ],
)
def test_the_type_is_read_from_its_words(words: str, precision: str) -> None:
    (row,) = rows(told([layer("conv1", {"Format/Datatype": words}, {})]), {})
    assert row == {"name": "conv1", "type": "CaskConvolution", "precision": precision, "seconds": None}


@pytest.mark.parametrize("key", ["DataType", "Datatype", "Data Type"])
def test_from_version_11_on_the_type_has_a_key_of_its_own(key: str) -> None:
    (row,) = rows(told([layer("fc6", {"Format": "Row major linear", key: "Half"}, {}, "gemm")], "I/O Tensors"), {})
    assert (row["precision"], row["type"]) == ("fp16", "gemm")


def test_a_layer_computes_in_what_it_reads() -> None:
    (row,) = rows(told([layer("cast", {"Format/Datatype": "Float"}, {"Format/Datatype": "Half"})]), {})
    assert row["precision"] == "fp32"


def test_a_layer_without_inputs_is_of_the_type_it_makes() -> None:
    constant = {"Name": "k", "LayerType": "Constant", "Inputs": [], "Outputs": [{"Format/Datatype": "Half"}]}
    assert rows(told([constant]), {})[0]["precision"] == "fp16"


def test_a_missing_key_is_unknown() -> None:
    assert rows(told([{"Name": "conv1"}]), {}) == [{"name": "conv1", "type": "", "precision": "", "seconds": None}]


def test_at_low_verbosity_there_are_only_names() -> None:
    assert [row["name"] for row in rows(told(["conv1 + relu1", "prob"]), {})] == ["conv1 + relu1", "prob"]


def test_times_go_to_layers_of_that_name_and_others_are_added() -> None:
    found = rows(told([layer("conv1", {}, {})]), {"conv1": 0.002, "reformat": 0.001})
    assert [(row["name"], row["seconds"]) for row in found] == [("conv1", 0.002), ("reformat", 0.001)]


def test_without_an_inspector_there_are_names_and_times() -> None:
    assert rows("", {"conv1": 0.5}) == [{"name": "conv1", "type": "", "precision": "", "seconds": 0.5}]


@pytest.mark.parametrize("text", ["{", "[]", "7", '{"Bindings": []}', '{"Layers": 3}'])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        rows(text, {})


SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
ANY = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner))


@given(layers=st.lists(st.dictionaries(st.sampled_from(["Name", "LayerType", "Inputs", "Outputs"]), ANY) | ANY))
def test_odd_layers_never_stop_it(layers: list[Any]) -> None:
    assert len(rows(json.dumps({"Layers": layers}), {})) == len(layers)
