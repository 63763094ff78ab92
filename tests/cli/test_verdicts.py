"""Each reason of a verdict: a run that gives it, and one just short of it that does not."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import Ran, edgeperf

SHORT = ("--duration", "3s", "--json", "--quiet")


@dataclass(frozen=True)
class Case:
    """``fault`` gives a reason, ``short`` does not; {start}, {middle}, {late} and {stop} are moments of the window."""

    code: str
    severity: str
    fault: str
    short: str
    board: str = "nano"
    exits: int = 0


CASES = [
    Case("throttled", "INVALID", "throttle@{start}", "throttle@{before}:1s", exits=8),
    Case("over-current", "DEGRADED", "over-current@{middle}:200ms", "over-current@1s:200ms", "orin-nx"),
    Case("clocks-not-as-asked", "INVALID", "gpu-sag@{start}", "gpu-sag@{middle}:300ms", exits=8),
    Case("emc-clamped", "INVALID", "emc-clamp@{start}", "emc-clamp@{middle}:300ms", exits=8),
    Case("clocks-clamped", "DEGRADED", "emc-clamp@0", "emc-clamp@0::1", "orin-nx"),
    Case("drift", "DEGRADED", "gpu-sag@{late}::0.95", "gpu-sag@{last}::0.95", exits=8),
    Case("held-up", "DEGRADED", "engine-hang@{middle}:300ms", "engine-hang@{middle}:50ms"),
    Case("held-up", "DEGRADED", "engine-hang@{middle}:300ms", "engine-hang@{middle}:50ms", "tx1@r23.1"),
    Case("foreign-load", "DEGRADED", "foreign-load@0", "foreign-load@0::0.18"),
    Case("gpu-load", "DEGRADED", "gpu-load@0::0.06", "gpu-load@0::0.04"),
    Case("desktop-session", "DEGRADED", "desktop@0", "desktop@0::0.005"),
    Case("undervoltage", "DEGRADED", "undervoltage@{start}::0.95", "undervoltage@{start}::0.985"),
    Case("undervoltage", "DEGRADED", "undervoltage@{start}::0.92", "undervoltage@{start}::0.97", "orin-nx"),
    Case("sampler-dead", "INVALID", "sampler-dead@{middle}", "sampler-dead@{last}", exits=8),
    Case("sampler-dead", "INVALID", "rail-missing@{middle}", "rail-missing@{last}", exits=8),
    Case("rails-unknown", "DEGRADED", "rail-missing@0", "rail-missing@{last}"),
    Case("rail-frozen", "INVALID", "rail-freeze@{before}", "rail-freeze@{last}", exits=8),
    Case("rail-frozen", "INVALID", "rail-freeze@2s", "rail-freeze@{middle}:100ms", exits=8),
    Case("stale-samples", "DEGRADED", "rail-freeze@{start}", "rail-freeze@{middle}", exits=8),
    Case("rail-unreadable", "INVALID", "rail-eagain@0", "rail-eagain@0::0.01", exits=8),
    Case("few-samples", "DEGRADED", "rail-eagain@0::0.35", "rail-eagain@0::0.1", exits=8),
    Case("rail-negative", "INVALID", "rail-negative@{middle}", "rail-negative@{before}:1s", exits=8),
    Case("clock-step", "DEGRADED", "clock-step@{middle}", "clock-step@{middle}::0.4"),
    Case("link-stall", "DEGRADED", "link-stall@{middle}:5s", "link-stall@{middle}:3s"),
    Case("link-lost", "INVALID", "link-stall@{middle}:12s", "link-stall@{middle}:8s", exits=3),
    Case("run-failed", "INVALID", "engine-crash@{middle}", "engine-crash@{after}", exits=5),
    Case("rebooted", "INVALID", "reboot@{middle}", "reboot@{after}", exits=3),
]


@cache
def window(board: str) -> tuple[float, float]:
    """Returns when the measured window of a run without faults lies, in seconds since the board was opened."""
    run = edgeperf("bench", "alexnet", "--host", f"sim:{board}", *SHORT).data()["raw"]["measured"]["runs"][0]["run"]
    boot_s = 120.0
    return run["start_s"] - boot_s, run["stop_s"] - boot_s


def moments(board: str) -> dict[str, str]:
    """Returns the moments that a case may name."""
    start_s, stop_s = window(board)
    named = {
        "before": start_s - 1.2,
        "start": start_s,
        "middle": start_s + 1.2,
        "late": stop_s - 1.0,
        "last": stop_s - 0.2,
        "after": stop_s + 60.0,
    }
    return {name: f"{moment_s:.3f}" for name, moment_s in named.items()}


def run(board: str, fault: str, *words: str) -> Ran:
    host = f"sim:{board},fault={fault.format(**moments(board))}"
    return edgeperf("bench", "alexnet", "--host", host, *SHORT, *words)


def reasons(record: Any) -> dict[str, str]:
    return {reason["code"]: reason["severity"] for reason in record["verdict"]["reasons"]}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.code}-{case.fault.partition('@')[0]}-{case.board}")
def test_each_reason_has_a_run_that_gives_it_and_one_just_short_of_it(case: Case) -> None:
    ran = run(case.board, case.fault)
    assert reasons(ran.data()).get(case.code) == case.severity, ran.out
    assert ran.code == case.exits
    short = run(case.board, case.short)
    assert case.code not in reasons(short.data())


def test_an_engine_of_another_precision_than_asked_is_invalid_and_clocks_that_nothing_holds_degrade() -> None:
    assert reasons(run("nano", "no-fp16@0", "--fp16").data()) == {"precision-not-as-asked": "INVALID"}
    assert reasons(run("nano", "no-fp16@0", "--fp32").data()) == {}
    assert reasons(run("nano", "no-fp16@0::0.6", "--fp16").data()) == {"precision-mixed": "DEGRADED"}
    assert reasons(run("nano", "no-fp16@0::0.1", "--fp16").data()) == {}
    assert reasons(run("nano", "reboot@{after}", "--fp16").data()) == {}
    assert reasons(run("nano", "reboot@{after}", "--profile", "stock").data()) == {"clocks-float": "DEGRADED"}


def test_a_run_without_faults_is_valid() -> None:
    for board in ("nano", "orin-nx"):
        assert edgeperf("bench", "alexnet", "--host", f"sim:{board}", *SHORT).data()["verdict"]["state"] == "VALID"


def test_a_desktop_that_leaves_the_gpu_alone_is_noted_only() -> None:
    record = run("nano", "desktop@0::0").data()
    assert record["verdict"]["state"] == "VALID"
    assert set(record["conditions"]["desktop"]) == {"gdm3", "Xorg", "gnome-shell"}


BROKEN = [
    *("sampler-dead@{middle}", "rail-freeze@{before}", "rail-eagain@0", "rail-negative@{start}", "reboot@{middle}"),
    "engine-crash@{middle}",
]


@pytest.mark.parametrize("fault", BROKEN)
def test_what_breaks_the_measurement_keeps_what_there_was_and_never_looks_like_a_result(
    fault: str, tmp_path: Path
) -> None:
    kept = tmp_path / "result.json"
    host = f"sim:nano,fault={fault.format(**moments('nano'))}"
    ran = edgeperf("bench", "alexnet", "--host", host, "--duration", "3s", "--quiet", "--out", str(kept))
    assert ran.code in (8, 5, 3)
    lines = ran.out.splitlines()
    assert lines[0].startswith("INVALID: ")
    assert lines[1].startswith("SIMULATED ")
    assert lines[2].split() == ["verdict", "INVALID"]
    figures = [line for line in lines if line.startswith(("throughput", "power", "efficiency"))]
    assert all("not valid: " in line or "none: " in line or "not measured: " in line for line in figures)
    idle = '"id": "POM_5V_IN"'
    assert idle in kept.read_text()


def test_a_command_on_a_board_that_restarts_leaves_a_record_that_says_so() -> None:
    ran = edgeperf("exec", "--host", "sim:nano,fault=reboot@5s", "--json", "--quiet", "--", "sleep", "5")
    assert ran.code == 3
    assert reasons(ran.data()) == {"rebooted": "INVALID"}


def test_clocks_are_put_back_after_a_fault_and_a_restart_forgets_them(tmp_path: Path) -> None:
    state = f"sim:nano,state={tmp_path / 'board'}"
    before = edgeperf("status", "--host", state, "--json").data()["nodes"]
    broken = f"{state},fault=reboot@{moments('nano')['middle']}"
    assert edgeperf("bench", "alexnet", "--host", broken, *SHORT).code == 3
    assert edgeperf("status", "--host", state, "--json").data()["nodes"] == before


@pytest.mark.parametrize(("board", "coarse"), [("agx-orin", True), ("orin-nx", False)])
def test_sensors_whose_steps_are_over_one_percent_of_the_watts_are_named(board: str, coarse: bool) -> None:
    verdict = edgeperf("bench", "alexnet", "--host", f"sim:{board}", *SHORT).data()["verdict"]
    assert ("coarse-sensors" in [reason["code"] for reason in verdict["reasons"]]) == coarse
