"""The watts of the simulated boards whose measured power is not published network by network."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest

from engines.networks.resnet import resnet
from engines.simulated.work import works
from remote.boards import load
from remote.sim.choice import table_for
from remote.sim.physics import (
    Activity,
    Clocks,
    Gpu,
    PowerModel,
    TimeConstants,
    Work,
    activity,
    layer_time,
    power,
    record,
)

BOARDS = {"nano": "r32.7", "xavier-nx": "r35.4", "agx-xavier": "r35.4", "orin-nano": "r36.4", "orin-nx": "r36.4"}
BOARDS |= {"agx-orin": "r36.4", "agx-thor": "r38.4"}


@cache
def twin(board: str) -> Mapping[str, Any]:
    return table_for(load(board).twin, BOARDS[board])


def total_w(board: str, doing: Activity, clocks: Clocks) -> float:
    return power(doing, clocks, PowerModel.of(twin(board)))["TOTAL"]


@cache
def layers() -> tuple[Work, ...]:
    return works(resnet(50), 16, "fp16", "tensorrt")


def busy(board: str, clocks: Clocks) -> Activity:
    """What the GPU does while ResNet-50 runs in FP16."""
    gpu, times = record(Gpu, twin(board)["gpu"]), record(TimeConstants, twin(board)["time"]["tensorrt"])
    return activity(layers(), [layer_time(layer, clocks, gpu, times) for layer in layers()], spinning=False)


def clocks_of(board: str, mode: Mapping[str, Any]) -> Clocks:
    """The highest clocks of a power mode, and what it leaves of cores and lanes."""
    table = twin(board)
    device, mask = table["gpu_device"], int(mode.get("mask", 0))
    active = device.get("processors", 1) - mask.bit_count() if "processors" in device else 1
    lanes = active * device.get("lanes_each", table["gpu"]["lanes"])
    cpu_khz, gpu_hz = mode.get("cpu", max(table["cpu_khz"])), mode.get("gpu", max(table["gpu_hz"]))
    return Clocks(
        cpu_hz=1e3 * cpu_khz,
        gpu_hz=max(rate for rate in table["gpu_hz"] if rate <= gpu_hz),
        emc_hz=mode.get("emc", max(table["emc_hz"])),
        cpus=len(mode.get("cores", range(table["cores"]))),
        gpu_share=min(1.0, lanes / table["gpu"]["lanes"]),
    )


def named_by_watts() -> Iterator[Any]:
    for board in BOARDS:
        for mode in twin(board)["nvpmodel"]["modes"]:
            if found := re.search(r"(\d+)W", mode["name"]):
                yield pytest.param(board, mode, float(found[1]), id=f"{board}-{mode['name']}")


@pytest.mark.parametrize(("board", "mode", "most_w"), [*named_by_watts()])
def test_a_busy_gpu_draws_well_over_idle_and_no_more_than_a_mode_is_named_for(
    board: str, mode: Mapping[str, Any], most_w: float
) -> None:
    clocks = clocks_of(board, mode)
    idle_w, busy_w = total_w(board, Activity(), clocks), total_w(board, busy(board, clocks), clocks)
    assert 1.25 * idle_w < busy_w < 1.08 * most_w


@pytest.mark.parametrize(
    ("board", "highest_w"), [("xavier-nx", 20), ("agx-xavier", 40), ("agx-orin", 60), ("agx-thor", 115)]
)
def test_the_gpu_alone_draws_three_quarters_of_the_module_s_highest_power(board: str, highest_w: float) -> None:
    clocks = clocks_of(board, {})
    assert total_w(board, busy(board, clocks), clocks) == pytest.approx(0.75 * highest_w, rel=0.03)


# ARK-Electronics/ark_jetson_kernel on GitHub, docs/power.md: eight busy cores beside products of FP16 matrices.
@pytest.mark.parametrize(
    ("cpu_hz", "gpu_hz", "measured_w"),
    [(1.498e9, 408e6, 16.9), (1.498e9, 1.173e9, 27.6), (1.984e9, 1.173e9, 29.4)],
    ids=["25W", "40W", "MAXN_SUPER"],
)
def test_an_orin_nx_under_stress_draws_what_one_was_measured_to(
    cpu_hz: float, gpu_hz: float, measured_w: float
) -> None:
    gpu, clocks = record(Gpu, twin("orin-nx")["gpu"]), Clocks(cpu_hz, gpu_hz, 3.199e9, 8)
    peak = 2 * gpu.lanes * gpu_hz * gpu.fp16_rate
    # Assumed: what large products reach of the peak, and of the memory's bandwidth.
    doing = Activity(0.55 * peak, 0.3 * gpu.bytes_per_emc_clock * clocks.emc_hz, "fp16", gpu_load=1.0, cpu_load=8.0)
    assert total_w("orin-nx", doing, clocks) == pytest.approx(measured_w, rel=0.15)


# picocluster-claw.com, reference/benchmarks: six cores under stress, the GPU idle.
@pytest.mark.parametrize(("cpu_hz", "emc_hz", "measured_w"), [(1.498e9, 2.133e9, 7.6), (1.344e9, 3.199e9, 8.0)])
def test_cores_under_stress_draw_what_those_of_an_orin_nano_were_measured_to(
    cpu_hz: float, emc_hz: float, measured_w: float
) -> None:
    clocks = Clocks(cpu_hz, 306e6, emc_hz, 6)
    assert total_w("orin-nano", Activity(cpu_load=6.0), clocks) == pytest.approx(measured_w, rel=0.15)
