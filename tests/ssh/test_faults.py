"""What dies or breaks in the middle of a measurement over SSH: the board is as before, and its holder is told."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from edgeperf.hosts import save
from remote.inventory import Entry, Inventory
from tests.cli.command import tiny_model
from tests.contract.backends import tree
from tests.ssh import sshd
from tests.ssh.proxy import Proxy
from tests.ssh.sshd import Sshd

SECONDS = 12.0
ATTACH = "edgeperf attach --host board"
NODES = "sys/devices/system/cpu/cpu0/cpufreq"

# Real processes killed in real time: too much of a matter of pace for every commit on a shared machine.
pytestmark = pytest.mark.soak

# Stand-ins for ONNX Runtime and NumPy on the board: what runs there does not matter here, and its Python has neither.
RUNTIME = """import os, time
__version__ = "1.0"
class SessionOptions: pass
class InferenceSession:
    runs = 0
    def __init__(self, path, options, providers): pass
    def get_inputs(self): return []
    def run(self, names, feeds):
        self.runs += 1
        if self.runs == 20: open(MARK, "w").close()
        time.sleep(0.002)
MARK = __file__ + ".runs"
"""
NUMPY = '__version__ = "1.0"\n'


def within(happens: Callable[[], Any], seconds: float = SECONDS) -> bool:
    """Says whether something comes true in time; looks every now and then."""
    until_s = time.monotonic() + seconds
    while not (true := bool(happens())) and time.monotonic() < until_s:
        time.sleep(0.02)
    return true


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


class Command:
    """A running ``edgeperf``."""

    def __init__(self, *words: str, **environment: str) -> None:
        line = [sys.executable, "-c", "from edgeperf.cli import main; main()", *words]
        self.process = subprocess.Popen(
            line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}
        )

    def end(self) -> Ended:
        """Returns how it ended, once it has."""
        out, err = self.process.communicate(timeout=SECONDS)
        assert "Traceback" not in err
        return Ended(self.process.returncode, out, err)


class Rig:
    """A board behind sshd and a proxy, on which a network can be measured."""

    def __init__(self, server: Sshd, user: str, folder: Path) -> None:
        server.welcome(Path.home())
        self.server = server
        self.user = user
        self.proxy = Proxy(server.port)
        known = Path.home() / ".ssh/known_hosts"
        known.write_text(known.read_text() + known.read_text().replace(str(server.port), str(self.proxy.port)))
        self.tree = server.tree(user)
        tree(self.tree)
        shutil.rmtree(self.tree / "sys/class/hwmon")  # watts without a known total make a result INVALID
        # Files that are put on the board are to be found where the programs say, though the board is but a folder.
        home = self.tree / str(server.home(user)).lstrip("/")
        home.rmdir()
        home.symlink_to(server.home(user))
        self._mark = _install(server.home(user))
        address = f"{user}@127.0.0.1:{self.proxy.port}"
        save(Inventory().add("board", Entry(address, tree=str(self.tree)), ()))
        self.model = tiny_model(folder / "tiny.onnx")
        self.commands: list[Command] = []
        self.found = self.nodes()

    def nodes(self) -> dict[str, str]:
        """Returns the text of every node."""
        files = [path for path in (self.tree / "sys").rglob("*") if path.is_file()]
        return {str(path): path.read_text().strip() for path in files}

    def written(self) -> dict[str, int]:
        """Returns when each node was written last."""
        return {str(path): path.stat().st_mtime_ns for path in (self.tree / NODES).iterdir()}

    def run(self, *words: str, grace: str = "20s") -> Command:
        """Starts a command."""
        pulse = {"EDGEPERF_BEAT": "0.2s", "EDGEPERF_SILENCE": "1.5s", "EDGEPERF_GRACE": grace}
        self.commands.append(Command(*words, "--host", "board", **pulse))
        return self.commands[-1]

    def bench(self, *words: str, duration: str = "60s", grace: str = "20s") -> Command:
        """Starts a measurement that locks the clocks."""
        fixed = ["--profile", "maxperf", "--warmup", "0", "--idle", "0", "--duration", duration, "--json"]
        return self.run("bench", str(self.model), *fixed, *words, grace=grace)

    def measuring(self, *words: str, duration: str = "60s", grace: str = "20s") -> Command:
        """Starts a measurement and returns once it is under way."""
        command = self.bench(*words, duration=duration, grace=grace)
        assert within(lambda: self._mark.exists() or command.process.poll() is not None)
        assert command.process.poll() is None, command.end().err
        assert (self.tree / NODES / "scaling_governor").read_text() == "performance"
        return command

    def attach(self) -> Ended:
        """Picks the measurement up."""
        return self.run("attach", "--json").end()

    def programs(self, name: str) -> list[int]:
        """Returns the processes of an on-board program."""
        return [
            pid
            for pid, words in _processes()
            if str(self.tree) in words and name in words and not words[0].endswith("sudo")
        ]

    def jobs(self) -> list[int]:
        """Returns the processes that measure on the board."""
        place = str(self.server.home(self.user))
        return [pid for pid, words in _processes() if words[-1].startswith(place) and words[-1].endswith("runner.zip")]

    def is_as_before(self) -> bool:
        """Says whether every node is what it was and nothing is left on the board, at once or in a while."""
        names = ("agent", "clockd", "guard")
        return within(lambda: self.nodes() == self.found) and within(
            lambda: not (self.jobs() or any(map(self.programs, names)) or self.journal().exists())
        )

    def journal(self) -> Path:
        """Returns where the board remembers what it found."""
        return self.tree / "run/edgeperf/journal.json"

    def close(self) -> None:
        """Ends what is left."""
        for pid in self.jobs():
            os.kill(pid, signal.SIGKILL)
        for command in self.commands:
            command.process.kill()
            command.process.communicate()
        self.proxy.close()


def _install(home: Path) -> Path:
    """Gives a user of the board the stand-ins. Returns a file that is there once a network runs."""
    python = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else "python3"
    ask = [python, "-c", "import site; print(site.getusersitepackages())"]
    told = subprocess.run(ask, env={**os.environ, "HOME": str(home)}, capture_output=True, text=True, check=True)
    place = Path(told.stdout.strip())
    place.mkdir(parents=True, exist_ok=True)
    place.chmod(0o777)
    (place / "onnxruntime.py").write_text(RUNTIME)
    (place / "numpy.py").write_text(NUMPY)
    mark = place / "onnxruntime.py.runs"
    mark.unlink(missing_ok=True)
    return mark


def _processes() -> Iterator[tuple[int, list[str]]]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_text(errors="replace").split("\0")[:-1]
        except OSError:
            continue
        if words:
            yield int(folder.name), words


@pytest.fixture(params=["free"])
def rig(request: pytest.FixtureRequest, server: Sshd, tmp_path: Path) -> Iterator[Rig]:
    """A board whose user, unless another is asked for, becomes root through sudo."""
    rig = Rig(server, request.param, tmp_path)
    yield rig
    try:
        assert rig.is_as_before()
    finally:
        rig.close()


def whole(ended: Ended) -> dict[str, Any]:
    """Returns the record of a measurement that nothing is missing from."""
    assert ended.out, ended.err
    record: dict[str, Any] = json.loads(ended.out)
    assert ended.code == 0, record["verdict"]
    assert record["clocks"]["profile"] == "maxperf"
    assert sum(record["samples_s"]) > 1.9
    return record


# The tool is killed


def test_a_killed_edgeperf_leaves_the_board_as_it_was_once_the_grace_is_over(rig: Rig) -> None:
    rig.measuring(grace="1s").process.kill()


def test_a_killed_edgeperf_can_be_followed_by_another_one_that_gets_the_whole_result(rig: Rig) -> None:
    rig.measuring(duration="2s").process.kill()
    whole(rig.attach())


# The line is cut


@pytest.mark.parametrize("rig", ["root", "free"], indirect=True)
@pytest.mark.parametrize("cut", [Proxy.stall, Proxy.reset], ids=["silent", "reset"])
def test_a_line_cut_for_less_than_the_grace_costs_nothing(rig: Rig, cut: Callable[[Proxy], None]) -> None:
    lost = rig.measuring(duration="2s")
    cut(rig.proxy)
    ended = lost.end()
    assert ended.code == 3
    assert ATTACH in ended.err
    whole(rig.attach())


@pytest.mark.parametrize("cut", [Proxy.stall, Proxy.reset], ids=["silent", "reset"])
def test_a_line_cut_for_longer_than_the_grace_ends_the_measurement(rig: Rig, cut: Callable[[Proxy], None]) -> None:
    lost = rig.measuring(grace="1s")
    cut(rig.proxy)
    ended = lost.end()
    assert ended.code == 3
    assert ATTACH in ended.err
    assert rig.is_as_before()
    late = rig.attach()
    assert late.code == 4
    assert "nothing is running" in late.err


def test_a_line_that_stalls_for_a_moment_is_not_lost(rig: Rig) -> None:
    command = rig.measuring(duration="2s")
    rig.proxy.stall()
    assert within(rig.proxy.holds)
    rig.proxy.go_on()
    whole(command.end())


def test_a_killed_sshd_does_not_end_a_measurement(tmp_path: Path) -> None:
    sshd.server()  # skips where there can be none
    server = sshd.start()
    try:
        rig = Rig(server, "free", tmp_path)
        lost = rig.measuring(duration="3s")
        for pid in _family(server.process.pid):
            if "sshd" in Path(f"/proc/{pid}/comm").read_text():
                os.kill(pid, signal.SIGKILL)
        ended = lost.end()
        assert ended.code == 3
        assert ATTACH in ended.err
        server.process.wait()
        server = sshd.again(server)
        whole(rig.attach())
        assert rig.is_as_before()
        rig.close()
    finally:
        sshd.stop(server)


def _family(pid: int) -> list[int]:
    """Returns a process and all that came from it."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(one for child in children for one in _family(int(child)))]


