"""GPU and memory clocks: Tegra X1's clock tree with its overrides, its bandwidth manager; which rates are in effect.

An override's rate goes up to the next operating point and holds while its state is 1. A user of a shared bus starts
at the bus's highest rate, switched off (tegra_clk_shared_bus_user_init in NVIDIA's 3.10 kernel).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from remote.sim.kernel.bpmp import BpmpClock
from remote.sim.kernel.devfreq import Devfreq, round_down, round_up
from remote.sim.kernel.node import DEBUGFS, Node, Part, fixed, whole


class SharedClock(Part):
    """A bus clock and its override. ``current`` gives the rate in effect."""

    keeps = ("rate_hz", "state")

    def __init__(self, name: str, table: Sequence[int], current: Callable[[], int], old: bool) -> None:
        self.name = name
        self.table = table
        self.rate_hz = table[-1]
        self.state = 0
        self.most_hz: float = table[-1]
        self._current, self._old = current, old

    def capped(self, hz: int) -> int:
        """Returns ``hz``, or the highest operating point that the hardware can keep."""
        return min(hz, round_down(self.table, self.most_hz))

    def held_hz(self) -> int | None:
        """Returns the rate that the override holds, None while it is off."""
        return self.rate_hz if self.state else None

    def _set_rate(self, text: str) -> None:
        self.rate_hz = round_up(self.table, whole(text))

    def _set_state(self, text: str) -> None:
        self.state = int(whole(text) > 0)

    def nodes(self) -> dict[str, Node]:
        """Returns the files: of kernel 3.10 below ``clock/``, later below ``clk/``."""
        current = Node(lambda: f"{self._current()}\n")
        rate = Node(lambda: f"{self.rate_hz}\n", self._set_rate)
        state = Node(lambda: f"{self.state}\n", self._set_state)
        listed = fixed(" ".join(str(hz // 1000) for hz in self.table) + " (kHz)\n")
        limits = {"min": fixed(f"{self.table[0]}\n"), "max": fixed(f"{self.table[-1]}\n")}
        if self._old:
            bus, override = f"clock/{self.name}", f"clock/override.{self.name}"
            files = {
                f"{bus}/rate": current,
                f"{bus}/possible_rates": listed,
            }
            files |= {f"{override}/rate": rate, f"{override}/state": state}
            files |= {f"{name}/{end}": node for name in (bus, override) for end, node in limits.items()}
        else:
            bus, override = f"clk/{self.name}", f"clk/override.{self.name}"
            files = {f"{bus}/clk_rate": current, f"{bus}/clk_possible_rates": listed}
            files |= {f"{override}/clk_update_rate": rate, f"{override}/clk_rate": Node(rate.read)}
            files |= {f"{override}/clk_state": state}
        return {DEBUGFS + path: Node(node.read, node.write, private=True) for path, node in files.items()}


class Clocking:
    """Which rates are in effect: one that is held, else what the limits leave of what the load asks for."""

    def __init__(
        self,
        twin: Mapping[str, Any],
        gpu: SharedClock | None,
        emc: SharedClock | BpmpClock,
        devfreq: Devfreq | None,
        bandwidth: Devfreq | None,
    ) -> None:
        self._gpu, self._emc, self._devfreq, self._bandwidth = gpu, emc, devfreq, bandwidth
        self._gpu_table: Sequence[int] = twin["gpu_hz"]
        self._headroom = float(twin["load_headroom"])
        self._idle_emc_hz = float(twin["emc_idle_hz"])
        self.bytes_per_emc_clock = float(twin["gpu"]["bytes_per_emc_clock"])
        self.throttle = 0
        self.most_gpu_hz: float = self._gpu_table[-1]

    def gpu_hz(self, load: float) -> int:
        """Returns the GPU's rate under a load of 0 to 1."""
        table = self._gpu_table
        wanted = table[-1] * min(1.0, load) / self._headroom
        rate = self._gpu.held_hz() if self._gpu else None
        if rate is None:
            rate = self._devfreq.rate_hz(wanted) if self._devfreq else round_up(table, wanted)
        return min(rate, table[max(0, len(table) - 1 - self.throttle)], round_down(table, self.most_gpu_hz))

    def emc_hz(self, gpu_load: float, bytes_per_s: float) -> int:
        """Returns the memory's rate: enough for the traffic, and for a busy GPU in step with its clock."""
        held = self._emc.held_hz()
        return self._emc.capped(self.free_emc_hz(gpu_load, bytes_per_s) if held is None else held)

    def free_emc_hz(self, gpu_load: float, bytes_per_s: float) -> int:
        """Returns the rate that the memory has when nobody holds it."""
        table = self._emc.table
        for_traffic = bytes_per_s / self.bytes_per_emc_clock / self._headroom
        for_gpu = gpu_load * table[-1] * self.gpu_hz(gpu_load) / self._gpu_table[-1]
        wanted = round_up(table, max(self._idle_emc_hz, for_traffic, for_gpu))
        if self._bandwidth:
            wanted = self._bandwidth.rate_hz(wanted)
        return self._emc.capped(wanted)


def bandwidth_manager(table: Sequence[int], current: Callable[[], int]) -> dict[str, Node]:
    """Returns the files of the memory bandwidth manager of kernels 4.4 and 4.9."""
    folder = f"{DEBUGFS}tegra_bwmgr"
    return {
        f"{folder}/emc_min_rate": Node(lambda: f"{table[0]}\n", private=True),
        f"{folder}/emc_max_rate": Node(lambda: f"{table[-1]}\n", private=True),
        f"{folder}/emc_rate": Node(lambda: f"{current()}\n", private=True),
    }
