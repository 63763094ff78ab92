"""Whether to believe a measurement: VALID, DEGRADED or INVALID, with every reason and its evidence. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

State = Literal["VALID", "DEGRADED", "INVALID"]
Severity = Literal["DEGRADED", "INVALID"]

CLOCK_TOLERANCE = 0.02
"""How far a clock may be from what was asked, as a share."""

THROTTLED_SHARE = 0.05
DRIFT_SHARE = 0.02
HELD_UP_SHARE = 0.02
"""How much of the window one batch may take beyond the usual."""

FOREIGN_SHARE = 0.05
ACHIEVED_SHARE = 0.8
"""How much of the asked sampling rate must be reached."""

UNREAD_SHARE = 0.02
"""How many attempts to read a rail may fail before it is said."""

MOST_UNREAD_SHARE = 0.2
"""How many may fail before its watts are not believed."""

FROZEN_SHARE = 0.1
"""For how much of the window a sensor may say the same although it should not."""

DESKTOP_SHARE = 0.01
"""How much of the GPU a desktop session may take."""

CLOCK_STEP_S = 0.5
"""How far the board's calendar may move against its monotonic clock during a run."""

ROUNDING_SHARE = 0.01
"""How much of the watts the steps of the sensors may leave open."""

FEWEST_FRESH = 10
"""How many readings of a rail must differ from the one before."""

STALL_S = 4.0
"""A link that is silent for two heartbeats has stalled."""

DEAD_GAP_SHARE = 0.1
DEAD_GAP_PERIODS = 10


@dataclass(frozen=True)
class Evidence:
    """What is known of a run. What is not known stays at its default and counts neither way.

    ``power_missing`` says why a board that has rails gave no watts. ``clocks_asked_hz`` is what the board accepted;
    ``clocks_seen_hz`` what its drivers reported during the window, in order of time, by the same names. ``unlocked``
    says why clocks float, "" under a lock; ``mode_missing`` why the power mode is another than asked for. Shares are
    0 to 1; ``drift`` is last against first third, ``held_up_s`` what the slowest batch took beyond the usual where that
    is far more than noise; ``foreign_share`` the share of the machine's processor time that
    other programs took; ``outputs_wrong`` says how what was computed differs from what it should be.

    ``rails_unknown`` says why a board that is known to have rails shows none. ``clocks_clamped_hz`` are asked and
    accepted rates where the board did not take what a profile asked. ``unread_share`` is the share of attempts to read
    ``unread_rail`` that failed, ``frozen_s`` for how long no rail changed although the board was at work, ``negative``
    which rail read below zero. ``throttled_by`` are the cooling devices at work, ``over_current`` the events and
    alarms of the window, ``undervoltage`` how far the supply sagged. ``gpu_before`` is how busy the GPU was before the
    run, ``desktop`` the programs of a desktop session. ``clock_step_s`` is by how much the board's calendar jumped.
    ``lost`` says how the line to the board ended, ``failed`` how the program that was measured did.
    """

    window_s: float = 0.0
    power_missing: str = ""
    asked_hz: float = 0.0
    achieved_hz: float | None = None
    fresh_share: float | None = None
    longest_gap_s: float = 0.0
    rounding_share: float = 0.0
    clocks_asked_hz: Mapping[str, float] = field(default_factory=dict)
    clocks_seen_hz: Mapping[str, Sequence[float | None]] = field(default_factory=dict)
    unlocked: str = ""
    mode_missing: str = ""
    throttled_share: float = 0.0
    throttled_by: tuple[str, ...] = ()
    over_current: tuple[str, ...] = ()
    rebooted: bool = False
    lost: str = ""
    failed: str = ""
    interrupted: bool = False
    undervoltage: str = ""
    precision_asked: str = ""
    precision_found: str = ""
    on_cpu: bool = False
    outputs_wrong: str = ""
    drift: float | None = None
    held_up_s: float = 0.0
    stalled_s: float = 0.0
    foreign_share: float = 0.0
    gpu_before: float | None = None
    desktop: tuple[str, ...] = ()
    clock_step_s: float = 0.0
    rails_unknown: str = ""
    unread_rail: str = ""
    unread_share: float = 0.0
    frozen_s: float = 0.0
    negative: str = ""
    clocks_clamped_hz: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    too_warm: str = ""
    too_short: str = ""


