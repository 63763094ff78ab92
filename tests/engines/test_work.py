from __future__ import annotations

from typing import Literal

import pytest

from engines.cost import cost
from engines.network import Conv, Dropout, Eltwise, FullyConnected, Input, MatMul, Network, ReLU
from engines.networks import BUILTIN
from engines.networks.build import Activation, Builder
from engines.simulated.work import Flavour, from_ampere, in_tf32, works
from remote import boards
from remote.sim.physics import Work

FLAVOURS: tuple[Flavour, ...] = ("caffe", "tensorrt")


def by_name(model: str, batch: int, flavour: Flavour, precision: Literal["fp32", "fp16"] = "fp32") -> dict[str, Work]:
    return {work.name: work for work in works(BUILTIN[model](), batch, precision, flavour)}


@pytest.mark.parametrize("model", sorted(BUILTIN))
@pytest.mark.parametrize("flavour", FLAVOURS)
def test_every_layer_has_a_row_in_the_order_of_the_network(model: str, flavour: Flavour) -> None:
    network = BUILTIN[model]()
    rows = works(network, 2, "fp16", flavour)
    assert [row.name for row in rows] == [layer.name for layer in network.layers]
    assert {row.precision for row in rows} == {"fp16"}


@pytest.mark.parametrize("model", sorted(BUILTIN))
def test_caffe_does_all_operations_that_the_network_costs(model: str) -> None:
    network = BUILTIN[model]()
    paid = [row for row in cost(network, 4) if row.kind not in ("Dropout", "Reshape")]
    assert sum(work.flops for work in works(network, 4, "fp32", "caffe")) == sum(row.operations for row in paid)


def test_caffe_starts_each_group_and_each_input_of_a_concatenation() -> None:
    alexnet, googlenet = by_name("alexnet", 1, "caffe"), by_name("googlenet", 1, "caffe")
    assert (alexnet["conv1"].launches, alexnet["conv2"].launches, alexnet["drop6"].launches) == (1, 2, 0)
    assert googlenet["inception_3a/output"].launches == 4


def test_caffe_reads_and_writes_once_more_to_add_a_bias() -> None:
    network = BUILTIN["alexnet"]()
    conv1 = next(row for row in cost(network, 1) if row.name == "conv1")
    assert by_name("alexnet", 1, "caffe")["conv1"].bytes == conv1.read_bytes + 3 * conv1.written_bytes


def test_tensorrt_fuses_activations_and_leaves_out_what_only_passes_on() -> None:
    googlenet = by_name("googlenet", 1, "tensorrt")
    for name in ("conv1/relu_7x7", "inception_3a/output", "pool5/drop_7x7_s1"):
        assert googlenet[name] == Work(name, 0.0, 0.0, 0.0, "fp32", 0.0)
    assert googlenet["pool1/norm1"].launches == 1


def test_tensorrt_runs_an_activation_that_follows_nothing_to_fuse_with() -> None:
    network = Network("n", (Input("data", (3, 8, 8)),), (ReLU("r", ("data",)),), ("r",))
    (work,) = works(network, 1, "fp32", "tensorrt")
    assert work.flops > 0
    assert work.launches == 1


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_fp16_halves_the_bytes_and_keeps_the_operations(flavour: Flavour) -> None:
    single, half = (by_name("alexnet", 4, flavour, p) for p in ("fp32", "fp16"))
    assert all(single[name].bytes == 2 * half[name].bytes for name in single)
    assert all(single[name].flops == half[name].flops for name in single)


def test_a_product_has_filters_by_batch_times_positions_and_a_vector_has_no_tile_to_fill() -> None:
    layers = (
        Conv.square("conv", "data", 8, 3),
        ReLU("relu", ("conv",)),
        FullyConnected("fc", ("relu",), 10),
        Dropout("drop", ("fc",)),
    )
    network = Network("n", (Input("data", (3, 6, 6)),), layers, ("drop",))
    one, five = ({w.name: w for w in works(network, batch, "fp32", "caffe")} for batch in (1, 5))
    assert [(one[n].rows, one[n].columns) for n in ("conv", "fc", "relu")] == [(8, 16), (0, 1), (0, 0)]
    assert [(five[n].rows, five[n].columns) for n in ("conv", "fc", "relu")] == [(8, 80), (10, 5), (0, 0)]
    assert one["relu"].outputs == 0


def test_each_group_is_a_product_unless_it_has_few_filters() -> None:
    conv2 = by_name("alexnet", 2, "tensorrt")["conv2"]
    assert (conv2.rows, conv2.columns, conv2.groups) == (128, 2 * 27 * 27, 2)
    depthwise = Conv.square("conv", "data", 64, 3, pad=1, groups=64)
    network = Network("n", (Input("data", (64, 8, 8)),), (depthwise,), ("conv",))
    assert works(network, 2, "fp16", "tensorrt")[0].rows == 0


