"""GPU and memory clocks: the Tegra clock tree with its overrides, devfreq, the bandwidth manager.

An override's rate goes up to the next operating point and holds while its state is 1. A user of a shared bus starts
at the bus's highest rate, switched off (tegra_clk_shared_bus_user_init in NVIDIA's 3.10 kernel).
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from remote.sim.kernel.node import DEBUGFS, Node, Part, fail, fixed, switch, whole, word

GPU = "/sys/devices/57000000.gpu"


def round_up(table: Sequence[int], hz: float) -> int:
    """Returns the lowest operating point that is at least ``hz``, the highest one where none is."""
    return next((point for point in table if point >= hz), table[-1])


class SharedClock(Part):
    """A bus clock and its override. ``current`` gives the rate in effect."""

    keeps = ("rate_hz", "state")

    def __init__(self, name: str, table: Sequence[int], current: Callable[[], int], old: bool) -> None:
        self.name = name
        self.table = table
        self.rate_hz = table[-1]
        self.state = 0
        self._current, self._old = current, old

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


class Devfreq(Part):
    """The GPU from L4T R28 on: limits, a governor, rail gating. Limits go up to the next operating point.

    Rail gating is a setting without effect: an idle GPU of the twin draws its idle power.
    """

    keeps = ("governor", "min_hz", "max_hz", "railgate")

    def __init__(self, table: Sequence[int], governors: Sequence[str], current: Callable[[], int]) -> None:
        self.table = table
        self.governors = governors
        self.governor = governors[0]
        self.min_hz, self.max_hz = table[0], table[-1]
        self.railgate = 1
        self._current = current

    def rate_hz(self, wanted_hz: float) -> int:
        """Returns the rate for a demand: the highest allowed under ``performance``."""
        wanted = self.max_hz if self.governor == "performance" else round_up(self.table, wanted_hz)
        return min(max(wanted, self.min_hz), self.max_hz)

    def _limits(self, low: int, high: int) -> None:
        low, high = round_up(self.table, low), round_up(self.table, high)
        if low > high:
            fail(errno.EINVAL)
        self.min_hz, self.max_hz = low, high

    def _set_governor(self, text: str) -> None:
        self.governor = word(text, self.governors)

    def _set_railgate(self, text: str) -> None:
        self.railgate = switch(text)

    def nodes(self) -> dict[str, Node]:
        """Returns the files of devfreq."""
        folder = f"{GPU}/devfreq/57000000.gpu"
        found = {
            "min_freq": Node(lambda: f"{self.min_hz}\n", lambda text: self._limits(whole(text), self.max_hz)),
            "max_freq": Node(lambda: f"{self.max_hz}\n", lambda text: self._limits(self.min_hz, whole(text))),
            "cur_freq": Node(lambda: f"{self._current()}\n"),
            "target_freq": Node(lambda: f"{self._current()}\n"),
            "governor": Node(lambda: f"{self.governor}\n", self._set_governor),
            "available_governors": fixed(" ".join(self.governors) + "\n"),
            "available_frequencies": fixed(" ".join(map(str, self.table)) + "\n"),
        }
        return {f"{folder}/{name}": node for name, node in found.items()} | {
            f"{GPU}/railgate_enable": Node(lambda: f"{self.railgate}\n", self._set_railgate),
            "/sys/class/devfreq/57000000.gpu/device/of_node/name": fixed("gpu\0"),
        }


class Clocking:
    """Which rates are in effect: an override, else what the limits leave of what the load asks for."""

    def __init__(self, twin: Mapping[str, Any], gpu: SharedClock, emc: SharedClock, devfreq: Devfreq | None) -> None:
        self._gpu, self._emc, self._devfreq = gpu, emc, devfreq
        self._headroom = float(twin["load_headroom"])
        self._idle_emc_hz = float(twin["emc_idle_hz"])
        self.bytes_per_emc_clock = float(twin["gpu"]["bytes_per_emc_clock"])
        self.throttle = 0

    def gpu_hz(self, load: float) -> int:
        """Returns the GPU's rate under a load of 0 to 1."""
        table = self._gpu.table
        wanted = table[-1] * min(1.0, load) / self._headroom
        if self._gpu.state:
            rate = self._gpu.rate_hz
        else:
            rate = self._devfreq.rate_hz(wanted) if self._devfreq else round_up(table, wanted)
        return min(rate, table[max(0, len(table) - 1 - self.throttle)])

    def emc_hz(self, gpu_load: float, bytes_per_s: float) -> int:
        """Returns the memory's rate: enough for the traffic, and for a busy GPU in step with its clock."""
        if self._emc.state:
            return self._emc.rate_hz
        for_traffic = bytes_per_s / self.bytes_per_emc_clock / self._headroom
        for_gpu = gpu_load * self._emc.table[-1] * self.gpu_hz(gpu_load) / self._gpu.table[-1]
        return round_up(self._emc.table, max(self._idle_emc_hz, for_traffic, for_gpu))


def bandwidth_manager(table: Sequence[int], current: Callable[[], int]) -> dict[str, Node]:
    """Returns the files of the memory bandwidth manager of kernels 4.4 and 4.9."""
    folder = f"{DEBUGFS}tegra_bwmgr"
    return {
        f"{folder}/emc_min_rate": Node(lambda: f"{table[0]}\n", private=True),
        f"{folder}/emc_max_rate": Node(lambda: f"{table[-1]}\n", private=True),
        f"{folder}/emc_rate": Node(lambda: f"{current()}\n", private=True),
    }