@dataclass(frozen=True)
class Reason:
    """Why a result is not VALID. ``code`` is for programs, ``text`` for people, with the evidence in it."""

    code: str
    severity: Severity
    text: str


@dataclass(frozen=True)
class Verdict:
    """The worst severity of all reasons, INVALID ones first."""

    state: State
    reasons: tuple[Reason, ...]


def judge(evidence: Evidence) -> Verdict:
    """Returns the verdict. No reasons: VALID. One more trouble never makes it better."""
    reasons = sorted((r for rule in _RULES for r in rule(evidence)), key=lambda reason: reason.severity != "INVALID")
    return Verdict(reasons[0].severity if reasons else "VALID", tuple(reasons))


def _sampler(e: Evidence) -> Iterator[Reason]:
    if e.too_short:
        yield Reason("too-short", "DEGRADED", e.too_short)
    if e.power_missing:
        yield Reason("sampler-dead", "INVALID", f"the board has power rails but gave no watts: {e.power_missing}")
        return
    if e.achieved_hz is None or e.asked_hz <= 0:
        return
    if e.longest_gap_s > max(DEAD_GAP_SHARE * e.window_s, DEAD_GAP_PERIODS / e.asked_hz):
        text = f"no rail reading for {e.longest_gap_s:.3g} s of the {e.window_s:.3g} s window"
        yield Reason("sampler-dead", "INVALID", text)
    if e.achieved_hz < ACHIEVED_SHARE * e.asked_hz:
        text = f"the rails were read at {e.achieved_hz:.3g} Hz, {e.asked_hz:.3g} Hz was asked"
        yield Reason("few-samples", "DEGRADED", text)


def _rails(e: Evidence) -> Iterator[Reason]:
    if e.rails_unknown:
        yield Reason("rails-unknown", "DEGRADED", f"no watts: {e.rails_unknown}")
    if e.unread_share > UNREAD_SHARE and not e.power_missing:
        severity: Severity = "INVALID" if e.unread_share > MOST_UNREAD_SHARE else "DEGRADED"
        text = f"{e.unread_rail} could not be read in {e.unread_share:.0%} of the attempts"
        yield Reason("rail-unreadable", severity, text)
    if e.negative:
        yield Reason("rail-negative", "INVALID", e.negative)
    if e.frozen_s > FROZEN_SHARE * e.window_s:
        text = f"the power sensors said the same for {e.frozen_s:.3g} s of work, to the last digit"
        yield Reason("rail-frozen", "INVALID", text)


def _freshness(e: Evidence) -> Iterator[Reason]:
    if e.fresh_share is None or e.achieved_hz is None:
        return
    fresh = e.fresh_share * e.achieved_hz * e.window_s
    if fresh < FEWEST_FRESH:
        text = f"the power sensor's value changed {fresh:.0f} times in {e.window_s:.3g} s; {FEWEST_FRESH} are needed"
        yield Reason("stale-samples", "DEGRADED", text)


def _steps(e: Evidence) -> Iterator[Reason]:
    if e.rounding_share > ROUNDING_SHARE:
        text = f"the steps of the power sensors leave {e.rounding_share:.1%} of the watts open"
        yield Reason("coarse-sensors", "DEGRADED", text)


def _clocks(e: Evidence) -> Iterator[Reason]:
    for name, asked in e.clocks_asked_hz.items():
        seen = [hz for hz in e.clocks_seen_hz.get(name, ()) if hz is not None]
        off = [abs(hz - asked) > CLOCK_TOLERANCE * asked for hz in seen]
        # One reading among others may fall into a change of rate; two in a row do not.
        if off == [True] or any(a and b for a, b in pairwise(off)):
            _, worst = max((abs(hz - asked), hz) for hz in seen)
            rates = f"{name} ran at {worst / 1e6:.6g} MHz, {asked / 1e6:.6g} MHz was set"
            code = "emc-clamped" if name == "emc" and worst < asked else "clocks-not-as-asked"
            yield Reason(code, "INVALID", f"{rates} ({sum(off)} of {len(off)} readings off)")
    for name, (wanted, taken) in e.clocks_clamped_hz.items():
        if abs(taken - wanted) > CLOCK_TOLERANCE * wanted:
            text = f"{name} was to run at {wanted / 1e6:.6g} MHz, the board took {taken / 1e6:.6g} MHz"
            yield Reason("clocks-clamped", "DEGRADED", text)
    if e.unlocked:
        yield Reason("clocks-float", "DEGRADED", f"clocks float: {e.unlocked}")
    if e.mode_missing:
        yield Reason("mode-not-as-asked", "DEGRADED", f"the power mode is not the one asked for: {e.mode_missing}")


