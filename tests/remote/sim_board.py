"""Simulated boards for the tests of this folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from remote import boards
from remote.sim.machine import Machine
from remote.sim.process import Program
from remote.sim.system import TwinSystem

RELEASES = boards.load("tx1").releases
OLD = ("r23.1", "r24.2")
NEW = ("r28.2", "r32.7")

CPU = "/sys/devices/system/cpu"
FREQ = f"{CPU}/cpu0/cpufreq"
QUIET = f"{CPU}/cpuquiet/tegra_cpuquiet"
CLOCK = "/sys/kernel/debug/clock"
CLK = "/sys/kernel/debug/clk"
GPU = "/sys/devices/57000000.gpu"
DEVFREQ = f"{GPU}/devfreq/57000000.gpu"


def steady(twin: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns a board's table with governors that see every load at once and as it is."""
    return {**twin, "governor": {"rise_s": 0.0}}


def hold(machine: Machine) -> None:
    """Holds all clocks of a machine at their highest rates."""
    kernel = machine.kernel
    for governed in (*kernel.policies, kernel.devfreq):
        if governed is not None:
            governed.governor = "performance"
    kernel.emc.rate_hz = kernel.emc.table[-1]
    setattr(kernel.emc, "locked" if hasattr(kernel.emc, "locked") else "state", 1)
    machine.load_changed()


def machine(release: str = "r23.1", programs: Mapping[str, Program] | None = None, **options: Any) -> Machine:
    """Returns a simulated TX1 with governors that settle at once."""
    return Machine("tx1", release, steady(boards.load("tx1").twin), programs=programs, **options)


class Shell:
    """Reads and writes nodes as a user of a machine does at a prompt."""

    def __init__(self, board: Machine, user: str = "root") -> None:
        self.board = board
        self.system = TwinSystem(board, user)

    def get(self, path: str) -> str:
        try:
            return self.system.read(path).strip()
        except BlockingIOError:  # a sensor that was not ready: asked again
            return self.system.read(path).strip()

    def number(self, path: str) -> int:
        return int(self.get(path))

    def put(self, path: str, value: object) -> None:
        self.system.write(path, f"{value}\n")

    def refusal(self, path: str, value: object) -> int | None:
        """Returns the errno that a write is answered with, None when it is taken."""
        try:
            self.put(path, value)
        except OSError as error:
            return error.errno
        return None

    def sleep(self, seconds: float) -> None:
        self.system.wait([], self.board.now_s + seconds)


def shell(release: str = "r23.1", user: str = "root", **options: Any) -> Shell:
    """Returns a prompt on a fresh board."""
    return Shell(machine(release, **options), user)
