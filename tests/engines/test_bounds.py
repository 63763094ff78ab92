from __future__ import annotations

from dataclasses import astuple, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.networks import BUILTIN
from engines.simulated.bounds import bounds
from engines.simulated.work import works
from remote.boards import load
from remote.sim.physics import Clocks, Gpu, LayerTime, TimeConstants, layer_time, record

TWIN = load("tx1").twin
GPU = record(Gpu, TWIN["gpu"])
CAFFE = record(TimeConstants, TWIN["time"]["caffe-cudnn4"])
PAPER = Clocks(1734e6, 691.2e6, 1600e6)

limits = st.floats(1e-6, 1e-2)
times = st.lists(
    st.builds(lambda a, m, s: LayerTime("layer", max(a, m) + s, a, m, s), limits, limits, limits),
    min_size=1,
    max_size=20,
)


def of(model: str, batch: int, clocks: Clocks = PAPER) -> list[LayerTime]:
    return [layer_time(work, clocks, GPU, CAFFE) for work in works(BUILTIN[model](), batch, "fp32", "caffe")]


@given(times)
def test_shares_add_up_and_gains_stay_within_them(found: list[LayerTime]) -> None:
    b = bounds(found)
    assert b.arithmetic_share + b.memory_share + b.launch_share == pytest.approx(1)
    assert min(astuple(b)) >= -1e-12
    assert max(b.gain_gpu_10pct, b.gain_emc_10pct) <= 0.1 + 1e-12
    assert b.gain_gpu_10pct > 0 or b.arithmetic_share == 0


@pytest.mark.parametrize("model", sorted(BUILTIN))
@pytest.mark.parametrize("batch", [1, 32])
def test_gains_are_what_a_run_at_the_higher_clock_brings(model: str, batch: int) -> None:
    found = bounds(of(model, batch))
    base = sum(t.seconds for t in of(model, batch))
    for gain, higher in (
        (found.gain_gpu_10pct, replace(PAPER, gpu_hz=PAPER.gpu_hz * 1.1)),
        (found.gain_emc_10pct, replace(PAPER, emc_hz=PAPER.emc_hz * 1.1)),
    ):
        assert gain == pytest.approx(base / sum(t.seconds for t in of(model, batch, higher)) - 1)


def test_alexnet_with_batch_1_waits_for_its_weights_and_with_128_for_arithmetic() -> None:
    single, large = bounds(of("alexnet", 1)), bounds(of("alexnet", 128))
    assert single.memory_share > 0.6
    assert single.gain_emc_10pct > 2 * single.gain_gpu_10pct
    assert large.arithmetic_share > 0.6
    assert large.gain_gpu_10pct > 2 * large.gain_emc_10pct


def test_googlenet_with_batch_1_waits_for_launches_and_with_64_hardly() -> None:
    assert bounds(of("googlenet", 1)).launch_share > 0.3
    assert bounds(of("googlenet", 64)).launch_share < 0.05


def test_nothing_bounds_what_takes_no_time() -> None:
    with pytest.raises(ValueError, match="nothing bounds"):
        bounds([])
