"""The simulated kernel: the nodes of one board and release, and the rules by which they change each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Any

from remote.sim.kernel import board
from remote.sim.kernel.bpmp import BpmpClock, Cap
from remote.sim.kernel.clocks import Clocking, SharedClock, bandwidth_manager
from remote.sim.kernel.cpu import Cluster, Cores, CpuQuiet, IdleStates
from remote.sim.kernel.cpufreq import CpuFreq
from remote.sim.kernel.devfreq import Devfreq, GpuDevice
from remote.sim.kernel.engines import Engines
from remote.sim.kernel.governor import Governor
from remote.sim.kernel.i2c import Bus
from remote.sim.kernel.identity import Identity
from remote.sim.kernel.node import Part, Tree, Version
from remote.sim.kernel.power_mode import PowerMode
from remote.sim.kernel.protection import Protection
from remote.sim.physics import Activity, Clocks

__all__ = ["Kernel"]


class Kernel:
    """Assembles the parts that a release has. ``activity`` says what the machine does now, ``now`` its clock.

    ``cores`` is how many cores are online at boot, None for what the release or its power mode has; ``mode`` the power
    mode at boot, "" for the release's own. Sensors are added by their owners through ``tree``.
    """

    def __init__(
        self,
        twin: Mapping[str, Any],
        seed: int,
        cores: int | None,
        mode: str,
        now: Callable[[], float],
        activity: Callable[[], Activity],
    ) -> None:
        version = _version(str(twin["osrelease"]))
        old = version < (4, 0)
        count = int(twin["cores"])
        self._activity = activity
        self.governor = Governor(twin["governor"], seed, now, activity)
        self._highest_gpu_hz = int(twin["gpu_hz"][-1])
        self.cores = Cores(count, count if cores is None else cores, old)
        self.policies = [
            CpuFreq(twin, members, self.cores, self._seen_cores if 0 in members else _idle, version)
            for members in twin.get("policies", [list(range(count))])
        ]
        self.cpu = self.policies[0]
        self.gpu = None if "bpmp" in twin else SharedClock("gbus", twin["gpu_hz"], self._gpu_hz, old)
        self._cap = Cap(twin["emc_cap"]) if "emc_cap" in twin else None
        self.emc: SharedClock | BpmpClock = (
            BpmpClock("emc", twin["emc_hz"], self._cap, self._free_emc_hz, now)
            if "bpmp" in twin
            else SharedClock("emc", twin["emc_hz"], self._emc_hz, old)
        )
        self.devfreq = (
            Devfreq(twin["devfreq"], twin["gpu_hz"], twin["gpu_governors"], self._gpu_hz, version)
            if "devfreq" in twin
            else None
        )
        self._bandwidth = (
            Devfreq(twin["bandwidth"], twin["emc_hz"], twin["bandwidth"]["governors"], self._emc_hz, version)
            if "bandwidth" in twin
            else None
        )
        self.device = GpuDevice(twin, lambda: activity().gpu_load)
        self.quiet = CpuQuiet(self.cores, twin, now, self._busy_cores) if "cpuquiet" in twin else None
        self.mode = PowerMode(twin, mode) if "nvpmodel" in twin else None
        self.protection = Protection(version, twin["ina_places"][0][0] if twin["ina"]["driver"] == "hwmon" else "")
        self._clocking = Clocking(twin, self.gpu, self.emc, self.devfreq, self._bandwidth)
        self.identity = Identity(twin, seed, self.cores, old)
        self._parts = self._assembled(twin, old)
        self.tree = Tree()
        for part in self._parts.values():
            self.tree.add(part.nodes())
        for part in self._parts.values():
            self.tree.link(part.links())
        self.tree.link(board.thermal_links(len(twin["zones"]), 3))
        self.tree.add(board.traffic_nodes(self._traffic_khz))
        if not old and self.gpu:
            self.tree.add(bandwidth_manager(self.emc.table, self._emc_hz))
        if self.mode:
            self.mode.boot(self.tree)
        self.device.booting = False
        if cores is not None:
            self.cores.boot(cores)

    def _assembled(self, twin: Mapping[str, Any], old: bool) -> dict[str, Part]:
        parts: dict[str, Part | None] = {
            "cores": self.cores,
            **{f"cpufreq{n}": policy for n, policy in enumerate(self.policies)},
            "gpu": self.gpu,
            "emc": self.emc,
            "cap": self._cap,
            "device": self.device,
            "devfreq": self.devfreq,
            "bandwidth": self._bandwidth,
            "cpuquiet": self.quiet,
            "cluster": Cluster() if old else None,
            "idle": IdleStates(twin["idle_states"], int(twin["cores"])) if twin["idle_states"] else None,
            "fan": board.Fan(twin["fan"]),
            "engines": Engines(twin, self._gpu_hz),
            "bus": Bus(twin),
            "switches": board.Switches(twin.get("switches", {})),
            "mode": self.mode,
            "protection": self.protection,
            "identity": self.identity,
        }
        return {name: part for name, part in parts.items() if part is not None}

    def add(self, name: str, part: Part) -> None:
        """Adds a part that its owner made, whose state is kept with the others'."""
        self._parts[name] = part
        self.tree.add(part.nodes())

    def _busy_cores(self) -> float:
        return self._activity().cpu_load

    def _seen_cores(self) -> float:
        return self.governor.seen().cpu_load

    def _gpu_hz(self) -> int:
        return self._clocking.gpu_hz(self.governor.seen().gpu_load)

    def _emc_hz(self) -> int:
        seen = self.governor.seen()
        return self._clocking.emc_hz(seen.gpu_load, seen.bytes_per_s)

    def _free_emc_hz(self) -> int:
        doing = self.governor.seen()
        return self._clocking.free_emc_hz(doing.gpu_load, doing.bytes_per_s)

    def _traffic_khz(self) -> int:
        return round(self._activity().bytes_per_s / self._clocking.bytes_per_emc_clock / 1000)

    def clocks(self, activity: Activity | None = None) -> Clocks:
        """Returns the rates in effect now, or those at which the governors settle under ``activity``."""
        activity = self.governor.seen() if activity is None else activity
        return Clocks(
            cpu_hz=self.cpu.rate_khz(activity.cpu_load) * 1000.0,
            gpu_hz=float(self._clocking.gpu_hz(activity.gpu_load)),
            emc_hz=float(self._clocking.emc_hz(activity.gpu_load, activity.bytes_per_s)),
            cpus=self.cores.number(),
            gpu_share=self.device.share(),
        )

    def due_s(self) -> float:
        """Returns when the governors may set other rates; inf while settings leave them none to choose from."""
        free = self.clocks(Activity()) != self.clocks(_FULL)
        return self.governor.due_s() if free else inf

    def throttle(self, steps: int) -> None:
        """Takes ``steps`` operating points off the highest CPU and GPU rates. The limits' files do not show it."""
        self._clocking.throttle = steps
        for policy in self.policies:
            policy.throttle = steps
        self.protection.steps = steps

    def limit(self, clock: str, share: float) -> None:
        """Holds ``gpu`` or ``emc`` below a share of its highest rate. The limits' files do not show it."""
        if clock == "gpu":
            self._clocking.most_gpu_hz = share * self._highest_gpu_hz
        else:
            self.emc.most_hz = share * self.emc.table[-1]

    def save(self) -> dict[str, Any]:
        """Returns the state of all parts, ready for JSON."""
        return {name: part.save() for name, part in self._parts.items()}

    def load(self, saved: Mapping[str, Any]) -> None:
        """Takes up a state that `save` gave."""
        for name, part in self._parts.items():
            if name in saved:  # what a state of an earlier edgeperf does not know is as at boot
                part.load(saved[name])


_FULL = Activity(gpu_load=1.0, cpu_load=1.0, bytes_per_s=inf)


def _version(osrelease: str) -> Version:
    major, minor = osrelease.split(".")[:2]
    return int(major), int(minor)


def _idle() -> float:
    """Returns the load of cores that have none: what runs runs on the policy of core 0 (assumed)."""
    return 0.0
