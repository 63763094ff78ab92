"""The programs that every simulated board has, above all tegrastats."""

from __future__ import annotations

import re
from collections.abc import Generator

import pytest

from remote import boards
from remote.sim.machine import Machine
from remote.sim.physics import Activity
from remote.sim.process import Action, Busy, Context
from tests.remote.sim_board import Shell, machine, shell


def load(context: Context) -> Generator[Action, None, int]:
    """Keeps one core and the GPU busy."""
    yield Busy(100.0, Activity(flops_per_s=1e11, bytes_per_s=5.12e9, gpu_load=0.5, cpu_load=1.0))
    return 0


def _line(release: str, user: str = "root", busy: bool = True) -> str:
    board = Shell(machine(release, {"load": load}), user)
    if busy:
        board.system.spawn(["load"], {}, "")
    tool = board.system.spawn(["tegrastats"], {}, "")
    board.sleep(1.0)
    text = tool.stdout.read().decode()
    assert text.count("\n") == 1
    return text.strip()


@pytest.mark.parametrize("release", ["r23.1", "r24.2"])
def test_the_oldest_tegrastats_has_one_cpu_clock_and_an_edp_limit(release: str) -> None:
    assert re.fullmatch(
        r"RAM 277/3854MB \(lfb \d+x4MB\) SWAP 0/0MB \(cached 0MB\) cpu \[100%,0%,0%,0%\]@1734 EMC \d+%@665"
        r" AVP \d+%@12 VDE 0 GR3D 50%@691 EDP limit 1912",
        _line(release),
    )


def test_tegrastats_of_r28_shows_clocks_to_root_only_and_no_rails() -> None:
    assert re.search(
        r"CPU \[100%@1734,0%@1734,0%@1734,0%@1734\] EMC_FREQ \d+%@665 GR3D_FREQ 50%@691 APE 25 AO@", _line("r28.2")
    )
    assert "FREQ" not in _line("r28.2", "nvidia")
    assert "VDD" not in _line("r28.2")


def test_tegrastats_of_r32_shows_rails_with_their_mean_to_root_only() -> None:
    assert re.search(r" PMIC@100C .*thermal@[\d.]+C VDD_IN \d+/\d+ VDD_CPU \d+/\d+ VDD_GPU \d+/\d+$", _line("r32.7"))
    user = _line("r32.7", "nvidia")
    assert "VDD" not in user
    assert " EMC_FREQ 0% GR3D_FREQ 50% AO@" in user


def test_an_offline_core_is_off() -> None:
    board = Shell(machine("r32.7", cores=2))
    tool = board.system.spawn(["tegrastats", "--interval", "100"], {}, "")
    board.sleep(0.3)
    lines = tool.stdout.read().decode().splitlines()
    assert len(lines) == 3
    assert all("CPU [0%@102,0%@102,off,off]" in line for line in lines)


def test_tegrastats_names_an_option_that_it_does_not_know() -> None:
    board = shell("r32.7")
    tool = board.system.spawn(["tegrastats", "--colour"], {}, "")
    board.sleep(0.0)
    assert tool.stderr.read() == b"tegrastats: unknown option --colour\n"
    assert tool.exit_code() == 1


@pytest.mark.parametrize(
    ("argv", "stdin", "code", "out"),
    [
        (["true"], "", 0, b""),
        (["false"], "", 1, b""),
        (["/bin/echo", "a", "b"], "", 0, b"a b\n"),
        (["cat"], "in\n", 0, b"in\n"),
        (["cat", "/proc/sys/kernel/osrelease"], "", 0, b"4.9.253-tegra\n"),
        (["cat", "/nothing"], "", 1, b""),
    ],
)
def test_the_small_programs_of_a_shell(argv: list[str], stdin: str, code: int, out: bytes) -> None:
    board = shell("r32.7")
    process = board.system.spawn(argv, {}, stdin)
    board.sleep(0.0)
    assert (process.stdout.read(), process.exit_code()) == (out, code)


