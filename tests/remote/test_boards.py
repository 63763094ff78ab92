from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import pytest

from remote import boards
from remote.errors import UsageError
from remote.onboard import probe
from remote.onboard.rails import rails
from remote.onboard.sampler import Samplers
from remote.onboard.settings import Settings
from remote.onboard.system import System
from tests.remote.tree import Tree

TABLE = boards.table()
JETSONS = {"tx1", "tx2", "tx2-nx", "nano", "nano-2gb", "agx-xavier", "xavier-nx"} | {
    "agx-orin",
    "orin-nx",
    "orin-nano",
    "agx-thor",
}
MODEL, COMPATIBLE = "/proc/device-tree/model", "/proc/device-tree/compatible"
MACHINE, FAMILY = "/sys/devices/soc0/machine", "/sys/devices/soc0/family"


def texts(**said: str) -> dict[str, str]:
    names = {"model": MODEL, "compatible": COMPATIBLE, "machine": MACHINE, "family": FAMILY}
    names |= {"meminfo": "/proc/meminfo", "boot": "/etc/nv_boot_control.conf"}
    return dict.fromkeys(probe.IDENTITY, "") | {names[key]: text for key, text in said.items()}


def test_every_board_of_the_list_is_there_and_what_they_share_is_not_listed() -> None:
    assert set(boards.names()) == JETSONS | {"generic-linux"}
    assert {name for name in TABLE if TABLE[name]["abstract"]} == {"jetson", "tegra210"}


@pytest.mark.parametrize("name", sorted(TABLE))
def test_a_board_file_holds_together(name: str) -> None:
    spec = boards.load(name)
    ids = [row["id"] for row in spec.knobs]
    assert spec.name == name
    assert len(ids) == len(set(ids))
    assert all(path.startswith("/") for row in (*spec.knobs, *spec.readings) for path in row["paths"])
    for row in spec.knobs:
        assert row["kind"] in ("hz", "int", "bool", "text")
        assert row.get("holds", row["id"]) in ids
        assert len(row.get("readback", row["paths"])) == len(row["paths"])
    rails = {row["id"] for row in spec.rails}
    assert {row["parent"] for row in spec.rails if "parent" in row} <= rails
    assert {rail for total in spec.totals for rail in total.rails} <= rails
    assert all(spec.l4t) or spec.abstract or name == "generic-linux"


def test_no_total_counts_a_rail_and_what_is_inside_it() -> None:
    for name in JETSONS:
        spec = boards.load(name)
        parents = {row["id"]: row.get("parent") for row in spec.rails}
        for total in spec.totals:
            assert not [rail for rail in total.rails if parents[rail] in total.rails]


def test_the_watts_say_what_they_cover() -> None:
    scopes = {name: [total.scope for total in boards.load(name).totals][-1:] for name in JETSONS}
    assert {name for name in JETSONS if scopes[name] == ["soc_rails"]} == {"agx-xavier", "agx-orin"}
    assert scopes["agx-thor"] == ["carrier_in"]
    assert scopes["nano-2gb"] == []


