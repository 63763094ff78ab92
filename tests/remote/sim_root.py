"""A board in a root of its own, for tests; what this machine has to have for it."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from remote import hosts
from remote.errors import HostError
from remote.hosts import Twin
from remote.sim.live import LiveBoard

if sys.platform != "linux":
    pytest.skip("FUSE and namespaces are Linux's", allow_module_level=True)

from remote.sim.mount import Root, rooted

CPU = "/sys/devices/system/cpu"
GOVERNOR = f"{CPU}/cpu0/cpufreq/scaling_governor"
EMC = "/sys/kernel/debug/bpmp/debug/clk/emc/rate"
PROJECT = Path(__file__).parents[2]


@functools.cache
def missing() -> str:
    """Returns what this machine lacks for a board's own root, "" for nothing. Installs FUSE on a CI machine."""
    if not shutil.which("fusermount3") and os.environ.get("CI") == "true" and os.geteuid() == 0:
        for words in (["update"], ["install", "-y", "fuse3"]):
            subprocess.run(["apt-get", "-qq", *words], check=True, capture_output=True)
    if not shutil.which("fusermount3"):
        return "fuse3 is not installed"
    board = live("tx1")
    try:
        with rooted(board):
            return ""
    except HostError as error:
        return error.what
    finally:
        board.close()


def live(text: str) -> LiveBoard:
    host = hosts.parse(f"sim:{text}")
    assert isinstance(host, Twin)
    return LiveBoard(host, {})


class Shell:
    """A board and its root."""

    def __init__(self, board: LiveBoard, root: Root) -> None:
        self.board, self.root = board, root

    def run(self, line: str, user: str = "root", stdin: str = "") -> subprocess.CompletedProcess[str]:
        words = self.root.command(line, user)
        return subprocess.run(words, input=stdin, capture_output=True, text=True, timeout=30, check=False)

    def python(self, script: str, user: str = "root") -> Any:
        """Returns what a script prints as JSON."""
        ran = self.run("python3 -", user, script)
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    def text(self, path: str) -> str:
        return self.board.call(lambda: self.board.machine.read(path, "root"))


def shell(text: str) -> Iterator[Shell]:
    if missing():
        pytest.skip(missing())
    board = live(text)
    try:
        with rooted(board) as root:
            yield Shell(board, root)
    finally:
        board.close()


FORUM = """
cd /sys/devices/system/cpu
for core in cpu[0-9]*; do
    echo userspace > $core/cpufreq/scaling_governor
    cat $core/cpufreq/scaling_max_freq > $core/cpufreq/scaling_min_freq
done
echo 0 > cpuquiet/tegra_cpuquiet/enable
echo runnable > cpuquiet/current_governor
cd /sys/kernel/debug/clock
echo 844800000 > override.gbus/rate
echo 1 > override.gbus/state
echo 1 > override.emc/state
cat emc/max > override.emc/rate
"""


HOLD = """
import subprocess, sys
from remote import hosts
from remote.sim.live import LiveBoard
from remote.sim.mount import mounted, rooted
from pathlib import Path
from typing import Any
board = LiveBoard(hosts.parse("sim:tx1,speed=1"), {})
if len(sys.argv) > 1:
    with mounted(board, Path(sys.argv[1])) as there:
        print("ready", flush=True)
        there(60)
with rooted(board) as root:
    shell = subprocess.Popen(root.command("sleep 1000 & sleep 1000 & wait", "root"))
    print(root.pid, flush=True)
    shell.wait()
"""


def held(*words: str) -> subprocess.Popen[str]:
    if missing():
        pytest.skip(missing())
    command = [sys.executable, "-c", HOLD, *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(PROJECT)})
