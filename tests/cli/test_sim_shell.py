"""`edgeperf sim shell` and `edgeperf sim mount`: what a user types, from a script to the exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.command import edgeperf
from tests.remote.sim_root import FORUM, PROJECT, missing

EDGEPERF = (sys.executable, "-c", "import sys; from edgeperf.cli import main; sys.exit(main())")


def run(*words: str, folder: Path, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
    """Runs edgeperf in a process of its own, as a shell takes over stdin and stdout."""
    if missing():
        pytest.skip(missing())
    around = {**os.environ, "PYTHONPATH": str(PROJECT), **env}
    words = (*EDGEPERF, "sim", *words)
    return subprocess.run(
        words, input=stdin, cwd=folder, env=around, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("way", ["stdin", "file"])
def test_after_the_forums_script_only_the_gpu_rate_is_left_to_change(tmp_path: Path, way: str) -> None:
    board = f"tx1@r23.1,state={tmp_path / 'board.json'}"
    scripts = tmp_path / "scripts"
    scripts.mkdir(mode=0o755)
    (scripts / "lock.sh").write_text(FORUM)
    words = ("sh", "-e") if way == "stdin" else ("sh", "-e", "lock.sh")
    ran = run("shell", board, "--", *words, folder=scripts, stdin=FORUM if way == "stdin" else "")
    assert (ran.returncode, ran.stderr) == (0, "")
    left = edgeperf("maxperf", "--host", f"sim:{board}", "--dry-run", "--json").data()
    assert {row["knob"] for row in left["rows"] if row["result"] not in ("unchanged", "absent")} <= {"gpu.rate"}


def test_the_commands_exit_code_and_outputs_are_its_own(tmp_path: Path) -> None:
    ran = run("shell", "tx1", "--user", "nvidia", "--", "sh", "-c", "id -u; echo no >&2; exit 7", folder=tmp_path)
    assert (ran.returncode, ran.stdout, ran.stderr) == (7, "1000\n", "no\n")
    assert run("shell", "tx1", "--", "no-such-program", folder=tmp_path).returncode == 127


def test_at_full_speed_sleep_takes_no_time(tmp_path: Path) -> None:
    line = "cat /proc/uptime; sleep 200; cat /proc/uptime"
    began_s = time.monotonic()
    first, second = run("shell", "tx1", "--speed", "max", "--", "sh", "-c", line, folder=tmp_path).stdout.splitlines()
    assert float(second.split()[0]) - float(first.split()[0]) == pytest.approx(200.0, abs=0.1)
    assert time.monotonic() - began_s < 100.0


def test_folders_are_seen_where_they_are_asked_for_and_stay_as_they_are(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    tools.chmod(0o755)
    (tools / "say").write_text("echo said")
    line = "sh /opt/t/say; touch /opt/t/new /mnt/new; ls /mnt"
    ran = run("shell", "tx1", "--bind", f"{tools}:/opt/t", "--", "sh", "-c", line, folder=tools)
    assert ran.stdout == "said\nsay\n"
    assert ran.stderr.count("Read-only file system") == 2


def test_a_home_folder_is_not_seen(tmp_path: Path) -> None:
    ran = run("shell", "tx1", "--", "ls", "-A", "/mnt", folder=tmp_path, HOME=str(tmp_path))
    assert (ran.returncode, ran.stdout) == (0, "")


def test_files_that_the_command_names_are_seen_wherever_they_lie(tmp_path: Path) -> None:
    script = tmp_path / "say.sh"
    script.write_text("echo said; ls -A /mnt")
    (tmp_path / "secret").write_text("nobody's business")
    at_home = run("shell", "tx1", "--", "sh", "say.sh", folder=tmp_path, HOME=str(tmp_path))
    assert (at_home.stdout, at_home.stderr) == ("said\nsay.sh\n", "")
    tmp_path.chmod(0o700)  # which keeps out whom root is in there
    elsewhere = run("shell", "tx1", "--", "sh", str(script), folder=Path("/"))
    assert (elsewhere.stdout, elsewhere.stderr) == ("said\n", "")
    private = run("shell", "tx1", "--", "sh", "say.sh", folder=tmp_path)
    assert private.stdout.startswith("said\n")


@pytest.mark.parametrize(("number", "group"), [(signal.SIGTERM, False), (signal.SIGINT, False), (signal.SIGINT, True)])
def test_a_signal_ends_the_command_and_the_board(tmp_path: Path, number: signal.Signals, group: bool) -> None:
    if missing():
        pytest.skip(missing())
    words = (*EDGEPERF, "sim", "shell", "tx1", "--", "sh", "-c", "echo there; exec sleep 1000")
    around = {**os.environ, "PYTHONPATH": str(PROJECT)}
    pipe = subprocess.PIPE
    with subprocess.Popen(
        words, cwd=tmp_path, env=around, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        (os.killpg if group else os.kill)(process.pid, number)  # to all of a group, as a terminal sends Ctrl-C
        _, said = process.communicate(timeout=20)
    assert (process.returncode, said) == (128 + number, "")


@pytest.mark.parametrize("renamed", [False, True])
def test_a_signal_unmounts_and_ends_well(tmp_path: Path, renamed: bool) -> None:
    if missing():
        pytest.skip(missing())
    here, there = tmp_path / "here", tmp_path / ("there" if renamed else "here")
    (here / "board").mkdir(parents=True)
    words = (*EDGEPERF, "sim", "mount", "nano", "board")
    around = {**os.environ, "PYTHONPATH": str(PROJECT)}
    with subprocess.Popen(words, cwd=here, env=around, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("mounted below board")
        here.rename(there)
        assert (there / "board/etc/nv_tegra_release").exists()
        process.terminate()
        assert process.wait(20) == 0
        assert process.stderr.read() == "unmounted\n"
    assert list((there / "board").iterdir()) == []


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("shell", "tx1", "--user", "admin"), "no such user"),
        (("shell", "tx1", "--bind", "/no/such/folder"), "there is no folder"),
        (("shell", "tx1", "--bind", "/usr:/sys/x"), "nothing can lie at"),
        (("shell", "tx1", "--bind", "/usr:/opt/../etc"), "nothing can lie at"),
        (("shell", "tx1", "--bind", "/usr:/etc"), "nothing can lie at"),
        (("shell", "tx1", "--bind", "/usr:/mnt/x"), "nothing can lie at"),
        (("shell", "tx1", "--bind", "/usr:/.proc"), "nothing can lie at"),
        (("shell", "tx1,state=."), "state=. is no file"),
        (("shell", "tx1,state=/dev/full"), "state=/dev/full is no file"),
        (("shell", "tx1,fault=throtle@1s"), "did you mean throttle?"),
        (("shell", "tx1,fault=throttle"), "say when: throttle@30s"),
        (("shell", "tx1", "--speed", "2"), "speed"),
        (("shell", "no-such-board"), "no-such-board"),
        (("mount", "tx1", "no/such/folder"), "no such folder"),
    ],
)
def test_what_cannot_be_meant_is_told_and_exits_with_2(words: tuple[str, ...], what: str) -> None:
    if words[0] == "mount" and missing():
        pytest.skip(missing())
    ran = edgeperf("sim", *words)
    assert ran.code == 2
    assert what in ran.err


@pytest.mark.parametrize("words", [("shell", "tx1", "--", "true"), ("mount", "tx1", "board")])
def test_without_libfuse_it_exits_with_3_and_says_what_to_install(tmp_path: Path, words: tuple[str, ...]) -> None:
    (tmp_path / "board").mkdir()
    ran = run(*words, folder=tmp_path, FUSE_LIBRARY_PATH="/nowhere/libfuse3.so")
    assert ran.returncode == 3
    assert "apt install fuse3" in ran.stderr
    assert "sim serve" in ran.stderr