@pytest.mark.parametrize(
    ("said", "board"),
    [
        ({"machine": "jetson_tx1", "family": "Tegra210"}, "tx1"),
        ({"model": "NVIDIA Jetson TX1", "compatible": "nvidia,p2180 nvidia,tegra210"}, "tx1"),
        ({"model": "jetson-nano", "compatible": "nvidia,tegra210"}, "nano"),
        ({"model": "NVIDIA Jetson Nano Developer Kit", "compatible": "nvidia,jetson-nano nvidia,tegra210"}, "nano"),
        ({"model": "NVIDIA Jetson Nano 2GB Developer Kit", "compatible": "nvidia,tegra210"}, "nano-2gb"),
        ({"model": "jetson-nano", "compatible": "nvidia,p3542-0000+p3448-0003 nvidia,tegra210"}, "nano-2gb"),
        ({"machine": "quill", "family": "tegra186"}, "tx2"),
        ({"model": "quill", "compatible": "nvidia,tegra186"}, "tx2"),
        ({"model": "lanai-3636", "compatible": "nvidia,p3509-0000+p3636-0001 nvidia,tegra186"}, "tx2-nx"),
        ({"model": "Jetson-AGX", "compatible": "nvidia,tegra194"}, "agx-xavier"),
        ({"model": "jetson-xavier-industrial", "compatible": "nvidia,tegra194"}, "agx-xavier"),
        ({"model": "NVIDIA Jetson Xavier NX Developer Kit", "compatible": "nvidia,tegra194"}, "xavier-nx"),
        ({"model": "Xavier NX", "compatible": "nvidia,p3509-0000+p3668-0000 nvidia,tegra194"}, "xavier-nx"),
        ({"model": "NVIDIA Jetson AGX Orin Developer Kit", "compatible": "nvidia,tegra234"}, "agx-orin"),
        ({"model": "Jetson AGX Orin Industrial", "compatible": "nvidia,p3737-0000+p3701-0000"}, "agx-orin"),
        ({"model": "NVIDIA Jetson Orin NX Engineering Reference Developer Kit"}, "orin-nx"),
        ({"model": "NVIDIA Jetson Orin Nano Developer Kit", "compatible": "nvidia,tegra234"}, "orin-nano"),
        ({"model": "NVIDIA Jetson Orin Nano Engineering Reference Developer Kit Super"}, "orin-nano"),
        ({"model": "NVIDIA Jetson AGX Thor Developer Kit", "compatible": "nvidia,p4071-0000+p3834-0008"}, "agx-thor"),
        (
            {"model": "Raspberry Pi 4 Model B Rev 1.4", "compatible": "raspberrypi,4-model-b brcm,bcm2711"},
            "generic-linux",
        ),
        ({}, "generic-linux"),
    ],
)
def test_a_board_is_known_by_what_it_says(said: dict[str, str], board: str) -> None:
    assert probe.identify(texts(**said), TABLE) == board


def test_a_module_number_outweighs_the_name_of_the_kit_around_it() -> None:
    kit = "NVIDIA Jetson Orin NX Engineering Reference Developer Kit"
    said = texts(model=kit, compatible="nvidia,p3768-0000+p3767-0005 nvidia,tegra234")
    assert probe.identify(said, TABLE) == "orin-nano"


def test_an_unknown_jetson_is_its_family_and_says_so() -> None:
    new = texts(model="NVIDIA Jetson Tomorrow", compatible="nvidia,p9999-0000 nvidia,tegra299")
    assert probe.identify(new, TABLE) == "jetson"
    assert probe.identify(texts(compatible="nvidia,p9999-0000 nvidia,tegra210"), TABLE) == "tegra210"
    assert "no watt figure" in boards.doubts(boards.load("jetson"), "41.0.0")[0]


def test_a_release_that_is_not_known_of_a_board_is_said() -> None:
    orin = boards.load("orin-nx")
    assert boards.doubts(orin, "36.4.3") == ()
    assert "R41" in boards.doubts(orin, "41.0.0")[0]
    assert boards.doubts(boards.load("generic-linux"), "") == ()


@pytest.mark.parametrize(
    ("boot", "gib", "module"),
    [
        ("TNSPEC 3834-008-jetson-agx-thor-t4000-", 122, "T4000"),
        ("COMPATIBLE_SPEC 3834-jetson-agx-thor-devkit-", 50, "T5000"),
        ("", 122, "T5000"),
        ("", 61, "T4000"),
    ],
)
def test_the_two_thor_modules_are_told_apart(boot: str, gib: int, module: str) -> None:
    kit = "NVIDIA Jetson AGX Thor Developer Kit"
    said = texts(model=kit, boot=boot, meminfo=f"MemTotal:       {gib << 20} kB\nMemFree: 1 kB")
    assert probe.model(said, TABLE["agx-thor"]) == f"{kit} ({module})"
    assert probe.model(texts(model="Jetson-AGX"), TABLE["agx-xavier"]) == "Jetson-AGX"


def test_an_unknown_name_gets_the_nearest_one() -> None:
    with pytest.raises(UsageError) as caught:
        boards.load("orin-nyx")
    assert "did you mean orin-nx?" in caught.value.hint


# Settings and rails on small trees, one per generation.

BPMP = "/sys/kernel/debug/bpmp/debug/clk/emc"


def policy(*cpus: int, high_khz: int = 2000000, folder: str = "/sys/devices/system/cpu") -> dict[str, str]:
    files = {}
    for cpu in cpus:
        here = f"{folder}/cpu{cpu}"
        files[f"{here}/cpufreq/related_cpus"] = " ".join(map(str, cpus)) + "\n"
        files[f"{here}/cpufreq/scaling_governor"] = "schedutil\n"
        files[f"{here}/cpufreq/scaling_max_freq"] = f"{high_khz}\n"
        files[f"{here}/cpufreq/scaling_min_freq"] = "100000\n"
        files[f"{here}/cpufreq/cpuinfo_max_freq"] = f"{high_khz}\n"
        files[f"{here}/online"] = "1\n"
    return files


