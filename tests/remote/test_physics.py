from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remote.boards import load
from remote.sim.physics import (
    CHANNELS,
    Activity,
    Clocks,
    Gpu,
    Heat,
    HeatPath,
    PowerConstants,
    PowerModel,
    TimeConstants,
    Work,
    activity,
    layer_time,
    power,
    record,
    tiled,
)

TWIN = load("tx1").twin
GPU = record(Gpu, TWIN["gpu"])
WIDE_GPU = replace(GPU, lanes=2048)
SETS = {name: record(TimeConstants, table) for name, table in TWIN["time"].items()}
MODEL = PowerModel.of(TWIN)
PATH = record(HeatPath, TWIN["heat"])
TOP = Clocks(1734e6, 998.4e6, 1600e6)
IDLE_LOW = Clocks(102e6, 76.8e6, 408e6)

clocks = st.builds(
    Clocks,
    cpu_hz=st.floats(102e6, 1912e6),
    gpu_hz=st.floats(76.8e6, 998.4e6),
    emc_hz=st.floats(40.8e6, 1600e6),
    cpus=st.integers(1, 4),
)
works = st.builds(
    Work,
    name=st.just("layer"),
    flops=st.floats(0, 1e12),
    bytes=st.floats(0, 1e10),
    outputs=st.floats(0, 1e9),
    precision=st.sampled_from(["fp32", "fp16"]),
    launches=st.integers(0, 4),
    rows=st.integers(0, 2000),
    columns=st.integers(2, 10**6),
    groups=st.integers(1, 4),
    winograd=st.booleans(),
)
activities = st.builds(
    Activity,
    flops_per_s=st.floats(0, 1e12),
    bytes_per_s=st.floats(0, 25.6e9),
    precision=st.sampled_from(["fp32", "fp16"]),
    gpu_load=st.floats(0, 1),
    cpu_load=st.floats(0, 4),
)
constants = st.sampled_from(list(SETS.values()))
domains = st.sampled_from(["cpu_hz", "gpu_hz", "emc_hz"])
watts = st.floats(0, 15)
seconds = st.floats(0, 3600)


def raised(found: Clocks, domain: str, factor: float) -> Clocks:
    return replace(found, **{domain: getattr(found, domain) * factor})


@given(works, clocks, constants, domains, st.floats(1, 10))
def test_no_layer_is_slower_at_a_higher_clock(
    work: Work, found: Clocks, known: TimeConstants, domain: str, factor: float
) -> None:
    before, after = (layer_time(work, c, GPU, known).seconds for c in (found, raised(found, domain, factor)))
    assert after <= before * (1 + 1e-12)


@given(works, clocks, constants, st.floats(1, 10))
def test_only_layers_with_more_arithmetic_than_traffic_gain_from_the_gpu_clock(
    work: Work, found: Clocks, known: TimeConstants, factor: float
) -> None:
    before, after = (layer_time(work, c, GPU, known) for c in (found, raised(found, "gpu_hz", factor)))
    assert after.seconds == before.seconds or before.arithmetic_s > before.memory_s
    assert (after.memory_s, after.launch_s) == (before.memory_s, before.launch_s)


@given(works, clocks, constants)
def test_time_is_launches_and_the_slower_of_the_others_and_never_better_than_the_chip(
    work: Work, found: Clocks, known: TimeConstants
) -> None:
    time = layer_time(work, found, GPU, known)
    assert time.seconds == max(time.arithmetic_s, time.memory_s) + time.launch_s
    largest = {"arithmetic": time.arithmetic_s, "memory": time.memory_s, "launch": time.launch_s}
    assert largest[time.bound] == max(largest.values())
    assert time.seconds * 2.25 >= work.flops / (4 * GPU.lanes * found.gpu_hz)  # Winograd's method at its best
    assert time.seconds >= work.bytes / (16 * found.emc_hz)