# A program on the board is killed


@pytest.mark.parametrize("name", ["agent", "clockd"])
def test_a_killed_program_ends_the_measurement(rig: Rig, name: str) -> None:
    command = rig.measuring()
    for pid in rig.programs(name):
        os.kill(pid, signal.SIGKILL)
    ended = command.end()
    assert ended.code == 3
    assert "board: " in ended.err


def test_a_killed_guard_is_replaced_and_the_measurement_goes_on(rig: Rig) -> None:
    command = rig.measuring(duration="2s")
    (guard,) = rig.programs("guard")
    os.kill(guard, signal.SIGKILL)
    assert within(lambda: rig.programs("guard") not in ([], [guard]))
    whole(command.end())


# What cannot be written


def test_nothing_is_changed_when_the_state_found_cannot_be_remembered(rig: Rig) -> None:
    folder = rig.tree / "run/edgeperf"
    folder.mkdir(parents=True)
    before = rig.written()
    enter = ["nsenter", "--mount", "--target", str(rig.server.process.pid)]
    fill = 'mount -t tmpfs -o size=4k tmpfs "$0" && head -c 4096 /dev/zero > "$0/full"'
    subprocess.run([*enter, "sh", "-c", fill, folder], check=True)
    try:
        ended = rig.bench().end()
        assert rig.is_as_before()
    finally:
        subprocess.run([*enter, "umount", "--lazy", folder], check=True)
    assert ended.code == 4
    assert "No space left" in ended.err
    assert "nothing was changed" in ended.err
    assert rig.written() == before


