"""The fixture for users' own tests: what it gives, and that its example in the documents runs."""

from __future__ import annotations

import base64
import os
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import paramiko
import pytest

from edgeperf.bench import measure
from edgeperf.left import Request
from edgeperf.ui import Ui
from remote.errors import HostError, UsageError
from remote.types import Job
from tests.cli.command import edgeperf

if TYPE_CHECKING:
    from edgeperf.testing import JetsonBoard

pytest_plugins = ["edgeperf.testing"]

_PYTEST = "import faulthandler, sys, pytest; faulthandler.dump_traceback_later(45, exit=True); sys.exit(pytest.main())"
"""Where it hangs, it says where, and ends."""

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


def test_a_served_board_is_reached_with_what_is_given(
    jetson_board: JetsonBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = jetson_board.serve("orin-nx@r36.4", faults=["throttle@1s"])
    other = jetson_board.serve("tx1@r23.1")
    assert one.port != other.port
    for address, release in ((one, "36.4"), (other, "23.1")):
        for name, value in address.environment.items():
            monkeypatch.setenv(name, value)
        ran = edgeperf("status", "--host", address.host, "--json")
        assert ran.data()["l4t"].startswith(release), ran.err
    arguments = {"username": one.user, "key_filename": str(one.key_file), "look_for_keys": False, "allow_agent": False}
    client = paramiko.SSHClient()
    known = client.get_host_keys()
    _, kind, key = one.known_hosts.read_text().split()
    known.add(f"[{one.address}]:{one.port}", kind, paramiko.Ed25519Key(data=base64.b64decode(key)))
    with client:
        client.connect(one.address, one.port, **arguments)
        assert "sys" in client.open_sftp().listdir("/")


@pytest.mark.skipif(shutil.which("ssh") is None, reason="needs OpenSSH's client")
def test_the_command_is_ready_for_a_command_line(jetson_board: JetsonBoard) -> None:
    words = [*jetson_board.serve("nano").command, "true"]
    ran = subprocess.run(words, capture_output=True, text=True, check=False, timeout=30)
    assert "only starts the programs" in ran.stderr


@pytest.mark.skipif(shutil.which("ssh") is None, reason="needs OpenSSH's client")
def test_with_a_shell_any_command_runs_on_the_board(jetson_board: JetsonBoard) -> None:
    from tests.remote.sim_root import missing  # is skipped where there is no FUSE

    if missing():
        pytest.skip(missing())
    board = jetson_board.serve("nano", shell=True)
    ran = subprocess.run(
        [*board.command, "cat /proc/device-tree/model; tegrastats | head -n 1"],
        capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip
    model, line = ran.stdout.split("\0")
    assert model.startswith("NVIDIA Jetson Nano")
    assert "GR3D_FREQ" in line
    assert not ran.stderr


def test_a_server_ends_with_its_test(tmp_path: Path) -> None:
    from edgeperf.testing import JetsonBoard  # not before pytest has taken it for a plugin

    with ExitStack() as test:
        address = JetsonBoard(tmp_path, test).serve("nano")
        with socket.create_connection((address.address, address.port)) as line:
            assert line.recv(4) == b"SSH-"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((address.address, address.port))


def test_without_the_library_it_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['asyncssh'] = None; from contextlib import ExitStack; from pathlib import Path;"
        "from edgeperf.testing import JetsonBoard; JetsonBoard(Path('.'), ExitStack()).serve('nano')"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert "UsageError" in ran.stderr
    assert "edgeperf[sim]" in ran.stderr


@pytest.mark.skipif(shutil.which("scp") is None, reason="needs OpenSSH's clients")
def test_the_example_of_the_documents_passes(tmp_path: Path) -> None:
    text = (ROOT / "docs/testing.md").read_text("utf-8")
    files = re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert [name for name, _ in files] == ["conftest.py", "test_board.py", "test_board_over_ssh.py"]
    for name, source in files:
        (tmp_path / name).write_text(source, "utf-8")
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
    done = subprocess.run(
        [sys.executable, "-c", _PYTEST, "-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'kept'}", "."],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60, env={**os.environ, "PATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
