from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clockprofiles.targets import Asked
from edgeperf.conditions import Around, added, clamped, rails_unknown, told, watched
from edgeperf.verdict import Evidence
from remote.boards import Total
from remote.types import Series, Text

START_S, STOP_S = 100.0, 110.0


def series(name: str, *values: float | None, since_s: float = START_S, hz: float = 1.0) -> Series:
    return Series(name, tuple(since_s + n / hz for n in range(len(values))), values)


def around(*readings: Series, **more: Any) -> Around:
    return Around(START_S, STOP_S, readings, **more)


def seen(*readings: Series, **more: Any) -> Evidence:
    return added(Evidence(window_s=STOP_S - START_S), around(*readings, **more))


def toggling(count: int, since_s: float = START_S) -> list[float]:
    return [5.0 + 0.04 * (n % 2) for n in range(count)]


def test_nothing_known_is_nothing_said() -> None:
    assert added(Evidence(), around()) == Evidence()


def test_readings_of_fans_and_screens_are_not_watched() -> None:
    names = ["cpu.hz", "cooling.pwm-fan", "cooling.gpu-balanced", "cooling.Processor", "cooling.intel_backlight"]
    assert watched([*names, "host.cpu_s", "oc.3.1", "volts.VDD_IN", "temp.cpu", "unheard.of"]) == (
        *("cpu.hz", "cooling.gpu-balanced", "cooling.Processor"),
        *("host.cpu_s", "oc.3.1", "volts.VDD_IN", "temp.cpu"),
    )


def test_the_worst_cooling_device_says_for_how_long_it_was_throttled() -> None:
    found = seen(series("cooling.cpu-balanced", 0, 0, 0, 1), series("cooling.gpu-balanced", 0, 2, 2, 1))
    assert (found.throttled_share, found.throttled_by) == (0.75, ("cpu-balanced", "gpu-balanced"))


def test_only_events_of_the_window_count_as_over_current() -> None:
    assert seen(series("oc.20.1", 7, 7, 7), series("alarm.VDD_IN", 0, 0)).over_current == ()
    found = seen(series("oc.20.1", 7, 7, 9), series("alarm.VDD_IN", 0, 1, 0))
    assert found.over_current == ("2 events of 20.1", "alarm of VDD_IN in 1 of 3 readings")


@pytest.mark.parametrize(("low", "sags"), [(4.74, True), (4.75, False), (4.2, True), (19.1, False), (0.0, False)])
def test_an_input_of_5_v_may_not_sag(low: float, sags: bool) -> None:
    found = seen(series("volts.VDD_IN", 5.0, low, 5.0))
    assert bool(found.undervoltage) == sags
    assert not sags or f"{low:.2f} V" in found.undervoltage


@pytest.mark.parametrize(
    ("text", "sags"), [("50005", True), ("0x1", True), ("50000", False), ("", False), ("?", False)]
)
def test_the_firmware_of_a_raspberry_pi_may_report_under_voltage(text: str, sags: bool) -> None:
    path = "/sys/devices/platform/soc/soc:firmware/get_throttled"
    assert bool(seen(texts={path: Text(text)}).undervoltage) == sags


def test_foreign_load_is_what_the_machine_took_beyond_the_job() -> None:
    host, job = series("host.cpu_s", 50, 52, 54, 56), series("job.cpu_s", 0, 1, 2, 3)
    assert seen(host, job, cpus=4).foreign_share == pytest.approx(0.25)
    assert seen(host, job, cpus=4, stalled_s=0.0).foreign_share <= 1
    assert seen(host, cpus=4).foreign_share == 0.0


@given(st.lists(st.floats(0, 1), min_size=2, max_size=9), st.integers(1, 12))
def test_foreign_load_is_a_share_whatever_the_job_took(steps: list[float], cpus: int) -> None:
    host = [sum(steps[: n + 1]) * cpus for n in range(len(steps))]
    job = [value * 1.5 for value in host]
    assert 0.0 <= seen(series("host.cpu_s", *host), series("job.cpu_s", *job), cpus=cpus).foreign_share <= 1.0


