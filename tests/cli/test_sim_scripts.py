"""Other people's scripts and tools on the simulated boards, in the root that `edgeperf sim shell` makes.

The scripts lie in tests/scripts: the forum's sequence, and one in the manner of each generation of jetson_clocks. Each
runs as it is, with sh -e, on every board of its release.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from remote import boards
from remote.sim.mount import rooted
from tests.cli.command import edgeperf
from tests.remote.sim_root import live, missing
from tests.remote.sim_uname import unanswered

SCRIPTS = Path(__file__).parents[1] / "scripts"
BOARDS = [(board, release) for board in boards.twins() for release in boards.load(board).releases]
JTOP = importlib.util.find_spec("jtop")
SITE = "/opt/site"

JETSON_STATS = """
import json
from jtop.core import cpu, engine, fan, gpu, jetson_clocks, jetson_variables, memory, nvpmodel, power, temperature

found = {
    "board": jetson_variables.get_jetson_variables(),
    "power": power.PowerService().get_status(),
    "cpu": cpu.CPUService().get_status(),
    "gpu": gpu.GPUService().get_status(),
    "engines": engine.EngineService().get_status(),
    "mem": memory.MemoryService({}).get_status(0),
    "temperature": temperature.TemperatureService().get_status(),
    "fan": fan.FanService({}).get_status(),
}
try:
    found["modes"] = [*nvpmodel.nvpmodel_decode(), nvpmodel.nvpmodel_query()]
except nvpmodel.Command.CommandException:
    found["modes"] = None
shown = jetson_clocks.Command(["jetson_clocks", "--show"])(timeout=20)
found["locked"] = jetson_clocks.jetson_clocks_alive(jetson_clocks.decode_show_message(shown), found)
print(json.dumps(found))
"""

JTOP_CLIENT = """
import json, os
from jtop import jtop

service = jtop(interval=10)  # the first answer comes at once, and is waited for three times that long
service.start()
told = [service.board["platform"], service.board["hardware"]["L4T"], service.power["tot"]["power"]]
print(json.dumps([*told, service.stats["jetson_clocks"], len(service.cpu["cpu"])]), flush=True)
os._exit(0)  # its threads would wait for the next one
"""
# The service wants a group, and a folder to write to beside Python's own, in /usr/local.
JTOP_SERVICE = f"""
echo jtop:x:1000:root >> /etc/group
mkdir /tmp/python
ln -s "$(python3 -c 'import sys; print(sys.base_prefix)')/lib" /tmp/python/lib
export PYTHONHOME=/tmp/python PYTHONPATH={SITE}
JTOP_SERVICE=1 timeout 50 python3 -m jtop > /tmp/log 2>&1 &
until grep -q "service ready" /tmp/log; do kill -0 $! || {{ cat /tmp/log; exit 1; }}; sleep 0.1; done
jetson_clocks
timeout 40 python3 - || {{ cat /tmp/log; exit 1; }}
kill $!
"""


@contextmanager
def _shell(text: str, site: bool = False) -> Iterator[Any]:
    """Gives a function that runs words in a board's root and returns what they printed; they must end well."""
    if missing():
        pytest.skip(f"no root of its own for a simulated board here: {missing()}")
    board = live(text)
    binds = [(Path(str(JTOP.origin)).parents[1], SITE)] if site and JTOP is not None else []
    try:
        with rooted(board, binds) as root:

            def run(*words: str, stdin: str = "") -> str:
                command = root.words("root", "/", words)
                ran = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=60, check=False)
                assert ran.returncode == 0, f"{ran.returncode}: {ran.stdout}{ran.stderr}"
                return ran.stdout

            yield run
    finally:
        board.close()


def _left(host: str) -> list[str]:
    """Returns the knobs that maxperf would still change."""
    rows: Sequence[dict[str, Any]] = edgeperf("maxperf", "--host", host, "--dry-run", "--json").data()["rows"]
    return [row["knob"] for row in rows if row["result"] != "unchanged"]


def test_the_forum_s_sequence_runs_as_it_is_and_leaves_maxperf_the_gpu_s_rate_only(tmp_path: Path) -> None:
    board = f"tx1@r23.1,state={tmp_path / 'board.json'}"
    with _shell(board) as run:
        assert run("sh", "-e", stdin=(SCRIPTS / "forum.sh").read_text()) == "691200000\n"
    assert _left(f"sim:{board}") == ["gpu.rate"]


@pytest.mark.parametrize(("board", "release"), BOARDS)
def test_a_script_in_the_manner_of_each_release_s_jetson_clocks_leaves_maxperf_nothing(
    board: str, release: str, tmp_path: Path
) -> None:
    text = f"{board}@{release},state={tmp_path / 'board.json'}"
    before = _left(f"sim:{text}")
    assert any(knob.startswith("cpu0.") for knob in before)
    with _shell(text) as run:
        run("sh", "-e", stdin=(SCRIPTS / f"{release.partition('.')[0]}.sh").read_text())
    assert _left(f"sim:{text}") == []


