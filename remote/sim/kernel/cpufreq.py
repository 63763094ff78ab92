"""cpufreq: a policy of cores that share a clock.

Rules as in Linux 3.10 to 6.8 (drivers/cpufreq/cpufreq.c, cpufreq_userspace.c). Up to 4.9 a minimum over the maximum is
refused; later both are requests, and where they cross the maximum wins. Assumed where the sources are not at hand: that
the userspace governor remembers its speed while limits change (mainline does since 4.6) on the older kernels too.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from remote.sim.kernel.cpu import CPU, Cores
from remote.sim.kernel.node import Node, Part, Version, below, fail, fixed, whole, word

_FOLDERS: Version = (4, 3)  # from here on a policy is a folder that its cores link to
_REQUESTS: Version = (5, 3)  # from here on limits are requests (freq_qos)
_BUSY: Version = (6, 0)  # from about here on a policy without cores answers EBUSY (cpufreq.c, show and store)


class CpuFreq(Part):
    """The policy of ``members``. Limits keep what was written, clamped; rates are table entries."""

    keeps = ("governor", "min_khz", "max_khz", "speed_khz")

    def __init__(
        self,
        twin: Mapping[str, Any],
        members: Sequence[int],
        cores: Cores,
        busy: Callable[[], float],
        version: Version,
    ) -> None:
        self.table: Sequence[int] = twin["cpu_khz"]
        self.governors: Sequence[str] = twin["cpu_governors"]
        self.governor = str(twin["cpu_governor"])
        self.min_khz, self.max_khz = int(twin["cpu_floor_khz"]), self.table[-1]
        self.speed_khz = self.min_khz
        self.throttle = 0
        self._folder = f"{CPU}/cpufreq/policy{members[0]}"
        self._headroom = float(twin["load_headroom"])
        self._members, self._cores, self._busy, self._version = members, cores, busy, version

    def rate_khz(self, busy: float, throttled: bool = True) -> int:
        """Returns the rate under ``busy`` busy cores: a table entry within the limits, less the steps of throttling."""
        low, high = self.limits_khz()
        wanted = {"performance": high, "powersave": low, "userspace": self.speed_khz}.get(self.governor)
        if wanted is None:
            wanted = int(self.table[-1] * min(1.0, busy) / self._headroom)
        inside = [khz for khz in self.table if low <= khz <= high]
        rate = next((khz for khz in inside if khz >= wanted), inside[-1])
        if throttled and self.throttle:
            rate = min(rate, self.table[max(0, len(self.table) - 1 - self.throttle)])
        return rate

    def limits_khz(self) -> tuple[int, int]:
        """Returns the limits in force: within the hardware's, with an operating point between them."""
        low, high = (min(max(khz, self.table[0]), self.table[-1]) for khz in (self.min_khz, self.max_khz))
        low = min(low, high)
        if not any(low <= khz <= high for khz in self.table):  # cpufreq_frequency_table_verify: up to the next entry
            high = next(khz for khz in self.table if khz > high)
        return low, high

    def _set_limits(self, low: int | None = None, high: int | None = None) -> None:
        if self._version >= _REQUESTS:
            self.min_khz = self.min_khz if low is None else low
            self.max_khz = self.max_khz if high is None else high
            return
        low, high = self.min_khz if low is None else low, self.max_khz if high is None else high
        if low > high:
            fail(errno.EINVAL)
        self.min_khz, self.max_khz = low, high
        self.min_khz, self.max_khz = self.limits_khz()

    def _set_governor(self, text: str) -> None:
        governor = word(text, self.governors)
        if governor == "userspace" != self.governor:
            self.speed_khz = self.rate_khz(self._busy(), throttled=False)
        self.governor = governor

    def _set_speed(self, text: str) -> None:
        if self.governor != "userspace":
            fail(errno.EINVAL)
        self.speed_khz = whole(text)

    def _speed(self) -> str:
        return f"{self.rate_khz(0, throttled=False)}\n" if self.governor == "userspace" else "<unsupported>\n"

    def _alive(self) -> list[int]:
        return [n for n in self._members if self._cores.is_on(n)]

    def _read(self, node: Node) -> str:
        if self._version >= _BUSY and not self._alive():
            fail(errno.EBUSY)
        return node.read()

    def _write(self, write: Callable[[str], None], text: str) -> None:
        if not self._alive():
            fail(errno.EBUSY if self._version >= _BUSY else errno.EINVAL)
        write(text)

    def _files(self) -> dict[str, Node]:
        current = Node(lambda: f"{self.rate_khz(self._busy())}\n")
        return {
            "scaling_governor": Node(lambda: f"{self.governor}\n", self._set_governor),
            "scaling_setspeed": Node(self._speed, self._set_speed),
            "scaling_max_freq": Node(
                lambda: f"{self.limits_khz()[1]}\n", lambda text: self._set_limits(high=whole(text))
            ),
            "scaling_min_freq": Node(
                lambda: f"{self.limits_khz()[0]}\n", lambda text: self._set_limits(low=whole(text))
            ),
            "scaling_cur_freq": current,
            "cpuinfo_cur_freq": Node(current.read, private=True),
            "cpuinfo_min_freq": fixed(f"{self.table[0]}\n"),
            "cpuinfo_max_freq": fixed(f"{self.table[-1]}\n"),
            "cpuinfo_transition_latency": fixed("300000\n"),
            "scaling_available_frequencies": fixed(" ".join(map(str, self.table)) + " \n"),
            "scaling_available_governors": fixed(" ".join(self.governors) + " \n"),
            "scaling_driver": fixed("tegra\n" if self._version < (4, 0) else "tegra-cpufreq\n"),
            "related_cpus": fixed(" ".join(map(str, self._members)) + "\n"),
            "affected_cpus": Node(lambda: " ".join(map(str, self._alive())) + "\n"),
        }

    def nodes(self) -> dict[str, Node]:
        """Returns the files: of the policy, as its folder, from 4.3 on; of every core that is online before."""
        files = {
            name: Node(
                partial(self._read, node), partial(self._write, node.write) if node.write else None, node.private
            )
            for name, node in self._files().items()
        }
        if self._version >= _FOLDERS:
            return below(self._folder, files)
        found = {}
        for n in self._members:
            present = partial(self._cores.is_on, n) if n else None
            for name, node in files.items():
                found[f"{CPU}/cpu{n}/cpufreq/{name}"] = Node(node.read, node.write, node.private, present)
        return found

    def links(self) -> dict[str, str]:
        """Returns the folder of each core that shares the policy."""
        if self._version < _FOLDERS:
            return {}
        return {f"{CPU}/cpu{n}/cpufreq": self._folder for n in self._members}