def test_the_gpu_before_the_run_is_that_of_the_idle_window() -> None:
    idle = (series("gpu.load", 0.0, 0.3, None, since_s=10.0),)
    assert seen(series("gpu.load", 0.9, 0.9), idle=idle).gpu_before == pytest.approx(0.15)


def test_a_step_of_the_calendar_shows_against_the_monotonic_clock() -> None:
    assert seen(series("clock.wall_offset_s", 1e9, 1e9 + 0.001, 1e9 - 30)).clock_step_s == pytest.approx(-30.001)
    assert told(seen(), around())["clock_step_s"] == 0.0


def test_attempts_that_failed_are_counted_for_the_worst_rail_of_the_total() -> None:
    found = seen(series("A", 1, 1, 1, None), series("B", 1, None), series("C", None), rails=("A", "B"))
    assert (found.unread_rail, found.unread_share) == ("B", 0.5)


def test_a_reading_below_zero_is_told_unless_it_is_noise() -> None:
    assert seen(series("A", 5, -0.05, 5), rails=("A",)).negative == ""
    assert seen(series("A", 5, -2, 5), rails=("A",)).negative == "A read below zero in 1 of 3 samples, -2.00 W at worst"
    assert seen(series("B", -2), rails=("A",)).negative == ""


WORK = series("gpu.load", *[0.95] * 10)


def test_a_rail_that_stops_changing_in_the_middle_of_work_has_frozen() -> None:
    watts = [*toggling(100), *[5.0] * 100]
    frozen = series("A", *watts, hz=20.0)
    assert seen(frozen, WORK, rails=("A",)).frozen_s == pytest.approx(5.05, abs=0.1)
    assert seen(frozen, series("gpu.load", *[0.0] * 10), rails=("A",)).frozen_s == 0.0
    assert seen(series("A", *toggling(200), hz=20.0), WORK, rails=("A",)).frozen_s == 0.0
    assert seen(frozen, series("B", *toggling(200), hz=20.0), WORK, rails=("A", "B")).frozen_s == 0.0


def test_a_coarse_sensor_that_never_changes_under_a_steady_load_has_not_frozen() -> None:
    assert seen(series("A", *[5.0] * 200, hz=20.0), WORK, rails=("A",)).frozen_s == 0.0


def test_watts_of_work_that_are_those_of_idle_are_frozen() -> None:
    idle = (series("A", 2.0, 2.1, 5.0, since_s=10.0),)
    assert seen(series("A", *[5.0] * 200, hz=20.0), WORK, rails=("A",), idle=idle).frozen_s == 10.0


def test_watts_that_do_not_follow_the_load_are_frozen() -> None:
    load = series("gpu.load", 0.0, 0.0, *[0.95] * 13, since_s=START_S - 5)
    steady = series("A", *[5.0] * 300, since_s=START_S - 5, hz=20.0)
    assert seen(steady, load, rails=("A",)).frozen_s == 10.0


def test_a_lost_line_is_neither_an_interruption_nor_a_dead_sampler() -> None:
    found = added(Evidence(interrupted=True, power_missing="no window"), around(lost="reset", rebooted=True))
    assert (found.interrupted, found.power_missing, found.lost, found.rebooted) == (False, "", "reset", True)


def test_rails_that_a_board_should_have_are_missed_only_where_no_total_can_be_formed() -> None:
    totals = [Total("ap_dram", ("CPU", "GPU"), ""), Total("module_in", ("VDD_IN",), "")]
    assert rails_unknown(totals, ["VDD_IN"]) == ""
    assert rails_unknown([], []) == ""
    assert "VDD_IN cannot be read" in rails_unknown(totals, ["CPU"])


def test_a_clock_is_clamped_where_the_board_took_another_rate() -> None:
    asked = Asked(cpu_hz=1000, gpu_hz=900, emc_hz=None)
    assert clamped(asked, {"cpu": 1000.0, "gpu": 800.0}) == {"gpu": (900, 800.0)}