def test_jetson_clocks_and_tegrastats_read_and_write_the_shell_s_own_files() -> None:
    with _shell("nano@r32.7,speed=1") as run:
        least = "/sys/class/devfreq/57000000.gpu/min_freq"
        script = f"""
        cd /tmp
        jetson_clocks --store before
        grep -c cpufreq before
        jetson_clocks
        cat {least}
        jetson_clocks --restore before
        cat {least}
        tegrastats --interval 50 --logfile log --start
        while [ ! -s log ]; do sleep 0.05; done
        tegrastats --stop
        grep -c RAM log > /dev/null
        uname -r
        """
        assert run("sh", "-e", stdin=script).split() == ["4", "921600000", "76800000", "4.9.253-tegra"]


def test_what_a_kernel_refuses_a_script_meets() -> None:
    cpu = "/sys/devices/system/cpu"
    with _shell("xavier-nx@r35.4") as run:
        script = f"""
        refused() {{ echo "$1" | tee "$2" 2>&1 > /dev/null | grep -q "$3"; }}
        refused turbo {cpu}/cpu0/cpufreq/scaling_governor "Invalid argument"
        refused 0 {cpu}/cpu0/online "Operation not permitted"
        refused 1 {cpu}/present "Permission denied"
        refused 1 /sys/class/devfreq/17000000.gv11b/nothing "."
        echo 400000000 > /sys/class/devfreq/17000000.gv11b/min_freq
        cat /sys/class/devfreq/17000000.gv11b/cur_freq
        """
        assert run("sh", "-e", stdin=script).split() == ["408000000"]


def test_the_paths_that_scripts_take_lead_to_one_device() -> None:
    with _shell("orin-nx@r36.4") as run:
        gpu = "/sys/devices/platform/bus@0/17000000.gpu"
        names = (
            "/sys/class/devfreq/17000000.gpu/device",
            "/sys/devices/platform/gpu.0",
            "/sys/devices/platform/17000000.gpu",
        )
        assert run("readlink", "-f", *names).split() == [gpu] * 3
        assert run("sh", "-c", "tr '\\0' '\\n' < /proc/device-tree/compatible").split()[-1] == "nvidia,tegra234"
        assert run("sh", "-c", "cd /sys/devices/system/cpu; readlink cpu*/cpufreq | sort -u").split() == [
            "../cpufreq/policy0",
            "../cpufreq/policy4",
        ]
        assert run("bash", "-c", "source /etc/os-release; echo $VERSION_ID") == "22.04\n"
        assert "VDD_IN" in run("sh", "-c", "cat /sys/class/hwmon/hwmon*/in1_label /sys/bus/i2c/devices/1-0040/name")


@pytest.mark.parametrize(
    ("board", "family", "switches"),
    [
        ("tx1@r24.2", "Tegra21", ["enable_3d_scaling"]),
        ("tx1@r28.2", "tegra210", ["railgate_enable"]),
        ("tx1@r32.7", "tegra210", ["railgate_enable"]),
        ("tx2@r28.2", "tegra186", ["railgate_enable"]),
        ("agx-thor@r38.4", "tegra264", []),
    ],
)
def test_what_scripts_of_a_release_look_for_has_its_name_of_that_time(
    board: str, family: str, switches: list[str]
) -> None:
    with _shell(board) as run:
        assert run("cat", "/sys/devices/soc0/family") == f"{family}\n"
        gpu = "/sys/devices/platform/gpu.0" if "tx2" not in board else "/sys/devices/17000000.gp10b"
        found = run("sh", "-c", f"cd {gpu}; ls railgate_enable enable_3d_scaling 2> /dev/null || true").split()
        assert set(switches) <= set(found)
        assert ("railgate_enable" in found) == ("railgate_enable" in switches)
        if board in ("tx1@r24.2", "tx1@r28.2", "tx2@r28.2"):
            qos = "/sys/module/qos/parameters/enable"
            assert run("sh", "-c", f"echo 0 > {qos}; cat {qos}") == "N\n"
        assert run("cut", "-d ", "-f1", "/proc/cmdline") == "root=/dev/mmcblk0p1\n"
        assert run("arch") == "aarch64\n"
        if board.startswith("tx1"):
            monitor = "/sys/bus/i2c/drivers/ina3221x/1-0040"
            assert run("cat", f"{monitor}/name", f"{monitor}/iio_device/rail_name_0") == "ina3221x\nVDD_IN\n"


@pytest.mark.skipif(not shutil.which("dpkg-query"), reason="needs dpkg")
def test_dpkg_knows_the_board_s_packages() -> None:
    with _shell("orin-nx@r36.4") as run:
        assert run("dpkg-query", "--show", "nvidia-l4t-core") == "nvidia-l4t-core\t36.4.3-20250108014937\n"
        assert "ii  nvidia-jetpack" in run("dpkg", "-l")
        assert "Version: 6.2+b77" in run("dpkg", "-s", "nvidia-jetpack")
    with _shell("tx1@r24.2") as run:
        assert "nvidia" not in run("dpkg-query", "--show")