def devfreq(folder: str, rates_hz: str = "100000000 900000000 1300000000") -> dict[str, str]:
    lowest, *_, highest = rates_hz.split()
    nodes = {"min_freq": lowest, "max_freq": highest, "cur_freq": lowest, "available_frequencies": rates_hz}
    return {f"{folder}/{name}": text + "\n" for name, text in nodes.items()}


def bpmp(locked: int = 0, cap_hz: int | None = 0, cap: str = "nvpmodel_emc_cap/emc_iso_cap") -> dict[str, str]:
    nodes = {"rate": "204000000", "mrq_rate_locked": str(locked), "min_rate": "40800000", "max_rate": "1866000000"}
    files = {f"{BPMP}/{name}": text + "\n" for name, text in nodes.items()}
    return files | ({} if cap_hz is None else {f"/sys/kernel/{cap}": f"{cap_hz}\n"})


def hwmon(device: str, number: int, labels: list[str], driver: str = "ina3221") -> dict[str, str]:
    folder = f"/sys/bus/i2c/drivers/{driver}/{device}/hwmon/hwmon{number}"
    files = {}
    for channel, label in enumerate(labels, 1):
        files[f"{folder}/in{channel}_label"] = f"{label}\n"
        files[f"{folder}/in{channel}_input"] = "5000\n"
        files[f"{folder}/curr{channel}_input"] = f"{100 * channel}\n"
    return files


def iio(device: str, labels: list[str], number: int = 0, folder: str = "") -> dict[str, str]:
    folder = folder or f"/sys/bus/i2c/drivers/ina3221x/{device}/iio:device{number}"
    files = {f"{folder}/rail_name_{channel}": f"{label}\n" for channel, label in enumerate(labels)}
    return files | {f"{folder}/in_power{channel}_input": f"{1000 * (channel + 1)}\n" for channel in range(3)}


TX2_GPU = "/sys/devices/17000000.gp10b"
XAVIER_GPU = "/sys/devices/17000000.gv11b"
ORIN_GPU = "/sys/devices/17000000.ga10b"
T210_GPU = "/sys/devices/57000000.gpu"
R36_GPU = "/sys/devices/platform/17000000.gpu"
R36_BUS_GPU = "/sys/devices/platform/bus@0/17000000.gpu"
CLUSTERS = "/sys/kernel/debug/tegra_cpufreq"

