from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from engines import models
from engines.cost import Precision
from engines.simulated.calibration import Fit, Point, Twin, fit, left_out, predict
from engines.simulated.protocol import Engine, Mode
from remote import boards
from remote.sim.physics import Activity, Clocks, PowerModel, power

TABLE = "tensorrt"
FASTEST = Clocks(1_734_000_000, 998_400_000, 1_600_000_000)
SLOW_MEMORY = replace(FASTEST, emc_hz=800_000_000)
SLOW_GPU = replace(FASTEST, gpu_hz=460_800_000)
BOTH: tuple[Precision, ...] = ("fp32", "fp16")


def shipped() -> Twin:
    return boards.load("tx1").twin


def altered(**factors: float) -> Twin:
    """The tables of a TX1 of somebody else, some constants of which differ by a factor."""
    twin = shipped()
    time, power = dict(twin["time"][TABLE]), dict(twin["power"])
    for name, factor in factors.items():
        table = time if name in time else power
        table[name] = table[name] * factor
    return {**twin, "time": {**twin["time"], TABLE: time}, "power": power}


@cache
def asked(network: str, batch: int, precision: Precision, clocks: Clocks = FASTEST, mode: Mode | None = None) -> Point:
    engine = Engine(models.load(network, batch).network, batch, precision, 512 << 20)
    return Point(engine, mode or Mode(), "tensorrt", clocks, 1.0, rails=("VDD_IN",), watts=1.0)


def points(clocks: Sequence[Clocks] = (FASTEST, SLOW_MEMORY)) -> list[Point]:
    few = [("alexnet", 1), ("alexnet", 16), ("alexnet", 3), ("googlenet", 2)]
    return [asked(network, batch, precision, clock) for clock in clocks for network, batch in few for precision in BOTH]


def measured(on: Twin, wanted: Sequence[Point], noise: float = 0.0, seed: int = 0) -> list[Point]:
    """What a board with the tables ``on`` would show, each point off by some ``noise``."""
    chance = random.Random(seed)
    found = []
    for point in wanted:
        shown = predict(point, on, TABLE)
        assert shown.watts is not None
        seconds, watts = (value * (1 + chance.gauss(0, noise)) for value in (shown.seconds, shown.watts))
        idle_w = power(Activity(), point.clocks, PowerModel.of(on))["VDD_IN"]
        found.append(replace(point, seconds=seconds, watts=watts, idle_w=idle_w * (1 + chance.gauss(0, noise))))
    return found


def errors(known: Twin, wanted: Sequence[Point]) -> tuple[float, float]:
    """Mean errors of time and of power."""
    shown = [predict(point, known, TABLE) for point in wanted]
    seconds = [abs(one.seconds / point.seconds - 1) for one, point in zip(shown, wanted, strict=True)]
    watts = [abs((one.watts or 0) / (point.watts or 1) - 1) for one, point in zip(shown, wanted, strict=True)]
    return float(np.mean(seconds)), float(np.mean(watts))


def values(found: Fit) -> Mapping[str, float]:
    return {row.name: row.value / row.shipped for row in found.constants if row.shipped}


def decided(found: Fit) -> set[str]:
    return {row.name for row in found.constants if row.how == "fitted"}


THEIRS = {"fp32_efficiency": 0.7, "fp16_efficiency": 0.6, "bandwidth_efficiency": 1.4, "idle_w": 1.6}


def test_the_constants_of_another_board_are_found_from_what_it_shows() -> None:
    found = values(fit(measured(altered(**THEIRS), points()), shipped(), TABLE))
    assert {name: found[name] for name in THEIRS} == pytest.approx(THEIRS, rel=0.15)