def test_sleep_takes_simulated_seconds() -> None:
    board = shell()
    start_s = board.board.now_s
    process = board.system.spawn(["sleep", "3600"], {}, "")
    assert board.system.wait([process.stdout], None) == [process.stdout]
    assert board.board.now_s - start_s == 3600.0


def _run(board: Shell, *argv: str, stdin: str = "") -> tuple[int | None, str]:
    process = board.system.spawn(argv, {}, stdin)
    board.sleep(0.0)
    return process.exit_code(), (process.stdout.read() + process.stderr.read()).decode()


def _board(text: str, user: str = "root") -> Shell:
    name, release = text.split("@")
    return Shell(Machine(name, release, boards.load(name).twin), user)


CLOCKS = {
    "tx1@r23.1": "jetson_max_l4t.sh",
    "tx1@r24.2": "jetson_clocks.sh",
    "tx1@r28.2": "jetson_clocks.sh",
    "tx2@r28.2": "jetson_clocks.sh",
    "tx2@r32.7": "jetson_clocks",
    "nano@r32.7": "jetson_clocks",
    "agx-xavier@r35.4": "jetson_clocks",
    "orin-nx@r36.4": "jetson_clocks",
    "agx-thor@r38.4": "jetson_clocks",
}


@pytest.mark.parametrize("text", CLOCKS)
def test_jetson_clocks_holds_every_clock_at_its_maximum_and_puts_back_what_it_stored(text: str) -> None:
    board, name = _board(text), CLOCKS[text]
    before = board.board.kernel.tree.settable()
    has_options = name != "jetson_max_l4t.sh"
    if has_options:
        assert _run(board, name, "--store", "/tmp/conf")[0] == 0
    assert _run(board, name) == (0, "")
    board.sleep(10.0)
    idle, busy = board.board.kernel.clocks(Activity()), board.board.kernel.clocks(Activity(0, 0, "fp32", 1.0, 4.0))
    assert (idle.gpu_hz, idle.emc_hz, idle.cpu_hz) == (busy.gpu_hz, busy.emc_hz, busy.cpu_hz)
    if board.board.kernel.mode is None:  # no mode that allows less
        assert idle.gpu_hz == max(board.board.twin["gpu_hz"])
    assert board.board.kernel.tree.settable() != before
    if has_options:
        assert _run(board, name, "--restore", "/tmp/conf")[0] == 0
        board.sleep(0.1)
        after = board.board.kernel.tree.settable()
        left = {path for path in after if after[path] != before[path]}
        assert left <= {"/sys/kernel/cluster/immediate", "/sys/kernel/cluster/force"}  # R24 does not store them


