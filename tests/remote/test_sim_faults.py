"""What goes wrong on a simulated board, as its files show it."""

from __future__ import annotations

import errno
from collections.abc import Callable, Generator
from contextlib import suppress
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remote import boards
from remote.errors import LinkLost, UsageError
from remote.hosts import Twin
from remote.hosts import parse as host
from remote.sim.faults import FAULTS, parse
from remote.sim.link import TwinTransport
from remote.sim.machine import Machine
from remote.sim.physics import Activity
from remote.sim.process import Action, Busy, Context, Out
from remote.types import Apply, Blob, Job, Sampling, Step
from tests.remote.sim_board import Shell, steady

INA = "/sys/bus/i2c/drivers/ina3221x/6-0040/iio:device0"
HWMON = "/sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon*"
GPU_HZ = "/sys/devices/57000000.gpu/devfreq/57000000.gpu/cur_freq"
COOLING = "/sys/class/thermal/cooling_device"


def work(context: Context) -> Generator[Action, None, int]:
    """Keeps the GPU busy for a while."""
    yield Out("begin\n")
    yield Busy(60.0, Activity(flops_per_s=1e10, bytes_per_s=1e9, gpu_load=1.0, cpu_load=0.5))
    return 0


def board(*faults: str, name: str = "nano", release: str = "r32.7") -> Shell:
    spec = boards.load(name)
    return Shell(Machine(name, release, steady(spec.twin), programs={"work": work}, faults=faults))


def opened(text: str) -> TwinTransport:
    twin = host(text)
    assert isinstance(twin, Twin)
    return TwinTransport(twin, {"work": work})


def error_of(read: Callable[[], object]) -> int | None:
    try:
        read()
    except OSError as error:
        return error.errno
    return None


@pytest.mark.parametrize(
    ("text", "start_s", "stop_s", "argument"),
    [
        ("throttle@3s", 3.0, inf, 3.0),
        ("throttle@500ms:2s", 0.5, 2.5, 3.0),
        ("rail-eagain@0::0.8", 0.0, inf, 0.8),
        ("clock-step@1m:1:-5", 60.0, 61.0, -5.0),
    ],
)
def test_a_fault_is_a_name_a_start_a_span_and_a_size(text: str, start_s: float, stop_s: float, argument: float) -> None:
    fault = parse(text)
    assert (fault.start_s, fault.stop_s, fault.argument) == (start_s, stop_s, argument)


@pytest.mark.parametrize(
    "text", ["", "throttle", "throttle@", "throttle@x", "thaw@3s", "throttle@1s:x", "throttle@1::x"]
)
def test_what_is_no_fault_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError):
        host(f"sim:nano,fault={text}")


@given(st.text(max_size=30))
def test_any_text_is_a_fault_or_a_usage_error(text: str) -> None:
    with suppress(UsageError):
        parse(text)


def test_several_faults_may_be_named_and_every_one_is_documented() -> None:
    twin = host("sim:nano,fault=throttle@3s,seed=4,fault=rail-freeze@2s")
    assert isinstance(twin, Twin)
    assert (twin.seed, twin.faults) == (4, ("throttle@3s", "rail-freeze@2s"))
    assert all(kind.__doc__ for kind in FAULTS.values())


def test_throttling_takes_operating_points_and_shows_in_the_cooling_devices() -> None:
    shell = board("throttle@1s:2s:2")
    shell.system.spawn(["work"], {}, "")
    seen = []
    for _ in range(4):
        seen.append((shell.number(GPU_HZ), shell.number(f"{COOLING}0/cur_state")))
        shell.sleep(1.0)
    assert seen == [(921_600_000, 0), (768_000_000, 2), (768_000_000, 2), (921_600_000, 0)]


def test_over_current_is_counted_and_alarms_where_the_kernel_does() -> None:
    shell = board("over-current@1s:1s:5", name="orin-nx", release="r36.4")
    (alarm,) = shell.system.glob(f"{HWMON}/curr1_crit_alarm")
    (count,) = shell.system.glob("/sys/class/hwmon/hwmon*/oc1_event_cnt")
    seen = []
    for _ in range(3):
        seen.append((shell.number(count), shell.number(alarm)))
        shell.sleep(1.0)
    assert seen == [(0, 0), (5, 1), (5, 0)]


@pytest.mark.parametrize(("name", "release"), [("nano", "r32.7"), ("orin-nx", "r36.4")])
def test_a_clamped_memory_runs_below_its_lock(name: str, release: str) -> None:
    shell = board("emc-clamp@1s:1s", name=name, release=release)
    highest = shell.board.kernel.emc.table[-1]
    shell.system.spawn(["work"], {}, "")
    seen = []
    for _ in range(3):
        seen.append(shell.board.clocks().emc_hz)
        shell.sleep(1.0)
    assert seen[0] == seen[2]
    assert seen[1] <= highest / 2 < seen[0]


def test_other_programs_take_processor_and_gpu_until_they_end() -> None:
    shell = board("foreign-load@1s:2s:2", "gpu-load@1s:2s:0.25")
    before = shell.number("/sys/devices/57000000.gpu/load")
    shell.sleep(2.0)
    during = shell.number("/sys/devices/57000000.gpu/load")
    shell.sleep(2.0)
    busy = int(shell.get("/proc/stat").split()[1])
    shell.sleep(2.0)
    assert (before, during, shell.number("/sys/devices/57000000.gpu/load")) == (0, 250, 0)
    assert int(shell.get("/proc/stat").split()[1]) == busy
    assert busy >= 400