def _precision(e: Evidence) -> Iterator[Reason]:
    asked, found = e.precision_asked, e.precision_found
    if not asked or not found or asked == found:
        return
    if (asked, found) == ("fp16", "fp32") and e.on_cpu:
        yield Reason("fp16-as-fp32", "DEGRADED", "fp16 was asked, but this processor computes it as fp32 inside")
    elif found == "mixed":
        yield Reason("precision-mixed", "DEGRADED", f"{asked} was asked, part of the engine's arithmetic is not")
    else:
        yield Reason("precision-not-as-asked", "INVALID", f"{asked} was asked, the engine runs {found}")


def _outputs(e: Evidence) -> Iterator[Reason]:
    if e.outputs_wrong:
        yield Reason("outputs-wrong", "INVALID", e.outputs_wrong)


def _heat(e: Evidence) -> Iterator[Reason]:
    if e.throttled_share > THROTTLED_SHARE:
        by = f" by {', '.join(e.throttled_by)}" if e.throttled_by else ""
        yield Reason("throttled", "INVALID", f"throttled for {e.throttled_share:.0%} of the window{by}")
    if e.over_current:
        text = f"over-current, which holds the clocks back for moments: {', '.join(e.over_current)}"
        yield Reason("over-current", "DEGRADED", text)
    if e.too_warm:
        yield Reason("too-warm", "DEGRADED", e.too_warm)


def _steadiness(e: Evidence) -> Iterator[Reason]:
    if e.drift is not None and abs(e.drift) > DRIFT_SHARE:
        text = f"the last third of the run differs from the first by {e.drift:+.1%}; a longer --warmup may help"
        yield Reason("drift", "DEGRADED", text)
    if e.held_up_s > HELD_UP_SHARE * e.window_s:
        text = f"one batch took {e.held_up_s:.3g} s longer than usual: something held up the {e.window_s:.3g} s run"
        yield Reason("held-up", "DEGRADED", text)


def _interference(e: Evidence) -> Iterator[Reason]:
    if e.foreign_share > FOREIGN_SHARE:
        text = f"other programs took {e.foreign_share:.0%} of the processor time"
        yield Reason("foreign-load", "DEGRADED", text)
    if e.gpu_before is not None and e.gpu_before > FOREIGN_SHARE:
        yield Reason("gpu-load", "DEGRADED", f"the GPU was {e.gpu_before:.0%} busy before the run, with work not ours")
    if e.desktop and e.gpu_before is not None and e.gpu_before > DESKTOP_SHARE:
        text = f"a desktop session ({', '.join(e.desktop)}) took {e.gpu_before:.0%} of the GPU before the run"
        yield Reason("desktop-session", "DEGRADED", text)
    if e.stalled_s > STALL_S:
        yield Reason("link-stall", "DEGRADED", f"the link to the board was silent for {e.stalled_s:.3g} s")


def _events(e: Evidence) -> Iterator[Reason]:
    if e.rebooted:
        yield Reason("rebooted", "INVALID", "the board restarted during the run; what it had told until then was kept")
    elif e.lost:
        yield Reason("link-lost", "INVALID", f"{e.lost}; what the board had told until then was kept")
    if e.failed:
        yield Reason("run-failed", "INVALID", f"{e.failed}; what was sampled until then was kept")
    if e.interrupted:
        yield Reason("interrupted", "INVALID", "the run was interrupted; what it gave until then was kept")
    if e.undervoltage:
        yield Reason("undervoltage", "DEGRADED", e.undervoltage)
    if abs(e.clock_step_s) > CLOCK_STEP_S:
        text = f"the board's calendar jumped by {e.clock_step_s:+.5g} s; spans are by another clock and stand"
        yield Reason("clock-step", "DEGRADED", text)


_RULES: tuple[Callable[[Evidence], Iterator[Reason]], ...] = (
    *(_events, _sampler, _rails, _freshness, _steps, _clocks),
    *(_precision, _outputs, _heat, _steadiness, _interference),
)