TREES: dict[str, tuple[str, dict[str, str], set[str], set[str], str]] = {
    "tx2 r28": (
        "tx2",
        policy(0, 3, 4, 5)
        | devfreq(f"{TX2_GPU}/devfreq/17000000.gp10b")
        | bpmp()
        | {f"{TX2_GPU}/railgate_enable": "1", "/sys/module/qos/parameters/enable": "Y"}
        | {f"{CLUSTERS}/{name}_CLUSTER/cc3/enable": "1" for name in "MB"}
        | {"/sys/kernel/debug/tegra_fan/target_pwm": "0"}
        | iio(
            "0-0041", ["VDD_IN", "VDD_SYS_CPU", "VDD_SYS_DDR"], folder="/sys/class/i2c-adapter/i2c-0/0-0041/iio_device"
        ),
        {"cpu0.max", "gpu.railgate", "gpu.min", "emc.rate", "emc.override", "cc3.m", "qos.enable", "fan.pwm"},
        {"VDD_IN", "VDD_SYS_CPU", "VDD_SYS_DDR"},
        f"{TX2_GPU}/devfreq/17000000.gp10b/max_freq",
    ),
    "tx2-nx r32": (
        "tx2-nx",
        policy(0, 3, 4, 5)
        | devfreq(f"{TX2_GPU}/devfreq/17000000.gp10b")
        | bpmp()
        | iio("0-0040", ["VDD_IN", "VDD_CPU_GPU", "VDD_SOC"]),
        {"cpu0.max", "gpu.max", "emc.cap"},
        {"VDD_IN", "VDD_CPU_GPU", "VDD_SOC"},
        f"{TX2_GPU}/devfreq/17000000.gp10b/max_freq",
    ),
    "nano r32": (
        "nano",
        policy(0, 1, 2, 3)
        | devfreq(f"{T210_GPU}/devfreq/57000000.gpu")
        | {f"/sys/kernel/debug/clk/override.emc/{name}": "0" for name in ("clk_update_rate", "clk_rate", "clk_state")}
        | {"/sys/devices/pwm-fan/target_pwm": "0", "/sys/devices/pwm-fan/temp_control": "1"}
        | iio("6-0040", ["POM_5V_IN", "POM_5V_GPU", "POM_5V_CPU"]),
        {"gpu.max", "emc.rate", "emc.override", "fan.auto", "fan.pwm"},
        {"POM_5V_IN", "POM_5V_GPU", "POM_5V_CPU"},
        f"{T210_GPU}/devfreq/57000000.gpu/max_freq",
    ),
    "nano-2gb r32": (
        "nano-2gb",
        policy(0, 1, 2, 3) | devfreq(f"{T210_GPU}/devfreq/57000000.gpu"),
        {"gpu.max"},
        set(),
        f"{T210_GPU}/devfreq/57000000.gpu/max_freq",
    ),
    "agx-xavier r32": (
        "agx-xavier",
        policy(0, 1)
        | policy(2, 3)
        | devfreq(f"{XAVIER_GPU}/devfreq/17000000.gv11b")
        | bpmp()
        | iio("1-0040", ["GPU", "CPU", "SOC"])
        | iio("1-0041", ["CV", "VDDRQ", "SYS5V"], 1),
        {"cpu0.max", "cpu2.max", "gpu.max", "emc.rate"},
        {"GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V"},
        f"{XAVIER_GPU}/devfreq/17000000.gv11b/max_freq",
    ),
    "agx-xavier r35": (
        "agx-xavier",
        policy(0, 1)
        | devfreq(f"{XAVIER_GPU}/devfreq_dev")
        | bpmp()
        | hwmon("1-0040", 3, ["GPU", "CPU", "SOC"])
        | hwmon("1-0041", 7, ["CV", "VDDRQ", "SYS5V"])
        | {
            "/sys/devices/platform/pwm-fan/hwmon/hwmon2/pwm1": "55",
            "/sys/devices/platform/pwm-fan/hwmon/hwmon2/pwm1_enable": "1",
        },
        {"gpu.max", "fan.pwm"},
        {"GPU", "CPU", "SOC", "CV", "VDDRQ", "SYS5V"},
        f"{XAVIER_GPU}/devfreq_dev/max_freq",
    ),
    "xavier-nx r35": (
        "xavier-nx",
        devfreq(f"{XAVIER_GPU}/devfreq/17000000.gv11b")
        | bpmp()
        | hwmon("7-0040", 6, ["VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC", "", "", "", "sum of shunt voltages"]),
        {"gpu.max"},
        {"VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC"},
        f"{XAVIER_GPU}/devfreq/17000000.gv11b/max_freq",
    ),
    "agx-orin r35": (
        "agx-orin",
        devfreq(f"{ORIN_GPU}/devfreq/17000000.ga10b")
        | bpmp()
        | hwmon("1-0040", 1, ["VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"])
        | hwmon("1-0041", 2, ["NC", "VDDQ_VDD2_1V8AO", "NC"])
        | {"/sys/devices/platform/gpu.0/railgate_enable": "1"},
        {"gpu.max", "gpu.railgate"},
        {"VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0", "VDDQ_VDD2_1V8AO"},
        f"{ORIN_GPU}/devfreq/17000000.ga10b/max_freq",
    ),
    "orin-nx r36": (
        "orin-nx",
        devfreq(f"{R36_GPU}/devfreq_dev")
        | bpmp(cap="nvpmodel_clk_cap/emc")
        | hwmon("1-0040", 0, ["VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC"])
        | {f"{R36_GPU}/railgate_enable": "1"},
        {"gpu.max", "gpu.railgate", "emc.cap", "emc.rate"},
        {"VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC"},
        f"{R36_GPU}/devfreq_dev/max_freq",
    ),
    "orin-nano r36": (
        "orin-nano",
        devfreq(f"{R36_BUS_GPU}/devfreq/17000000.gpu")
        | bpmp(cap="nvpmodel_clk_cap/emc")
        | hwmon("1-0040", 5, ["VDD_SOC", "VDD_IN", "VDD_CPU_GPU_CV"]),
        {"gpu.max", "emc.cap"},
        {"VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC"},
        f"{R36_BUS_GPU}/devfreq/17000000.gpu/max_freq",
    ),
    "agx-thor r38": (
        "agx-thor",
        devfreq("/sys/class/devfreq/gpu-gpc-0")
        | devfreq("/sys/class/devfreq/bwmgr")
        | bpmp(cap="nvpmodel_clk_cap/emc")
        | {"/sys/bus/pci/devices/0000:01:00.0/power/control": "auto"}
        | hwmon("2-0040", 1, ["VDD_GPU", "VDD_CPU_SOC_MSS", "VIN_SYS_5V0"])
        | {"/sys/bus/i2c/drivers/ina238/2-0044/hwmon/hwmon2/power1_input": "31000000"},
        {"gpu.max", "gpu.power", "emc.max", "emc.min"},
        {"VIN", "VDD_GPU", "VDD_CPU_SOC_MSS", "VIN_SYS_5V0"},
        "/sys/class/devfreq/gpu-gpc-0/max_freq",
    ),
}


