from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeperf.verdict import Evidence, judge

GOOD = Evidence(
    window_s=10.0,
    asked_hz=20.0,
    achieved_hz=19.8,
    fresh_share=0.9,
    longest_gap_s=0.08,
    clocks_asked_hz={"gpu": 691.2e6, "emc": 1600e6},
    clocks_seen_hz={"gpu": [691.2e6, 691.2e6, 690e6], "emc": [1600e6] * 3},
    precision_asked="fp16",
    precision_found="fp16",
    drift=0.005,
    foreign_share=0.01,
    stalled_s=0.3,
    throttled_share=0.01,
)

# Per rule: what makes it speak, and what it says.
PROBLEMS: list[tuple[dict[str, Any], str, str]] = [
    ({"power_missing": "VDD_IN gave 0 readings"}, "sampler-dead", "INVALID"),
    ({"longest_gap_s": 1.5}, "sampler-dead", "INVALID"),
    ({"achieved_hz": 12.0}, "few-samples", "DEGRADED"),
    ({"rounding_share": 0.011}, "coarse-sensors", "DEGRADED"),
    ({"outputs_wrong": "outputs differ from FP32"}, "outputs-wrong", "INVALID"),
    ({"fresh_share": 0.02}, "stale-samples", "DEGRADED"),
    ({"clocks_seen_hz": {"gpu": [691.2e6, 614.4e6, 614.4e6]}}, "clocks-not-as-asked", "INVALID"),
    ({"clocks_seen_hz": {"emc": [1700e6, None, 1700e6]}}, "clocks-not-as-asked", "INVALID"),
    ({"clocks_seen_hz": {"gpu": [76.8e6]}}, "clocks-not-as-asked", "INVALID"),
    ({"unlocked": "no root on this host"}, "clocks-float", "DEGRADED"),
    ({"mode_missing": "it takes a reboot"}, "mode-not-as-asked", "DEGRADED"),
    ({"precision_asked": "fp16", "precision_found": "fp32", "on_cpu": True}, "fp16-as-fp32", "DEGRADED"),
    ({"precision_asked": "fp16", "precision_found": "fp32", "on_cpu": False}, "precision-not-as-asked", "INVALID"),
    ({"precision_asked": "fp32", "precision_found": "fp16", "on_cpu": True}, "precision-not-as-asked", "INVALID"),
    ({"throttled_share": 0.06}, "throttled", "INVALID"),
    ({"drift": 0.021}, "drift", "DEGRADED"),
    ({"drift": -0.021}, "drift", "DEGRADED"),
    ({"held_up_s": 0.021 * GOOD.window_s}, "held-up", "DEGRADED"),
    ({"foreign_share": 0.2}, "foreign-load", "DEGRADED"),
    ({"stalled_s": 6.0}, "link-stall", "DEGRADED"),
    ({"rebooted": True}, "rebooted", "INVALID"),
    ({"interrupted": True}, "interrupted", "INVALID"),
    ({"failed": "trtexec ended (signal 11)"}, "run-failed", "INVALID"),
    ({"lost": "the line ended"}, "link-lost", "INVALID"),
    ({"undervoltage": "VDD_IN fell to 4.60 V"}, "undervoltage", "DEGRADED"),
    ({"over_current": ("3 events of oc1",)}, "over-current", "DEGRADED"),
    ({"clock_step_s": -3.0}, "clock-step", "DEGRADED"),
    ({"gpu_before": 0.06}, "gpu-load", "DEGRADED"),
    ({"gpu_before": 0.02, "desktop": ("Xorg",)}, "desktop-session", "DEGRADED"),
    ({"rails_unknown": "VDD_IN cannot be read"}, "rails-unknown", "DEGRADED"),
    ({"unread_rail": "VDD_IN", "unread_share": 0.1}, "rail-unreadable", "DEGRADED"),
    ({"unread_rail": "VDD_IN", "unread_share": 0.5}, "rail-unreadable", "INVALID"),
    ({"negative": "VDD_IN read below zero"}, "rail-negative", "INVALID"),
    ({"frozen_s": 2.0}, "rail-frozen", "INVALID"),
    ({"clocks_clamped_hz": {"emc": (1600e6, 800e6)}}, "clocks-clamped", "DEGRADED"),
    ({"clocks_seen_hz": {"emc": [800e6, 800e6]}}, "emc-clamped", "INVALID"),
]
RANK = {"VALID": 0, "DEGRADED": 1, "INVALID": 2}


