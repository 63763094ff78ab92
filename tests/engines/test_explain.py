from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engines.models import load
from engines.simulated.explain import explain, source
from remote import boards
from remote.sim.physics import Clocks

TWIN = boards.load("tx1").twin
MAXIMUM = Clocks(1734e6, 998.4e6, 1600e6)


def test_a_release_other_than_the_measured_one_is_called_extrapolated() -> None:
    assert "extrapolated to L4T 32.7.1" in source("tensorrt", "32.7.1", TWIN)[0]
    assert "extrapolated" not in source("tensorrt", "24.2.1", TWIN)[0]
    assert "extrapolated" not in source("caffe", "23.1.1", TWIN)[0]


def test_a_toolchain_or_board_without_a_model_has_no_bounds() -> None:
    network = load("alexnet", 1).network
    assert explain(network, 1, "fp32", "onnxruntime", MAXIMUM, TWIN) is None
    assert explain(network, 1, "fp32", "tensorrt", MAXIMUM, {}) is None


def test_reading_the_weights_bounds_a_single_image_and_arithmetic_a_batch() -> None:
    network = load("alexnet", 1).network
    single = explain(network, 1, "fp32", "tensorrt", MAXIMUM, TWIN)
    batch = explain(network, 64, "fp32", "tensorrt", MAXIMUM, TWIN)
    assert single is not None
    assert batch is not None
    assert single["memory_share"] > single["arithmetic_share"]
    assert batch["arithmetic_share"] > batch["memory_share"]
    assert single["gain_emc_10pct"] > single["gain_gpu_10pct"]
    assert batch["gain_gpu_10pct"] > batch["gain_emc_10pct"]


def test_trtexec_runs_what_tensorrt_built() -> None:
    network = load("alexnet", 1).network
    ours, theirs = (explain(network, 4, "fp16", name, MAXIMUM, TWIN) for name in ("tensorrt", "trtexec"))
    assert ours == theirs
    assert source("tensorrt", "32.7.1", TWIN) == source("trtexec", "32.7.1", TWIN)


def test_tf32_is_explained_as_what_it_is_and_only_where_the_gpu_has_it() -> None:
    network = load("googlenet", 8).network
    orin = boards.load("agx-orin").twin

    def arithmetic(twin: Mapping[str, Any], *, tf32: bool) -> float:
        found = explain(network, 8, "fp32", "tensorrt", MAXIMUM, twin, tf32=tf32)
        assert found is not None
        return float(found["arithmetic_share"])

    assert arithmetic(orin, tf32=True) < 0.9 * arithmetic(orin, tf32=False)
    assert arithmetic(TWIN, tf32=True) == arithmetic(TWIN, tf32=False)
