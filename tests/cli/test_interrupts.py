"""Ctrl-C, a kill and two commands at once: the board comes back, what was measured is kept."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import edgeperf, nodes, tiny_model

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")


class Running:
    """A bench in a process group of its own, as a shell starts it."""

    def __init__(self, *words: str) -> None:
        command = [sys.executable, "-c", "from edgeperf.cli import main; main()", "bench", *words]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )

    def under_way(self, for_s: float) -> None:
        """Waits until it says that the network runs, and a while longer."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if line.startswith("running "):
                break
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(for_s)
        assert self.process.poll() is None

    def signalled(self, number: int, group: bool = True) -> tuple[int, str]:
        """Sends a signal as a terminal does, or to the one process; returns exit code and stderr."""
        (os.killpg if group else os.kill)(self.process.pid, number)
        _, err = self.process.communicate(timeout=20)
        return self.process.returncode, err


def saved(path: Path) -> Any:
    record = json.loads(path.read_text())
    assert record["verdict"]["state"] == "INVALID"
    assert "interrupted" in [reason["code"] for reason in record["verdict"]["reasons"]]
    return record


@pytest.mark.parametrize(
    ("number", "group"),
    [(signal.SIGINT, True), (signal.SIGTERM, False), (signal.SIGHUP, True)],
    ids=["Ctrl-C", "kill", "closed terminal"],
)
def test_what_ends_a_real_run_gives_130_and_keeps_what_was_measured(tmp_path: Path, number: int, group: bool) -> None:
    model, out = tiny_model(tmp_path / "tiny.onnx"), tmp_path / "result.json"
    before = nodes("local")
    run = Running(str(model), "--host", "local", "--warmup", "0", "--duration", "60", "--idle", "0", "--out", str(out))
    run.under_way(for_s=1.5)
    code, err = run.signalled(number, group)
    assert code == 130
    assert "Traceback" not in err
    record = saved(out)
    assert record["throughput_per_s"]["value"] > 0
    assert record["samples_s"]
    assert nodes("local") == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_ends_a_simulated_run_gives_130_and_puts_the_clocks_back(tmp_path: Path, number: int) -> None:
    host = f"sim:tx1@r32.7,state={tmp_path / 'twin.json'}"
    out = tmp_path / "result.json"
    assert edgeperf("build", "alexnet", "--host", host).code == 0
    before = nodes(host)
    words = ("--warmup", "0", "--duration", "60", "--idle", "0", "--out", str(out), "--profile", "efficient")
    run = Running("alexnet", "--host", f"{host},speed=1", *words)
    run.under_way(for_s=1.0)
    code, err = run.signalled(number)
    assert code == 130
    assert "Traceback" not in err
    saved(out)
    assert nodes(host) == before


def test_ctrl_c_before_the_measurement_is_130_too_and_nothing_is_left(tmp_path: Path) -> None:
    host = f"sim:tx1@r23.1,state={tmp_path / 'twin.json'}"
    before = nodes(host)
    run = Running("alexnet", "--host", f"{host},speed=1", "--idle", "60")
    assert run.process.stderr is not None
    assert run.process.stderr.readline().startswith("measuring ")
    code, err = run.signalled(signal.SIGINT)
    assert code == 130
    assert "Traceback" not in err
    assert nodes(host) == before


def test_after_a_kill_the_state_file_is_as_before_and_free(tmp_path: Path) -> None:
    host = f"sim:tx1@r23.1,state={tmp_path / 'twin.json'}"
    before = nodes(host)
    run = Running("alexnet", "--host", f"{host},speed=1", "--duration", "60", "--idle", "0")
    run.under_way(for_s=0.1)
    code, _ = run.signalled(signal.SIGKILL)
    assert code == -signal.SIGKILL
    assert nodes(host) == before
    assert edgeperf("bench", "alexnet", "--host", host).code == 0
    assert nodes(host) == before


def test_a_second_command_on_a_state_file_in_use_exits_3_and_disturbs_nothing(tmp_path: Path) -> None:
    host = f"sim:tx1@r23.1,state={tmp_path / 'twin.json'}"
    run = Running("alexnet", "--host", f"{host},speed=1", "--duration", "60", "--idle", "0")
    run.under_way(for_s=0.1)
    second = edgeperf("maxperf", "--host", host)
    assert (second.code, second.out) == (3, "")
    assert "in use" in second.err
    assert run.signalled(signal.SIGINT)[0] == 130
    assert edgeperf("maxperf", "--host", host).code == 0
