"""What the layers of an engine say about its precision."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.precision import found

Row = dict[str, Any]


def row(name: str, kind: str, precision: str, seconds: float | None = None) -> Row:
    return {"name": name, "type": kind, "precision": precision, "seconds": seconds}


HALF = [
    row("Reformatting CopyNode for Input Tensor 0 to conv1 + relu1", "Reformat", "fp32", 0.5),
    row("conv1 + relu1", "CaskConvolution", "fp16", 2e-3),
    row("norm1", "LRN", "fp16", 1e-3),
    row("pool1", "TiledPooling", "fp16", 1e-3),
    row("fc8", "CaskGemmConvolution", "fp16", 5e-3),
    row("prob", "SoftMax", "fp32", 1e-3),
]


def test_an_fp16_engine_says_how_many_layers_and_how_much_time() -> None:
    what = found(HALF, "8.2.1.8")
    assert (what.precision, what.layers, what.fp16_layers) == ("fp16", 5, 4)
    assert what.fp16_time_share == pytest.approx(0.9)
    assert what.text == "FP16 in 4 of 5 layers, 90 % of the time"


def test_an_fp16_engine_that_is_fp32_is_found_out() -> None:
    rows = [row("conv1", "CaskConvolution", "fp32", 1e-3), row("pool1", "Pooling", "fp16", 9e-3)]
    what = found(rows, "8.5.2")
    assert what.precision == "fp32"
    assert what.text == "FP16 in 1 of 2 layers, 90 % of the time"


def test_fp32_has_no_layer_in_fp16() -> None:
    what = found([row("conv1", "conv", "fp32", 1e-3), row("fc", "gemm", "tf32", 1e-3)], "10.3.0")
    assert (what.precision, what.fp16_layers) == ("fp32", 0)
    assert what.text == "FP32 in 1 of 2 layers, TF32 in 1"


def test_time_decides_where_it_is_known_and_number_where_not() -> None:
    layers = [("a", "fp16", 9e-3), ("b", "fp32", 1e-3), ("c", "fp32", 1e-3)]
    timed = [row(name, "Convolution", precision, seconds) for name, precision, seconds in layers]
    counted = [{**entry, "seconds": None} for entry in timed]
    assert found(timed, "10.3").precision == "fp16"
    assert found(counted, "10.3").precision == "mixed"
    assert found(counted, "10.3").fp16_time_share is None
    assert found(counted, "10.3").text == "FP16 in 1 of 3 layers"


def test_a_little_fp32_arithmetic_shows_in_words_only() -> None:
    rows = [row(f"conv{n}", "CaskConvolution", "fp16" if n else "fp32", 1e-3 if n else 1e-5) for n in range(20)]
    what = found(rows, "8.6.2")
    assert (what.precision, what.text) == ("fp16", "FP16 in 19 of 20 layers, over 99 % of the time")


def test_other_precisions_are_mixed_and_named() -> None:
    what = found([row("a", "conv", "int8"), row("b", "conv", "fp16")], "10.3")
    assert (what.precision, what.text) == ("mixed", "FP16 in 1 of 2 layers, INT8 in 1")


@pytest.mark.parametrize("version", ["7.1.3.0", "8.0.1.6"])
def test_an_engine_without_an_inspector_is_unknown_and_says_why(version: str) -> None:
    what = found([row("conv1", "", "", 1e-3)], version)
    assert (what.precision, what.layers, what.fp16_time_share) == (None, 0, None)
    assert what.text == f"the layers of TensorRT {version[:3]} cannot be inspected"


@pytest.mark.parametrize("rows", [[], [row("conv1", "", "")], [row("in", "Reformat", "fp16")]])
def test_layers_that_tell_nothing_are_unknown(rows: list[Row]) -> None:
    assert found(rows, "10.3.0").text == "TensorRT 10.3.0 does not tell the precision of its layers"
    assert found(rows, "").text == "TensorRT does not tell the precision of its layers"


def test_most_of_the_arithmetic_must_tell_its_precision() -> None:
    rows = [row("a", "conv", "", 9e-3), row("b", "conv", "fp16", 1e-3)]
    what = found(rows, "11.4")
    assert what.precision is None
    assert what.text.endswith("most of the arithmetic does not tell its precision")
    rows[0]["seconds"] = 1e-4
    assert found(rows, "11.4").precision == "fp16"


def test_layers_without_a_type_are_judged_together() -> None:
    assert found([row("a", "", "fp16"), row("b", "", "fp16"), row("c", "", "fp32")], "11.4").precision == "fp16"


def test_moving_numbers_in_fp16_is_not_computing_in_fp16() -> None:
    moves = ("Reformat", "Shuffle", "Constant", "NoOp", "cast", "Concatenation", "copy", "Slice", "Reformatting")
    rows = [row(f"m{n}", kind, "fp16", 1.0) for n, kind in enumerate(moves)]
    what = found([*rows, row("conv1", "CaskConvolution", "fp32", 1e-6)], "8.5.2")
    assert (what.precision, what.layers, what.fp16_layers) == ("fp32", 1, 0)


kinds = st.sampled_from(["CaskConvolution", "gemm", "Reformat", "PointWiseV2", "Pooling", "LRN", "", "kgen"])
precisions = st.sampled_from(["fp16", "fp32", "tf32", "int8", "int32", "bf16", ""])
times = st.none() | st.floats(0, 1)


@given(st.lists(st.builds(row, st.text(max_size=3), kinds, precisions, times), max_size=12))
def test_any_layers_give_a_consistent_answer(rows: list[Row]) -> None:
    what = found(rows, "10.3.0")
    assert 0 <= what.fp16_layers <= what.layers <= len(rows)
    assert what.fp16_time_share is None or 0 <= what.fp16_time_share <= 1 + 1e-9
    assert what.text
    if what.precision == "fp16":
        assert what.fp16_layers
    if what.layers == 0:
        assert what.precision is None
