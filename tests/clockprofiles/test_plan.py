from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clockprofiles import profile as profiles
from clockprofiles.plan import Drifted, drift, plan
from clockprofiles.rates import Rate
from clockprofiles.targets import Asked
from remote.types import Knob, Snapshot, Value
from tests.clockprofiles.toy import CPU_HZ, EMC_HZ, GPU_HZ, Toy, apply, boards

MAXPERF = profiles.load("maxperf")
EVERY_PROFILE = st.sampled_from([profiles.load(name) for name in profiles.names()])


def booted(release: str = "23.1", **values: Value) -> Toy:
    """Returns a TX1 as it boots; ``values`` with __ for the dot differ."""
    board: dict[str, Value] = {
        **{f"cpu{core}.online": int(core < 2) for core in range(4)},
        **{"cpu0.governor": "interactive", "cpu0.min": CPU_HZ[1], "cpu0.max": CPU_HZ[-1]},
        **{"cpuquiet.enable": 1, "cpuquiet.governor": "balanced"},
        **{"gpu.rate": GPU_HZ[0], "gpu.override": 0, "emc.rate": EMC_HZ[0], "emc.override": 0, "fan.pwm": 0},
    }
    return Toy(release, board | {knob.replace("__", "."): value for knob, value in values.items()})


def test_maxperf_ends_where_the_forum_sequence_ends() -> None:
    board = booted()
    apply(board, plan(MAXPERF, board.snapshot(), "23.1").steps)
    forum: dict[str, Value] = {
        **{"cpu0.governor": "userspace", "cpu0.min": CPU_HZ[-1], "cpu0.max": CPU_HZ[-1]},
        **{"cpuquiet.enable": 0, "cpuquiet.governor": "runnable"},
        **{"gpu.rate": GPU_HZ[-1], "gpu.override": 1, "emc.rate": EMC_HZ[-1], "emc.override": 1},
    }
    cores = {f"cpu{core}.online": 1 for core in range(4)}
    assert board.values == {**forum, **cores, "fan.pwm": 0}


def test_the_first_plan_says_what_was_asked_and_what_is_lacking() -> None:
    made = plan(MAXPERF, booted().snapshot(), "23.1")
    assert made.asked == Asked(CPU_HZ[-1], GPU_HZ[-1], EMC_HZ[-1])
    assert set(made.absent) == {"cpu0.idle0", "gpu.railgate"}
    assert made.notes == ()
    assert {step.knob for step in made.kept} == {"cpu0.max", "cpu0.online", "cpu1.online"}
    assert all(step.why for step in made.steps)


@given(boards(), EVERY_PROFILE)
def test_a_board_at_a_profile_is_left_alone(board: Toy, profile: profiles.Profile) -> None:
    apply(board, plan(profile, board.snapshot(), board.release).steps)
    again = plan(profile, board.snapshot(), board.release)
    assert [step for step in again.steps if not _gated(board, step.knob)] == []


@given(boards(), EVERY_PROFILE)
def test_a_plan_names_every_knob_once_and_writes_only_what_differs(board: Toy, profile: profiles.Profile) -> None:
    made = plan(profile, board.snapshot(), board.release)
    named = [step.knob for step in (*made.steps, *made.kept)] + list(made.absent)
    assert len(named) == len(set(named))
    assert all(step.was == board.values[step.knob] for step in (*made.steps, *made.kept))
    assert all(step.value != step.was for step in made.steps)
    assert all(step.value == step.was for step in made.kept)
    assert not any(step.knob.endswith("setspeed") for step in made.steps)


def test_an_overridden_rate_between_two_points_goes_to_the_nearest_with_a_note() -> None:
    made = plan(profiles.override(MAXPERF, {"gpu": "680MHz"}), booted().snapshot(), "23.1")
    assert made.asked.gpu_hz == 691_200_000
    assert made.notes == ("gpu: 680MHz is no operating point of this board; 691.2MHz is the nearest",)


def test_auto_takes_the_lock_off_and_leaves_the_rate() -> None:
    board = booted(gpu__rate=GPU_HZ[2], gpu__override=1)
    steps = plan(profiles.Profile("free", gpu_rate=Rate("auto")), board.snapshot(), "23.1").steps
    assert [(step.knob, step.value) for step in steps] == [("gpu.override", 0)]


def test_auto_gives_devfreq_its_own_limits_back() -> None:
    board = booted("32.7", gpu__min=GPU_HZ[2], gpu__max=GPU_HZ[2], gpu__railgate=0)
    made = plan(profiles.Profile("free", gpu_rate=Rate("auto")), board.snapshot(), "32.7")
    assert [(step.knob, step.value) for step in made.steps] == [("gpu.max", GPU_HZ[-1]), ("gpu.min", GPU_HZ[0])]
    assert made.asked.gpu_hz is None


