"""Counts agree with the published ones and with the definitions of Castro et al."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.cost import cost, total
from engines.network import LRN, Conv, Dropout, Input, Network, Other, Pool, ReLU, Softmax
from engines.networks import BUILTIN, alexnet, googlenet


@pytest.mark.parametrize(
    ("name", "millions_of_macs", "millions_of_parameters"), [("alexnet", 724.4, 60.97), ("googlenet", 1582.7, 7.00)]
)
def test_built_in_networks_have_the_published_counts(
    name: str, millions_of_macs: float, millions_of_parameters: float
) -> None:
    sums = total(cost(BUILTIN[name](), 1))
    assert sums.macs / 1e6 == pytest.approx(millions_of_macs, abs=0.05)
    assert sums.parameters / 1e6 == pytest.approx(millions_of_parameters, abs=0.005)


def test_operations_follow_the_definitions_by_hand() -> None:
    layers = (
        Conv.square("conv", "x", 6, 3, pad=1, groups=2),
        ReLU("relu", ("conv",)),
        LRN("norm", ("relu",), size=5),
        Pool.square("pool", "norm", "max", 2, stride=2),
        Dropout("drop", ("pool",)),
        Softmax("prob", ("drop",)),
    )
    rows = {row.name: row for row in cost(Network("net", (Input("x", (4, 8, 8)),), layers, ("prob",)), 1)}
    plane, pooled = 6 * 8 * 8, 6 * 4 * 4
    assert rows["conv"].macs == plane * 3 * 3 * 2
    assert rows["conv"].operations == 2 * rows["conv"].macs + plane
    assert rows["conv"].parameters == 6 * 2 * 3 * 3 + 6
    assert rows["relu"].operations == plane
    assert rows["norm"].operations == plane * 13
    assert rows["pool"].operations == pooled * 4
    assert rows["drop"].operations == pooled
    assert rows["prob"].operations == 3 * pooled
    assert rows["conv"].read_bytes == 4 * (4 * 8 * 8 + rows["conv"].parameters)
    assert rows["conv"].written_bytes == 4 * plane
    assert rows["conv"].operations_per_byte == pytest.approx(
        rows["conv"].operations / (rows["conv"].read_bytes + rows["conv"].written_bytes)
    )


def test_an_operation_we_do_not_know_still_has_a_cost() -> None:
    layers = (Other("y", ("x",), "Erf", (2, 5), parameters=7, extra=(("z", (3,)),)),)
    (row,) = cost(Network("net", (Input("x", (5,)),), layers, ("y",), fixed_batch=2), 2)
    assert (row.kind, row.operations, row.parameters, row.outputs) == ("Erf", 10, 7, 13)
    assert (row.read_bytes, row.written_bytes) == (4 * 17, 4 * 13)


@given(batch=st.integers(1, 256), name=st.sampled_from(sorted(BUILTIN)))
def test_all_but_the_weights_grows_with_the_batch(batch: int, name: str) -> None:
    network = BUILTIN[name]()
    for one, many in zip(cost(network, 1), cost(network, batch), strict=True):
        assert (many.parameters, many.weight_bytes) == (one.parameters, one.weight_bytes)
        assert (many.macs, many.operations) == (batch * one.macs, batch * one.operations)
        assert many.written_bytes == batch * one.written_bytes
        assert many.read_bytes - many.weight_bytes == batch * (one.read_bytes - one.weight_bytes)


@given(batch=st.integers(1, 64))
def test_half_precision_halves_bytes_and_nothing_else(batch: int) -> None:
    full, half = total(cost(googlenet(), batch, "fp32")), total(cost(googlenet(), batch, "fp16"))
    assert (full.macs, full.operations, full.parameters) == (half.macs, half.operations, half.parameters)
    assert full.read_bytes == 2 * half.read_bytes
    assert full.written_bytes == 2 * half.written_bytes
    assert full.weight_bytes == 2 * half.weight_bytes


def test_totals_are_sums_over_layers() -> None:
    rows = cost(alexnet(), 3)
    assert total(rows).operations == sum(row.operations for row in rows)
    assert total(()).macs == 0


def test_counting_loads_neither_numpy_nor_onnx() -> None:
    code = (
        "import sys; from engines.models import load; from engines.cost import cost; import engines.spec\n"
        "cost(load('alexnet', 64).network, 64, 'fp16'); sys.exit(bool({'numpy', 'onnx'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
