"""`--repeat`, `--soak` and `--cool-to`: what one run cannot tell."""

from __future__ import annotations

import signal
from collections.abc import Generator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from math import sqrt
from pathlib import Path
from statistics import mean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeperf import heat
from edgeperf.bench import measure
from edgeperf.left import Request
from edgeperf.record import Bench
from edgeperf.repeat import between, combined
from edgeperf.soak import over_time
from edgeperf.verdict import Reason, Verdict
from engines.simulated.programs import programs
from engines.toolchains import EngineRun
from remote import hosts
from remote.board import open_board
from remote.boards import Total
from remote.sim.process import Action, Context
from remote.types import Series
from tests.cli.command import bench, edgeperf

QUICK = ("--duration", "2", "--warmup", "0.5", "--idle", "1")
FIGURES = ("throughput_per_s", "images_per_s_per_w", "energy_j_per_image")
WHITE_PAPER = (
    *("alexnet", "--fp16", "--batch", "128", "--host", "sim:tx1@r23.1,probe=lab"),
    *("--toolchain", "caffe", "--profile", "whitepaper-690", "--repeat", "5"),
)
TOTAL = Total("module_in", ("VDD_IN",), "the rest")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Bench]:
    """Three results of one run each, on one board."""
    tmp_path = tmp_path_factory.mktemp("cache")
    request = Request("alexnet", duration_s=2.0, warmup_s=0.5, idle_s=1.0)
    with open_board(hosts.parse("sim:tx1"), programs(), tmp_path) as board:
        return [measure(request, board, tmp_path, lambda text, seconds: nullcontext()) for _ in range(3)]


@given(st.lists(st.floats(1.0, 1e6), min_size=2, max_size=40))
def test_the_spread_between_runs_is_their_standard_deviation_and_its_interval_holds_the_mean(
    values: list[float],
) -> None:
    found = between(values)
    assert found is not None
    assert found.mean == pytest.approx(mean(values))
    assert found.deviation == pytest.approx(stdev(values), rel=1e-6, abs=1e-6)
    assert found.ci95[0] <= found.mean <= found.ci95[1]


def test_the_interval_of_three_runs_is_students() -> None:
    found = between([9.0, 10.0, 11.0])
    assert found is not None
    assert found.ci95[1] - 10.0 == pytest.approx(4.303 / sqrt(3))


def test_one_run_has_no_spread() -> None:
    assert between([1.0]) is None
    assert bench(*QUICK)["repeats"] == []


def test_the_white_papers_run_prints_images_per_second_and_watt_with_both_uncertainties() -> None:
    ran = edgeperf("bench", *WHITE_PAPER)
    assert ran.code == 0
    (row,) = (line for line in ran.out.splitlines() if line.startswith("efficiency"))
    assert "img/s/W (repeatable), +-" in row
    assert row.endswith("absolute")
    assert any(line.startswith("runs        5 under one lock") for line in ran.out.splitlines())


def test_of_three_runs_the_interval_is_that_between_them_and_every_run_is_kept_with_its_samples() -> None:
    found = bench("--repeat", "3", *QUICK)
    assert len(found["repeats"]) == 3
    for name in FIGURES:
        values = [run[name]["value"] for run in found["repeats"]]
        assert found[name]["value"] == pytest.approx(mean(values))
        assert found[name]["ci95"] == pytest.approx(found["between"][name]["ci95"])
        low, high = found[name]["ci95"]
        assert high - low == pytest.approx(2 * 4.303 * stdev(values) / sqrt(3))
    rails = [run["rail_samples_w"]["VDD_IN"]["t_s"] for run in found["repeats"]]
    assert all(before[-1] < after[0] for before, after in pairwise(rails))
    assert all(run["samples_s"] for run in found["repeats"])


def test_of_two_runs_the_interval_is_from_within_them() -> None:
    found = bench("--repeat", "2", *QUICK)
    halves = [(run["power_w"]["ci95"][1] - run["power_w"]["ci95"][0]) / 2 for run in found["repeats"]]
    low, high = found["power_w"]["ci95"]
    assert (high - low) / 2 == pytest.approx(sqrt(sum(half**2 for half in halves)) / 2)


