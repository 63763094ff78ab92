"""Each rule of the order of writing, and that a toy board is put back exactly, also after refused writes."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clockprofiles import profile as profiles
from clockprofiles.order import in_order
from clockprofiles.plan import plan
from clockprofiles.rates import Rate
from remote.types import Step, Value
from tests.clockprofiles.toy import CPU_HZ, EMC_HZ, GPU_HZ, RELEASES, Toy, apply, boards, undo

RULES = {
    "cpuquiet off before cores on": (RELEASES, r"cpuquiet\.enable=0", r"cpu\d\.online=1"),
    "cores on before their cpufreq": (RELEASES, r"cpu\d\.online=1", r"cpu\d\.(governor|min|max)=.*"),
    "rail gating off before the GPU lock": (RELEASES, r"gpu\.railgate=0", r"gpu\.(min|max)=.*"),
    "override: rate, then state": (("23.1", "28.2"), r"(gpu|emc)\.rate=.*", r"(gpu|emc)\.override=1"),
    "override: lock bit, then rate": (("32.7",), r"emc\.override=1", r"emc\.rate=.*"),
    "the fan's own control off before its speed": (("32.7",), r"fan\.auto=0", r"fan\.pwm=.*"),
}
rates = st.sampled_from([Rate("min"), Rate("max"), Rate("auto"), Rate(share=0.6), Rate(hz=700_000_000)])
some_profiles = st.builds(
    profiles.Profile,
    name=st.just("drawn"),
    cpu_governor=st.sampled_from([(), ("performance", "userspace")]),
    cpu_min=st.none() | rates,
    cpu_max=st.none() | rates,
    cpuquiet_enabled=st.none() | st.booleans(),
    cpuquiet_governor=st.sampled_from([(), ("runnable",)]),
    gpu_rate=st.none() | rates,
    emc_rate=st.none() | rates,
    fan_pwm=st.sampled_from([None, "auto", 255]),
    idle_cpu=st.none() | st.booleans(),
    idle_gpu=st.none() | st.booleans(),
) | st.sampled_from([profiles.load(name) for name in profiles.names()])


def steps_for(board: Toy, profile: profiles.Profile) -> tuple[Step, ...]:
    return plan(profile, board.snapshot(), board.release).steps


def positions(steps: tuple[Step, ...], pattern: str) -> list[int]:
    return [place for place, step in enumerate(steps) if re.fullmatch(pattern, f"{step.knob}={step.value}")]


@pytest.mark.parametrize("rule", RULES)
@given(data=st.data())
def test_a_rule_of_order_holds_in_every_plan(rule: str, data: st.DataObject) -> None:
    releases, first, then = RULES[rule]
    steps = steps_for(data.draw(boards(releases)), data.draw(some_profiles))
    for domain in ("gpu", "emc", ""):  # an override is ordered within its own domain
        earlier = [place for place in positions(steps, first) if steps[place].knob.startswith(domain)]
        later = [place for place in positions(steps, then) if steps[place].knob.startswith(domain)]
        if domain or "override" not in rule:
            assert max(earlier, default=-1) < min(later, default=len(steps))


@given(boards(), some_profiles)
def test_raising_writes_max_before_min_and_lowering_min_before_max(board: Toy, profile: profiles.Profile) -> None:
    steps = steps_for(board, profile)
    places = {step.knob: place for place, step in enumerate(steps)}
    values = {step.knob: step.value for step in steps}
    for domain in ("cpu0", "cpu2", "gpu"):
        low, high = f"{domain}.min", f"{domain}.max"
        if low in places and high in places:
            lowering = int(values[high]) < int(board.values[low])
            assert (places[low] < places[high]) == lowering


@given(st.permutations(range(5)), st.sampled_from(["", *RELEASES]))
def test_a_power_mode_comes_first_and_cpuquiet_comes_back_last(shuffled: list[int], l4t: str) -> None:
    written: list[tuple[str, Value]] = [
        ("nvpmodel.mode", "MAXN"),
        ("cpu10.governor", "userspace"),
        ("cpu10.max", 2),
        ("emc.rate", 3),
        ("cpuquiet.enable", 1),
    ]
    steps = in_order([Step(*written[number], None, "") for number in shuffled], {}, l4t)
    assert steps[0].knob == "nvpmodel.mode"
    assert steps[-1].knob == "cpuquiet.enable"


def test_cpus_are_written_in_their_numeric_order() -> None:
    steps = in_order([Step(f"cpu{number}.online", 1, 0, "") for number in (10, 2, 1)], {}, "28.2")
    assert [step.knob for step in steps] == ["cpu1.online", "cpu2.online", "cpu10.online"]


def comes_back(board: Toy, steps: tuple[Step, ...], refused: set[str], backwards: bool = True) -> bool:
    """Whether a board is as before once the steps that its kernel took are undone in a single pass."""
    changed = Toy(board.release, dict(board.values))
    back = undo(apply(changed, steps, refused))
    apply(changed, back if backwards else back[::-1])
    return changed.values == board.values


@given(boards(), some_profiles, st.data())
def test_undo_puts_back_every_knob_also_after_refused_writes(
    board: Toy, profile: profiles.Profile, data: st.DataObject
) -> None:
    steps = steps_for(board, profile)
    refused = data.draw(st.sets(st.sampled_from([step.knob for step in steps]))) if steps else set()
    assert comes_back(board, steps, refused)


@given(boards(), some_profiles, st.data())
def test_undoing_also_what_was_refused_does_no_harm(board: Toy, profile: profiles.Profile, data: st.DataObject) -> None:
    steps = steps_for(board, profile)
    refused = data.draw(st.sets(st.sampled_from([step.knob for step in steps]))) if steps else set()
    changed = Toy(board.release, dict(board.values))
    apply(changed, steps, refused)
    apply(changed, undo(steps))
    assert changed.values == board.values


def resting(release: str, cpu_hz: int = CPU_HZ[0]) -> Toy:
    """Returns a board at its slowest, or with the CPU pinned to another rate, where every rule of order matters."""
    core = {"governor": "ondemand" if release == "32.7" else "interactive", "min": cpu_hz, "max": cpu_hz}
    values: dict[str, Value] = {
        f"{policy}.{setting}": value for policy in ("cpu0", "cpu2") for setting, value in core.items()
    }
    values |= {"emc.rate": EMC_HZ[0], "emc.override": 0, "fan.pwm": 0, "fan.auto": 1}
    if release == "32.7":
        return Toy(release, values | {"gpu.railgate": 1, "gpu.min": GPU_HZ[0], "gpu.max": GPU_HZ[0]})
    values |= {"cpuquiet.enable": 1, "cpuquiet.governor": "balanced", "cpu1.online": 0, "cpu2.online": 0}
    return Toy(release, values | {"gpu.rate": GPU_HZ[0], "gpu.override": 0})


def takes(board: Toy, steps: Iterable[Step]) -> bool:
    """Whether all steps, written in this order, take effect, and up to R28 no lock passes through another rate."""
    changed = Toy(board.release, dict(board.values))
    apply(changed, steps)
    asked = {step.knob: step.value for step in steps}
    passed = [value == asked[f"{domain}.rate"] for domain, value in changed.held]
    return changed.values == board.values | asked and (board.release == "32.7" or all(passed))


MAXPERF = profiles.load("maxperf")
SLOW = profiles.Profile("slow", cpu_min=Rate("min"), cpu_max=Rate("min"))
LOUD = profiles.Profile("loud", fan_pwm=255)


@pytest.mark.parametrize(
    ("board", "profile", "first", "then"),
    [
        (resting("23.1"), MAXPERF, "cpuquiet.enable", "cpu1.online"),
        (resting("23.1"), MAXPERF, "cpu2.online", "cpu2.governor"),
        (resting("32.7"), MAXPERF, "gpu.railgate", "gpu.max"),
        (resting("23.1"), MAXPERF, "gpu.rate", "gpu.override"),
        (resting("28.2"), MAXPERF, "emc.rate", "emc.override"),
        (resting("32.7"), MAXPERF, "emc.override", "emc.rate"),
        (resting("32.7"), LOUD, "fan.auto", "fan.pwm"),
        (resting("32.7"), MAXPERF, "cpu0.max", "cpu0.min"),
        (resting("32.7", CPU_HZ[-1]), SLOW, "cpu0.min", "cpu0.max"),
    ],
)
def test_without_one_rule_of_order_the_toy_board_is_not_set(
    board: Toy, profile: profiles.Profile, first: str, then: str
) -> None:
    steps = list(steps_for(board, profile))
    assert takes(board, steps)
    places = [step.knob for step in steps]
    steps.insert(places.index(then), steps.pop(places.index(first)))
    assert not takes(board, steps)


@pytest.mark.parametrize(("cpu_hz", "profile"), [(CPU_HZ[0], MAXPERF), (CPU_HZ[-1], SLOW)])
@pytest.mark.parametrize("release", RELEASES)
def test_undo_forwards_would_not_put_the_board_back(release: str, cpu_hz: int, profile: profiles.Profile) -> None:
    board = resting(release, cpu_hz)
    steps = steps_for(board, profile)
    assert comes_back(board, steps, set())
    assert not comes_back(board, steps, set(), backwards=False)
