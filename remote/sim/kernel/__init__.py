"""The simulated kernel: the nodes of one board and release, and the rules by which they change each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from remote.sim.kernel import board
from remote.sim.kernel.clocks import GPU, Clocking, Devfreq, SharedClock, bandwidth_manager
from remote.sim.kernel.cpu import Cluster, Cores, CpuFreq, CpuQuiet, IdleStates
from remote.sim.kernel.node import Part, Tree
from remote.sim.physics import Activity, Clocks

__all__ = ["Kernel"]

_LOADS = ("/sys/devices/gpu.0/load", "/sys/devices/platform/gpu.0/load")


class Kernel:
    """Assembles the parts that a release has. ``activity`` says what the machine does now, ``now`` its clock.

    ``cores`` is how many cores are online at boot. Sensors are added by their owners through ``tree``.
    """

    def __init__(
        self, twin: Mapping[str, Any], seed: int, cores: int, now: Callable[[], float], activity: Callable[[], Activity]
    ) -> None:
        old = str(twin["osrelease"]).startswith("3.")
        self._activity = activity
        self.cores = Cores(int(twin["cores"]), cores, old)
        self.cpu = CpuFreq(twin, self.cores, self._busy_cores, old)
        self.gpu = SharedClock("gbus", twin["gpu_hz"], self._gpu_hz, old)
        self.emc = SharedClock("emc", twin["emc_hz"], self._emc_hz, old)
        self.devfreq = Devfreq(twin["gpu_hz"], twin["gpu_governors"], self._gpu_hz) if "gpu_governors" in twin else None
        self.quiet = CpuQuiet(self.cores, twin, now, self._busy_cores) if "cpuquiet" in twin else None
        self._clocking = Clocking(twin, self.gpu, self.emc, self.devfreq)
        fan = board.Fan(twin["fan"], twin["fan_control"])
        identity = board.Identity(twin, seed)
        parts: dict[str, Part | None] = {
            "cores": self.cores,
            "cpu": self.cpu,
            "gpu": self.gpu,
            "emc": self.emc,
            "devfreq": self.devfreq,
            "cpuquiet": self.quiet,
            "cluster": Cluster() if old else None,
            "idle": IdleStates(int(twin["cores"])) if twin["cpuidle"] else None,
            "fan": fan,
            "identity": identity,
        }
        self._parts = {name: part for name, part in parts.items() if part is not None}
        self.tree = Tree()
        for part in self._parts.values():
            self.tree.add(part.nodes())
        places = _LOADS if old else (*_LOADS, f"{GPU}/load")
        self.tree.add(board.load_nodes(lambda: activity().gpu_load, self._traffic_khz, places))
        if not old:
            self.tree.add(bandwidth_manager(self.emc.table, self._emc_hz))

    def _busy_cores(self) -> float:
        return self._activity().cpu_load

    def _gpu_hz(self) -> int:
        return self._clocking.gpu_hz(self._activity().gpu_load)

    def _emc_hz(self) -> int:
        doing = self._activity()
        return self._clocking.emc_hz(doing.gpu_load, doing.bytes_per_s)

    def _traffic_khz(self) -> int:
        return round(self._activity().bytes_per_s / self._clocking.bytes_per_emc_clock / 1000)

    def clocks(self, activity: Activity) -> Clocks:
        """Returns the rates in effect under ``activity``."""
        return Clocks(
            cpu_hz=self.cpu.rate_khz(activity.cpu_load) * 1000.0,
            gpu_hz=float(self._clocking.gpu_hz(activity.gpu_load)),
            emc_hz=float(self._clocking.emc_hz(activity.gpu_load, activity.bytes_per_s)),
            cpus=self.cores.number(),
        )

    def throttle(self, steps: int) -> None:
        """Takes ``steps`` operating points off the highest CPU and GPU rates. The limits' files do not show it."""
        self.cpu.throttle = self._clocking.throttle = steps

    def save(self) -> dict[str, Any]:
        """Returns the state of all parts, ready for JSON."""
        return {name: part.save() for name, part in self._parts.items()}

    def load(self, saved: Mapping[str, Any]) -> None:
        """Takes up a state that `save` gave."""
        for name, part in self._parts.items():
            part.load(saved[name])
