"""`exec` measures any command on a board: its output passes, its exit code is kept, its energy is known."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from edgeperf.execute import Request, execute
from edgeperf.record import Exec
from remote import hosts
from remote.board import open_board
from remote.sim.link import TwinTransport
from remote.sim.physics import Activity
from remote.sim.process import Action, Busy, Context, Err, Out, Program, Sleep
from remote.types import Line
from tests.cli.command import Ran, edgeperf, nodes

HEAVY = Activity(flops_per_s=2e10, bytes_per_s=5e9, gpu_load=1.0, cpu_load=1.0)
posix = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")


def on_nano(*words: str) -> Ran:
    return edgeperf("exec", "--host", "sim:nano", *words)


def run(program: Program, passed: Callable[[Line], None] = lambda line: None, host: str = "sim:nano") -> Exec:
    """Measures a program of the twin's."""
    with open_board(hosts.parse(host), {"node": program}, Path()) as board:
        return execute(Request(("node",), rail_rate_hz=100.0), board, lambda text, seconds: nullcontext(), passed)


def working(context: Context) -> Generator[Action, None, int]:
    """Works for two seconds and rests for one."""
    yield Busy(2.0, HEAVY)
    yield Sleep(1.0)
    return 0


def talking(context: Context) -> Generator[Action, None, int]:
    """Talks every tenth of a second; at Ctrl-C it says so and ends in its own way."""
    try:
        for number in range(100):
            yield Out(f"{number}\n")
            yield Err(f"e{number}\n")
            yield Sleep(0.1)
    except KeyboardInterrupt:
        yield Out("stopping\n")
    return 7


def test_both_outputs_pass_through_each_to_its_own() -> None:
    code = "import sys; print('to out'); print('to err', file=sys.stderr)"
    ran = edgeperf("exec", "--host", "local", "--idle", "0", "--", "python3", "-c", code)
    assert ran.code == 0
    assert ran.out.splitlines()[0] == "to out"
    assert "to err" in ran.err.splitlines()
    assert "to err" not in ran.out.splitlines()


def test_lines_come_while_the_command_still_runs() -> None:
    seen: list[Line] = []
    done = run(talking, seen.append)
    assert [line.text for line in seen if line.source == "stdout"] == [str(number) for number in range(100)]
    assert [line.text for line in seen if line.source == "stderr"] == [f"e{number}" for number in range(100)]
    assert done.exit_code == 7
    assert done.duration_s == pytest.approx(10.0)


def test_the_report_tells_command_energy_and_watts_of_a_simulated_board() -> None:
    lines = on_nano("--", "sleep", "5").out.splitlines()
    assert lines[0] == "sleep 5"
    assert lines[1].startswith("SIMULATED nano")
    rows = {line.split()[0]: line for line in lines if line and not line.startswith(" ")}
    assert rows["command"] == "command     exit code 0, after 5 s"
    assert " J (repeatable)" in rows["energy"]
    assert {"verdict", "power", "rails", "idle", "clocks", "saved"} <= set(rows)


def test_energy_is_the_truth_within_the_stated_interval_over_a_load_that_changes() -> None:
    marks: list[float] = []

    def watched(context: Context) -> Generator[Action, None, int]:
        marks.append(true_joules())
        yield from working(context)
        marks.append(true_joules())
        return 0

    def true_joules() -> float:
        machine.settle()
        return machine.silicon.energy_j["POM_5V_IN"]

    with open_board(hosts.parse("sim:nano,seed=3"), {"node": watched}, Path()) as board:
        assert isinstance(board.transport, TwinTransport)
        machine = board.transport.machine
        done = execute(Request(("node",), rail_rate_hz=100.0), board, lambda text, seconds: nullcontext(), print)
    assert done.energy_j is not None
    assert done.energy_j.absolute95 is not None
    low, high = done.energy_j.absolute95
    true_j = marks[1] - marks[0]
    assert low < true_j < high
    assert high - low < 0.12 * true_j
    assert done.power_w is not None
    assert done.energy_j.value == pytest.approx(done.power_w.total * done.duration_s)


