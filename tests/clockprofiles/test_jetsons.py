"""What profiles ask of the settings that only some generations of Jetsons have, and in which order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from clockprofiles import profile as profiles
from clockprofiles.plan import ClockPlan, plan
from remote.types import Knob, Snapshot, Value

MAXPERF, STOCK = profiles.load("maxperf"), profiles.load("stock")
GPU_HZ = (114_750_000, 854_250_000, 1_300_500_000)


def knob(name: str, value: Value | None, **more: Any) -> Knob:
    rate = name.rpartition(".")[2] in ("min", "max", "rate", "cap")
    made = Knob(name, f"/toy/{name}", "hz" if rate else "bool", value, str(value))
    return replace(made, **more)


def gpu() -> list[Knob]:
    return [knob("gpu.min", GPU_HZ[0], choices=GPU_HZ), knob("gpu.max", GPU_HZ[-1], choices=GPU_HZ)]


def bpmp() -> list[Knob]:
    limits = {"low": 40_800_000, "high": 1_866_000_000}
    return [knob("emc.rate", None, **limits), knob("emc.override", 0), knob("emc.cap", 0)]


def planned(l4t: str, *found: Knob, profile: profiles.Profile = MAXPERF) -> ClockPlan:
    return plan(profile, Snapshot({knob.id: knob for knob in found}), l4t)


def written(made: ClockPlan) -> list[str]:
    return [f"{step.knob}={step.value}" for step in made.steps]


@pytest.mark.parametrize(
    ("l4t", "order"),
    [
        ("28.2.1", ["emc.rate=1866000000", "emc.override=1"]),
        ("32.7.1", ["emc.override=1", "emc.rate=1866000000"]),
        ("36.4.3", ["emc.override=1", "emc.rate=1866000000"]),
    ],
)
def test_the_memory_is_locked_in_the_order_of_its_release(l4t: str, order: list[str]) -> None:
    assert written(planned(l4t, *bpmp())) == order


def test_tx2_clusters_stay_on_before_their_limits_are_set() -> None:
    cpu = knob("cpu0.min", 345_600_000, choices=(345_600_000, 2_035_200_000))
    switches = [knob("cc3.m", 1), knob("cc3.b", 1), knob("qos.enable", 1)]
    assert written(planned("32.7.1", cpu, *switches)) == [
        "cc3.m=0",
        "cc3.b=0",
        "qos.enable=0",
        "cpu0.min=2035200000",
    ]
    assert written(planned("32.7.1", *(replace(switch, value=0) for switch in switches), profile=STOCK)) == [
        "cc3.m=1",
        "cc3.b=1",
        "qos.enable=1",
    ]


def test_thors_gpu_is_powered_before_it_is_locked_and_its_memory_has_limits() -> None:
    rates_hz = (665_000_000, 4_266_000_000)
    memory = [knob("emc.min", rates_hz[0], choices=rates_hz), knob("emc.max", rates_hz[1], choices=rates_hz)]
    power = knob("gpu.power", "auto", kind="text")
    made = planned("38.4.0", *gpu(), power, *bpmp(), *memory)
    assert written(made) == ["gpu.power=on", "gpu.min=1300500000", "emc.min=4266000000"]
    assert "gpu.railgate" not in made.absent
    free = planned("38.4.0", replace(power, value="on"), profile=STOCK)
    assert written(free) == ["gpu.power=auto"]


def test_the_power_modes_cap_is_kept_and_named() -> None:
    capped = [replace(one, high=854_250_000, capped_by="MODE_15W") for one in gpu()]
    made = planned("35.4.1", *capped)
    assert made.asked.gpu_hz == 854_250_000
    assert made.notes[-1] == "gpu: MODE_15W allows at most 854.25MHz"
    assert "allows at most" not in "".join(planned("35.4.1", *gpu()).notes)


def test_a_power_mode_comes_first_and_by_itself() -> None:
    mode = knob("nvpmodel.mode", "MODE_15W", kind="text", choices=("MAXN", "MODE_15W"))
    made = planned("35.4.1", mode, *gpu(), profile=replace(MAXPERF, nvpmodel_mode="MAXN"))
    assert written(made)[0] == "nvpmodel.mode=MAXN"
    assert [step.value for step in made.mode] == ["MAXN"]
    assert planned("35.4.1", mode, *gpu()).mode == ()


def test_no_mode_is_set_when_the_one_in_force_cannot_be_told() -> None:
    mode = knob("nvpmodel.mode", None, kind="text", error="EACCES")
    made = planned("32.7.1", mode, profile=replace(MAXPERF, nvpmodel_mode="MAXN"))
    assert made.mode == ()
    assert "nvpmodel.mode" in made.absent
    assert "EACCES" in "".join(made.notes)


def test_a_policy_whose_cores_are_off_is_left_and_named() -> None:
    rates_hz = (345_600_000, 2_035_200_000)
    limits = [knob(f"cpu{number}.min", rates_hz[0], choices=rates_hz) for number in (0, 1)]
    made = planned("32.7.1", *limits, knob("cpu1.online", 0))
    assert written(made) == ["cpu0.min=2035200000"]
    assert made.notes[-1] == "cpu1: its cores are off, so its rate is left as it is"
