"""The rules by which the simulated kernel takes, rounds and refuses what is written."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remote.sim.physics import Activity
from tests.remote.sim_board import CLK, CLOCK, CPU, DEVFREQ, FREQ, GPU, NEW, OLD, QUIET, RELEASES, Shell, shell

BUSY = Activity(flops_per_s=1e11, bytes_per_s=5e9, gpu_load=1.0, cpu_load=1.0)


def _rates(board: Shell, path: str) -> list[int]:
    return [int(word) for word in board.get(path).replace("(kHz)", "").split()]


@pytest.mark.parametrize("release", RELEASES)
def test_an_unknown_governor_is_refused(release: str) -> None:
    board = shell(release)
    before = board.get(f"{FREQ}/scaling_governor")
    assert board.refusal(f"{FREQ}/scaling_governor", "turbo") == errno.EINVAL
    assert board.get(f"{FREQ}/scaling_governor") == before


@pytest.mark.parametrize("release", RELEASES)
def test_a_minimum_over_the_maximum_is_refused(release: str) -> None:
    board = shell(release)
    board.put(f"{FREQ}/scaling_max_freq", 1224000)
    assert board.refusal(f"{FREQ}/scaling_min_freq", 1326000) == errno.EINVAL
    assert board.refusal(f"{FREQ}/scaling_max_freq", 1) == errno.EINVAL


@pytest.mark.parametrize("release", RELEASES)
def test_cpu_limits_keep_what_was_written_within_the_hardware_and_the_rate_is_a_table_entry(release: str) -> None:
    board = shell(release)
    board.put(f"{FREQ}/scaling_min_freq", 1000000)
    assert board.number(f"{FREQ}/scaling_min_freq") == 1000000
    assert board.number(f"{FREQ}/scaling_cur_freq") in _rates(board, f"{FREQ}/scaling_available_frequencies")
    board.put(f"{FREQ}/scaling_max_freq", 99999999)
    assert board.number(f"{FREQ}/scaling_max_freq") == 1734000


def test_limits_without_a_table_entry_between_them_are_widened_upwards() -> None:
    board = shell("r32.7")
    board.put(f"{FREQ}/scaling_min_freq", 1640000)
    board.put(f"{FREQ}/scaling_max_freq", 1650000)
    assert board.number(f"{FREQ}/scaling_max_freq") == 1734000


@pytest.mark.parametrize("release", RELEASES)
def test_a_speed_can_be_set_only_under_the_userspace_governor(release: str) -> None:
    board = shell(release)
    assert board.get(f"{FREQ}/scaling_setspeed") == "<unsupported>"
    assert board.refusal(f"{FREQ}/scaling_setspeed", 1734000) == errno.EINVAL
    board.put(f"{FREQ}/scaling_governor", "userspace")
    assert board.number(f"{FREQ}/scaling_setspeed") == board.number(f"{FREQ}/scaling_cur_freq")
    board.put(f"{FREQ}/scaling_setspeed", 1224000)
    assert board.number(f"{FREQ}/scaling_cur_freq") == 1224000


def test_the_userspace_governor_returns_to_its_speed_when_limits_are_put_back_and_forgets_it_when_it_goes() -> None:
    board = shell("r23.1")
    board.put(f"{FREQ}/scaling_governor", "userspace")
    board.put(f"{FREQ}/scaling_setspeed", 1224000)
    board.put(f"{FREQ}/scaling_min_freq", 1734000)
    assert board.number(f"{FREQ}/scaling_setspeed") == 1734000
    board.put(f"{FREQ}/scaling_min_freq", 510000)
    assert board.number(f"{FREQ}/scaling_setspeed") == 1224000
    board.put(f"{FREQ}/scaling_governor", "interactive")
    board.put(f"{FREQ}/scaling_governor", "userspace")
    assert board.number(f"{FREQ}/scaling_setspeed") == 510000


def test_performance_is_not_a_governor_of_the_oldest_releases() -> None:
    for release in OLD:
        assert shell(release).refusal(f"{FREQ}/scaling_governor", "performance") == errno.EINVAL
    for release in NEW:
        board = shell(release)
        board.put(f"{FREQ}/scaling_governor", "performance")
        assert board.number(f"{FREQ}/cpuinfo_cur_freq") == 1734000


@pytest.mark.parametrize(("release", "answer"), [("r23.1", errno.EINVAL), ("r24.2", errno.EINVAL), ("r28.2", None)])
def test_switching_on_a_core_that_is_on_is_an_error_on_3_10_only(release: str, answer: int | None) -> None:
    assert shell(release).refusal(f"{CPU}/cpu1/online", 1) == answer


@pytest.mark.parametrize("release", RELEASES)
def test_core_0_stays_on(release: str) -> None:
    assert shell(release).refusal(f"{CPU}/cpu0/online", 0) == errno.EPERM


def test_the_cpufreq_files_of_an_offline_core_vanish_on_3_10() -> None:
    board = shell("r23.1")
    board.put(f"{CPU}/cpu2/online", 0)
    assert board.refusal(f"{CPU}/cpu2/cpufreq/scaling_min_freq", 510000) == errno.ENOENT
    assert not board.system.exists(f"{CPU}/cpu2/cpufreq/scaling_governor")
    assert len(board.system.glob(f"{CPU}/cpu*/cpufreq/scaling_governor")) == 3
    assert (board.get(f"{CPU}/online"), board.get(f"{CPU}/offline")) == ("0-1,3", "2")
    board.put(f"{CPU}/cpu2/online", 1)
    assert board.get(f"{CPU}/cpu2/cpufreq/related_cpus") == "0 1 2 3"


@pytest.mark.parametrize("release", RELEASES)
def test_all_cores_share_one_policy(release: str) -> None:
    board = shell(release)
    board.put(f"{CPU}/cpu3/cpufreq/scaling_max_freq", 1224000)
    assert board.number(f"{FREQ}/scaling_max_freq") == 1224000


@pytest.mark.parametrize("release", OLD)
def test_cpuquiet_parks_idle_cores_one_by_one_after_its_delay_and_a_script_is_in_time(release: str) -> None:
    board = shell(release)
    assert [board.number(f"{CPU}/cpu{n}/online") for n in range(4)] == [1, 1, 1, 1]
    for n in range(1, 4):
        board.put(f"{CPU}/cpu{n}/cpufreq/scaling_governor", "userspace")
    board.sleep(0.499)
    assert board.get(f"{CPU}/online") == "0-3"
    board.sleep(0.002)
    assert board.get(f"{CPU}/online") == "0-2"
    board.sleep(5)
    assert board.get(f"{CPU}/online") == "0"


def test_cpuquiet_parks_again_what_is_switched_on_while_it_is_enabled() -> None:
    board = shell("r23.1", cores=1)
    assert board.get(f"{CPU}/online") == "0"
    board.put(f"{CPU}/cpu1/online", 1)
    board.sleep(0.4)
    assert board.get(f"{CPU}/online") == "0-1"
    board.sleep(0.2)
    assert board.get(f"{CPU}/online") == "0"
    board.put(f"{QUIET}/enable", 0)
    board.put(f"{CPU}/cpu1/online", 1)
    board.sleep(60)
    assert board.get(f"{CPU}/online") == "0-1"


def test_cpuquiet_takes_its_governors_and_delay() -> None:
    board = shell("r24.2")
    board.put(f"{CPU}/cpuquiet/current_governor", "runnable")
    assert board.refusal(f"{CPU}/cpuquiet/current_governor", "lazy") == errno.EINVAL
    board.put(f"{QUIET}/down_delay", 2000)
    board.sleep(1.9)
    assert board.get(f"{CPU}/online") == "0-3"


@pytest.mark.parametrize("release", OLD)
@pytest.mark.parametrize("bus", ["gbus", "emc"])
def test_an_override_goes_up_to_an_operating_point_and_holds_while_its_state_is_1(release: str, bus: str) -> None:
    board = shell(release)
    points = [khz * 1000 for khz in _rates(board, f"{CLOCK}/{bus}/possible_rates")]
    assert board.get(f"{CLOCK}/{bus}/possible_rates").endswith("(kHz)")
    board.put(f"{CLOCK}/override.{bus}/rate", points[-2] + 1)
    assert board.number(f"{CLOCK}/override.{bus}/rate") == points[-1]
    assert board.number(f"{CLOCK}/{bus}/rate") < points[-1]
    board.put(f"{CLOCK}/override.{bus}/state", 1)
    assert board.number(f"{CLOCK}/{bus}/rate") == points[-1]
    board.put(f"{CLOCK}/override.{bus}/rate", points[-1] * 3)
    assert board.number(f"{CLOCK}/override.{bus}/rate") == points[-1]
    board.put(f"{CLOCK}/override.{bus}/state", 0)
    assert board.number(f"{CLOCK}/{bus}/rate") < points[-1]


def test_950_mhz_becomes_the_next_operating_point() -> None:
    board = shell("r23.1")
    board.put(f"{CLOCK}/override.gbus/rate", 950_000_000)
    assert board.number(f"{CLOCK}/override.gbus/rate") == 998_400_000


@pytest.mark.parametrize("release", NEW)
def test_devfreq_limits_go_up_to_operating_points_and_do_not_cross(release: str) -> None:
    board = shell(release)
    board.put(f"{DEVFREQ}/max_freq", 640_000_000)
    assert board.number(f"{DEVFREQ}/max_freq") == 691_200_000
    assert board.refusal(f"{DEVFREQ}/min_freq", 768_000_000) == errno.EINVAL
    board.put(f"{DEVFREQ}/min_freq", 691_200_000)
    assert board.number(f"{DEVFREQ}/cur_freq") == 691_200_000
    assert board.refusal(f"{DEVFREQ}/governor", "turbo") == errno.EINVAL
    board.put(f"{GPU}/railgate_enable", 0)
    assert board.number(f"{GPU}/railgate_enable") == 0


@pytest.mark.parametrize("release", NEW)
def test_the_memory_override_of_newer_kernels(release: str) -> None:
    board = shell(release)
    board.put(f"{CLK}/override.emc/clk_state", 1)
    board.put(f"{CLK}/override.emc/clk_update_rate", 1_400_000_000)
    assert board.number(f"{CLK}/override.emc/clk_rate") == 1_600_000_000
    assert (
        board.number(f"{CLK}/emc/clk_rate") == board.number("/sys/kernel/debug/tegra_bwmgr/emc_rate") == 1_600_000_000
    )
    assert board.number("/sys/kernel/debug/tegra_bwmgr/emc_max_rate") == 1_600_000_000


@pytest.mark.parametrize("release", RELEASES)
def test_governors_follow_the_load(release: str) -> None:
    board = shell(release).board
    idle, busy = board.kernel.clocks(Activity()), board.kernel.clocks(BUSY)
    assert (idle.gpu_hz, idle.emc_hz) == (76_800_000, 408_000_000)
    assert (busy.cpu_hz, busy.gpu_hz, busy.emc_hz) == (1_734_000_000, 998_400_000, 1_600_000_000)


@pytest.mark.parametrize("release", RELEASES)
def test_only_root_writes_and_only_root_sees_debugfs(release: str) -> None:
    user = shell(release, user="nvidia")
    assert user.refusal(f"{FREQ}/scaling_governor", "userspace") == errno.EACCES
    with pytest.raises(PermissionError):
        user.get(f"{FREQ}/cpuinfo_cur_freq")
    node = f"{CLOCK}/override.emc/rate" if release in OLD else f"{CLK}/override.emc/clk_rate"
    with pytest.raises(PermissionError):
        user.get(node)
    assert not user.system.exists(node)
    assert not user.system.glob("/sys/kernel/debug/cl*")
    assert Shell(user.board).system.exists(node)


def test_what_is_no_file_is_answered_as_a_kernel_does() -> None:
    board = shell()
    assert board.refusal("/sys/nothing", 1) == errno.ENOENT
    assert board.refusal(f"{FREQ}/cpuinfo_max_freq", 1) == errno.EACCES
    assert board.refusal(CPU, 1) == errno.EISDIR
    with pytest.raises(IsADirectoryError):
        board.get(CPU)
    with pytest.raises(FileNotFoundError):
        board.get("/sys/nothing")


def test_a_node_can_be_made_to_refuse() -> None:
    board = shell()
    board.board.refuse(f"{CLOCK}/override.gbus/state", "EIO")
    assert board.refusal(f"{CLOCK}/override.gbus/state", 1) == errno.EIO
    board.board.refuse(f"{CLOCK}/override.gbus/state", "")
    assert board.refusal(f"{CLOCK}/override.gbus/state", 1) is None


def test_the_fan_stops_at_255() -> None:
    for release, folder in (("r23.1", "/sys/kernel/debug/tegra_fan"), ("r32.7", "/sys/devices/pwm-fan")):
        board = shell(release)
        board.put(f"{folder}/target_pwm", 300)
        assert board.number(f"{folder}/target_pwm") == 255
        assert board.refusal(f"{folder}/target_pwm", "fast") == errno.EINVAL


@pytest.mark.parametrize("release", RELEASES)
def test_device_tree_strings_end_in_nul_and_the_release_file_names_the_release(release: str) -> None:
    board = shell(release)
    assert board.system.read("/proc/device-tree/model").endswith("\0")
    major, minor = release[1:].split(".")
    assert f"# R{major} (release), REVISION: {minor}." in board.get("/etc/nv_tegra_release")


_WORDS = st.sampled_from(["0", "1", "userspace", "performance", "interactive", "runnable", "G", "", "x", "-1"])
_RATES = st.integers(0, 2_000_000_000).map(str) | st.integers(90_000, 1_800_000).map(str)


@given(
    release=st.sampled_from(RELEASES),
    writes=st.lists(st.tuples(st.integers(0, 10_000), _WORDS | _RATES, st.sampled_from([0.0, 0.3, 2.0])), max_size=25),
)
def test_whatever_is_written_limits_stay_ordered_and_rates_stay_operating_points(
    release: str, writes: list[tuple[int, str, float]]
) -> None:
    board = shell(release)
    for choice, text, pause_s in writes:
        nodes = sorted(board.board.kernel.tree.settable())
        board.refusal(nodes[choice % len(nodes)], text)
        if pause_s:
            board.sleep(pause_s)
        low, high = board.number(f"{FREQ}/scaling_min_freq"), board.number(f"{FREQ}/scaling_max_freq")
        table = _rates(board, f"{FREQ}/scaling_available_frequencies")
        assert table[0] <= low <= high <= table[-1]
        assert board.number(f"{FREQ}/cpuinfo_cur_freq") in [khz for khz in table if low <= khz <= high]
        clocks = board.board.clocks()
        assert clocks.gpu_hz in board.board.twin["gpu_hz"]
        assert clocks.emc_hz in board.board.twin["emc_hz"]
        assert 1 <= clocks.cpus <= 4
        if release in NEW:
            low, high = board.number(f"{DEVFREQ}/min_freq"), board.number(f"{DEVFREQ}/max_freq")
            assert low <= high