def test_the_exit_code_is_kept_and_a_failing_command_exits_with_5_and_says_which_code(tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    ran = edgeperf(
        *("exec", "--host", "local", "--idle", "0", "--out", str(out), "--"),
        *("python3", "-c", "raise SystemExit(3)"),
    )
    assert ran.code == 5
    assert "exit code 3" in ran.err
    assert "exit code 3" in ran.out
    assert json.loads(out.read_text())["exit_code"] == 3


def test_a_command_that_is_not_there_is_5_and_leaves_no_result() -> None:
    ran = on_nano("--", "no-such-program")
    assert ran.code == 5
    assert "no-such-program" in ran.err
    assert edgeperf("results", "list", "--json").data() == []


def test_what_follows_the_command_is_its_own() -> None:
    assert on_nano("echo", "--json", "--host", "x").out.splitlines()[0] == "--json --host x"


def test_with_json_stdout_is_the_record_alone_and_output_goes_to_stderr() -> None:
    ran = on_nano("--json", "--", "echo", "hello")
    record = ran.data()
    assert (record["kind"], record["argv"], record["exit_code"]) == ("exec", ["echo", "hello"], 0)
    assert "hello" in ran.err


def test_without_a_host_nothing_is_run() -> None:
    ran = edgeperf("exec", "--", "echo", "hello")
    assert (ran.code, ran.out) == (2, "")


def test_the_clocks_are_held_while_it_runs_and_put_back_after(tmp_path: Path) -> None:
    host = f"sim:tx1,state={tmp_path / 'twin.json'}"
    before = nodes(host)
    gpu = [path for path in before if path.endswith("57000000.gpu/devfreq/57000000.gpu/max_freq")]
    ran = edgeperf("exec", "--host", host, "--profile", "efficient", "--", "cat", *gpu)
    record = edgeperf("results", "show", "last", "--json").data()
    assert ran.code == 0
    assert record["clocks"]["profile"] == "efficient"
    assert nodes(host) == before


def test_a_duration_interrupts_a_command_that_would_go_on_and_is_no_failure() -> None:
    record = on_nano("--json", "--duration", "4", "--", "sleep", "1000").data()
    assert (record["ended"], record["limit_s"]) == ("duration", 4.0)
    assert record["duration_s"] == pytest.approx(4.0)
    assert record["verdict"]["state"] == "VALID"


def test_an_endless_command_on_a_simulated_board_is_ended_and_that_is_said() -> None:
    ran = on_nano("--rail-rate", "1Hz", "--", "tegrastats", "--interval", "60000")
    assert ran.code == 0
    assert ran.out.count("RAM ") < 30
    assert "ended by edgeperf" in ran.out
    assert "warning: ended after 600 s: simulated boards" in ran.err
    assert "--duration" in ran.err


@pytest.mark.parametrize("words", [("--duration", "0s", "--", "sleep", "9"), ("--", "")])
def test_no_time_and_no_command_are_refused_before_anything_runs(words: tuple[str, ...]) -> None:
    ran = on_nano(*words)
    assert (ran.code, ran.out) == (2, "")


def test_a_command_whose_board_was_lost_claims_no_time() -> None:
    ran = edgeperf("exec", "--host", "sim:nano,fault=reboot@4s", "--", "sleep", "10")
    assert ran.code == 3
    assert "command     not known: the line was lost\n" in ran.out
    assert "not readable" not in ran.out


def test_a_command_too_short_for_watts_is_degraded_and_says_so() -> None:
    ran = on_nano("--json", "--", "echo", "x")
    record = ran.data()
    assert ran.code == 0
    assert record["power_w"] is None
    assert record["power_missing"]
    assert [reason["code"] for reason in record["verdict"]["reasons"]] == ["too-short"]


def test_a_result_is_listed_and_shown_again() -> None:
    ran = on_nano("--", "sleep", "3")
    listed = edgeperf("results", "list").out
    assert "sleep 3" in listed
    assert "SIMULATED nano" in listed
    assert edgeperf("results", "show", "last").out == ran.out


def test_ctrl_c_while_a_line_is_passed_on_goes_to_the_command_and_what_it_says_then_is_passed_too() -> None:
    seen: list[str] = []

    def passed(line: Line) -> None:
        seen.append(line.text)
        if line.text == "12":
            signal.raise_signal(signal.SIGINT)

    done = run(talking, passed)
    assert seen[-1] == "stopping"
    assert (done.ended, done.exit_code) == ("cancelled", 7)
    assert done.duration_s == pytest.approx(1.2, abs=0.2)
    assert done.verdict.reasons[0].code == "interrupted"
    assert done.power_w is not None


@posix
def test_ctrl_c_reaches_a_real_command_and_edgeperf_exits_with_130_and_keeps_the_result(tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    code = (
        "import time\n"
        "try: print('up', flush=True); time.sleep(60)\n"
        "except KeyboardInterrupt: print('bye', flush=True); raise SystemExit(9)\n"
    )
    words = ["exec", "--host", "local", "--idle", "0", "--out", str(out), "--", "python3", "-c", code]
    process = subprocess.Popen(
        [sys.executable, "-c", "from edgeperf.cli import main; main()", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    os.kill(process.pid, signal.SIGINT)
    rest, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert rest.startswith("bye\n")
    assert "Traceback" not in err
    record: Any = json.loads(out.read_text())
    assert (record["ended"], record["exit_code"]) == ("cancelled", 9)