def system(files: Mapping[str, str]) -> System:
    return cast(System, Tree(files))


@pytest.mark.parametrize("case", TREES)
def test_each_generation_has_its_settings_and_rails(case: str) -> None:
    name, files, settings, watts, gpu = TREES[case]
    knobs, _ = probe.knobs(system(files), TABLE[name]["knobs"])
    assert settings <= set(knobs)
    assert knobs["gpu.max"]["path"] == gpu
    assert knobs["gpu.max"]["choices"] == gpu.replace("max_freq", "available_frequencies")
    assert set(rails(system(files), TABLE[name]["rails"])) == watts
    assert probe.channels(system(files), TABLE[name]["readings"])["gpu.hz"]["path"] == gpu.replace("max_", "cur_")


def watts_of(name: str, case: str) -> dict[str, list[float | None]]:
    """Returns one sample of each rail."""
    tree = system(TREES[case][1])
    found = rails(tree, TABLE[name]["rails"])
    samplers = Samplers(tree, found, {}, {"rails": list(found), "rate_hz": 20.0, "watch_hz": 1.0})
    samplers.tick()
    return {row["id"]: row["values"] for row in samplers.end()}


def test_rails_are_found_by_their_label_and_are_voltage_times_current() -> None:
    assert watts_of("orin-nano", "orin-nano r36") == {
        "VDD_SOC": [pytest.approx(0.5)],
        "VDD_IN": [pytest.approx(1.0)],
        "VDD_CPU_GPU_CV": [pytest.approx(1.5)],
    }


def test_the_sensor_at_thors_input_gives_microwatts() -> None:
    assert watts_of("agx-thor", "agx-thor r38")["VIN"] == [pytest.approx(31.0)]


def test_interleaved_cpus_have_one_row_per_policy() -> None:
    tree = system(policy(0, 3, 4, 5) | policy(1, 2))
    knobs, _ = probe.knobs(tree, TABLE["tx2"]["knobs"])
    assert {name for name in knobs if name.endswith(".max")} == {"cpu0.max", "cpu1.max"}


def test_a_policy_whose_first_cpu_has_no_nodes_is_not_lost() -> None:
    files = {path: text for path, text in policy(1, 2).items() if "/cpu1/cpufreq" not in path}
    knobs, _ = probe.knobs(system(files), TABLE["tx2"]["knobs"])
    assert {name for name in knobs if name.endswith(".max")} == {"cpu2.max"}


def test_a_cpu_that_is_on_stands_for_its_policy() -> None:
    files = policy(1, 2) | {"/sys/devices/system/cpu/cpu1/online": "0\n"}
    knobs, _ = probe.knobs(system(files), TABLE["tx2"]["knobs"])
    assert {name for name in knobs if name.endswith(".max")} == {"cpu2.max"}


def described(name: str, files: Mapping[str, str]) -> Iterator[tuple[str, dict[str, Any]]]:
    for record in Settings(system(files), TABLE[name]["knobs"]).describe()["knobs"]:
        yield record["id"], record


@pytest.mark.parametrize(
    ("cap_hz", "high"), [(None, 1866000000), (0, 1866000000), (1331200000, 1331200000), (3199000000, 1866000000)]
)
def test_the_memory_goes_no_higher_than_the_power_modes_cap(cap_hz: int | None, high: int) -> None:
    found = dict(described("tx2", bpmp(cap_hz=cap_hz)))
    assert found["emc.rate"]["high"] == high


def test_a_memory_rate_that_is_not_locked_is_no_setting() -> None:
    assert dict(described("tx2", bpmp(locked=0)))["emc.rate"]["value"] is None
    assert dict(described("tx2", bpmp(locked=1)))["emc.rate"]["value"] == 204000000