def test_jetson_clocks_shows_what_is_set_in_the_lines_of_its_release() -> None:
    assert _run(_board("tx1@r24.2"), "jetson_clocks.sh", "--show")[1] == (
        "SOC family:Tegra21  Machine:jetson_tx1\n"
        "CPU frequency Governor: interactive\n"
        "CPU MinFreq=510000 MaxFreq=1734000 CurrentFreq=510000\n"
        "CPU HOTPLUG: 1\n"
        "Online CPUs: 0-3\n"
        "cpu0: 510000\ncpu1: 510000\ncpu2: 510000\ncpu3: 510000\n"
        "CPU Cluster Switching: Active Cluster G\n"
        "GPU MinFreq=76800000 MaxFreq=998400000 CurrentFreq=76800000 FreqOverride=0\n"
        "EMC MinFreq=40800000 MaxFreq=1600000000 CurrentFreq=408000000 FreqOverride=0\n"
        "Fan: speed=0\n"
    )
    r28 = _board("tx1@r28.2")
    _run(r28, "jetson_clocks.sh")
    assert _run(r28, "jetson_clocks.sh", "--show")[1] == (
        "SOC family:tegra210  Machine:jetson_tx1\n"
        "Online CPUs: 0-3\n"
        "CPU Cluster Switching: Disabled\n"
        + "".join(
            f"cpu{n}: Gonvernor=interactive MinFreq=1734000 MaxFreq=1734000 CurrentFreq=1734000\n" for n in range(4)
        )
        + "GPU MinFreq=998400000 MaxFreq=998400000 CurrentFreq=998400000\n"
        "EMC MinFreq=12750000 MaxFreq=1600000000 CurrentFreq=1600000000 FreqOverride=1\n"
        "Fan: speed=255\n"
    )
    r32 = _run(_board("tx2@r32.7"), "jetson_clocks", "--show")[1]
    assert r32.startswith("SOC family:tegra186  Machine:quill\nOnline CPUs: 0,3-5\ncpu0: Online=1 Governor=schedutil ")
    assert "IdleStates: C1=1 c7=1" in r32
    assert r32.endswith("Fan: PWM=0\nNV Power Mode: MAXP_CORE_ARM\n")
    r35 = _run(_board("agx-xavier@r35.4"), "jetson_clocks", "--show")[1]
    assert "\nFAN Dynamic Speed control=active hwmon0_pwm1=0\nNV Power Mode: MODE_15W_DESKTOP\n" in r35
    assert "\nCVNAS MinFreq=0 " in r35
    r36 = _run(_board("orin-nx@r36.4"), "jetson_clocks", "--show")[1]
    assert "\ncpu0:  Online=1 Governor=schedutil " in r36
    assert "\nActive GPU TPCs: 4\n" in r36
    assert "\nFAN Dynamic Speed Control=nvfancontrol hwmon0_pwm1=0\n" in r36
    lines = _run(_board("agx-thor@r38.4"), "jetson_clocks", "--show")[1].splitlines()
    assert [line.split(":")[0] for line in lines if line.startswith("cpu1")][1] == "cpu10"  # as a shell sorts them


def test_jetson_clocks_tells_who_is_not_root_asks_before_it_overwrites_and_knows_its_options() -> None:
    user = _board("orin-nx@r36.4", "nvidia")
    code, said = _run(user, "jetson_clocks", "--show")
    assert (code, said.splitlines()[-1]) == (1, "Error: Run this script(jetson_clocks) as a root user")
    assert said.startswith("SOC family:tegra234 ")
    root = Shell(user.board)
    assert _run(root, "jetson_clocks", "--restore", "/tmp/none") == (1, "Error: /tmp/none file not found !\n")
    assert _run(root, "jetson_clocks", "--store") == (
        0,
        "Storing system configuration in /root/.jetsonclocks_conf.txt\n",
    )
    again = _run(root, "jetson_clocks", "--store")
    assert (again[0], again[1].splitlines()[-1]) == (1, "Error: file /root/.jetsonclocks_conf.txt already exists!")
    assert _run(root, "jetson_clocks", "--store", stdin="y\n")[0] == 0
    code, said = _run(root, "jetson_clocks", "--turbo")
    assert code == 0
    assert "Unknown option: --turbo" in said
    assert "--fan" in said
    assert "--fan" not in _run(_board("tx2@r28.2"), "jetson_clocks.sh", "--help")[1]


def test_jetson_clocks_leaves_the_fan_unless_asked_from_r32_on() -> None:
    old, new = _board("tx2@r28.2"), _board("orin-nx@r36.4")
    _run(old, "jetson_clocks.sh")
    assert old.get("/sys/kernel/debug/tegra_fan/target_pwm") == "255"
    pwm = "/sys/class/hwmon/hwmon0/pwm1"
    _run(new, "jetson_clocks")
    assert (new.get(pwm), _run(new, "systemctl", "is-active", "nvfancontrol")) == ("0", (0, "active\n"))
    _run(new, "jetson_clocks", "--fan")
    assert (new.get(pwm), _run(new, "systemctl", "is-active", "nvfancontrol")) == ("255", (3, "inactive\n"))
    assert _run(new, "nvfancontrol", "-q")[0] == 1
    assert _run(new, "systemctl", "start", "nvfancontrol.service") == (0, "")
    assert "FAN_PROFILE:quiet" in _run(new, "nvfancontrol", "-q")[1]
    assert _run(new, "systemctl", "stop", "jtop")[0] == 5


