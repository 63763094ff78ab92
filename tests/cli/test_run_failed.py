"""Runs whose program crashes, hangs or is killed, and boards that refuse or ignore what is set."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Ran, edgeperf, nodes

CHAINS = {
    "tensorrt": ("orin-nx", ()),
    "trtexec": ("orin-nx", ("--toolchain", "trtexec")),
    "container": ("orin-nx", ("--container", "l4t-tensorrt")),
    "caffe": ("tx1@r23.1", ()),
}
SPAN = ("--duration", "4s", "--rail-rate", "10Hz")


@cache
def middle_s(chain: str) -> float:
    """Returns the middle of the measured window of a run without faults, in seconds since the board was opened."""
    board, words = CHAINS[chain]
    ran = edgeperf("bench", "alexnet", "--host", f"sim:{board}", *words, *SPAN, "--json", "--quiet")
    run = ran.data()["raw"]["measured"]["runs"][0]["run"]
    return float(run["start_s"] + run["stop_s"]) / 2 - 120.0


def benched(chain: str, fault: str, state: Path, *more: str) -> Ran:
    board, words = CHAINS[chain]
    host = f"sim:{board},state={state}"
    return edgeperf("bench", "alexnet", "--host", host, "--fault", fault, *words, *SPAN, "--json", "--quiet", *more)


def before_and_after(chain: str, fault: str, state: Path, *more: str) -> tuple[Ran, bool]:
    """Runs a bench; says also whether its board is as it was found."""
    host = f"sim:{CHAINS[chain][0]},state={state}"
    found = nodes(host)
    ran = benched(chain, fault, state, *more)
    return ran, nodes(host) == found


def reasons(record: Any) -> dict[str, str]:
    return {reason["code"]: reason["text"] for reason in record["verdict"]["reasons"]}


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize(
    ("name", "said"), [("engine-crash", "ended without a result"), ("engine-hang", "gave no result in")]
)
def test_a_run_that_crashes_or_hangs_is_an_engine_error_that_keeps_its_samples_and_puts_the_board_back(
    chain: str, name: str, said: str, tmp_path: Path
) -> None:
    ran, as_found = before_and_after(chain, f"{name}@{middle_s(chain):.3f}", tmp_path / "board")
    assert ran.code == 5
    assert said in ran.err
    record = ran.data()
    assert record["verdict"]["state"] == "INVALID"
    assert said in reasons(record)["run-failed"]
    assert all(float(seconds) < 700 for seconds in re.findall(r"in (\d+) s", ran.err)), "within minutes of a hang"
    assert set(reasons(record)) <= {"run-failed", "throttled", "clocks-not-as-asked", "few-samples", "stale-samples"}
    assert len(record["rail_samples_w"]["VDD_IN"]["w"]) > 15
    assert as_found


@pytest.mark.parametrize("chain", ["tensorrt", "trtexec", "container"])
def test_a_build_that_the_kernel_kills_says_so_and_what_to_do(chain: str, tmp_path: Path) -> None:
    ran, as_found = before_and_after(chain, "build-oom@0", tmp_path / "board")
    assert (ran.code, ran.out) == (5, "")
    assert "killed on the board, as happens when its memory is used up" in ran.err
    assert "smaller batch" in ran.err
    assert as_found
    assert edgeperf("build", "alexnet", "--host", "sim:orin-nx,fault=build-oom@0").code == 5


def test_an_engine_that_was_kept_needs_no_build_that_could_be_killed(tmp_path: Path) -> None:
    assert benched("tensorrt", "reboot@1000m", tmp_path / "board").code == 0
    assert benched("tensorrt", "build-oom@0", tmp_path / "board").code == 0


def test_of_several_runs_those_before_the_crash_count(tmp_path: Path) -> None:
    crash_s = middle_s("tensorrt") + 12.0
    ran = benched("tensorrt", f"engine-crash@{crash_s:.3f}", tmp_path / "board", "--repeat", "4")
    assert ran.code == 5
    record = ran.data()
    assert 1 < len(record["repeats"]) < 5
    assert record["throughput_per_s"]["value"] > 100
    assert "run-failed" in reasons(record)


def test_a_hang_that_passes_is_not_the_end_of_a_run(tmp_path: Path) -> None:
    ran = benched("tensorrt", f"engine-hang@{middle_s('tensorrt'):.3f}:2s", tmp_path / "board")
    assert ran.code in (0, 8)
    assert ran.data()["throughput_per_s"] is not None


@pytest.mark.parametrize("fault", ["write-refused", "write-ignored"])
@pytest.mark.parametrize("clock", ["gpu", "emc", "cpu"])
@pytest.mark.parametrize("board", ["tx1@r23.1", "orin-nx"])
def test_a_clock_that_cannot_be_set_is_refused_floats_and_is_not_taken_for_throttled(
    fault: str, clock: str, board: str
) -> None:
    host = ("--host", f"sim:{board}", "--fault", f"{fault}@0::{clock}")
    ran = edgeperf("maxperf", *host)
    assert ran.code == 4
    assert "refused" in ran.out
    for ran in (
        edgeperf("bench", "alexnet", *host, *SPAN, "--json", "--quiet"),
        edgeperf("exec", *host, "--json", "--quiet", "--", "sleep", "4"),
    ):
        assert ran.code == 0, ran.err
        assert set(reasons(ran.data())) <= {"clocks-float", "clocks-clamped", "drift"}, "a clock that floats may drift"
        assert f"the board refused {clock}" in reasons(ran.data())["clocks-float"]
    locked = edgeperf("bench", "alexnet", *host, *SPAN, "--require-lock")
    assert (locked.code, locked.out) == (4, "")


@pytest.mark.parametrize("fault", ["write-refused", "write-ignored"])
@pytest.mark.parametrize(
    "words", [["bench", "alexnet", *SPAN], ["exec", "--", "sleep", "8"]], ids=lambda words: str(words[0])
)
def test_a_board_that_cannot_be_put_back_keeps_the_result_and_restore_tries_again(
    words: list[str], fault: str, tmp_path: Path
) -> None:
    host = f"sim:orin-nx,state={tmp_path / 'board'}"
    found = nodes(host)
    options = ["--host", host, "--fault", f"{fault}@4s:300s:gpu", "--json", "--quiet"]
    ran = edgeperf(words[0], *options, *words[1:])
    assert ran.code == 4
    assert "not put back after the measurement: gpu.min" in ran.err
    assert "edgeperf restore" in ran.err
    record = ran.data()
    assert record["verdict"]["state"] == "VALID"
    assert len(record["rail_samples_w"]["VDD_IN"]["w"]) > 50
    assert nodes(host) != found
    assert edgeperf("restore", "--host", host).code == 0
    assert nodes(host) == found


def test_a_run_that_failed_on_a_board_that_cannot_be_put_back_says_both(tmp_path: Path) -> None:
    host = f"sim:orin-nx,state={tmp_path / 'board'}"
    found = nodes(host)
    faults = ("--fault", "write-refused@4s:300s:gpu", "--fault", "build-oom@0")
    ran = edgeperf("bench", "alexnet", "--host", host, *faults)
    assert (ran.code, ran.out) == (5, "")
    assert "memory" in ran.err
    assert "not put back after the measurement: gpu.min" in ran.err
    assert nodes(host) != found
    assert edgeperf("restore", "--host", host).code == 0
    assert nodes(host) == found


@pytest.mark.parametrize("fault", ["nvpmodel-255@0", "nvpmodel-half@0::8"])
@pytest.mark.parametrize(("board", "mode"), [("xavier-nx@r35", "MODE_15W_2CORE"), ("orin-nx", "25W")])
def test_a_power_mode_that_is_not_set_is_refused_and_all_that_was_set_of_it_is_put_back(
    fault: str, board: str, mode: str, tmp_path: Path
) -> None:
    profile = tmp_path / "mode.toml"
    profile.write_text(f'summary = "a power mode"\n[nvpmodel]\nmode = "{mode}"\n', "utf-8")
    host = f"sim:{board},state={tmp_path / 'board'}"
    found = nodes(host)
    ran = edgeperf("apply", str(profile), "--host", host, "--fault", fault)
    assert ran.code == 4
    assert "nvpmodel.mode" in ran.out
    assert "NVPM ERROR" in ran.out
    assert edgeperf("restore", "--host", host).code == 0
    assert nodes(host) == found
    options = ["--host", host, "--fault", fault, "--profile", str(profile), *SPAN, "--json", "--quiet"]
    ran = edgeperf("bench", "alexnet", *options)
    assert ran.code == 0, ran.err
    assert "NVPM ERROR" in reasons(ran.data())["mode-not-as-asked"]
    assert nodes(host) == found


@pytest.mark.parametrize(
    ("fault", "code", "found"),
    [
        ("tegrastats-dies@6s", 8, {"sampler-dead", "few-samples"}),
        ("tegrastats-garbage@0::0.5", 0, {"few-samples"}),
        ("tegrastats-silent@5s::1000000", 8, {"sampler-dead", "few-samples"}),
    ],
)
def test_a_tegrastats_that_is_asked_for_the_watts_and_fails_shows_in_the_verdict(
    fault: str, code: int, found: set[str]
) -> None:
    host = ["--host", "sim:orin-nx", "--rails", "tegrastats", "--fault", fault, "--idle", "0"]
    ran = edgeperf("exec", *host, "--json", "--quiet", "--", "sleep", "10")
    assert (ran.code, set(reasons(ran.data()))) == (code, found)


@pytest.mark.parametrize("fault", ["tegrastats-dies@0", "tegrastats-silent@0"])
def test_a_tegrastats_that_shows_nothing_is_refused_as_a_source_before_anything_is_measured(fault: str) -> None:
    ran = edgeperf("exec", "--host", "sim:orin-nx", "--rails", "tegrastats", "--fault", fault, "--", "sleep", "3")
    assert (ran.code, ran.out) == (4, "")
    assert "tegrastats shows no power rails" in ran.err


def test_what_a_broken_tegrastats_prints_passes_through_exec() -> None:
    host = ["--host", "sim:orin-nx", "--idle", "0", "--duration", "10s"]
    died = edgeperf("exec", *host, "--fault", "tegrastats-dies@5s::3", "--", "tegrastats")
    assert died.code == 5
    assert "tegrastats: exit code 3" in died.err
    late = edgeperf("exec", *host, "--fault", "tegrastats-silent@0", "--", "tegrastats")
    assert late.code == 0
    assert "RAM" not in late.out
    garbage = edgeperf("exec", *host, "--fault", "tegrastats-garbage@0::1", "--", "tegrastats")
    assert garbage.code == 0
    assert garbage.out.count("\0") >= 9
