"""The rules by which the simulated kernel takes, rounds and refuses what is written."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remote import boards
from remote.sim.machine import Machine
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
def test_an_idle_board_keeps_its_cores_unless_cpuquiet_is_let(release: str) -> None:
    board = shell(release)
    board.sleep(60)
    assert board.get(f"{CPU}/online") == "0-3"  # as idle lines of tegrastats show
    board.put(f"{QUIET}/min_cpus", 2)
    board.sleep(5)
    assert board.get(f"{CPU}/online") == "0-1"


@pytest.mark.parametrize("release", OLD)
def test_cpuquiet_parks_idle_cores_one_by_one_after_its_delay_and_a_script_is_in_time(release: str) -> None:
    board = shell(release)
    board.put(f"{QUIET}/min_cpus", 1)
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


def _board(board: str, release: str, user: str = "root") -> Shell:
    return Shell(Machine(board, release, boards.load(board).twin), user)


ALL = [(board, release) for board in boards.twins() for release in boards.load(board).releases]


@pytest.mark.parametrize(("board", "release"), ALL)
def test_every_link_leads_to_something_and_what_lies_there_is_the_same_file(board: str, release: str) -> None:
    tree = _board(board, release).board.kernel.tree
    assert tree.links
    for path, target in tree.links.items():
        assert tree.exists(path, True), path
        assert target not in tree.links
        assert tree.names(path) == tree.names(target)


@pytest.mark.parametrize(("board", "release"), ALL)
def test_what_every_script_looks_for_is_there(board: str, release: str) -> None:
    shell = _board(board, release)
    tree = shell.board.kernel.tree
    for name in ("model", "compatible", "serial-number"):
        assert tree.read(f"/proc/device-tree/{name}", False).endswith("\0")
    cores = shell.get("/proc/cpuinfo").count("processor")
    assert cores == shell.board.kernel.cores.number()
    assert shell.get("/proc/version").startswith(f"Linux version {shell.get('/proc/sys/kernel/osrelease')}")
    assert len(shell.get("/proc/loadavg").split()) == 5
    assert "UBUNTU" in shell.get("/etc/os-release").upper()
    zones = shell.system.glob("/sys/class/thermal/thermal_zone*/type")
    assert zones
    assert [path.replace("class", "devices/virtual") for path in zones] == shell.system.glob(
        "/sys/devices/virtual/thermal/thermal_zone*/type"
    )
    if release[1:3] >= "28":
        (gpu,) = [p for p in shell.system.glob("/sys/class/devfreq/*/device/of_node/name") if "bwmgr" not in p]
        assert shell.get(gpu.replace("of_node/name", "load")) == "0"
        assert len(shell.system.glob(f"{CPU}/cpufreq/policy*/scaling_governor")) == len(
            shell.board.twin.get("policies", [0])
        )
    names = shell.system.glob("/sys/bus/i2c/devices/*/name")
    assert {shell.get(path) for path in names} <= {"ina3221", "ina3221x", "ina238"}
    assert len(names) == sum("probe" not in chip for chip in shell.board.twin["ina"].get("chip", ()))


def test_a_write_through_one_name_is_read_through_the_other_and_refused_under_both() -> None:
    shell = _board("nano", "r32.7")
    shell.put(f"{CPU}/cpu3/cpufreq/scaling_governor", "userspace")
    assert shell.get(f"{CPU}/cpufreq/policy0/scaling_governor") == "userspace"
    shell.board.refuse("/sys/class/devfreq/57000000.gpu/min_freq", "EIO")
    assert shell.refusal("/sys/devices/gpu.0/devfreq/57000000.gpu/min_freq", 76800000) == errno.EIO
    assert list(shell.board.kernel.tree.nodes(["/proc/device-tree/model"])) == ["/sys/firmware/devicetree/base/model"]


def test_up_to_3_10_policies_have_no_folder_and_the_device_tree_lies_below_proc() -> None:
    shell = _board("tx1", "r23.1")
    assert not shell.system.exists(f"{CPU}/cpufreq")
    assert not shell.system.exists("/sys/firmware")
    assert shell.get("/sys/module/tegra_fuse/parameters/tegra_chip_id") == "33"
    shell.put(f"{CPU}/cpu3/online", 0)
    assert not shell.system.exists(f"{CPU}/cpu3/cpufreq")
    assert "processor\t: 3" not in shell.get("/proc/cpuinfo")


def test_the_gpu_s_clock_shows_under_its_other_names() -> None:
    orin = _board("agx-orin", "r36.4")
    counters = orin.system.glob("/sys/kernel/debug/bpmp/debug/clk/nafll_gpc*/pto_counter")
    assert len(counters) == 2
    gpu = "/sys/class/devfreq/17000000.gpu"
    orin.put(f"{gpu}/min_freq", orin.get(f"{gpu}/max_freq"))
    assert {orin.get(path) for path in counters} == {orin.get(f"{gpu}/cur_freq")}
    user = _board("agx-orin", "r36.4", "nvidia")
    assert not user.system.glob("/sys/kernel/debug/clk/*/clk_rate")
    assert orin.get("/sys/kernel/debug/clk/vic/clk_enable_count") == "0"


def test_a_fan_turns_as_fast_as_it_is_told_and_stands_in_its_class() -> None:
    new, old = _board("orin-nx", "r36.4"), _board("xavier-nx", "r32.7")
    new.put("/sys/class/hwmon/hwmon0/pwm1", 100)
    assert new.get("/sys/class/hwmon/hwmon0/name") == "pwmfan"
    assert new.number("/sys/class/hwmon/hwmon9/rpm") == 2000
    old.put("/sys/devices/pwm-fan/target_pwm", 255)
    assert old.number("/sys/devices/pwm-fan/rpm_measured") == 5100


def test_the_gpu_s_userspace_governor_holds_the_rate_that_was_set_within_the_limits() -> None:
    shell = _board("agx-xavier", "r32.7")
    gpu = "/sys/class/devfreq/17000000.gv11b"
    assert not shell.system.exists(f"{gpu}/userspace/set_freq")
    shell.put(f"{gpu}/governor", "userspace")
    assert shell.get(f"{gpu}/userspace/set_freq") == shell.get(f"{gpu}/cur_freq")
    shell.put(f"{gpu}/userspace/set_freq", 400_000_000)
    assert shell.number(f"{gpu}/cur_freq") == 420_750_000
    assert shell.board.kernel.clocks(BUSY).gpu_hz == 420_750_000
    shell.put(f"{gpu}/userspace/set_freq", 1_377_000_000)
    assert shell.get(f"{gpu}/cur_freq") == shell.get(f"{gpu}/max_freq")
    shell.put(f"{gpu}/governor", "nvhost_podgov")
    assert shell.number(f"{gpu}/cur_freq") == 114_750_000