def test_a_good_run_is_valid_and_so_is_one_of_which_nothing_more_is_known() -> None:
    assert judge(GOOD).state == "VALID"
    assert judge(GOOD).reasons == ()
    assert judge(Evidence()).state == "VALID"


@pytest.mark.parametrize(("problem", "code", "severity"), PROBLEMS)
def test_each_problem_has_its_reason(problem: dict[str, Any], code: str, severity: str) -> None:
    verdict = judge(replace(GOOD, **problem))
    assert verdict.state == severity
    assert [(reason.code, reason.severity) for reason in verdict.reasons] == [(code, severity)]


@pytest.mark.parametrize(
    "fine",
    [
        {"throttled_share": 0.05},
        {"drift": 0.02},
        {"drift": None},
        {"held_up_s": 0.019 * GOOD.window_s},
        {"stalled_s": 4.0},
        {"gpu_before": 0.05},
        {"gpu_before": 0.01, "desktop": ("Xorg",)},
        {"desktop": ("Xorg",)},
        {"clock_step_s": 0.5},
        {"unread_rail": "VDD_IN", "unread_share": 0.02},
        {"frozen_s": 1.0},
        {"clocks_clamped_hz": {"emc": (1600e6, 1590e6)}},
        {"fresh_share": 0.06},
        {"clocks_seen_hz": {"gpu": [691.2e6, 614.4e6, 691.2e6]}},
        {"clocks_seen_hz": {"gpu": [678e6, 704e6], "emc": []}},
        {"precision_found": ""},
        {"achieved_hz": None, "fresh_share": None, "longest_gap_s": 10.0},
    ],
)
def test_what_is_within_its_limit_or_not_known_is_no_reason(fine: dict[str, Any]) -> None:
    assert judge(replace(GOOD, **fine)).state == "VALID"


def test_the_text_carries_the_evidence() -> None:
    reason = judge(replace(GOOD, clocks_seen_hz={"gpu": [614.4e6, 614.4e6, 691.2e6]})).reasons[0]
    assert reason.text == "gpu ran at 614.4 MHz, 691.2 MHz was set (2 of 3 readings off)"
    assert "no root on this host" in judge(replace(GOOD, unlocked="no root on this host")).reasons[0].text


def test_invalid_reasons_come_first_and_none_is_dropped() -> None:
    verdict = judge(replace(GOOD, unlocked="no root", drift=0.5, throttled_share=0.5, rebooted=True))
    assert [reason.severity for reason in verdict.reasons] == ["INVALID", "INVALID", "DEGRADED", "DEGRADED"]
    assert verdict.state == "INVALID"


@given(st.lists(st.sampled_from(PROBLEMS), max_size=5), st.sampled_from(PROBLEMS))
def test_one_more_problem_never_improves_the_verdict(
    before: list[tuple[dict[str, Any], str, str]], more: tuple[dict[str, Any], str, str]
) -> None:
    evidence = GOOD
    for problem, _, _ in before:
        if not problem.keys() & more[0].keys():
            evidence = replace(evidence, **problem)
    was, now = judge(evidence), judge(replace(evidence, **more[0]))
    assert RANK[now.state] >= RANK[was.state]


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 20), st.floats(0.1, 20))
def test_worse_figures_never_improve_the_verdict(share: float, more: float, gap_s: float, hz: float) -> None:
    def of(share: float, gap_s: float, hz: float) -> Evidence:
        shares = {"throttled_share": share, "foreign_share": share, "drift": share}
        changes: dict[str, Any] = {**shares, "longest_gap_s": gap_s, "achieved_hz": hz}
        return replace(GOOD, **changes)

    was, now = of(share, gap_s, hz), of(share + more, gap_s * (1 + more), hz * (1 - more))
    assert RANK[judge(now).state] >= RANK[judge(was).state]