@given(works, st.integers(2, 10**5), st.sampled_from([GPU, WIDE_GPU]))
def test_twice_the_columns_never_take_less_time(work: Work, columns: int, gpu: Gpu) -> None:
    def padded(times: int) -> float:
        wide = replace(work, flops=1e9 * columns * times, columns=columns * times)
        return tiled(wide, gpu).flops

    assert padded(1) <= padded(2) * (1 + 1e-12)
    assert padded(2) <= 1.4 * 2 * padded(1) * (1 + 1e-12)


@given(works, st.sampled_from([GPU, WIDE_GPU]))
def test_tiles_stand_for_at_least_the_operations_and_are_counted_once(work: Work, gpu: Gpu) -> None:
    once = tiled(work, gpu)
    assert once.flops >= work.flops * (1 - 1e-12)
    assert tiled(once, gpu) == once
    assert tiled(replace(work, rows=0), gpu).flops == work.flops


def test_what_does_not_fill_a_round_of_tiles_is_waited_for() -> None:
    sizes = [(columns, Work("some", 1e6 * columns, 0.0, rows=128, columns=columns)) for columns in (128 * 16, 128 * 17)]
    full, over = (tiled(work, WIDE_GPU).flops / work.flops for _, work in sizes)
    assert 1.0 <= full <= 1.4
    assert over > 17 / 16
    half = Clocks(1734e6, 998.4e6, 1600e6, gpu_share=0.5)
    known = TimeConstants(0.5, 0.5, 0.8, 0.0)
    fewer, all_of_them = (layer_time(sizes[0][1], clocks, WIDE_GPU, known).seconds for clocks in (half, TOP))
    assert 1.4 < fewer / all_of_them < 2.8


def test_winograd_s_method_speeds_up_only_products_that_it_applies_to() -> None:
    known = TimeConstants(0.5, 0.5, 0.8, 0.0, winograd=1.5)
    plain = Work("plain", 1e9, 0.0)
    slow, fast = (layer_time(replace(plain, winograd=applies), TOP, GPU, known).seconds for applies in (False, True))
    assert slow == pytest.approx(1.5 * fast)


def test_activity_reports_rates_and_loads_of_what_runs() -> None:
    known = SETS["tensorrt"]
    layers = [Work("busy", 1e9, 1e6), Work("tiny", 1e3, 1e3, launches=10)]
    times = [layer_time(work, TOP, GPU, known) for work in layers]
    total = times[0].seconds + times[1].seconds
    found = activity(layers, times, spinning=False)
    assert found.flops_per_s == pytest.approx((1e9 + 1e3) / total)
    assert found.bytes_per_s == pytest.approx((1e6 + 1e3) / total)
    assert found.gpu_load == pytest.approx(1 - 11 * known.launch_s / total)
    assert found.cpu_load == pytest.approx(11 * known.launch_s / total)
    assert activity(layers, times, spinning=True).cpu_load == 1.0


@given(activities, clocks, domains, st.floats(1, 10))
def test_power_never_falls_when_a_clock_rises_under_the_same_activity(
    doing: Activity, found: Clocks, domain: str, factor: float
) -> None:
    before, after = (power(doing, c, MODEL) for c in (found, raised(found, domain, factor)))
    assert all(after[name] >= before[name] * (1 - 1e-12) for name in before)


@given(activities, clocks)
def test_rails_add_up_and_the_module_contains_its_parts(doing: Activity, found: Clocks) -> None:
    rails = power(doing, found, MODEL)
    lab = sum(rails[name] for name in CHANNELS)
    assert rails["VDD_IN"] == pytest.approx(lab + TWIN["electrics"]["module_w"])
    assert rails["VDD_GPU"] + rails["VDD_CPU"] < rails["VDD_IN"]
    assert min(rails.values()) >= 0


@given(activities, clocks, st.floats(1.01, 2))
def test_more_work_takes_more_power_and_fp16_operations_less(doing: Activity, found: Clocks, factor: float) -> None:
    more = replace(doing, flops_per_s=doing.flops_per_s * factor, bytes_per_s=doing.bytes_per_s * factor)
    assert power(more, found, MODEL)["VDD_IN"] >= power(doing, found, MODEL)["VDD_IN"]
    single, half = (power(replace(doing, precision=p), found, MODEL)["GPU"] for p in ("fp32", "fp16"))
    assert half <= single


