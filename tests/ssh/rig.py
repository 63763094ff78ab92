"""A board behind a real sshd and a proxy, on which a network is measured until something breaks.

Nothing here relies on pace: what is to happen is waited for by what shows it, up to a limit that only a failure meets.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgeperf.hosts import save
from remote.inventory import Entry, Inventory
from tests.cli.command import tiny_model
from tests.contract.backends import tree
from tests.ssh.proxy import Proxy
from tests.ssh.sshd import Sshd

LIMIT_S = 60.0
NODES = "sys/devices/system/cpu/cpu0/cpufreq"

# Stand-ins for ONNX Runtime and NumPy on the board: what runs there does not matter here, and its Python has neither.
# The session tells that a measurement is under way, and goes on only when it may, or after Ctrl-C.
RUNTIME = """import os, signal, time
__version__ = "1.0"
class SessionOptions: pass
class InferenceSession:
    runs = 0
    def __init__(self, path, options, providers): pass
    def get_inputs(self): return []
    def get_outputs(self): return []
    def run(self, names, feeds):
        self.runs += 1
        if self.runs == 50: open(MARK, "w").close()
        time.sleep(0.002)
        while self.runs >= 50 and os.path.exists(HOLD) and not signal.getsignal(signal.SIGINT).__self__.seen:
            time.sleep(0.005)
MARK = __file__ + ".runs"
HOLD = __file__ + ".hold"
"""
NUMPY = '__version__ = "1.0"\n'


def within(happens: Callable[[], Any]) -> bool:
    """Says whether something comes true in time; looks every now and then."""
    until_s = time.monotonic() + LIMIT_S
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

    def interrupt(self) -> None:
        """Does what Ctrl-C does."""
        self.process.send_signal(signal.SIGINT)

    def over(self) -> bool:
        """Says whether it has ended."""
        return self.process.poll() is not None

    def end(self) -> Ended:
        """Returns how it ended, once it has."""
        out, err = self.process.communicate(timeout=LIMIT_S)
        assert "Traceback" not in err, err
        return Ended(self.process.returncode, out, err)


class Rig:
    """A board behind sshd and a proxy. A measurement there goes on only until it is under way, while ``held``."""

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
        runtime = _install(server.home(user))
        self._mark, self._hold = Path(f"{runtime}.runs"), Path(f"{runtime}.hold")
        self._mark.unlink(missing_ok=True)
        self.agent_door = server.home(user) / ".cache/edgeperf/agent.sock"
        self.agent_door.unlink(missing_ok=True)
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

    def run(self, *words: str, grace: str = "10m", silence: str = "5m") -> Command:
        """Starts a command. Unless asked for, neither silence nor the grace is over before a test is."""
        pulse = {"EDGEPERF_BEAT": "0.2s", "EDGEPERF_SILENCE": silence, "EDGEPERF_GRACE": grace}
        self.commands.append(Command(*words, "--host", "board", EDGEPERF_CONNECT="60s", **pulse))
        return self.commands[-1]

    def bench(self, *words: str, grace: str = "10m", silence: str = "5m") -> Command:
        """Starts a measurement that locks the clocks, of half a second and as long as it is held."""
        fixed = ["--profile", "maxperf", "--warmup", "0", "--idle", "0", "--duration", "0.5s", "--json"]
        return self.run("bench", str(self.model), *fixed, *words, grace=grace, silence=silence)

    def measuring(self, *, grace: str = "10m", silence: str = "5m") -> Command:
        """Starts a measurement and returns once it is under way, where it is held."""
        self._hold.touch()
        command = self.bench(grace=grace, silence=silence)
        assert within(lambda: self._mark.exists() or command.over())
        assert not command.over(), command.end().err
        assert (self.tree / NODES / "scaling_governor").read_text() == "performance"
        return command

    def go_on(self) -> None:
        """Lets the measurement go on to its end."""
        self._hold.unlink()

    def is_left(self) -> bool:
        """Says whether both programs wait for a host that comes back, at once or in a while."""
        return within(lambda: self.agent_door.exists() and (self.memory() / "clockd.sock").exists())

    def attach(self, *, held: bool = False) -> Ended:
        """Picks the measurement up; one that is held goes on once that is done."""
        command = self.run("attach", "--json")
        if held:
            assert within(lambda: command.over() or not self.agent_door.exists())
            self.go_on()
        return command.end()

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

    def kill(self, *names: str) -> None:
        """Kills on-board programs, and returns once they are gone."""
        pids = [pid for name in names for pid in self.programs(name)]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        assert within(lambda: not any(state(pid) not in ("", "Z") for pid in pids))

    def cut_power(self) -> None:
        """Kills all on-board programs before any of them notices what became of another one."""
        guards = self.programs("guard")
        for pid in guards:
            stop(pid)  # for `clockd` it still runs
        self.kill("clockd", "agent")
        self.kill("guard")

    def left(self) -> list[str]:
        """Returns what is not as before, once nothing is or it has taken too long."""
        within(lambda: not self._left())
        return self._left()

    def _left(self) -> list[str]:
        now = self.nodes()
        changed = [f"{path}: {now.get(path)}, was {text}" for path, text in self.found.items() if now.get(path) != text]
        running = [f"{name} {pid}" for name in ("agent", "clockd", "guard") for pid in self.programs(name)]
        kept = [str(self.journal())] if self.journal().exists() else []
        return [*changed, *running, *(f"job {pid}" for pid in self.jobs()), *kept]

    def memory(self) -> Path:
        """Returns the board's folder in memory, as its programs see it: something may be mounted there."""
        return Path(f"/proc/{self.server.process.pid}/root{self.tree}/run/edgeperf")

    def journal(self) -> Path:
        """Returns where the board remembers what it found."""
        return self.memory() / "journal.json"

    def close(self) -> None:
        """Ends what is left."""
        for pid in self.jobs():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for command in self.commands:
            command.process.kill()
            command.process.communicate()
        self.proxy.close()
        self._hold.unlink(missing_ok=True)


def _install(home: Path) -> Path:
    """Gives a user of the board the stand-ins. Returns the one of ONNX Runtime."""
    python = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else "python3"
    ask = [python, "-c", "import site; print(site.getusersitepackages())"]
    told = subprocess.run(ask, env={**os.environ, "HOME": str(home)}, capture_output=True, text=True, check=True)
    place = Path(told.stdout.strip())
    place.mkdir(parents=True, exist_ok=True)
    place.chmod(0o777)
    (place / "onnxruntime.py").write_text(RUNTIME)
    (place / "numpy.py").write_text(NUMPY)
    return place / "onnxruntime.py"


def _processes() -> Iterator[tuple[int, list[str]]]:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_text(errors="replace").split("\0")[:-1]
        except OSError:
            continue
        if words:
            yield int(folder.name), words


def state(pid: int) -> str:
    """Returns the state of a process as proc(5) has it, "" where it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def stop(pid: int) -> None:
    """Stops a process for now."""
    os.kill(pid, signal.SIGSTOP)
    assert within(lambda: state(pid) == "T")


def pending(pid: int) -> bool:
    """Says whether a stopped process has a signal waiting."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return any(line.startswith("ShdPnd:") and int(line.split()[1], 16) for line in lines)