def test_a_desktop_has_processes() -> None:
    shell = board("desktop@1s:1s")
    seen = []
    for _ in range(3):
        seen.append(sorted(shell.get(path) for path in shell.system.glob("/proc/*/comm")))
        shell.sleep(1.0)
    assert seen == [[], ["Xorg", "gdm3", "gnome-shell"], []]


def test_a_sagging_supply_shows_in_the_voltage() -> None:
    shell = board("undervoltage@1s:1s:0.9")
    before = shell.number(f"{INA}/in_voltage0_input")
    shell.sleep(1.5)
    assert shell.number(f"{INA}/in_voltage0_input") == pytest.approx(0.9 * before, rel=0.01)
    millivolts, _ = shell.get(f"{INA}/ui_input0").split()
    assert int(millivolts) == pytest.approx(0.9 * before, rel=0.01)


def test_frozen_monitors_hold_their_value_and_go_on_afterwards() -> None:
    shell = board("rail-freeze@1s:2s")
    values = []
    for _ in range(80):
        values.append(shell.get(f"{INA}/in_power0_input"))
        shell.sleep(0.05)
    assert len(set(values[:20])) > 1
    assert len(set(values[20:60])) == 1
    assert len(set(values[60:])) > 1


def test_a_busy_monitor_answers_eagain_half_of_the_time_and_always_the_same_at_one_moment() -> None:
    shell = board("rail-eagain@0")
    path = f"{INA}/in_power0_input"
    found = []
    for _ in range(400):
        found.append(error_of(lambda: shell.get(path)))
        assert error_of(lambda: shell.get(path)) == found[-1]
        shell.sleep(0.01)
    assert set(found) == {None, errno.EAGAIN}
    assert 0.4 < found.count(None) / len(found) < 0.6
    assert shell.get(f"{INA}/rail_name_0") == "POM_5V_IN"


@pytest.mark.parametrize(("fault", "number"), [("sampler-dead", errno.EREMOTEIO), ("rail-missing", errno.ENOENT)])
def test_monitors_that_are_gone_cannot_be_read(fault: str, number: int) -> None:
    shell = board(f"{fault}@1s")
    assert error_of(lambda: shell.get(f"{INA}/in_power0_input")) is None
    shell.sleep(1.0)
    assert error_of(lambda: shell.get(f"{INA}/in_power0_input")) == number


def test_a_monitor_the_wrong_way_round_shows_currents_below_zero() -> None:
    shell = board("rail-negative@1s")
    shell.sleep(1.0)
    assert shell.number(f"{INA}/in_power0_input") < 0
    millivolts, milliamperes = map(int, shell.get(f"{INA}/ui_input0").split())
    assert millivolts > 0 > milliamperes
    assert shell.number(f"{INA}/in_voltage0_input") > 0


def test_the_calendar_steps_and_the_monotonic_clock_does_not() -> None:
    shell = board("clock-step@1s::-60")
    before_s, wall_s = shell.system.now(), shell.system.wall()
    shell.sleep(2.0)
    assert shell.system.now() - before_s == 2.0
    assert shell.system.wall() - wall_s == pytest.approx(-58.0)


def test_a_restart_loses_settings_memory_and_the_line_but_not_the_heat_and_the_disk() -> None:
    twin = opened("sim:nano,fault=reboot@5s")
    with twin as transport:
        found, machine = transport.found.nodes(), twin.machine
        transport.write(Apply((Step("gpu.max", 460_800_000, None, ""),), "me"))
        kept = transport.put(_blob())
        with pytest.raises(LinkLost, match="restarted"):
            transport.run(Job(("work",), timeout_s=100.0))
        assert machine.clocks().gpu_hz < 921_600_000
        other = transport.again()
        assert other is not None
        with other:
            assert other.found.nodes() == found
            assert other.facts.boot_id != transport.facts.boot_id
            assert other.journal.apply is None
            assert other.put(_blob()) == kept


def _blob() -> Blob:
    return Blob("a", b"text")


def test_what_was_said_before_the_line_was_lost_is_kept() -> None:
    with opened("sim:nano,fault=reboot@5s") as transport, pytest.raises(LinkLost) as caught:
        transport.run(Job(("work",)))
    assert [line.text for line in caught.value.said] == ["begin"]


@pytest.mark.parametrize(("span", "silent_s"), [("3s", 3.0), ("9s", 9.0)])
def test_a_stalled_line_costs_time_and_no_samples(span: str, silent_s: float) -> None:
    with opened(f"sim:nano,fault=link-stall@2s:{span}") as transport:
        done = transport.run(Job(duration_s=4.0, sampling=Sampling(rails=("POM_5V_IN",), rate_hz=10.0)))
    assert done.silent_s == pytest.approx(silent_s)
    assert len(done.series[0].values) >= 39


def test_a_line_that_stalls_for_too_long_is_lost() -> None:
    with opened("sim:nano,fault=link-stall@2s:30s") as transport, pytest.raises(LinkLost, match="nothing for 10 s"):
        transport.run(Job(duration_s=4.0))


def test_faults_count_from_when_the_board_was_opened(tmp_path: object) -> None:
    text = f"sim:nano,state={tmp_path}/board"
    for fault in ("", ",fault=clock-step@1s::100"):
        twin = opened(text + fault)
        with twin:
            twin.run(Job(duration_s=2.0))
            stepped = twin.machine.wall_s - twin.facts.wall_s
    assert stepped == pytest.approx(102.0)


def test_without_faults_nothing_is_between_a_monitor_and_its_reader() -> None:
    plain, broken = board(), board("rail-freeze@100s", "rail-eagain@100s", "undervoltage@100s")
    for _ in range(20):
        assert plain.get(f"{INA}/ui_input0") == broken.get(f"{INA}/ui_input0")
        plain.sleep(0.1)
        broken.sleep(0.1)
