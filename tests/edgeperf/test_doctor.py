"""What the doctor makes of the files of a board, and that it examines every kind of board."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

import pytest

from edgeperf import doctor, doctor_texts
from edgeperf.doctor_texts import Finding
from remote import boards, hosts
from remote.board import Board
from remote.sim.link import TwinTransport
from remote.transport import Transport
from remote.types import Readout, Text

HWMON = "/sys/class/hwmon/hwmon1"
COOLING = "/sys/class/thermal/cooling_device0"
IIO = "/sys/bus/i2c/drivers/ina3221x/6-0040/iio:device0"


def texts(**files: str) -> dict[str, Text]:
    return {path: Text(text) for path, text in files.items()}


def processes(*names: str) -> dict[str, Text]:
    return {f"/proc/{number}/comm": Text(f"{name}\n") for number, name in enumerate(names)}


def one(findings: Iterable[Finding], subject: str) -> Finding:
    (found,) = (finding for finding in findings if finding.subject == subject)
    return found


@pytest.mark.parametrize(
    "header",
    [
        "#define NV_TENSORRT_MAJOR 8 //!< major\n#define NV_TENSORRT_MINOR 5\n#define NV_TENSORRT_PATCH 2\n",
        "#define TRT_MAJOR_RTX 1\n#define TRT_MAJOR_ENTERPRISE 8\n#define TRT_MINOR_ENTERPRISE 5\n"
        "#define TRT_PATCH_ENTERPRISE 2\n#define NV_TENSORRT_MAJOR TRT_MAJOR_ENTERPRISE\n",
    ],
)
def test_the_version_of_tensorrt_is_told_with_its_file(header: str) -> None:
    path = "/usr/include/aarch64-linux-gnu/NvInferVersion.h"
    found = one(doctor_texts.software({path: Text(header)}, False), "TensorRT")
    assert (found.mark, found.found) == ("ok", f"8.5.2 ({path})")


def test_tensorrt_without_its_headers_is_known_by_its_python_package() -> None:
    path = "/usr/lib/python3.10/dist-packages/tensorrt-10.3.0.dist-info"
    found = one(doctor_texts.software({f"{path}/METADATA": Text("Name: tensorrt")}, False), "TensorRT")
    assert found.found == f"10.3.0 for Python ({path})"


def test_what_is_not_installed_is_a_note_and_no_problem() -> None:
    found = list(doctor_texts.software({"/usr/local/cuda/version.json": Text(error="ENOENT")}, False))
    assert {finding.subject: finding.mark for finding in found} == dict.fromkeys(
        ("TensorRT", "trtexec", "CUDA"), "note"
    )


def test_trtexec_is_found_without_being_read() -> None:
    path = "/usr/src/tensorrt/bin/trtexec"
    assert path not in doctor_texts.PATHS
    assert one(doctor_texts.software({f"{path}/.": Text(error="ENOTDIR")}, False), "trtexec").found == path
    assert one(doctor_texts.software({f"{path}/.": Text(error="ENOENT")}, False), "trtexec").found == "none"


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("version.json", '{"cuda": {"name": "CUDA SDK", "version": "12.6.68"}}'),
        ("version.txt", "CUDA Version 12.6.68\n"),
    ],
)
def test_the_version_of_cuda_is_told_with_its_file(file: str, text: str) -> None:
    path = f"/usr/local/cuda/{file}"
    assert one(doctor_texts.software({path: Text(text)}, False), "CUDA").found == f"12.6.68 ({path})"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cuda": 12}', "null"])
def test_a_version_file_of_another_form_is_said_to_be_one(text: str) -> None:
    found = one(doctor_texts.software({"/usr/local/cuda/version.json": Text(text)}, False), "CUDA")
    assert (found.mark, "form" in found.found) == ("note", True)


def test_other_owners_of_the_clocks_are_named_with_what_they_do() -> None:
    found = list(doctor_texts.others(processes("systemd", "jtop", "power-profiles-", "sshd")))
    owners = [finding for finding in found if finding.subject == "other owners"]
    assert [finding.found.partition(":")[0] for finding in owners] == ["jtop", "power-profiles-daemon"]
    assert all(finding.mark == "note" and finding.advice for finding in owners)


def test_a_desktop_is_a_note_and_a_headless_board_is_well() -> None:
    assert one(doctor_texts.others(processes("Xorg", "gnome-shell")), "desktop").mark == "note"
    assert one(doctor_texts.others(processes("systemd")), "desktop").mark == "ok"


def test_the_service_of_the_power_mode_is_named() -> None:
    service = {"/etc/systemd/system/nvpmodel.service": Text("[Unit]\n")}
    assert one(doctor_texts.others({**processes("systemd"), **service}), "power mode service").mark == "ok"


def test_where_no_processes_are_listed_nothing_is_claimed_of_them() -> None:
    (found,) = doctor_texts.others({})
    assert "no processes" in found.found


def test_a_passed_limit_is_a_problem_named_by_its_sensor() -> None:
    files = {f"{HWMON}/name": "ina3221\n", f"{HWMON}/curr1_crit_alarm": "1\n", f"{HWMON}/curr2_crit_alarm": "0\n"}
    found = one(doctor_texts.throttling(texts(**files)), "alarms")
    assert (found.mark, found.found) == ("problem", "ina3221 curr1_crit")


@pytest.mark.parametrize(("count", "mark"), [("0", "ok"), ("3", "note")])
def test_over_current_events_are_counted(count: str, mark: str) -> None:
    files = {f"{HWMON}/name": "soctherm_oc\n", f"{HWMON}/oc1_event_cnt": f"{count}\n"}
    found = one(doctor_texts.throttling(texts(**files)), "over-current")
    assert found.mark == mark
    assert count == "0" or "soctherm_oc oc1 3" in found.found


@pytest.mark.parametrize(
    ("kind", "state", "mark"),
    [
        ("cpu-balanced", "2", "problem"),
        ("thermal-cpufreq-0", "1", "problem"),
        ("gpu-throttle-alert", "1", "problem"),
        ("cpu-balanced", "0", "ok"),
        ("intel_powerclamp", "-1", "ok"),
        ("pwm-fan", "3", "ok"),
        ("LCD", "5", "ok"),
    ],
)
def test_what_slows_the_board_down_is_told_from_fans_and_screens(kind: str, state: str, mark: str) -> None:
    found = doctor_texts.throttling(texts(**{f"{COOLING}/type": f"{kind}\n", f"{COOLING}/cur_state": f"{state}\n"}))
    assert one(found, "throttling").mark == mark


@pytest.mark.parametrize(
    ("bits", "mark", "word"),
    [
        ("0", "ok", "nothing"),
        ("50005", "problem", "under-voltage"),
        ("50000", "note", "throttled"),
        ("?", "note", "form"),
    ],
)
def test_the_firmware_of_a_raspberry_pi_tells_of_throttling(bits: str, mark: str, word: str) -> None:
    path = "/sys/devices/platform/soc/soc:firmware/get_throttled"
    found = one(doctor_texts.throttling({path: Text(f"{bits}\n")}), "throttling")
    assert (found.mark, word in found.found) == (mark, True)


@pytest.mark.parametrize(("millivolts", "mark"), [("4600", "problem"), ("4960", "ok"), ("19100", "ok")])
def test_an_input_that_sags_is_a_problem_on_either_driver(millivolts: str, mark: str) -> None:
    hwmon = texts(**{f"{HWMON}/in1_label": "VDD_IN\n", f"{HWMON}/in1_input": millivolts})
    iio = texts(**{f"{IIO}/rail_name_0": "POM_5V_IN\n", f"{IIO}/in_voltage0_input": millivolts})
    for files in (hwmon, iio):
        assert one(doctor_texts.voltage(files), "input voltage").mark == mark


@pytest.mark.parametrize("reading", [Text("0\n"), Text("fast\n"), Text(error="EAGAIN")])
def test_a_voltage_that_cannot_be_told_is_left_out(reading: Text) -> None:
    files = {f"{HWMON}/in1_label": Text("VDD_IN\n"), f"{HWMON}/in1_input": reading}
    assert list(doctor_texts.voltage(files)) == []


def test_little_free_memory_is_a_note() -> None:
    files = texts(**{"/proc/meminfo": "MemTotal: 4000000 kB\nMemAvailable:  400000 kB\n"})
    assert doctor_texts.memory(files, 4_096_000_000).mark == "note"
    assert doctor_texts.memory({}, 4_096_000_000).mark == "ok"
    assert doctor_texts.memory({}, 0).mark == "note"


@pytest.mark.parametrize(("board_s", "mark"), [(1e9 + 3, "ok"), (1e9 - 3600, "note"), (0.0, "note")])
def test_a_calendar_that_is_off_is_a_note(board_s: float, mark: str) -> None:
    assert doctor_texts.clock(board_s, 1e9).mark == mark


@dataclass
class Counting:
    """A board that counts how often it was asked to read."""

    board: Transport
    reads: int = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self.board, name)

    def read(self, paths: Sequence[str] = (), *, settings: bool = False) -> Readout:
        self.reads += 1
        return self.board.read(paths, settings=settings)


def examined(text: str) -> tuple[doctor.Examination, int]:
    host = hosts.parse(text)
    assert isinstance(host, hosts.Twin)
    with TwinTransport(host, {}) as transport:
        counting = Counting(transport)
        board = Board(host, boards.load(transport.facts.board), cast(Transport, counting))
        return doctor.examine(board), counting.reads


@pytest.mark.parametrize("name", boards.twins())
def test_every_twin_is_examined_in_one_read_and_has_no_problem(name: str) -> None:
    report, reads = examined(f"sim:{name}")
    assert reads == 1
    assert [finding for finding in report.findings if finding.mark == "problem"] == []
    told = {finding.subject for finding in report.findings}
    assert {"board", "memory", "disk", "root", "TensorRT", "settings", "throttling", "installation"} <= told


def test_settings_whose_cores_are_off_are_told_in_one_row() -> None:
    report, _ = examined("sim:xavier-nx")
    asleep = one(report.findings, "settings asleep")
    assert (asleep.mark, "cpu4.governor" in asleep.found) == ("ok", True)


def test_the_power_mode_is_told_with_the_others_of_the_board() -> None:
    found = one(examined("sim:agx-orin")[0].findings, "power mode").found
    assert found == "MODE_30W; others: MAXN, MODE_15W, MODE_50W"
    assert "power mode" not in {finding.subject for finding in examined("sim:tx1")[0].findings}
