"""How power rails are found: by driver, address and label, wherever the kernel has put them."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remote import boards
from remote.onboard.rails import rails
from remote.onboard.system import System
from tests.remote.tree import Tree

IIO = "/sys/bus/i2c/drivers/ina3221x/1-0040/iio:device0"
OLD_IIO = "/sys/class/i2c-adapter/i2c-1/1-0040/iio_device"
CLASS = "/sys/class/hwmon"


class Failing(Tree):
    """A tree some of whose files cannot be read, with which errno."""

    def __init__(self, files: Mapping[str, str], fails: Mapping[str, int]) -> None:
        super().__init__(files)
        self._fails = fails

    def read(self, path: str) -> str:
        if path in self._fails:
            raise OSError(self._fails[path], os.strerror(self._fails[path]))
        return super().read(path)


def found(board: str, files: Mapping[str, str], fails: Mapping[str, int] | None = None) -> dict[str, dict[str, Any]]:
    return rails(cast(System, Failing(files, fails or {})), boards.table()[board]["rails"])


def iio(folder: str, labels: tuple[str, ...] = ("VDD_IN", "VDD_GPU", "VDD_CPU")) -> dict[str, str]:
    files = {f"{folder}/running_mode": "0\n"}
    for n, label in enumerate(labels):
        files |= {
            f"{folder}/rail_name_{n}": f"{label}\n",
            f"{folder}/in_voltage{n}_input": "19000\n",
            f"{folder}/in_current{n}_input": "100\n",
            f"{folder}/in_power{n}_input": "1900\n",
            f"{folder}/ui_input{n}": "19000 100\n",
        }
    return files


def hwmon(folder: str, labels: tuple[str, ...], interval: str = "422\n") -> dict[str, str]:
    files = {f"{folder}/name": "ina3221\n", f"{folder}/update_interval": interval}
    for n, label in enumerate(labels, 1):
        files |= {
            f"{folder}/in{n}_label": f"{label}\n",
            f"{folder}/in{n}_input": "5056\n",
            f"{folder}/curr{n}_input": "800\n",
            f"{folder}/shunt{n}_resistor": "5000\n",
        }
    return {**files, f"{folder}/in7_label": "sum of shunt voltages\n"}


@pytest.mark.parametrize("folder", [IIO, OLD_IIO])
def test_a_channel_is_known_by_its_label_and_read_in_one_conversion(folder: str) -> None:
    table = found("tx1", iio(folder, ("VDD_CPU", "VDD_IN", "VDD_GPU")))
    assert table["VDD_IN"]["path"] == f"{folder}/ui_input1"
    assert table["VDD_IN"]["scale"] == 1e-6
    assert set(table) == {"VDD_IN", "VDD_GPU", "VDD_CPU"}
    assert table["VDD_GPU"]["parent"] == "VDD_IN"


def test_the_next_best_form_is_taken_of_what_this_user_may_read() -> None:
    ui = {f"{IIO}/ui_input0": errno.EACCES}
    assert found("tx1", iio(IIO), ui)["VDD_IN"]["path"] == f"{IIO}/in_power0_input"
    power = {**ui, f"{IIO}/in_power0_input": errno.EACCES}
    rail = found("tx1", iio(IIO), power)["VDD_IN"]
    assert (rail["path"], rail["times"]) == (f"{IIO}/in_voltage0_input", f"{IIO}/in_current0_input")
    everything = {**power, f"{IIO}/in_current0_input": errno.EACCES}
    assert "VDD_IN" not in found("tx1", iio(IIO), everything)


def test_a_sensor_that_is_busy_when_it_is_looked_at_is_there() -> None:
    rail = found("tx1", iio(IIO), {f"{IIO}/ui_input0": errno.EAGAIN})["VDD_IN"]
    assert rail["path"] == f"{IIO}/ui_input0"
    assert rail["sensor"]["volts"] is None


@pytest.mark.parametrize(
    ("text", "mode", "seconds"), [("0", "triggered", 0.0066), ("1", "continuous", 0.4224), ("?", "", None)]
)
def test_the_running_mode_says_over_what_time_a_reading_averages(text: str, mode: str, seconds: float | None) -> None:
    sensor = found("tx1", {**iio(IIO), f"{IIO}/running_mode": f"{text}\n"})["VDD_IN"]["sensor"]
    assert sensor["mode"] == mode
    assert sensor["conversion_s"] == (pytest.approx(seconds) if seconds else None)
    assert (sensor["kind"], sensor["shunt_ohm"], sensor["volts"]) == ("ina3221", 0.02, 19.0)


@given(st.integers(0, 40))
def test_a_monitor_of_hwmon_is_found_whatever_its_number(number: int) -> None:
    folder = f"/sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon{number}"
    table = found("orin-nx", hwmon(folder, ("VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC")))
    assert set(table) == {"VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC"}
    rail = table["VDD_SOC"]
    assert (rail["path"], rail["times"]) == (f"{folder}/in3_input", f"{folder}/curr3_input")
    assert rail["sensor"] == {
        "kind": "ina3221",
        "shunt_ohm": 0.005,
        "volts": 5.056,
        "conversion_s": 0.422,
        "mode": "continuous",
    }


def test_a_shunt_that_the_board_tells_of_counts_more_than_the_table() -> None:
    folder = "/sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon2"
    files = hwmon(folder, ("VDD_IN", "VDD_CPU_GPU_CV", "VDD_SOC"))
    assert found("orin-nx", {**files, f"{folder}/shunt1_resistor": "2000\n"})["VDD_IN"]["sensor"]["shunt_ohm"] == 0.002
    del files[f"{folder}/shunt1_resistor"]
    assert found("orin-nx", files)["VDD_IN"]["sensor"]["shunt_ohm"] == 0.005


def test_the_ina238_shows_power_itself() -> None:
    folder = "/sys/bus/i2c/drivers/ina238/2-0044/hwmon/hwmon7"
    rail = found("agx-thor", {f"{folder}/power1_input": "31500000\n", f"{folder}/in1_input": "19992\n"})["VIN"]
    assert (rail["path"], rail["scale"]) == (f"{folder}/power1_input", 1e-6)
    assert rail["sensor"]["kind"] == "ina238"
    assert rail["sensor"]["volts"] == 19.992


@pytest.mark.parametrize("board", ["generic-linux", "jetson"])
def test_an_unknown_board_s_monitors_are_found_by_their_labels(board: str) -> None:
    files = {
        **hwmon(f"{CLASS}/hwmon4", ("VDD_MAIN", "NC", "VDD_CORE")),
        f"{CLASS}/hwmon10/name": "ina226\n",
        f"{CLASS}/hwmon10/power1_input": "2500000\n",
        f"{CLASS}/hwmon10/in1_input": "12000\n",
        f"{CLASS}/hwmon10/shunt_resistor": "10000\n",
        f"{CLASS}/hwmon2/name": "scmi_sensors\n",
        f"{CLASS}/hwmon2/in3_label": "VBUS\n",
        f"{CLASS}/hwmon2/in3_input": "5000\n",
        f"{CLASS}/hwmon2/curr1_label": "VBUS\n",
        f"{CLASS}/hwmon2/curr1_input": "900\n",
        f"{CLASS}/hwmon2/curr2_label": "FAN\n",
        f"{CLASS}/hwmon2/curr2_input": "90\n",
    }
    table = found(board, files)
    assert set(table) == {"VDD_MAIN", "VDD_CORE", "ina226.power1", "VBUS"}
    assert table["VBUS"]["times"] == f"{CLASS}/hwmon2/curr1_input"
    assert table["ina226.power1"]["sensor"]["shunt_ohm"] == 0.01


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        ("ucsi_source_psy_USBC000:001", {}),
        ("tcpm_source_psy_4_0022", {}),
        ("BAT0", {}),
        ("mystery", {"device/type": "Battery\n"}),
        ("mystery", {"device/type": "USB\n"}),
    ],
)
def test_batteries_chargers_and_ports_are_no_rails(name: str, extra: Mapping[str, str]) -> None:
    folder = f"{CLASS}/hwmon0"
    files = {"name": f"{name}\n", "power1_input": "1\n", "curr1_input": "1\n", "in0_input": "1\n", **extra}
    assert not found("generic-linux", {f"{folder}/{key}": text for key, text in files.items()})


def test_two_monitors_with_one_label_are_two_rails() -> None:
    files = {
        f"{CLASS}/hwmon{n}/{file}": text
        for n in (1, 2, 3)
        for file, text in {"name": "amdgpu\n", "power1_label": "PPT\n", "power1_input": "9000000\n"}.items()
    }
    assert set(found("generic-linux", files)) == {"PPT", "amdgpu.PPT", "hwmon3.PPT"}


def test_the_energy_counter_of_a_processor_is_a_rail_for_those_who_may_read_it() -> None:
    zone, part = "/sys/class/powercap/intel-rapl:0", "/sys/class/powercap/intel-rapl:0:0"
    files = {
        f"{zone}/name": "package-0\n",
        f"{zone}/energy_uj": "123456\n",
        f"{zone}/max_energy_range_uj": "262143328850\n",
        f"{part}/name": "core\n",
        f"{part}/energy_uj": "1\n",
    }
    table = found("generic-linux", files)
    assert set(table) == {"package-0"}
    assert table["package-0"]["wraps"] == 262143328850
    assert table["package-0"]["sensor"]["kind"] == "rapl"
    assert not found("generic-linux", files, {f"{zone}/energy_uj": errno.EACCES})
