from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.models import load
from engines.simulated.protocol import Batch, Engine, Mode, Physics
from engines.simulated.work import works
from remote.sim.physics import Clocks, Gpu, TimeConstants, layer_time, record
from tests.engines.board import TWIN

CLOCKS = Clocks(1.734e9, 998.4e6, 1.6e9)
ORIN = {**TWIN, "gpu": {**TWIN["gpu"], "sm": "8.7", "fp16_rate": 8.0}}  # type: ignore[dict-item]
FULL = 512 << 20


def engine(name: str = "alexnet", batch: int = 64, precision: str = "fp16", **changes: object) -> Engine:
    plain = Engine(load(name, batch).network, batch, precision, FULL)  # type: ignore[arg-type]
    return replace(plain, **changes)  # type: ignore[arg-type]


def batch(what: Engine, mode: Mode | None = None, twin: object = TWIN) -> Batch:
    return Physics(twin, what, mode or Mode()).batch(CLOCKS)  # type: ignore[arg-type]


def test_the_plain_protocol_is_what_the_times_were_fitted_to() -> None:
    gpu, constants = record(Gpu, TWIN["gpu"]), record(TimeConstants, TWIN["time"]["tensorrt"])  # type: ignore
    layers = works(load("googlenet", 8).network, 8, "fp16", "tensorrt")
    fitted_s = sum(layer_time(work, CLOCKS, gpu, constants).seconds for work in layers)
    found = batch(engine("googlenet", 8))
    assert found.period_s == found.compute_s == pytest.approx(fitted_s)
    assert found.latency_s == found.compute_s


def test_copies_run_beside_the_computation_and_slow_it_a_little() -> None:
    plain, copied = batch(engine()), batch(engine(), Mode(transfers=True))
    in_bytes = 64 * prod((3, 227, 227)) * 4
    assert copied.h2d_s == pytest.approx(in_bytes / (16 * 1.6e9 * 0.5 / 2))
    assert plain.period_s < copied.period_s < plain.period_s + copied.h2d_s + copied.d2h_s
    assert copied.latency_s > plain.latency_s + copied.h2d_s
    assert copied.activity.bytes_per_s > plain.activity.bytes_per_s


def test_with_no_batch_ahead_nothing_overlaps() -> None:
    alone = batch(engine(), Mode(transfers=True, ahead=0))
    assert alone.period_s == pytest.approx(alone.h2d_s + alone.compute_s + alone.d2h_s + 1e-4)
    assert alone.activity.gpu_load < batch(engine(), Mode(transfers=True)).activity.gpu_load


def test_a_spinning_host_keeps_a_core_busy_and_sees_the_end_at_once() -> None:
    plain, spinning = batch(engine()), batch(engine(), Mode(spin=True))
    assert plain.activity.cpu_load < 0.1 < spinning.activity.cpu_load == 1.0
    assert plain.host_s - spinning.host_s == pytest.approx(1e-4)
    assert plain.period_s == spinning.period_s


def test_a_cuda_graph_speeds_up_what_launching_paces() -> None:
    small = engine("googlenet", 1)
    assert batch(small, Mode(cuda_graph=True)).period_s < 0.9 * batch(small).period_s
    assert batch(engine(), Mode(cuda_graph=True)).period_s > 0.97 * batch(engine()).period_s


def test_a_small_workspace_makes_convolutions_slower() -> None:
    assert batch(engine(workspace_bytes=16 << 20)).period_s > 1.1 * batch(engine()).period_s
    assert batch(engine(workspace_bytes=64 << 20)).period_s == batch(engine()).period_s


def test_tf32_is_faster_where_there_is_any() -> None:
    single, loose = engine(precision="fp32"), engine(precision="fp32", tf32=True)
    assert batch(loose, twin=ORIN).period_s < 0.6 * batch(single, twin=ORIN).period_s
    assert batch(loose).period_s == batch(single).period_s
    assert batch(engine(tf32=True), twin=ORIN).period_s == batch(engine(), twin=ORIN).period_s


def test_tf32_and_its_energy_follow_fp16() -> None:
    time = TWIN["time"]["tensorrt"]  # type: ignore[index]
    slow = {**ORIN, "time": {"tensorrt": {**time, "fp16_efficiency": time["fp16_efficiency"] / 2}}}
    loose, half = (batch(engine(precision=name, tf32=True), twin=ORIN) for name in ("fp32", "fp16"))
    assert batch(engine(precision="fp32", tf32=True), twin=slow).period_s > 1.5 * loose.period_s
    assert loose.activity.precision == half.activity.precision == "fp16"
    spent = [one.activity.flops_per_s * one.period_s for one in (loose, half)]
    assert spent[0] == pytest.approx(2 * spent[1], rel=0.01)


@given(st.booleans(), st.booleans(), st.booleans(), st.integers(0, 1), st.sampled_from([1, 4, 32]))
def test_loads_are_shares_and_no_time_is_lost(spin: bool, copies: bool, graph: bool, ahead: int, size: int) -> None:
    found = batch(engine("googlenet", size), Mode(copies, spin, graph, ahead))
    assert 0 < found.compute_s <= found.period_s <= found.host_s
    assert 0 < found.activity.gpu_load <= 1
    assert 0 < found.activity.cpu_load <= 1
    assert sum(t.seconds for t in found.layers) <= found.compute_s