@pytest.mark.parametrize(
    ("board", "words", "code", "said"),
    [
        ("nano@r32.7", ("is-active", "nvpmodel"), 0, "active\n"),
        ("nano@r32.7", ("is-active", "--quiet", "nvpmodel.service"), 0, ""),
        ("nano@r32.7", ("is-active", "nvpmodel", "nvfancontrol"), 3, "active\ninactive\n"),
        ("nano@r32.7", ("is-enabled", "nvpmodel"), 0, "enabled\n"),
        (
            "nano@r32.7",
            ("is-enabled", "jtop"),
            1,
            "Failed to get unit file state for jtop.service: No such file or directory\n",
        ),
        ("nano@r32.7", ("status", "jtop"), 4, "Unit jtop.service could not be found.\n"),
        ("nano@r32.7", ("restart", "jtop"), 5, "Failed to restart jtop.service: Unit jtop.service not found.\n"),
        ("orin-nx@r36.4", ("is-active", "ssh", "sshd.service", "docker", "nvargus-daemon"), 0, "active\n" * 4),
        ("orin-nx@r36.4", ("is-active", "nvzramconfig"), 3, "inactive\n"),
        ("orin-nx@r36.4", ("is-enabled", "nvzramconfig"), 0, "enabled\n"),
        ("tx2@r28.2", ("is-active", "docker", "ssh"), 3, "inactive\nactive\n"),
        ("orin-nx@r36.4", ("daemon-reload",), 0, ""),
        ("orin-nx@r36.4", ("is-system-running",), 0, "running\n"),
        ("tx1@r32.7", ("is-active", "nvpmodel"), 3, "inactive\n"),
    ],
)
def test_systemctl_ends_with_systemd_s_codes(board: str, words: tuple[str, ...], code: int, said: str) -> None:
    assert _run(_board(board), "systemctl", *words) == (code, said)


def test_a_service_stays_as_it_was_set_also_in_a_saved_state() -> None:
    board, later = _board("orin-nx@r36.4"), _board("orin-nx@r36.4")
    assert _run(board, "systemctl", "disable", "--now", "docker") == (0, "")
    assert _run(board, "service", "nvargus-daemon", "stop") == (0, "")
    later.board.restore(board.board.save())
    for one in (board, later):
        assert _run(one, "systemctl", "is-enabled", "docker", "nvargus-daemon") == (1, "disabled\nenabled\n")
        assert _run(one, "systemctl", "is-active", "docker", "nvargus-daemon") == (3, "inactive\ninactive\n")
    assert _run(later, "systemctl", "enable", "docker") == (0, "")
    assert "docker.service                           enabled\n" in _run(later, "systemctl", "list-unit-files")[1]
    assert " [ + ]  ssh\n" in _run(later, "service", "--status-all")[1]
    user = _board("orin-nx@r36.4", "nvidia")
    refused = "Failed to stop ssh.service: Interactive authentication required.\n"
    assert _run(user, "service", "ssh", "stop") == (1, refused)


@pytest.mark.parametrize(
    ("board", "unit", "lines"),
    [
        (
            "nano@r32.7",
            "nvargus-daemon",
            [
                "● nvargus-daemon.service - Argus daemon",
                "   Loaded: loaded (/etc/systemd/system/nvargus-daemon.service; enabled; vendor preset: enabled)",
                "   Active: active (running) since Fri 2017-07-14 02:40:00 UTC; 2min ago",
            ],
        ),
        (
            "orin-nx@r36.4",
            "nvzramconfig",
            [
                "○ nvzramconfig.service - ZRAM configuration",
                "     Loaded: loaded (/etc/systemd/system/nvzramconfig.service; enabled; vendor preset: enabled)",
                "     Active: inactive (dead)",
            ],
        ),
    ],
)
def test_the_status_of_a_service_has_the_form_of_the_board_s_systemd(board: str, unit: str, lines: list[str]) -> None:
    assert _run(_board(board), "service", unit, "status")[1].splitlines() == lines


