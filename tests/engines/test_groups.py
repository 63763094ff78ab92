from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.models import load
from engines.simulated.explain import explain
from engines.simulated.groups import groups, no_gain
from remote import boards
from remote.sim.physics import Clocks, LayerTime

TWIN = boards.load("tx1").twin
MAXIMUM = Clocks(1734e6, 998.4e6, 1600e6)
KINDS = ("Conv", "FullyConnected", "Pool", "LRN", "ReLU", "Other")

limits = st.floats(1e-6, 1e-2)
layers = st.lists(st.tuples(st.sampled_from(KINDS), limits, limits, limits), min_size=1, max_size=20)
seconds = st.dictionaries(st.sampled_from("abcdef"), st.floats(1e-6, 1e-2), min_size=1)


def timed(found: list[tuple[str, float, float, float]]) -> tuple[dict[str, str], list[LayerTime]]:
    times = [LayerTime(str(index), max(a, m, s), a, m, s) for index, (_, a, m, s) in enumerate(found)]
    return {str(index): kind for index, (kind, *_) in enumerate(found)}, times


@given(layers)
def test_every_layer_is_in_one_group_and_the_shares_add_up(found: list[tuple[str, float, float, float]]) -> None:
    made = groups(*timed(found))
    assert sum(group.layers for group in made) == len(found)
    assert sum(group.share for group in made) == pytest.approx(1)
    assert [group.share for group in made] == sorted((group.share for group in made), reverse=True)
    assert all(0 < group.bound_share <= 1 + 1e-12 for group in made)


def test_a_group_is_named_with_what_paces_most_of_its_time() -> None:
    rows = [
        ("Conv", 3.0, 1.0, 0.0),
        ("Conv", 1.0, 2.0, 0.0),
        ("FullyConnected", 1.0, 4.0, 0.0),
        ("ReLU", 0.0, 0.0, 0.0),
    ]
    conv, fc = groups(*timed(rows))
    assert (conv.name, conv.layers, conv.bound) == ("conv", 2, "arithmetic")
    assert conv.share == pytest.approx(5 / 9)
    assert conv.bound_share == pytest.approx(3 / 5)
    assert (fc.name, fc.bound, fc.bound_share) == ("fc", "memory", 1.0)


@given(seconds, seconds)
def test_only_layers_known_in_both_precisions_can_have_gained_nothing(
    fp32: dict[str, float], fp16: dict[str, float]
) -> None:
    found = no_gain(fp32, fp16)
    assert set(found.layers) <= set(fp32) & set(fp16)
    assert 0 <= found.share <= 1 + 1e-12
    assert all(fp32[name] < 1.05 * fp16[name] for name in found.layers)


def test_a_layer_gains_from_five_percent_on_and_a_tiny_one_is_not_named() -> None:
    fp16 = {"just": 1.0, "short": 1.0, "slower": 2.0, "tiny": 0.001}
    found = no_gain({"just": 1.0501, "short": 1.0499, "slower": 1.0, "tiny": 0.001}, fp16)
    assert found.layers == ("slower", "short")
    assert found.share == pytest.approx(3 / 4.001)


def test_alexnet_reads_weights_with_one_image_and_computes_convolutions_with_many() -> None:
    network = load("alexnet", 1).network
    single = explain(network, 1, "fp16", "caffe", MAXIMUM, TWIN)
    batch = explain(network, 64, "fp16", "tensorrt", MAXIMUM, TWIN)
    assert single is not None
    assert batch is not None
    assert (single["groups"][0]["name"], single["groups"][0]["bound"]) == ("fc", "memory")
    assert (batch["groups"][0]["name"], batch["groups"][0]["bound"]) == ("conv", "arithmetic")
    assert "relu6" in single["no_gain"]["layers"]
    assert batch["no_gain"]["layers"] == ()


def test_a_run_in_fp32_says_nothing_of_fp16() -> None:
    found = explain(load("alexnet", 1).network, 1, "fp32", "tensorrt", MAXIMUM, TWIN)
    assert found is not None
    assert found["no_gain"] is None