def test_what_was_left_out_is_predicted_within_3_percent_although_each_point_is_off_by_2() -> None:
    theirs = altered(**THEIRS)
    truth, noisy = measured(theirs, points()), measured(theirs, points(), noise=0.02)
    blind = left_out(noisy, shipped(), TABLE, 8)
    assert np.mean([abs(one.seconds / p.seconds - 1) for one, p in zip(blind, truth, strict=True)]) < 0.03
    assert np.mean([abs((one.watts or 0) / (p.watts or 1) - 1) for one, p in zip(blind, truth, strict=True)]) < 0.02
    assert min(errors(shipped(), truth)) > 0.05


@pytest.mark.parametrize("seed", range(5))
def test_whatever_board_it_is_new_points_are_predicted_within_6_percent(seed: int) -> None:
    chance = random.Random(seed)
    changed = ("launch_s", "fp16_efficiency", "bandwidth_efficiency", "idle_w", "gpu_busy_w", "j_per_flop")
    theirs = altered(**{name: chance.uniform(0.5, 1.5) for name in changed})
    known = fit(measured(theirs, points((FASTEST,)), noise=0.01), shipped(), TABLE)
    new = [asked("alexnet", 4, "fp32", SLOW_GPU), asked("alexnet", 4, "fp16"), asked("alexnet", 32, "fp16")]
    assert max(errors(known.twin, measured(theirs, new))) < 0.06


def test_three_points_bring_a_slower_board_nearer() -> None:
    theirs = altered(fp32_efficiency=0.6, fp16_efficiency=0.6)
    known = fit(measured(theirs, points()[1:4]), shipped(), TABLE)
    rest = measured(theirs, points())
    assert errors(known.twin, rest)[0] < 0.5 * errors(shipped(), rest)[0]


def test_an_orin_s_constants_are_found_from_fp16_and_tf32() -> None:
    twin = boards.load("orin-nano").twin
    factors = {"fp16_efficiency": 0.6, "bandwidth_efficiency": 1.5, "launch_s": 1.5}
    time = {
        name: value * factors.get(name, 1.0) if name != "source" and name != "l4t" else value
        for name, value in twin["time"][TABLE].items()
    }
    theirs = {**twin, "time": {**twin["time"], TABLE: time}}
    clocks = Clocks(1_728_000_000, 1_020_000_000, 3_199_000_000, 6)
    wanted = [
        asked(network, batch, precision, clocks)
        for network, batch in (("alexnet", 1), ("alexnet", 32), ("googlenet", 1), ("googlenet", 16))
        for precision in BOTH
    ]
    wanted = [replace(point, engine=replace(point.engine, tf32=True)) for point in wanted]
    found = fit(measured(theirs, wanted), twin, TABLE)
    assert {name: values(found)[name] for name in factors} == pytest.approx(factors, rel=0.15)
    assert values(found)["fp32_efficiency"] == 1.0


def test_what_the_results_say_nothing_about_is_kept() -> None:
    only = [asked("alexnet", batch, "fp32") for batch in (16, 32, 64)]
    found = fit(measured(altered(fp32_efficiency=0.7), only), shipped(), TABLE)
    assert {"fp32_efficiency", "idle_w"} <= decided(found)
    assert {row.how for row in found.constants if row.name in ("fp16_efficiency", "launch_s")} == {"kept"}
    assert values(found)["fp16_efficiency"] == values(found)["launch_s"] == 1.0


def test_constants_that_only_show_together_are_moved_together() -> None:
    busy = [replace(point, idle_w=None) for point in measured(altered(idle_w=1.5), points((FASTEST,)))]
    found = fit(busy, shipped(), TABLE)
    assert {"idle_w", "gpu_busy_w"} <= {row.name for row in found.constants if row.how != "kept"}
    assert errors(found.twin, busy)[1] < 0.01 < 0.05 < errors(shipped(), busy)[1]


def test_results_of_the_shipped_board_leave_its_constants_as_they_are() -> None:
    found = values(fit(measured(shipped(), points()), shipped(), TABLE))
    assert found == pytest.approx(dict.fromkeys(found, 1.0), rel=1e-3)


