"""`edgeperf rails`: rows of a board and of a captured log, in each form, and how it ends."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import bench, edgeperf

ORIN = (
    "12-05-2023 17:30:{second:02} RAM 9001/30588MB (lfb 40x4MB) CPU [50%@1190,off,0%@1110] EMC_FREQ 2%@2133"
    " GR3D_FREQ 7%@[611,305] GPU@{gpu}C tj@43.5C VDD_GPU_SOC {mw}mW/2800mW VDD_CPU_CV 1000mW/800mW"
    " VIN_SYS_5V0 3000mW/3930mW NC 0mW/0mW VDDQ_VDD2_1V8AO 600mW/600mW NC 5mW/0mW FUTURE word"
)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Three seconds of an AGX Orin, with something else in between."""
    lines = [
        ORIN.format(second=58, mw=2000, gpu=-256),
        "",
        "tegrastats: interrupted system call",
        ORIN.format(second=59, mw=4000, gpu=44.5),
        ORIN.format(second=59, mw=6000, gpu=44.5),
    ]
    path = tmp_path / "orin.log"
    path.write_text("\r\n".join(lines) + "\n", "utf-8")
    return path


def objects(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


def test_rows_of_a_simulated_board_come_without_waiting_and_end_with_the_energy() -> None:
    ran = edgeperf("rails", "--host", "sim:nano", "--duration", "1m", "--every", "10s")
    assert ran.code == 0
    *rows, first, watts, energy, _, heat = ran.out.splitlines()
    assert len(rows) == 6
    assert all("POM_5V_IN" in row and "gpu" in row for row in rows)
    assert first.startswith("SIMULATED nano")
    assert "module_in" in watts
    assert energy.startswith("energy  97.")
    assert heat.startswith("heat")
    assert ran.err.startswith("SIMULATED nano")


def test_the_energy_of_rows_is_that_of_their_mean_power() -> None:
    ran = edgeperf("rails", "--host", "sim:agx-orin,seed=3", "--duration", "30s", "--jsonl")
    rows = objects(ran.out)
    assert [round(row["t_s"], 6) for row in rows] == list(range(1, 31))
    mean_w = sum(row["total_w"] for row in rows) / len(rows)
    assert rows[-1]["energy_j"] == pytest.approx(mean_w * 30, rel=2e-3)
    formula = ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0")
    assert rows[0]["total_w"] == pytest.approx(sum(rows[0]["rails_w"][name] for name in formula))
    assert {"host": "sim:agx-orin,seed=3", "simulated": True, "power_scope": "soc_rails"}.items() <= rows[0].items()
    assert set(rows[0]["clocks_hz"]) == {"cpu", "gpu", "emc"}


def test_csv_has_a_head_and_as_many_cells_in_each_row() -> None:
    ran = edgeperf("rails", "--host", "sim:orin-nx", "--duration", "2.5s", "--csv", "--quiet")
    head, *rows = csv.reader(io.StringIO(ran.out))
    assert head[:5] == ["t_s", "total_w", "energy_j", "simulated", "VDD_IN_w"]
    assert [row[0] for row in rows] == ["1", "2", "2.5"]
    assert {len(row) for row in rows} == {len(head)}
    assert float(rows[0][head.index("VDD_IN_v")]) == pytest.approx(5.0, abs=0.2)
    assert ran.err == ""


def test_quiet_leaves_people_the_summary_only() -> None:
    ran = edgeperf("rails", "--host", "sim:tx1", "--duration", "3s", "--quiet")
    assert ran.out.startswith("SIMULATED tx1")
    assert "3.0 s in 3 rows" in ran.out
    assert ran.err == ""


def test_a_simulated_board_without_a_duration_ends_all_the_same() -> None:
    ran = edgeperf("rails", "--host", "sim:tx1", "--quiet")
    assert "10.0 s in 10 rows" in ran.out


def test_a_board_without_sensors_shows_the_rest_and_says_why_there_is_no_total() -> None:
    ran = edgeperf("rails", "--host", "sim:nano-2gb", "--duration", "2s")
    assert ran.code == 0
    assert "cpu" in ran.out
    assert "no total: this machine has no power sensor" in ran.out


def test_rails_by_tegrastats_are_those_of_the_sensors() -> None:
    host = ("--host", "sim:agx-orin", "--duration", "5s", "--jsonl")
    own, told = (objects(edgeperf("rails", *host, "--rails", source).out) for source in ("sysfs", "tegrastats"))
    assert set(told[0]["rails_w"]) == set(own[0]["rails_w"])
    assert told[-1]["energy_j"] == pytest.approx(own[-1]["energy_j"], rel=0.02)


def test_a_log_is_read_to_an_object_per_line(log: Path) -> None:
    ran = edgeperf("rails", "--from", str(log), "--json")
    assert ran.code == 0
    first, other, second, third = objects(ran.out)
    assert first["rails_w"] == {
        "VDD_GPU_SOC": 2.0,
        "VDD_CPU_CV": 1.0,
        "VIN_SYS_5V0": 3.0,
        "NC": 0.0,
        "VDDQ_VDD2_1V8AO": 0.6,
        "NC#2": 0.005,
    }
    assert first["temps_c"] == {"GPU": None, "tj": 43.5}
    assert first["cpu"] == [{"load": 0.5, "hz": 1190e6}, None, {"load": 0.0, "hz": 1110e6}]
    assert first["gpu"] == {"load": 0.07, "hz": 611e6, "hz_each": [611e6, 305e6], "off": False}
    assert first["emc"]["hz"] == 2133e6
    assert first["unknown"] == ["FUTURE word"]
    assert (first["total_w"], first["time"]) == (None, "2023-12-05T17:30:58")
    assert (other["line"], other["unknown"]) == (3, ["tegrastats: interrupted system call"])
    assert (second["line"], third["line"]) == (4, 5)
    assert "warning: 1 of 4 lines" in ran.err


def test_a_named_board_gives_a_log_its_total_and_the_energy_between_the_stamps(log: Path) -> None:
    ran = edgeperf("rails", "--from", str(log), "--board", "agx-orin", "--json")
    first, _, second, third = objects(ran.out)
    assert [first["total_w"], second["total_w"], third["total_w"]] == pytest.approx([6.0, 8.0, 10.0])
    assert first["power_scope"] == "soc_rails"
    # The last two lines share a second: together they are 9 W, and from 6 W to 9 W in a second it is 7.5 J.
    assert (first["energy_j"], third["energy_j"]) == (None, pytest.approx(7.5))


def test_a_clock_that_is_set_back_in_a_log_takes_no_time_and_no_energy_away(tmp_path: Path) -> None:
    log = tmp_path / "back.log"
    log.write_text("".join(ORIN.format(second=second, mw=4000, gpu=44.5) + "\n" for second in (58, 59, 50, 51, 52)))
    rows = objects(edgeperf("rails", "--from", str(log), "--board", "agx-orin", "--json").out)
    assert rows[-1]["energy_j"] == pytest.approx(3 * rows[0]["total_w"])
    assert f"{log}: 3.0 s in 5 rows" in edgeperf("rails", "--from", str(log), "--board", "agx-orin").out


def test_rows_without_a_reading_are_told_of_beside_the_energy() -> None:
    ran = edgeperf("rails", "--host", "sim:nano,fault=rail-missing@2s", "--duration", "4s")
    assert "power   incomplete: 2 of 4 rows without a total" in ran.out
    assert "POM_5V_IN -" in ran.out


def test_a_log_without_times_claims_none(tmp_path: Path) -> None:
    log = tmp_path / "plain.log"
    log.write_text("RAM 1/2MB (lfb 1x4MB) CPU [0%@102] VDD_IN 2532/2698\n")
    assert f"{log}: 1 row without times" in edgeperf("rails", "--from", str(log)).out


@pytest.mark.parametrize(
    ("board", "why"),
    [
        ("orin-nx", "the line lacks VDD_IN"),
        ("nano-2gb", "the nano-2gb has no power sensor, or none whose total is known"),
    ],
)
def test_a_log_of_another_board_has_no_total_and_says_why(log: Path, board: str, why: str) -> None:
    first, *_ = objects(edgeperf("rails", "--from", str(log), "--board", board, "--json").out)
    assert (first["total_w"], first["total_missing"]) == (None, why)


@pytest.mark.parametrize(
    ("board", "line", "total_w"),
    [
        ("tx1", "VDD_IN 2532/2698 VDD_CPU 76/178 VDD_GPU 19/19", 2.532),
        ("tx2", "VDD_IN 3104/4029 VDD_CPU 291/730 VDD_GPU 145/207 VDD_SOC 727/746 VDD_DDR 1248/1375", 3.104),
        ("nano", "POM_5V_IN 1750/1628 POM_5V_GPU 0/0 POM_5V_CPU 366/406", 1.75),
        ("agx-xavier", "GPU 618/540 CPU 1236/1236 SOC 2318/2318 CV 0/0 VDDRQ 154/154 SYS5V 2934/2934", 7.26),
        ("orin-nx", "VDD_IN 5469mW/5469mW VDD_CPU_GPU_CV 970mW/970mW VDD_SOC 1579mW/1579mW", 5.469),
        ("agx-thor", "VDD_GPU 1962mW/1mW VDD_CPU_SOC_MSS 5887mW/1mW VIN_SYS_5V0 5635mW/1mW VIN 19780mW/1mW", 19.78),
        ("nano", "POM_5V_IN 0/0 POM_5V_GPU 0/0 POM_5V_CPU 0/0", None),
    ],
)
def test_totals_of_a_log_follow_the_boards_formula(
    board: str, line: str, total_w: float | None, tmp_path: Path
) -> None:
    path = tmp_path / "one.log"
    path.write_text(f"RAM 1/2MB (lfb 1x4MB) CPU [0%@102] {line}\n", "utf-8")
    (entry,) = objects(edgeperf("rails", "--from", str(path), "--board", board, "--json").out)
    assert entry["total_w"] == (None if total_w is None else pytest.approx(total_w))


def test_a_log_from_stdin_is_shown_for_people_too(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(log.read_text("utf-8")))
    ran = edgeperf("rails", "--from", "-", "--board", "agx-orin")
    assert ran.code == 0
    assert "power   7.500 W on average, rows from 6.00 to 10.00 W" in ran.out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--from", "/nowhere/x.log"), 2, "cannot be read"),
        (("--from", "/dev/null"), 4, "no line of it is a report"),
        (("--from", "x", "--host", "local"), 2, "--from reads a log"),
        (("--board", "tx1"), 2, "--board goes with --from"),
        (("--csv", "--jsonl"), 2, "--csv and --jsonl"),
        (("--host", "sim:tx1", "--every", "0"), 2, "too short"),
        (("--host", "sim:tx1", "--duration", "0s"), 2, "no time to run for"),
        (("--host", "sim:tx1", "--rails", "ina"), 2, "give auto, sysfs, tegrastats, jtop"),
        (("--host", "sim:nano", "--rails", "tegrastats"), 4, "tegrastats shows no power rails"),
        (("--host", "sim:nano", "--rails", "jtop"), 4, "python3 could not be started"),
        (("--host", "local", "--rails", "tegrastats"), 2, "no NVIDIA L4T"),
    ],
)
def test_what_cannot_be_shown_is_said_with_its_exit_code(words: tuple[str, ...], code: int, said: str) -> None:
    ran = edgeperf("rails", *words)
    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err