def test_idle_power_is_that_of_a_tx1() -> None:
    # A tegrastats line of an idle TX1 with low clocks (R28 or R32): VDD_IN 2532, VDD_CPU 76, VDD_GPU 19 mW.
    low, high = (power(Activity(), c, MODEL) for c in (IDLE_LOW, TOP))
    assert low["VDD_IN"] == pytest.approx(2.532, rel=0.1)
    assert low["VDD_CPU"] == pytest.approx(0.076, rel=0.25)
    assert low["VDD_GPU"] == pytest.approx(0.019, abs=0.01)
    assert 1.2 * low["VDD_IN"] < high["VDD_IN"] < 4.5


def test_shares_of_idle_power_and_of_a_byte_add_up() -> None:
    assert sum(MODEL.electrics.idle.values()) == pytest.approx(1)
    assert sum(MODEL.electrics.byte.values()) == pytest.approx(1)
    everything = power(Activity(), Clocks(1734e6, 691.2e6, 1600e6), MODEL)
    assert sum(everything[name] for name in CHANNELS) == pytest.approx(MODEL.constants.idle_w)


def test_constants_stay_few() -> None:
    assert len(fields(TimeConstants)) <= 6
    assert len(fields(PowerConstants)) <= 4
    for table in TWIN["time"].values():
        numbers = {name for name, value in table.items() if not isinstance(value, str)}
        assert numbers <= {f.name for f in fields(TimeConstants)}
    assert set(TWIN["power"]) - {"source"} == {f.name for f in fields(PowerConstants)}


@given(watts, seconds, seconds)
def test_heat_does_not_depend_on_how_time_is_cut(load_w: float, first_s: float, then_s: float) -> None:
    start = Heat.settled(PATH, 3.0)
    once, twice = (
        start.after(PATH, load_w, first_s + then_s),
        start.after(PATH, load_w, first_s).after(PATH, load_w, then_s),
    )
    assert (once.die_c, once.board_c) == pytest.approx((twice.die_c, twice.board_c), abs=1e-6)


@given(watts, st.floats(0.1, 600))
def test_heat_conserves_energy(load_w: float, span_s: float) -> None:
    steps, heat, lost_j = 2000, Heat.settled(PATH, 2.0), 0.0
    stored_j = -_stored_j(heat)
    for _ in range(steps):
        after = heat.after(PATH, load_w, span_s / steps)
        lost_j += ((heat.board_c + after.board_c) / 2 - PATH.ambient_c) / PATH.board_k_per_w * span_s / steps
        heat = after
    stored_j += _stored_j(heat)
    assert stored_j + lost_j == pytest.approx(load_w * span_s, rel=1e-4, abs=1e-3)


def _stored_j(heat: Heat) -> float:
    return PATH.die_j_per_k * heat.die_c + PATH.board_j_per_k * heat.board_c


@given(watts, watts)
def test_heat_settles_where_it_flows_off_as_fast_as_it_comes(before_w: float, load_w: float) -> None:
    end = Heat.settled(PATH, before_w).after(PATH, load_w, 1e6)
    assert end.board_c == pytest.approx(PATH.ambient_c + load_w * PATH.board_k_per_w)
    assert end.die_c == pytest.approx(end.board_c + load_w * PATH.die_k_per_w)


@given(watts, watts, seconds)
def test_temperatures_stay_between_start_and_end(before_w: float, load_w: float, span_s: float) -> None:
    start, end = Heat.settled(PATH, before_w), Heat.settled(PATH, load_w)
    now = start.after(PATH, load_w, span_s)
    for a, b, c in ((start.die_c, now.die_c, end.die_c), (start.board_c, now.board_c, end.board_c)):
        assert min(a, c) - 1e-9 <= b <= max(a, c) + 1e-9