def test_nproc_and_lscpu_count_the_board_s_cores() -> None:
    board = _board("orin-nx@r36.4")
    board.board.write("/sys/devices/system/cpu/cpu7/online", "0", "root")
    assert [_run(board, "nproc", *words)[1] for words in ((), ("--all",), ("--ignore=3",))] == ["7\n", "8\n", "4\n"]
    assert _run(board, "nproc", "--help")[0] == 1
    rows = dict(line.split(":", 1) for line in _run(board, "lscpu")[1].splitlines())
    assert rows["Architecture"].strip() == "aarch64"
    assert [rows[name].strip() for name in ("CPU(s)", "On-line CPU(s) list", "Off-line CPU(s) list")] == [
        "8",
        "0-6",
        "7",
    ]


def test_nvpmodel_takes_another_conf() -> None:
    board = _board("orin-nx@r36.4")
    conf = board.get("/etc/nvpmodel.conf")
    board.system.save("/tmp/own.conf", conf.replace("NAME=25W", "NAME=MINE").encode())
    listed = _run(board, "nvpmodel", "-p", "--verbose", "-f", "/tmp/own.conf")[1]
    assert "NVPM VERB: Config file: /tmp/own.conf\n" in listed
    assert "NAME=MINE\n" in listed
    assert _run(board, "nvpmodel", "-m0") == (0, "")
    assert _run(board, "nvpmodel", "-f", "/tmp/own.conf") == (0, "")
    default = conf.rpartition("DEFAULT=")[2].split()[0]
    assert _run(board, "nvpmodel", "-q")[1].splitlines()[-1] == default
    assert _run(board, "nvpmodel", "-f", "/nothing", "-q") == (255, "NVPM ERROR: Error opening /nothing: 2\n")
    board.system.save("/tmp/own.conf", b"< PM_CONFIG DEFAULT >")
    assert _run(board, "nvpmodel", "--conf", "/tmp/own.conf", "-q")[0] == 255


def test_nvpmodel_tells_its_options_and_takes_a_fan_profile() -> None:
    board = _board("agx-xavier@r35.4")
    assert _run(board, "nvpmodel", "-h")[0] == 0
    assert "-f, --conf" in _run(board, "nvpmodel", "--help")[1]
    assert _run(board, "nvpmodel", "-d", "cool") == (0, "")
    assert _run(board, "nvpmodel", "-dloud")[0] == 255


def test_jetson_clocks_of_r24_waits_for_the_boot_service() -> None:
    board = _board("tx1@r24.2")
    board.board.now_s = 30.0
    assert _run(board, "jetson_clocks.sh") == (255, "Please run the script after 60 Seconds\n")


def test_a_write_that_fails_does_not_end_jetson_clocks() -> None:
    board = _board("nano@r32.7")
    board.board.refuse("/sys/class/devfreq/57000000.gpu/min_freq", "EIO")
    code, said = _run(board, "jetson_clocks")
    assert (code, said.count("\n")) == (0, 1)
    assert board.get("/sys/kernel/debug/clk/override.emc/clk_state") == "1"


def test_tegrastats_writes_to_a_file_and_goes_on_in_the_background_until_it_is_stopped() -> None:
    board = _board("orin-nx@r36.4")
    assert _run(board, "tegrastats", "--interval", "100", "--logfile", "/tmp/log", "--start") == (0, "")
    board.sleep(1.0)
    lines = board.system.load("/tmp/log").decode().splitlines()
    assert len(lines) == 10
    assert all("VDD_IN " in line for line in lines)
    assert _run(board, "tegrastats", "--stop") == (0, "")
    board.sleep(1.0)
    assert len(board.system.load("/tmp/log").decode().splitlines()) == 10
    assert "--logfile" in _run(board, "tegrastats", "--help")[1]


def test_uname_tells_of_the_board_s_kernel() -> None:
    board = _board("orin-nx@r36.4")
    assert _run(board, "uname") == (0, "Linux\n")
    assert _run(board, "uname", "-rm") == (0, "5.15.148-tegra aarch64\n")
    assert _run(board, "uname", "-a")[1].split()[0] == "Linux"
    assert _run(board, "uname", "-z")[0] == 1