@pytest.mark.parametrize(("kernel", "stride", "applies"), [(3, 1, True), (3, 2, False), (1, 1, False), (5, 1, False)])
def test_winograd_s_method_is_for_kernels_of_three_by_three_without_steps(
    kernel: int, stride: int, applies: bool
) -> None:
    layer = Conv.square("conv", "data", 64, kernel, stride=stride)
    network = Network("n", (Input("data", (3, 8, 8)),), (layer,), ("conv",))
    assert works(network, 1, "fp32", "tensorrt")[0].winograd == applies


def test_tensorrt_adds_the_other_input_of_a_sum_within_the_convolution() -> None:
    layers = (
        Conv.square("left", "data", 8, 1),
        Conv.square("right", "data", 8, 1),
        Eltwise("sum", ("left", "right"), "add"),
        ReLU("relu", ("sum",)),
    )
    network = Network("n", (Input("data", (8, 8, 8)),), layers, ("relu",))
    plain, fused = ({w.name: w for w in works(network, 2, "fp16", flavour)} for flavour in FLAVOURS)
    assert (fused["sum"].launches, fused["sum"].bytes, fused["relu"].launches) == (0, 0, 0)
    assert fused["left"].bytes == fused["right"].bytes + 2 * (2 * 8 * 8 * 8)
    assert plain["sum"].launches == 1
    twice = Network("n", network.inputs, (*layers, ReLU("more", ("left",))), ("relu", "more"))
    assert {w.name: w for w in works(twice, 2, "fp16", "tensorrt")}["sum"].launches == 1


def test_a_product_of_two_computed_tensors_is_a_product_too() -> None:
    network = Network("n", (Input("a", (4, 6)), Input("b", (6, 5))), (MatMul("m", ("a", "b")),), ("m",))
    (work,) = works(network, 2, "fp32", "tensorrt")
    assert (work.rows, work.columns, work.outputs) == (5, 8, 2 * 4 * 5)


def convolution(activation: Activation) -> Network:
    """A convolution with an activation, for a batch of one."""
    net = Builder(1, 16, activation)
    return net.network("n", net.conv("data", 32, 3))


@pytest.mark.parametrize(
    ("activation", "before", "from_ampere_on"),
    [("relu", 1, 1), ("relu6", 1, 1), ("leaky", 1, 1), ("silu", 3, 1), ("mish", 4, 1)],
)
def test_tensorrt_computes_an_activation_within_the_convolution_and_curves_from_ampere_on(
    activation: Activation, before: int, from_ampere_on: int
) -> None:
    network = convolution(activation)
    for curves, launches in ((False, before), (True, from_ampere_on)):
        rows = works(network, 1, "fp16", "tensorrt", curves=curves)
        assert sum(row.launches for row in rows) == launches
    assert sum(row.launches for row in works(network, 1, "fp16", "caffe")) == len(network.layers)


def test_what_weighs_channels_is_a_pass_of_its_own() -> None:
    net = Builder(1, 16, "relu")
    made = net.conv("data", 32, 3)
    weights = net.other("Sigmoid", net.conv(net.mean(made), 32, activation=""))
    network = net.network("n", net.combine("mul", made, weights))
    rows = {row.name: row.launches for row in works(network, 1, "fp16", "tensorrt", curves=True)}
    assert rows[network.outputs[0]] == 1
    assert rows[weights] == 0


def test_a_normalisation_that_follows_no_convolution_takes_its_activation_along() -> None:
    net = Builder(1, 16, "relu")
    network = net.network("n", net.norm(net.concat("data", "data")))
    assert [row.launches for row in works(network, 1, "fp16", "tensorrt")] == [0, 1, 0]


@pytest.mark.parametrize(
    ("board", "late"), [("tx1", False), ("agx-xavier", False), ("orin-nx", True), ("agx-thor", True)]
)
def test_orin_and_thor_are_of_ampere_s_generation_or_later(board: str, late: bool) -> None:
    assert from_ampere(boards.load(board).twin) == late


def test_tf32_is_fp16_at_its_share_of_the_rate_with_the_bytes_of_fp32() -> None:
    plain = works(BUILTIN["alexnet"](), 4, "fp32", "tensorrt")
    for before, after in zip(plain, in_tf32(plain, 0.5), strict=True):
        product = before.outputs > 0
        assert (after.precision, after.flops) == (("fp16", 2 * before.flops) if product else ("fp32", before.flops))
        assert after.bytes == before.bytes