def test_what_sensors_are_off_by_does_not_shrink_with_more_runs(runs: list[Bench]) -> None:
    one, three = runs[0].power_w, combined(runs, 3).power_w
    assert one is not None
    assert three is not None
    assert one.absolute95 is not None
    assert one.ci95 is not None
    assert three.absolute95 is not None
    of_sensors = sqrt((one.absolute95[1] - one.total) ** 2 - (one.ci95[1] - one.total) ** 2)
    assert three.absolute95[1] - three.total >= 0.99 * of_sensors


def test_a_reason_is_given_once_with_the_runs_that_have_it(runs: list[Bench]) -> None:
    drifting = Verdict("DEGRADED", (Reason("drift", "DEGRADED", "it drifts"),))
    some = combined([runs[0], replace(runs[1], verdict=drifting), replace(runs[2], verdict=drifting)], 3).verdict
    assert (some.state, [reason.text for reason in some.reasons]) == ("DEGRADED", ["run 2, 3: it drifts"])
    every = combined([replace(run, verdict=drifting) for run in runs], 3).verdict
    assert [reason.text for reason in every.reasons] == ["all runs: it drifts"]


def test_fewer_runs_than_asked_are_kept_and_invalid(runs: list[Bench]) -> None:
    found = combined(runs[:2], 5)
    assert found.verdict.state == "INVALID"
    assert [reason.code for reason in found.verdict.reasons] == ["interrupted"]
    assert len(found.repeats) == 2
    assert found.throughput_per_s is not None


def test_ctrl_c_in_the_second_run_keeps_the_first_and_ends_the_measurement(tmp_path: Path) -> None:
    started: list[str] = []

    def interrupted(context: Context) -> Generator[Action, None, int]:
        started.append(context.argv[0])
        if len(started) == 2:
            signal.raise_signal(signal.SIGINT)
        return (yield from programs()["caffe"](context))

    request = Request("alexnet", iterations=20, idle_s=1.0, repeat=5)
    with open_board(hosts.parse("sim:tx1@r23.1"), {"caffe": interrupted}, tmp_path) as board:
        found = measure(request, board, tmp_path, lambda text, seconds: nullcontext())
    assert len(started) == len(found.repeats) == 2
    assert found.repeats[0].throughput_per_s is not None
    assert found.throughput_per_s is not None
    assert found.throughput_per_s.value == pytest.approx(found.repeats[0].throughput_per_s.value)
    assert found.verdict.state == "INVALID"
    assert found.verdict.reasons[0].code == "interrupted"


@pytest.mark.parametrize("code", ["interrupted", "link-lost", "rebooted", "run-failed"])
def test_a_run_that_was_cut_short_does_not_count_where_there_are_others(runs: list[Bench], code: str) -> None:
    cut = replace(runs[2], throughput_per_s=None, verdict=Verdict("INVALID", (Reason(code, "INVALID", "cut"),)))
    found = combined([runs[0], runs[1], cut], 5)
    assert found.throughput_per_s is not None
    assert found.between["throughput_per_s"].runs == 2
    assert len(found.repeats) == 3
    assert [reason.code for reason in found.verdict.reasons] == [code]


def test_a_soak_tells_its_first_and_last_minute() -> None:
    ran = edgeperf("bench", "alexnet", "--batch", "16", "--soak", "10m", "--rail-rate", "5Hz", "--idle", "1")
    assert ran.code == 0
    (row,) = (line for line in ran.out.splitlines() if line.startswith("soak"))
    assert row.startswith("soak        first 60 s: ")
    record = edgeperf("results", "show", "last", "--json").data()
    parts = record["over_time"]
    assert len(parts) == 10
    assert mean(part["throughput_per_s"] for part in parts) == pytest.approx(
        record["throughput_per_s"]["value"], rel=0.01
    )
    assert mean(part["power_w"] for part in parts) == pytest.approx(record["power_w"]["total"], rel=0.01)
    assert parts[0]["hottest_c"] < parts[-1]["hottest_c"]