def test_power_is_kept_where_fewer_than_three_points_have_watts() -> None:
    shown = measured(altered(idle_w=1.5), points())
    two = [point if number < 2 else replace(point, watts=None) for number, point in enumerate(shown)]
    assert values(fit(two, shipped(), TABLE))["idle_w"] == 1.0
    assert values(fit(shown, shipped(), TABLE))["idle_w"] > 1.2


def test_idle_power_is_fitted_to_where_it_was_measured() -> None:
    shown = measured(altered(idle_w=1.5), points())
    under_load = [replace(point, idle_w=None) for point in shown]
    near, far = (values(fit(some, shipped(), TABLE))["idle_w"] for some in (shown, under_load))
    assert near == pytest.approx(1.5, rel=0.1)
    assert abs(near - 1.5) < abs(far - 1.5)


def test_a_point_whose_runs_differ_much_counts_little() -> None:
    first, *rest = measured(shipped(), points())
    odd = replace(first, seconds=2 * first.seconds)
    sure, unsure = (fit([replace(odd, spread=spread), *rest], shipped(), TABLE) for spread in (0.0, 0.5))
    assert errors(unsure.twin, rest)[0] < 0.3 * errors(sure.twin, rest)[0]


def test_copies_and_graphs_are_not_taken_for_slow_layers() -> None:
    modes = [Mode(transfers=True), Mode(cuda_graph=True), Mode(transfers=True, spin=True, ahead=0)]
    wanted = [asked("alexnet", batch, precision, mode=mode) for mode in modes for batch in (1, 8) for precision in BOTH]
    found = values(fit(measured(shipped(), wanted), shipped(), TABLE))
    assert found == pytest.approx(dict.fromkeys(found, 1.0), rel=1e-3)


def test_launches_from_a_graph_are_known_to_be_faster_than_others() -> None:
    modes = (Mode(cuda_graph=True), Mode())
    theirs = altered(launch_s=6.0)
    shown = measured(theirs, [asked("googlenet", 1, precision, mode=mode) for mode in modes for precision in BOTH])
    assert errors(fit(shown, shipped(), TABLE).twin, shown)[0] < 0.04 < 0.15 < errors(shipped(), shown)[0]


def test_results_that_contradict_each_other_do_not_carry_the_constants_away() -> None:
    shown = measured(
        shipped(), [asked("alexnet", 1, "fp32"), asked("alexnet", 16, "fp32"), asked("googlenet", 2, "fp32")]
    )
    off = [replace(point, seconds=point.seconds * by) for point, by in zip(shown, (1.1, 0.9, 1.1), strict=True)]
    found = values(fit(off, shipped(), TABLE))
    assert all(0.5 < factor < 2.0 for factor in found.values()), found


def test_a_point_is_predicted_by_the_others_alone() -> None:
    first, *rest = measured(shipped(), points((FASTEST,))[:6])
    blind = left_out([replace(first, seconds=3 * first.seconds), *rest], shipped(), TABLE, 1 + len(rest))
    assert blind[0].seconds == pytest.approx(first.seconds, rel=0.01)
    assert max(abs(one.seconds / point.seconds - 1) for one, point in zip(blind[1:], rest, strict=True)) > 0.03


def test_caffe_is_fitted_by_its_own_constants() -> None:
    twin = shipped()
    wanted = [replace(asked("alexnet", b, p), flavour="caffe") for b in (1, 16) for p in BOTH]
    slower = {
        **twin["time"]["caffe-cudnn4"],
        "bandwidth_efficiency": twin["time"]["caffe-cudnn4"]["bandwidth_efficiency"] / 2,
    }
    theirs = {**twin, "time": {**twin["time"], "caffe-cudnn4": slower}}
    shown = [replace(p, seconds=predict(p, theirs, "caffe-cudnn4").seconds, watts=None) for p in wanted]
    found = fit(shown, twin, "caffe-cudnn4")
    assert values(found)["bandwidth_efficiency"] == pytest.approx(0.5, rel=0.1)
    assert found.twin["time"]["tensorrt"] == twin["time"]["tensorrt"]