def test_a_bench_by_tegrastats_says_so_and_agrees_with_the_sensors() -> None:
    words = ("--fp16", "--host", "sim:orin-nx", "--duration", "5", "--toolchain", "tensorrt")
    own, told = (bench(*words, "--rails", source) for source in ("auto", "tegrastats"))
    assert (own["sampling"]["source"], told["sampling"]["source"]) == ("sysfs", "tegrastats")
    assert told["power_w"]["total"] == pytest.approx(own["power_w"]["total"], rel=0.02)
    assert told["power_w"]["idle_total"] is not None
    assert told["power_w"]["absolute95"] is not None


def test_a_command_by_tegrastats_has_its_watts_too() -> None:
    ran = edgeperf("exec", "--host", "sim:agx-orin", "--rails", "tegrastats", "--json", "--", "sleep", "4")
    assert ran.code == 0, ran.err
    record = ran.data()
    assert record["sampling"]["source"] == "tegrastats"
    assert record["energy_j"]["value"] == pytest.approx(4 * record["power_w"]["total"], rel=0.01)


COMMAND = [sys.executable, "-c", "from edgeperf.cli import main; main()", "rails"]
needs_posix = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")


def started(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@needs_posix
@pytest.mark.parametrize("form", [(), ("--jsonl",)])
def test_ctrl_c_ends_with_a_summary_and_0(form: tuple[str, ...]) -> None:
    with started("--host", "sim:tx1,speed=1", "--every", "0.2s", *form) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        assert process.stdout.readline()
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert process.returncode == 0
    assert "Traceback" not in err
    assert "energy  " in (err if form else out)


@needs_posix
def test_ctrl_c_before_anything_was_read_is_130() -> None:
    with started("--from", "-", "--json") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("no report\n")
        process.stdin.flush()
        assert process.stdout.readline()
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Traceback" not in err


@needs_posix
def test_a_reader_that_has_seen_enough_ends_it() -> None:
    with started("--host", "sim:tx1", "--duration", "24h", "--csv") as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("t_s,")
        process.stdout.close()
        assert process.wait(20) == 0