def test_a_soak_that_slows_down_shows_where() -> None:
    latencies = (*[0.01] * 5000, *[0.02] * 2500)
    run = EngineRun(50.0, 150.0, len(latencies), latencies, 4, "", None, "")
    times = tuple(50.0 + second for second in range(100))
    clocks = tuple(1e9 if moment < 100 else 5e8 for moment in times)
    watts = tuple(8.0 if moment < 100 else 5.0 for moment in times)
    series = (Series("gpu.hz", times, clocks), Series("VDD_IN", times, watts))
    parts = over_time(run, series, ("VDD_IN",), (TOTAL,))
    assert [part.throughput_per_s for part in parts] == pytest.approx([400.0] * 5 + [200.0] * 5, rel=0.01)
    assert [part.lowest_hz["gpu"] for part in parts] == [1e9] * 5 + [5e8] * 5
    assert parts[0].power_w == pytest.approx(8.0)
    assert parts[-1].power_w == pytest.approx(5.0)


def test_a_soak_that_throttles_is_advised_no_longer_warmup_and_counts_no_outliers() -> None:
    host = "sim:nano,fault=throttle@60s"
    ran = edgeperf("bench", "alexnet", "--host", host, "--soak", "2m", "--idle", "0", "--rail-rate", "2Hz")
    assert ran.code == 8
    (row,) = (line for line in ran.out.splitlines() if line.startswith("scatter"))
    assert row.endswith("from batch to batch; the speed changed on the way")
    assert "not warm at first" not in ran.out


def test_a_run_that_never_began_has_no_parts() -> None:
    assert over_time(EngineRun(5.0, 5.0, 0, (), 1, "", None, ""), (), (), ()) == ()


def test_a_board_is_waited_for_until_it_is_cool() -> None:
    found = bench("--repeat", "2", "--cool-to", "40.5C", "--cool-limit", "10m", *QUICK)
    first, second = (run["cooling"] for run in found["repeats"])
    assert first["asked_c"] == 40.5
    assert second["start_c"] > second["end_c"]
    assert second["end_c"] <= 40.5
    assert second["waited_s"] > 0
    assert found["verdict"]["state"] == "VALID"


def test_a_board_that_stays_too_warm_is_measured_all_the_same_and_that_is_said() -> None:
    found = bench("--cool-to", "10C", "--cool-limit", "12s", *QUICK)
    assert found["cooling"]["waited_s"] == pytest.approx(12.0)
    assert [reason["code"] for reason in found["verdict"]["reasons"]] == ["too-warm"]
    assert "12 s" in found["verdict"]["reasons"][0]["text"]


@pytest.mark.parametrize(
    ("values", "hottest"), [([41.0, -256.0, 43.5], 43.5), ([-256.0], None), ([None, 30.0], 30.0), ([], None)]
)
def test_a_zone_that_is_off_is_no_temperature(values: Sequence[float | None], hottest: float | None) -> None:
    assert heat.hottest_c(values) == hottest


def test_the_power_chip_which_always_shows_the_same_does_not_count() -> None:
    assert heat.zones(["temp.PMIC-Die", "temp.CPU-therm", "gpu.hz", "temp.pmic-thermal"]) == ("temp.CPU-therm",)


def test_a_board_without_temperatures_is_not_waited_for_and_that_is_said() -> None:
    assert heat.not_cooled(None, None) == ()
    assert "45 C" in heat.not_cooled(45.0, None)[0]


@pytest.mark.parametrize(
    "words",
    [
        ("--soak", "10m", "--repeat", "2"),
        ("--soak", "10m", "--iterations", "5"),
        ("--cool-to", "hot"),
        ("--cool-to", "45F"),
        ("--repeat", "0"),
        ("--soak", "2d"),
        ("--soak", "0s"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_runs(words: tuple[str, ...]) -> None:
    ran = edgeperf("bench", "alexnet", *words)
    assert (ran.code, ran.out) == (2, "")