@pytest.mark.parametrize(("board", "release"), [("tx1", "r23.1"), ("tx2", "r28.2"), ("orin-nano", "r36.4")])
def test_every_file_that_is_listed_can_be_read_or_says_why(board: str, release: str) -> None:
    with _shell(f"{board}@{release}") as run:
        files = run("find", "/sys", "-type", "f").split()
        assert len(files) > 100
        unread = run("sh", "-c", "find /sys -type f -exec cat {} + 2>&1 > /dev/null || true").splitlines()
        assert all("temporarily unavailable" in line for line in unread), unread
        assert not run("sh", "-c", "find /sys -xtype l").split()


@pytest.mark.skipif(JTOP is None, reason="needs jetson-stats 4.3.2 (pip install jetson-stats)")
@pytest.mark.parametrize(
    ("board", "release", "wanted"),
    [
        ("tx1", "r32.7", ("tegra210", "5.3", "32.7.1", "4.6.1", "gpu", ["VDD_CPU", "VDD_GPU"])),
        ("xavier-nx", "r32.7", ("tegra194", "7.2", "32.7.1", "4.6.1", "gv11b", ["VDD_CPU_GPU_CV", "VDD_SOC"])),
        ("xavier-nx", "r35.4", ("tegra194", "7.2", "35.4.1", "5.1.2", "gv11b", ["VDD_CPU_GPU_CV", "VDD_SOC"])),
        ("orin-nx", "r35.4", ("tegra234", "8.7", "35.4.1", "5.1.2", "ga10b", ["VDD_CPU_GPU_CV", "VDD_SOC"])),
        ("orin-nx", "r36.4", ("tegra234", "8.7", "36.4.3", "6.2", "gpu", ["VDD_CPU_GPU_CV", "VDD_SOC"])),
    ],
)
def test_jetson_stats_knows_board_rails_and_clocks(board: str, release: str, wanted: tuple[Any, ...]) -> None:
    soc, cuda, l4t, jetpack, gpu, rails = wanted
    with _shell(f"{board}@{release}", site=True) as run:

        def look() -> Any:
            return json.loads(run("env", f"PYTHONPATH={SITE}", "python3", "-c", JETSON_STATS).splitlines()[-1])

        found, twin = look(), boards.load(board).twin
        run("jetson_clocks")
        locked = look()
    told = found["board"]
    assert (told["SoC"], told["CUDA Arch BIN"], told["L4T"], told["Jetpack"]) == (soc, cuda, l4t, jetpack)
    assert told["Model"] == twin["release"][release]["model"]
    assert told["Serial Number"].isdigit()
    assert found["power"]["tot"]["name"] == "VDD_IN"
    assert 1000 < found["power"]["tot"]["power"] < 10_000
    assert set(rails) <= set(found["power"]["rail"])
    assert len(found["cpu"]["cpu"]) == twin["cores"]
    assert found["cpu"]["cpu"][0]["model"].startswith("ARMv8")
    assert list(found["gpu"]) == [gpu]
    assert found["gpu"][gpu]["freq"]["min"] < found["gpu"][gpu]["freq"]["max"]
    assert found["mem"]["RAM"]["tot"] == twin["release"][release]["memory_bytes"] // 1024
    assert found["mem"]["EMC"]["online"]
    assert "VIC" in found["engines"]
    assert 25 < found["temperature"]["CPU" if "CPU" in found["temperature"] else "cpu"]["temp"] < 60
    assert list(found["fan"]) == ["pwm-fan" if release == "r32.7" else "pwmfan"]
    if board != "tx1":  # whose modes are not published
        default, names, _, now = found["modes"]
        assert now == default
        assert now["name"] in names
    assert (found["locked"], locked["locked"]) == (False, True)
    assert locked["gpu"][gpu]["freq"]["cur"] == locked["gpu"][gpu]["freq"]["max"]


@pytest.mark.skipif(JTOP is None, reason="needs jetson-stats 4.3.2 (pip install jetson-stats)")
@pytest.mark.parametrize(
    ("board", "release", "l4t", "kernel"),
    [
        ("tx1", "r32.7", "32.7.1", "4.9.253-tegra"),
        ("xavier-nx", "r35.4", "35.4.1", "5.10.120-tegra"),
        ("orin-nx", "r36.4", "36.4.3", "5.15.148-tegra"),
    ],
)
def test_the_service_of_jtop_takes_this_for_a_board_and_tells_its_clients(
    board: str, release: str, l4t: str, kernel: str
) -> None:
    if unanswered():
        pytest.skip(unanswered())
    with _shell(f"{board}@{release},speed=1", site=True) as run:
        told = run("bash", "-c", JTOP_SERVICE, stdin=JTOP_CLIENT).splitlines()[-1]
    platform, said, power_mw, locked, cores = json.loads(told)
    assert (platform["Machine"], platform["Release"], said) == ("aarch64", kernel, l4t)
    assert 1000 < power_mw < 20_000
    assert (locked, cores) == ("ON", boards.load(board).twin["cores"])
