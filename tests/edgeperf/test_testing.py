"""The fixture for users' own tests: what it gives, and that its example in the documents runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from edgeperf.bench import measure
from edgeperf.left import Request
from edgeperf.ui import Ui
from remote.errors import HostError, UsageError
from remote.types import Job

if TYPE_CHECKING:
    from edgeperf.testing import JetsonBoard

pytest_plugins = ["edgeperf.testing"]

ROOT = Path(__file__).resolve().parents[2]


def test_a_board_of_the_asked_release_answers(jetson_board: JetsonBoard) -> None:
    board = jetson_board("orin-nx@r36.4", faults=["throttle@30s"])
    assert (board.spec.name, board.transport.facts.l4t[:4]) == ("orin-nx", "36.4")
    assert board.host.text.endswith(",fault=throttle@30s")
    done = board.transport.run(Job(("tegrastats", "--interval", "1000"), duration_s=3.0))
    assert any("VDD_IN" in line.text for line in done.lines)


def test_engines_can_be_built_and_measured(jetson_board: JetsonBoard, tmp_path: Path) -> None:
    board = jetson_board("orin-nx@r36.4")
    record = measure(Request("alexnet", duration_s=1.0), board, tmp_path, Ui(quiet=True).phase)
    assert record.simulated
    assert record.throughput_per_s is not None


def test_boards_are_apart_and_without_faults_unless_asked(jetson_board: JetsonBoard) -> None:
    broken, whole = jetson_board("tx1", faults=["reboot@1s"]), jetson_board("sim:tx1,seed=7")
    with pytest.raises(HostError):
        broken.transport.run(Job(("sleep", "3")))
    assert whole.transport.run(Job(("sleep", "3"))).exit_code == 0


@pytest.mark.parametrize(("board", "faults"), [("tx9", []), ("local", []), ("tx1", ["trottle@3s"]), ("tx1,x=1", [])])
def test_what_there_is_not_is_refused(jetson_board: JetsonBoard, board: str, faults: list[str]) -> None:
    with pytest.raises(UsageError):
        jetson_board(board, faults=faults)


def test_the_example_of_the_documents_passes(tmp_path: Path) -> None:
    text = (ROOT / "docs/twin.md").read_text("utf-8")
    files = re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert [name for name, _ in files] == ["conftest.py", "test_board.py"]
    for name, source in files:
        (tmp_path / name).write_text(source, "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
