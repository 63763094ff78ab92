"""Lines of the project's own in the layout of each release and board, against a table that was made by hand."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from edgeperf.tegrastats import parse

SAMPLES = Path(__file__).resolve().parents[3] / "shared" / "facts" / "tegrastats" / "samples.txt"
Shown = tuple[int | None, list[int]]
"""A load in percent and clocks in megahertz."""


@dataclass(frozen=True)
class Layout:
    """A line, and what stands in it: milliwatts now, degrees, (percent, [megahertz]); None for an offline core."""

    line: str
    rails: list[tuple[str, int]] = field(default_factory=list)
    heat: dict[str, float | None] = field(default_factory=dict)
    cores: list[tuple[int, int | None] | None] = field(default_factory=list)
    gpu: Shown | None = None
    emc: Shown | None = None
    others: dict[str, Shown | None] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    time: str = ""


LAYOUTS = {
    "TK1 r21": Layout(
        "RAM 801/1892MB (lfb 77x4MB) SWAP 0/512MB (cached 0MB) cpu [12%,off,3%,0%]@1530 EMC 9%@528 AVP 1%@204"
        " VDE 432 GR3D 47%@612 EDP limit 1912",
        cores=[(12, 1530), None, (3, 1530), (0, 1530)],
        gpu=(47, [612]),
        emc=(9, [528]),
        others={"AVP": (1, [204]), "VDE": (None, [432])},
    ),
    "TX1 r24": Layout(
        "RAM 502/3854MB (lfb 650x4MB) SWAP 0/0MB (cached 0MB) cpu [0%,0%,2%,100%]@1734 EMC 0%@1600 AVP 0%@12 VDE 0"
        " GR3D 0%@998 EDP limit 0",
        cores=[(0, 1734), (0, 1734), (2, 1734), (100, 1734)],
        gpu=(0, [998]),
        emc=(0, [1600]),
        others={"AVP": (0, [12]), "VDE": (None, [0])},
    ),
    "TX1 r28.1": Layout(
        "RAM 910/3983MB (lfb 212x4MB) SWAP 5/2048MB (cached 1MB) cpu [8%,8%,9%,7%]@921 EMC 4%@665 APE 25 GR3D 5%@153",
        cores=[(8, 921), (8, 921), (9, 921), (7, 921)],
        gpu=(5, [153]),
        emc=(4, [665]),
        others={"APE": (None, [25])},
    ),
    "TX2 r28 without root": Layout(
        "RAM 1404/7846MB (lfb 1200x4MB) CPU [7%@806,off,off,5%@806,4%@807,6%@805] BCPU@35.5C MCPU@35.5C GPU@34C "
        "PLL@35.5C Tboard@32C Tdiode@34.25C PMIC@100C thermal@35.1C VDD_IN 2445/2445 VDD_CPU 229/229 VDD_GPU 152/152"
        " VDD_SOC 458/458 VDD_WIFI 19/19 VDD_DDR 594/594",
        rails=[
            ("VDD_IN", 2445),
            ("VDD_CPU", 229),
            ("VDD_GPU", 152),
            ("VDD_SOC", 458),
            ("VDD_WIFI", 19),
            ("VDD_DDR", 594),
        ],
        heat={
            "BCPU": 35.5,
            "MCPU": 35.5,
            "GPU": 34,
            "PLL": 35.5,
            "Tboard": 32,
            "Tdiode": 34.25,
            "PMIC": 100,
            "thermal": 35.1,
        },
        cores=[(7, 806), None, None, (5, 806), (4, 807), (6, 805)],
    ),
    "TX2 r32 with its encoder at work": Layout(
        "RAM 2210/7860MB (lfb 9x1MB) SWAP 3/3930MB (cached 0MB) CPU [31%@2035,0%@2034,off,28%@2034,27%@2035,33%@2036]"
        " EMC_FREQ 21%@1866 GR3D_FREQ 73%@1122 MSENC 1113 NVDEC 716 VIC_FREQ 12%@1024 APE 150 MTS fg 0% bg 3%"
        " BCPU@48C PLL@-5.5C VDD_IN 9347/8901",
        rails=[("VDD_IN", 9347)],
        heat={"BCPU": 48, "PLL": -5.5},
        cores=[(31, 2035), (0, 2034), None, (28, 2034), (27, 2035), (33, 2036)],
        gpu=(73, [1122]),
        emc=(21, [1866]),
        others={
            "MSENC": (None, [1113]),
            "NVDEC": (None, [716]),
            "VIC": (12, [1024]),
            "APE": (None, [150]),
            "MTS fg": (0, []),
            "MTS bg": (3, []),
        },
    ),
    "Nano r32": Layout(
        "RAM 1511/3956MB (lfb 31x4MB) SWAP 0/1978MB (cached 0MB) IRAM 0/252kB(lfb 252kB)"
        " CPU [14%@1479,off,9%@1479,11%@1479] EMC_FREQ 3%@1600 GR3D_FREQ 55%@921 APE 25 PLL@33.5C CPU@36C PMIC@100C"
        " GPU@33.5C AO@42C thermal@34.75C POM_5V_IN 4863/4200 POM_5V_GPU 1185/900 POM_5V_CPU 572/530",
        rails=[("POM_5V_IN", 4863), ("POM_5V_GPU", 1185), ("POM_5V_CPU", 572)],
        heat={"PLL": 33.5, "CPU": 36, "PMIC": 100, "GPU": 33.5, "AO": 42, "thermal": 34.75},
        cores=[(14, 1479), None, (9, 1479), (11, 1479)],
        gpu=(55, [921]),
        emc=(3, [1600]),
        others={"APE": (None, [25])},
    ),
    "AGX Xavier r32, rails named like sensors and cores": Layout(
        "RAM 6000/31918MB (lfb 5000x4MB) SWAP 0/15959MB (cached 0MB) CPU [22%@2265,off,1%@2264] EMC_FREQ 8%@2133"
        " GR3D_FREQ 99%@1377 APE 150 MTS fg 0% bg 1% AO@40.5C GPU@47C CPU@44.5C GPU 15012/14800 CPU 2156/2100"
        " SOC 3697/3600 CV 0/0 VDDRQ 1692/1650 SYS5V 3386/3380",
        rails=[("GPU", 15012), ("CPU", 2156), ("SOC", 3697), ("CV", 0), ("VDDRQ", 1692), ("SYS5V", 3386)],
        heat={"AO": 40.5, "GPU": 47, "CPU": 44.5},
        cores=[(22, 2265), None, (1, 2264)],
        gpu=(99, [1377]),
        emc=(8, [2133]),
        others={"APE": (None, [150]), "MTS fg": (0, []), "MTS bg": (1, [])},
    ),
    "Xavier NX r34 and r35": Layout(
        "01-31-2023 00:00:07 RAM 3011/6852MB (lfb 4x512kB) SWAP 11/3426MB (cached 0MB) CPU [3%@1420,0%@1419]"
        " EMC_FREQ 1%@1600 GR3D_FREQ 18%@803 NVDLA0 1100 VIC_FREQ 601 APE 150 AUX@38.5C thermal@39.15C"
        " VDD_IN 6213mW/6100mW VDD_CPU_GPU_CV 1388mW/1300mW VDD_SOC 1592mW/1580mW",
        rails=[("VDD_IN", 6213), ("VDD_CPU_GPU_CV", 1388), ("VDD_SOC", 1592)],
        heat={"AUX": 38.5, "thermal": 39.15},
        cores=[(3, 1420), (0, 1419)],
        gpu=(18, [803]),
        emc=(1, [1600]),
        others={"NVDLA0": (None, [1100]), "VIC": (None, [601]), "APE": (None, [150])},
        time="2023-01-31T00:00:07",
    ),
    "AGX Orin r35, NC twice, blocks without power": Layout(
        "12-05-2023 17:30:59 RAM 9001/30588MB (lfb 40x4MB) CPU [5%@1190,off] EMC_FREQ 2%@2133 GR3D_FREQ 0%@0"
        " GR3D2_FREQ 0%@0 VIC_FREQ 729 APE 174 CV0@-256C GPU@-256C tj@43.718C VDD_GPU_SOC 2796mW/2800mW"
        " VDD_CPU_CV 798mW/800mW VIN_SYS_5V0 3931mW/3930mW NC 0mW/0mW VDDQ_VDD2_1V8AO 603mW/600mW NC 0mW/0mW",
        rails=[
            ("VDD_GPU_SOC", 2796),
            ("VDD_CPU_CV", 798),
            ("VIN_SYS_5V0", 3931),
            ("NC", 0),
            ("VDDQ_VDD2_1V8AO", 603),
            ("NC", 0),
        ],
        heat={"CV0": None, "GPU": None, "tj": 43.718},
        cores=[(5, 1190), None],
        gpu=(0, [0]),
        emc=(2, [2133]),
        others={"GR3D2": (0, [0]), "VIC": (None, [729]), "APE": (None, [174])},
        time="2023-12-05T17:30:59",
    ),
    "Orin NX r36, a list of one clock and wide gaps": Layout(
        "RAM 4100/15656MB (lfb 8x2MB)   SWAP 0/7828MB (cached 0MB) CPU [1%@1984, 0%@729]  EMC_FREQ  1%@3199"
        " GR3D_FREQ 64%@[918] NVENC        off NVJPG1     off  PVA0_FREQ off   APE     174    cv0@48.5C"
        "   VDD_IN     11322mW/10500mW   VDD_CPU_GPU_CV  3838mW/3600mW",
        rails=[("VDD_IN", 11322), ("VDD_CPU_GPU_CV", 3838)],
        heat={"cv0": 48.5},
        cores=[(1, 1984), (0, 729)],
        gpu=(64, [918]),
        emc=(1, [3199]),
        others={"NVENC": None, "NVJPG1": None, "PVA0": None, "APE": (None, [174])},
    ),
    "Orin Nano r36 without root, no memory clock": Layout(
        "10-10-2025 08:00:00 RAM 1999/7620MB (lfb 3x4MB) CPU [0%@1510,2%@1510] GR3D_FREQ 7% tj@47.062C"
        " VDD_IN 5009mW/4990mW ",
        rails=[("VDD_IN", 5009)],
        heat={"tj": 47.062},
        cores=[(0, 1510), (2, 1510)],
        gpu=(7, []),
        time="2025-10-10T08:00:00",
    ),
    "Thor r38, clocks without load": Layout(
        "03-04-2026 05:06:07 RAM 20000/125772MB (lfb 16x4MB) CPU [0%@972,off] EMC_FREQ @4266 GR3D_FREQ @[1575,off,1574]"
        " NVENC0_FREQ @1691 NVDEC1_FREQ @0 VIC off OFA_FREQ @315 PVA0_FREQ [20%,40%]@1000 APE 300 soc345@39.75C"
        " VDD_GPU -12mW/40mW VDD_CPU_SOC_MSS 5802mW/5800mW VIN_SYS_5V0 5511mW/5500mW VIN 26110mW/26000mW",
        rails=[("VDD_GPU", -12), ("VDD_CPU_SOC_MSS", 5802), ("VIN_SYS_5V0", 5511), ("VIN", 26110)],
        heat={"soc345": 39.75},
        cores=[(0, 972), None],
        gpu=(None, [1575, 0, 1574]),
        emc=(None, [4266]),
        others={
            "NVENC0": (None, [1691]),
            "NVDEC1": (None, [0]),
            "VIC": None,
            "OFA": (None, [315]),
            "PVA0": (30, [1000]),
            "APE": (None, [300]),
        },
        time="2026-03-04T05:06:07",
    ),
    "Thor r39, three values and what is new": Layout(
        "03-04-2026 05:06:08 RAM 20000/125772MB (lfb 1x2MB) CPU [3%@2601] EMC_FREQ 9%@4266 "
        "GR3D_FREQ 91%@[1574,1574,1574] NEW_THING maybe gpu@61.5C/70.25C VDD_GPU 30000mW/20000mW/35000mW LAST word",
        rails=[("VDD_GPU", 30000)],
        heat={"gpu": 61.5},
        cores=[(3, 2601)],
        gpu=(91, [1574, 1574, 1574]),
        emc=(9, [4266]),
        unknown=("NEW_THING maybe", "LAST word"),
        time="2026-03-04T05:06:08",
    ),
}


def _shown(unit: Shown | None) -> tuple[float | None, list[float], bool]:
    if unit is None:
        return None, [], True
    percent, megahertz = unit
    return None if percent is None else percent / 100, [mhz * 1e6 for mhz in megahertz], False


@pytest.mark.parametrize("name", LAYOUTS)
def test_each_layout_gives_what_stands_in_it(name: str) -> None:
    layout = LAYOUTS[name]
    read = parse(layout.line)
    assert [(rail.name, round(rail.power_w * 1e3)) for rail in read.rails] == layout.rails
    assert read.temperatures_c == layout.heat
    expected = [None if core is None else (core[0] / 100, core[1] and core[1] * 1e6) for core in layout.cores]
    assert [core and (core.load, core.rate_hz) for core in read.cores] == expected
    asked = {"GR3D": layout.gpu, "EMC": layout.emc}
    units = {**{name: unit for name, unit in asked.items() if unit}, **layout.others}
    found = {name: (unit.load, list(unit.rates_hz), unit.off) for name, unit in read.units.items()}
    assert {name: (load and round(load, 3), *rest) for name, (load, *rest) in found.items()} == {
        name: _shown(unit) for name, unit in units.items()
    }
    assert (read.unknown, read.time) == (layout.unknown, layout.time)
    assert read.ram is not None


@pytest.mark.parametrize(
    ("prefix", "time", "logged_s"),
    [
        ("", "", None),
        ("07-25-2026 09:08:28 ", "2026-07-25T09:08:28", None),
        ("2026-07-25 09:08:28 ", "2026-07-25T09:08:28", None),
        ("2026-07-25T09:08:28 ", "2026-07-25T09:08:28", None),
        ("1784970508.25::", "", 1784970508.25),
        ("1784970508 ", "", 1784970508.0),
        ("1784970508.25::07-25-2026 09:08:28 ", "2026-07-25T09:08:28", 1784970508.25),
    ],
)
def test_what_stands_before_a_line_is_when_it_was_written(prefix: str, time: str, logged_s: float | None) -> None:
    read = parse(f"{prefix}RAM 5/7MB (lfb 1x4MB) VDD_IN 5009mW/4990mW")
    assert (read.time, read.logged_s, read.unknown) == (time, logged_s, ())
    assert [rail.power_w for rail in read.rails] == [5.009]


def test_a_prefix_of_another_kind_is_kept_and_hides_nothing() -> None:
    read = parse("Nov 20 14:20:11 board tegrastats[12]: RAM 5/7MB (lfb 1x4MB) VDD_IN 5009/4990")
    assert read.unknown == ("Nov 20 14:20:11 board tegrastats[12]:",)
    assert read.ram is not None
    assert [rail.name for rail in read.rails] == ["VDD_IN"]


def test_rails_clocks_and_temperatures_of_real_lines_are_all_that_stand_there() -> None:
    if not SAMPLES.exists():
        pytest.skip("the collection of real lines is not here")
    for line in SAMPLES.read_text("utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        read = parse(line)
        rails = re.findall(r" (\w+) +(\d+)(?:mW)?/\d+(?:mW)?(?:/\d+mW)?(?= |$)", line)
        assert [(rail.name, f"{rail.power_w * 1e3:.0f}") for rail in read.rails] == rails, line
        assert read.temperatures_c == {
            name: None if value == "-256" else float(value) for name, value in re.findall(r"(\w+)@([-\d.]+)C", line)
        }
        in_brackets = re.search(r"(?i)cpu \[(.*?)\]", line)
        assert in_brackets is not None
        assert len(read.cores) == in_brackets[1].count(",") + 1
        assert [core is None for core in read.cores] == [word == "off" for word in in_brackets[1].split(",")]