@pytest.mark.parametrize("rig", ["plain"], indirect=True)
def test_what_was_set_before_a_write_was_refused_is_put_back(rig: Rig) -> None:
    for path in (rig.tree, *rig.tree.rglob("*")):
        if path.name != "scaling_min_freq" and not path.is_symlink():
            os.chown(path, sshd.USERS["plain"], sshd.USERS["plain"])
    ended = rig.bench("--require-lock").end()
    assert ended.code == 4
    assert "cpu0.min" in ended.err
    assert "EACCES" in ended.err


# Two at once, another boot, Ctrl-C


def test_the_second_of_two_is_told_who_holds_the_board(rig: Rig) -> None:
    first = rig.measuring()
    second = rig.bench().end()
    assert second.code == 4
    assert "the board is held by a measurement of" in second.err
    assert "lease break" in second.err
    first.process.send_signal(signal.SIGINT)
    assert first.end().code == 130


def test_a_journal_of_an_earlier_boot_is_dropped_and_that_is_said(rig: Rig) -> None:
    command = rig.measuring()
    for name in ("guard", "clockd", "agent", "guard"):  # a power cut
        for pid in rig.programs(name):
            os.kill(pid, signal.SIGKILL)
    command.process.kill()
    for path, text in rig.found.items():
        Path(path).write_text(text)
    (rig.tree / "proc/sys/kernel/random/boot_id").write_text("boot-2\n")
    before = rig.written()
    shown = rig.run("status").end()
    assert shown.code == 0
    assert "a journal of an earlier boot was dropped" in shown.out + shown.err
    assert rig.written() == before


def test_ctrl_c_ends_a_measurement_and_keeps_what_was_measured(rig: Rig) -> None:
    command = rig.measuring()
    command.process.send_signal(signal.SIGINT)
    ended = command.end()
    assert ended.code == 130
    record = json.loads(ended.out)
    assert [reason["code"] for reason in record["verdict"]["reasons"]] == ["interrupted"]
    assert record["samples_s"]


def test_a_second_ctrl_c_waits_for_nothing(rig: Rig) -> None:
    command = rig.measuring()
    (job,) = rig.jobs()
    os.kill(job, signal.SIGSTOP)  # it takes no notice of the first
    command.process.send_signal(signal.SIGINT)
    assert within(lambda: _pending(job))
    began_s = time.monotonic()
    command.process.send_signal(signal.SIGINT)
    assert command.end().code == 130
    assert time.monotonic() - began_s < 2.0  # the board would give the job three seconds


def _pending(pid: int) -> bool:
    """Says whether a stopped process has a signal waiting."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return any(line.startswith("ShdPnd:") and int(line.split()[1], 16) for line in lines)
