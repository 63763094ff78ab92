"""Every simulated board and release: its numbers, its profiles there and back, its power modes, what it draws."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clockprofiles.plan import plan
from clockprofiles.profile import load as load_profile
from clockprofiles.profile import names as profile_names
from edgeperf.bench import measure
from edgeperf.left import Request
from edgeperf.tegrastats import parse
from engines.simulated.programs import programs
from remote import boards, hosts
from remote.board import open_board
from remote.hosts import Twin
from remote.sim.kernel.power_mode import CONF
from remote.sim.kernel.power_mode import parse as parse_conf
from remote.sim.link import TwinTransport
from remote.sim.machine import Machine
from remote.sim.physics import CHANNELS, Activity, Clocks, PowerModel, power
from remote.types import Apply, Undo
from tests.remote.sim_board import Shell

ALL = [(board, release) for board in boards.twins() for release in boards.load(board).releases]
every_release = pytest.mark.parametrize(("board", "release"), ALL)
_CPU0 = "/sys/devices/system/cpu/cpu0/cpufreq"
BUSY = Activity(flops_per_s=1e10, bytes_per_s=1e9, gpu_load=1.0, cpu_load=1.0)


def _host(board: str, release: str, keys: str = "") -> Twin:
    host = hosts.parse(f"sim:{board}@{release}{keys}")
    assert isinstance(host, Twin)
    return host


def _machine(board: str, release: str, mode: str = "") -> Machine:
    return Machine(board, release, boards.load(board).twin, mode=mode)


def _settable(transport: TwinTransport) -> dict[str, str]:
    return transport.machine.kernel.tree.settable()


def test_there_is_a_twin_of_every_jetson() -> None:
    assert set(boards.twins()) == set(boards.names()) - {"generic-linux"}


@every_release
def test_the_board_program_knows_the_twin_for_what_it_is(board: str, release: str) -> None:
    with closing(TwinTransport(_host(board, release), {})) as transport:
        assert transport.facts.board == board
        assert transport.facts.l4t.startswith(release[1:])
        totals = boards.load(board).totals
        if totals:
            assert any(set(total.rails) <= set(transport.rails) for total in totals)
        else:
            assert not transport.rails
        assert {"cpu.hz", "gpu.hz", "emc.hz", "gpu.load"} <= set(transport.readings)


@every_release
def test_shares_add_up_and_power_stays_within_what_the_module_is_made_for(board: str, release: str) -> None:
    machine = _machine(board, release)
    twin = machine.twin
    model = PowerModel.of(twin)
    assert sum(model.electrics.idle.values()) == pytest.approx(1)
    assert sum(model.electrics.byte.values()) == pytest.approx(1)
    top = Clocks(max(twin["cpu_khz"]) * 1e3, max(twin["gpu_hz"]), max(twin["emc_hz"]), twin["cores"])
    peak = 2 * twin["gpu"]["lanes"] * top.gpu_hz
    hard = Activity(peak, twin["gpu"]["bytes_per_emc_clock"] * top.emc_hz, "fp32", 1.0, 1.0)
    watts = power(hard, top, model)
    assert watts["TOTAL"] == pytest.approx(sum(watts[name] for name in CHANNELS) + watts["MODULE"])
    most_w = {"tx1": 15, "nano": 10, "nano-2gb": 10, "tx2": 15, "tx2-nx": 15, "agx-xavier": 40, "xavier-nx": 20}
    most_w |= {"agx-orin": 60, "orin-nx": 45, "orin-nano": 30, "agx-thor": 130}
    assert 0.4 * most_w[board] < watts["TOTAL"] < 1.1 * most_w[board]


@every_release
@pytest.mark.parametrize("profile", profile_names())
def test_every_profile_is_applied_once_and_undone(board: str, release: str, profile: str) -> None:
    with closing(TwinTransport(_host(board, release), {})) as transport:
        before, l4t = _settable(transport), transport.facts.l4t
        made = plan(load_profile(profile), transport.found, l4t)
        outcomes = transport.write(Apply(made.steps, "tester")).outcomes
        assert {row.result for row in outcomes} <= {"applied", "unchanged"}
        again = transport.read(settings=True).settings
        assert again is not None
        assert plan(load_profile(profile), again, l4t).steps == ()
        transport.write(Undo())
        assert _settable(transport) == before


@given(
    where=st.sampled_from(ALL),
    profile=st.sampled_from(profile_names()),
    writes=st.lists(st.tuples(st.integers(0, 10_000), st.sampled_from(["0", "1", "345600", "204000000", "userspace"]))),
    refused=st.lists(st.integers(0, 10_000), max_size=4),
)
def test_a_board_in_any_state_is_put_back_though_writes_are_refused(
    where: tuple[str, str], profile: str, writes: list[tuple[int, str]], refused: list[int]
) -> None:
    with closing(TwinTransport(_host(*where), {})) as first:
        shell = Shell(first.machine)
        for choice, text in writes:
            nodes = sorted(_settable(first))
            shell.refusal(nodes[choice % len(nodes)], text)
        shell.sleep(4.0)  # cpuquiet parks one core after the other
        before = _settable(first)
        snapshot = first.read(settings=True).settings
        assert snapshot is not None
        made = plan(load_profile(profile), snapshot, first.facts.l4t)
        stuck = [sorted(before)[n % len(before)] for n in refused]
        for path in stuck:
            first.machine.refuse(path, "EIO")
        first.write(Apply(made.steps, "tester"))
        for path in stuck:
            first.machine.refuse(path, "")
        first.write(Undo())
        shell.sleep(2.0)  # a memory rate that nothing locks is the kernel's again once time passes
        assert _settable(first) == before


def _modes(board: str, release: str) -> list[str]:
    return [row["name"] for row in _machine(board, release).twin.get("nvpmodel", {}).get("modes", ())]


@pytest.mark.parametrize(("board", "release", "mode"), [(*where, mode) for where in ALL for mode in _modes(*where)])
def test_every_power_mode_goes_there_and_back_or_asks_for_a_reboot(board: str, release: str, mode: str) -> None:
    with closing(TwinTransport(_host(board, release), {})) as transport:
        before = _settable(transport)
        asked = replace(load_profile("maxperf"), nvpmodel_mode=mode)
        made = plan(asked, transport.found, transport.facts.l4t)
        outcomes = {row.knob: row for row in transport.write(Apply(made.steps, "tester")).outcomes}
        assert "refused" not in {row.result for row in outcomes.values()}
        masks = {row["name"]: row.get("mask", 0) for row in transport.machine.twin["nvpmodel"]["modes"]}
        now = transport.found.knobs["nvpmodel.mode"].value
        if "nvpmodel.mode" in outcomes:
            expected = "applied" if masks[str(now)] == masks[mode] else "needs-reboot"
            assert outcomes["nvpmodel.mode"].result == expected
        transport.write(Undo())
        assert _settable(transport) == before


@every_release
def test_a_mode_at_boot_sets_limits_cores_and_the_part_of_the_gpu_that_runs(board: str, release: str) -> None:
    for mode in _modes(board, release):
        machine = _machine(board, release, mode=mode)
        row = next(row for row in machine.twin["nvpmodel"]["modes"] if row["name"] == mode)
        busy = machine.kernel.clocks(BUSY)
        assert busy.cpus == len(row.get("cores", range(machine.twin["cores"])))
        device = machine.twin["gpu_device"]
        if "processors" in device:
            lanes = (device["processors"] - row.get("mask", 0).bit_count()) * device["lanes_each"]
            assert busy.gpu_share * machine.twin["gpu"]["lanes"] == min(lanes, machine.twin["gpu"]["lanes"])
        if "gpu" in row:
            assert busy.gpu_hz == min(machine.twin["gpu_hz"], key=lambda hz: abs(hz - row["gpu"]))
        if isinstance(row.get("cpu"), int):
            points = [
                1e3 * int(word) for word in machine.read(f"{_CPU0}/scaling_available_frequencies", "root").split()
            ]
            assert busy.cpu_hz == min(points, key=lambda hz: abs(hz - 1e3 * row["cpu"]))
        if "emc" in row:
            assert busy.emc_hz <= row["emc"]


@pytest.mark.parametrize(
    ("board", "release", "mode", "cpu_hz", "gpu_hz"),
    [
        ("nano", "r32.7", "5W", 921_600_000, 614_400_000),  # of 918 and 640 MHz: outputs of `jetson_clocks --show`
        ("tx2", "r32.7", "MAXP_CORE_ARM", 2_035_200_000, 1_122_000_000),  # of 2000, 1120: `nvpmodel -q --verbose`
        ("agx-xavier", "r32.7", "MODE_15W", 1_190_400_000, 675_750_000),  # of 1200: lines of tegrastats
    ],
)
def test_a_cap_between_two_rates_becomes_the_one_that_it_became_on_boards(
    board: str, release: str, mode: str, cpu_hz: int, gpu_hz: int
) -> None:
    busy = _machine(board, release, mode=mode).kernel.clocks(BUSY)
    assert (busy.cpu_hz, busy.gpu_hz) == (cpu_hz, gpu_hz)


@every_release
def test_every_line_of_tegrastats_is_understood_and_its_rails_are_the_board_s(board: str, release: str) -> None:
    for user in ("root", "nvidia"):
        shell = Shell(_machine(board, release), user)
        tool = shell.system.spawn(["tegrastats", "--interval", "500"], {}, "")
        shell.sleep(2.0)
        lines = tool.stdout.read().decode().splitlines()
        assert len(lines) == 4
        for line in lines:
            said = parse(line)
            assert said.unknown == ()
            assert len(said.cores) == shell.board.twin["cores"]
            assert said.ram is not None
            shown = dict(shell.board.twin["tegrastats"].get("rails", ()))
            if user == "root":
                assert [rail.name for rail in said.rails] == list(shown)
                for rail in said.rails:
                    # A count of the coarsest rail is 0.4 W, and as much the standard deviation of its offset.
                    assert rail.power_w == pytest.approx(shell.board.watts(shown[rail.name]), rel=0.1, abs=1.0)


def test_tegrastats_of_later_releases_has_their_own_ways() -> None:
    def line(board: str, release: str, user: str = "root") -> str:
        shell = Shell(_machine(board, release), user)
        tool = shell.system.spawn(["tegrastats"], {}, "")
        shell.sleep(1.0)
        return tool.stdout.read().decode()

    assert re.search(r"APE 150 MTS fg 0% bg 0% .*VDD_IN \d+/\d+ VDD_CPU \d+/\d+", line("tx2", "r32.7"))
    assert "CPU [0%@345,off,off,0%@345,0%@345,0%@345]" in line("tx2", "r32.7", "nvidia")
    assert re.search(
        r"^\d\d-\d\d-2017 .*GR3D_FREQ 0%@306 GR3D2_FREQ 0%@306 VIC_FREQ 729 APE 174 CV0@-256C",
        line("agx-orin", "r35.4"),
    )
    assert "mW" not in line("agx-orin", "r35.4", "nvidia")
    assert re.search(r"GR3D_FREQ 0%@\[306,306\] NVENC off .* APE 174 cpu@[\d.]+C .* gpu@", line("agx-orin", "r36.4"))
    user = line("orin-nx", "r36.4", "nvidia")
    assert "EMC_FREQ" not in user
    assert re.search(r"GR3D_FREQ 0% .*VDD_IN \d+mW/\d+mW", user)
    assert re.search(r"GR3D_FREQ @\[315,315,315\] .*VIN \d+mW/\d+mW", line("agx-thor", "r38.4"))


def _nvpmodel(shell: Shell, *words: str) -> tuple[int | None, str]:
    process = shell.system.spawn(["/usr/sbin/nvpmodel", *words], {}, "")
    shell.sleep(0.0)
    return process.exit_code(), (process.stdout.read() + process.stderr.read()).decode()


def test_nvpmodel_tells_sets_and_refuses_modes_in_its_own_words() -> None:
    root = Shell(_machine("tx2", "r32.7"))
    assert _nvpmodel(root, "-q") == (0, "NV Power Mode: MAXP_CORE_ARM\n3\n")
    code, said = _nvpmodel(root, "-q", "--verbose")
    assert code == 0
    assert "NVPM VERB: PARAM CPU_ONLINE: ARG CORE_1: PATH /sys/devices/system/cpu/cpu1/online: REAL_VAL: 0" in said
    assert _nvpmodel(root, "-m", "1") == (0, "")
    assert root.get("/sys/kernel/nvpmodel_emc_cap/emc_iso_cap") == "1331200000"
    assert root.get("/sys/devices/17000000.gp10b/devfreq/17000000.gp10b/max_freq") == "854250000"
    assert root.get("/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq") == "1267200"
    code, said = _nvpmodel(root, "-p", "--verbose")
    assert "NVPM VERB: POWER_MODEL: ID=1 NAME=MAXQ\n" in said
    assert "NVPM VERB: GPU MAX_FREQ 2147483647\n" in said
    assert said.endswith("NVPM VERB: PM_CONFIG: DEFAULT=MAXP_CORE_ARM(3)\n")
    assert _nvpmodel(root, "-m", "9")[0] != 0
    user = Shell(root.board, "nvidia")
    code, said = _nvpmodel(user, "-q")
    assert code != 0
    assert "NVPM ERROR: Error opening /sys/kernel/nvpmodel_emc_cap/emc_iso_cap: 13" in said
    code, said = _nvpmodel(user, "-m", "0")
    assert code != 0
    assert _nvpmodel(root, "-q")[1] == "NV Power Mode: MAXQ\n1\n"


def test_nvpmodel_asks_for_a_reboot_where_the_active_part_of_the_gpu_changes_and_changes_nothing() -> None:
    root = Shell(_machine("agx-orin", "r36.4"))
    before = root.board.kernel.tree.settable()
    code, said = _nvpmodel(root, "-m", "0")
    assert code != 0
    assert "DO YOU WANT TO REBOOT NOW?" in said
    assert root.board.kernel.tree.settable() == before


@every_release
def test_the_conf_of_a_board_names_nodes_that_it_has(board: str, release: str) -> None:
    root = Shell(_machine(board, release))
    if not root.system.exists(CONF):
        assert board == "tx1"
        return
    conf = parse_conf(root.get(CONF))
    assert conf.default in conf.modes
    for param in conf.params.values():
        for path in param.paths.values():
            assert root.system.exists(path), path


def test_what_kernels_do_with_limits_that_cross_changed_with_5_x() -> None:
    gpu = "/sys/devices/17000000.gv11b/devfreq/17000000.gv11b"
    cpu = "/sys/devices/system/cpu/cpu0/cpufreq"
    old, new = Shell(_machine("agx-xavier", "r32.7", mode="MAXN")), Shell(_machine("agx-xavier", "r35.4", mode="MAXN"))
    for path, most, least in ((gpu, "max_freq", "min_freq"), (cpu, "scaling_max_freq", "scaling_min_freq")):
        low = old.get(f"{path}/{least}")
        between = int(low) + 1
        for board in (old, new):
            board.put(f"{path}/{most}", low)
        assert old.refusal(f"{path}/{least}", between) is not None
        new.put(f"{path}/{least}", between)
        assert new.get(f"{path}/{least}") == low  # the maximum wins
        new.put(f"{path}/{most}", 2 * between)
        assert new.get(f"{path}/{least}") == str(between)  # what was asked for is not forgotten


def test_a_memory_rate_behind_the_bpmp_holds_only_while_it_is_locked_and_under_the_cap() -> None:
    emc = "/sys/kernel/debug/bpmp/debug/clk/emc"
    board = Shell(_machine("tx2", "r32.7"))
    free = board.get(f"{emc}/rate")
    board.put(f"{emc}/rate", 800_000_000)
    assert board.get(f"{emc}/rate") == "800000000"
    board.sleep(2.1)
    assert board.get(f"{emc}/rate") == free
    board.put(f"{emc}/mrq_rate_locked", 1)
    board.put(f"{emc}/rate", 1_866_000_000)
    board.sleep(10)
    assert board.get(f"{emc}/rate") == "1600000000"  # the cap of its mode
    board.put(f"{emc}/mrq_rate_locked", 0)
    assert board.get(f"{emc}/rate") == free


def test_a_zone_without_power_answers_again_later() -> None:
    board = Shell(_machine("agx-orin", "r35.4"))
    zones = {board.get(f"{path[:-4]}type"): path for path in board.system.glob("/sys/class/thermal/thermal_zone*/temp")}
    with pytest.raises(BlockingIOError):
        board.get(zones["CV0-therm"])
    steps = board.number(zones["tj-therm"]) / 31.25
    assert steps == pytest.approx(round(steps), abs=0.05)


def test_monitors_of_hwmon_lie_under_numbers_that_differ_between_boards_and_have_no_power_file() -> None:
    found = set()
    for seed in range(6):
        board = Shell(Machine("orin-nx", "r36.4", boards.load("orin-nx").twin, seed=seed))
        (label,) = board.system.glob("/sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon*/in1_label")
        folder = label.rpartition("/")[0]
        found.add(folder)
        assert board.get(label) == "VDD_IN"
        watts = board.number(f"{folder}/in1_input") * board.number(f"{folder}/curr1_input") * 1e-6
        assert watts == pytest.approx(board.board.watts("VDD_IN"), rel=0.1)
        assert board.get(f"{folder}/in7_label") == "sum of shunt voltages"
        assert not board.system.glob(f"{folder}/power*")
    assert len(found) > 1


def test_a_state_of_a_board_with_modes_outlives_its_command(tmp_path: Path) -> None:
    host = _host("tx2", "r32.7", f",state={tmp_path / 'board.json'}")
    with closing(TwinTransport(host, {})) as transport:
        assert _nvpmodel(Shell(transport.machine), "-m", "0")[0] == 0
        before = _settable(transport)
    with closing(TwinTransport(host, {})) as transport:
        assert _settable(transport) == before
        assert transport.found.knobs["nvpmodel.mode"].value == "MAXN"


def _bench(tmp_path: Path, text: str) -> tuple[float, float | None, str]:
    host = hosts.parse(text)
    with open_board(host, programs(), tmp_path) as board:
        record = measure(Request("alexnet", "fp16", 8), board, tmp_path, _silent)
    assert record.throughput_per_s is not None
    watts = record.power_w.total if record.power_w else None
    return record.throughput_per_s.value, watts, record.verdict.state


def _silent(what: str, seconds: float) -> AbstractContextManager[None]:
    return nullcontext()


@every_release
def test_every_board_runs_a_network(tmp_path: Path, board: str, release: str) -> None:
    speed, watts, state = _bench(tmp_path, f"sim:{board}@{release}")
    assert state in ("VALID", "DEGRADED")
    assert speed > 50
    assert (watts is None) == (not boards.load(board).totals)
    mode = _machine(board, release).kernel.mode
    if mode and watts:
        name = parse_conf(mode.text).modes[mode.number].name
        budget = re.search(r"(\d+)W", name)
        assert watts < float(budget[1] if budget else 15)


def test_faster_boards_are_faster(tmp_path: Path) -> None:
    order = ["nano", "tx1", "tx2,mode=MAXN", "xavier-nx,mode=MODE_20W_6CORE", "orin-nano,mode=MAXN_SUPER"]
    order += ["orin-nx,mode=MAXN_SUPER", "agx-xavier,mode=MAXN", "agx-orin,mode=MAXN", "agx-thor,mode=MAXN"]
    speeds = [_bench(tmp_path, f"sim:{name}")[0] for name in order]
    assert speeds == sorted(speeds)