def test_cores_that_a_power_mode_switched_off_stay_off_without_cpuquiet() -> None:
    board = booted("32.7")
    del board.values["cpuquiet.enable"], board.values["cpuquiet.governor"]
    made = plan(MAXPERF, board.snapshot(), "32.7")
    assert not any(step.knob.endswith("online") for step in made.steps)
    assert {"cpuquiet.enable", "cpuquiet.governor"} <= set(made.absent)


def test_none_of_the_governors_is_a_note_and_no_error() -> None:
    made = plan(profiles.Profile("odd", cpu_governor=("warp",)), booted().snapshot(), "23.1")
    assert made.steps == ()
    assert made.absent == ("cpu0.governor",)
    assert made.notes == ("cpu governor: none of warp is there; the board has interactive, ondemand, userspace",)


@pytest.mark.parametrize(
    ("profile", "limits"),
    [
        (profiles.Profile("a", cpu_min=Rate("max"), cpu_max=Rate("min")), (CPU_HZ[0], CPU_HZ[0])),
        (profiles.Profile("b", cpu_min=Rate("max")), (CPU_HZ[2], CPU_HZ[2])),
        (profiles.Profile("c", cpu_max=Rate("min")), (CPU_HZ[0], CPU_HZ[0])),
    ],
)
def test_where_limits_cross_max_wins_with_a_note(profile: profiles.Profile, limits: tuple[int, int]) -> None:
    board = booted(cpu0__max=CPU_HZ[2])
    made = plan(profile, board.snapshot(), "23.1")
    assert len(apply(board, made.steps)) == len(made.steps)
    assert (board.values["cpu0.min"], board.values["cpu0.max"]) == limits
    assert "so min is set to max" in made.notes[0]


def test_a_knob_that_cannot_be_read_is_planned_with_an_unknown_past() -> None:
    hidden = Knob("emc.override", "/debug/state", "bool", None, "", error="EACCES")
    rate = Knob("emc.rate", "/debug/rate", "hz", None, "", error="EACCES")
    made = plan(MAXPERF, Snapshot({hidden.id: hidden, rate.id: rate}), "23.1")
    assert made.steps == ()
    assert "emc.rate" in made.absent
    assert any("EACCES at /debug/rate" in note for note in made.notes)
    pinned = plan(profiles.override(MAXPERF, {"emc": "1.6GHz"}), Snapshot({hidden.id: hidden, rate.id: rate}), "23.1")
    assert [(step.knob, step.was) for step in pinned.steps] == [("emc.rate", None), ("emc.override", None)]


def test_after_a_change_of_power_mode_nothing_counts_as_already_there() -> None:
    board = booted("32.7", nvpmodel__mode="5W")
    profile = profiles.Profile("mode", nvpmodel_mode="MAXN", cpu_max=Rate("max"))
    assert [step.knob for step in plan(profile, board.snapshot(), "32.7").steps] == ["nvpmodel.mode", "cpu0.max"]
    board.values["nvpmodel.mode"] = "MAXN"
    assert plan(profile, board.snapshot(), "32.7").steps == ()


def test_a_fixed_fan_speed_takes_the_fan_from_its_own_control() -> None:
    board = booted("32.7", fan__auto=1)
    made = plan(profiles.Profile("loud", fan_pwm=255), board.snapshot(), "32.7")
    assert [(step.knob, step.value) for step in made.steps] == [("fan.auto", 0), ("fan.pwm", 255)]


def test_a_machine_without_any_knob_gives_an_empty_plan() -> None:
    made = plan(MAXPERF, Snapshot({}), "")
    assert (made.steps, made.kept, made.asked) == ((), (), Asked())
    assert {"cpu0.governor", "cpu0.min", "cpu0.max", "gpu.rate", "emc.rate"} <= set(made.absent)


@given(boards(), EVERY_PROFILE)
def test_drift_names_what_differs_now(board: Toy, profile: profiles.Profile) -> None:
    made = plan(profile, board.snapshot(), board.release)
    rows = drift(profile, board.snapshot(), board.release).rows
    assert rows == tuple(Drifted(step.knob, step.value, step.was) for step in made.steps)
    assert drift(made, board.snapshot(), board.release).rows == rows


def test_drift_from_a_plan_tells_what_someone_else_changed() -> None:
    board = booted()
    made = plan(MAXPERF, board.snapshot(), "23.1")
    apply(board, made.steps)
    assert drift(made, board.snapshot(), "23.1").rows == ()
    board.write("gpu.override", 0)
    del board.values["emc.rate"]
    assert set(drift(made, board.snapshot(), "23.1").rows) == {
        Drifted("gpu.override", 1, 0),
        Drifted("emc.rate", EMC_HZ[-1], None),
    }


def _gated(board: Toy, knob: str) -> bool:
    """The toy takes no GPU limits while the GPU may be gated, nor the knobs of a core that is off."""
    off = not board.values.get(f"{knob.partition('.')[0]}.online", 1)
    return off or (knob in ("gpu.min", "gpu.max") and bool(board.values["gpu.railgate"]))
