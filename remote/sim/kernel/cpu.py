"""CPU cores: hotplug, cpuquiet, idle states, the cluster switch.

Rules as in Linux (drivers/base/cpu.c, core.c) and NVIDIA's cpuquiet. Assumed where the sources are not at hand: that
core 0 answers EPERM to going offline.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import ceil
from typing import Any

from remote.sim.kernel.node import Node, Part, fail, fixed, switch, whole, word

CPU = "/sys/devices/system/cpu"


class Cores(Part):
    """Which cores are online. ``old`` kernels (3.10) refuse to switch on a core that is on."""

    keeps = ("online",)

    def __init__(self, count: int, online: int, old: bool) -> None:
        self.count = count
        self.on_change: Callable[[], None] = lambda: None
        self._old = old
        self.boot(online)

    def boot(self, online: int) -> None:
        """Switches on the first ``online`` cores, and the others off."""
        self.online = [int(n < online) for n in range(self.count)]

    def number(self) -> int:
        """Returns how many are online."""
        return sum(self.online)

    def is_on(self, n: int) -> bool:
        """Says whether core ``n`` is online."""
        return bool(self.online[n])

    def set(self, n: int, text: str) -> None:
        """Switches a core on or off."""
        value = switch(text)
        if n == 0 and not value:
            fail(errno.EPERM)
        if self._old and value == self.online[n]:
            fail(errno.EINVAL)
        self.online[n] = value
        self.on_change()

    def _text(self, n: int) -> str:
        return f"{self.online[n]}\n"

    def listing(self, wanted: int) -> str:
        """Returns the cores whose state is ``wanted`` as a kernel list such as ``0-1,3``."""
        runs: list[list[int]] = []
        for n in (n for n in range(self.count) if self.online[n] == wanted):
            if runs and runs[-1][1] == n - 1:
                runs[-1][1] = n
            else:
                runs.append([n, n])
        return ",".join(f"{a}-{b}" if b > a else f"{a}" for a, b in runs) + "\n"

    def nodes(self) -> dict[str, Node]:
        """Returns the hotplug files."""
        found = {f"{CPU}/cpu{n}/online": Node(partial(self._text, n), partial(self.set, n)) for n in range(self.count)}
        everything = fixed(f"0-{self.count - 1}\n")
        return found | {
            f"{CPU}/present": everything,
            f"{CPU}/possible": everything,
            f"{CPU}/online": Node(lambda: self.listing(1)),
            f"{CPU}/offline": Node(lambda: self.listing(0)),
        }


class CpuQuiet(Part):
    """Parks cores that have been idle for ``down_delay`` ms, one at a time, and wakes them after ``up_delay`` ms.

    It leaves ``min_cpus`` on, but wakes none for that number alone.
    """

    keeps = ("enable", "governor", "numbers", "since_s")
    governors = ("balanced", "runnable", "userspace")

    def __init__(
        self, cores: Cores, twin: Mapping[str, Any], now: Callable[[], float], busy: Callable[[], float]
    ) -> None:
        self._cores, self._now, self._busy = cores, now, busy
        self.enable = int(twin["cpuquiet_enable"])
        self.governor = str(twin["cpuquiet_governor"])
        numbers: dict[str, int] = twin["cpuquiet"]
        # A board that boots with less has fewer to keep.
        self.numbers = {**numbers, "min_cpus": min(numbers["min_cpus"], cores.number())}
        self.since_s = now()
        self._direction = self._wish()
        cores.on_change = self.restart

    def _wish(self) -> int:
        """Returns -1 to park a core, 1 to wake one, 0 to leave them."""
        if not self.enable or self.governor == "userspace":
            return 0
        most = min(self.numbers["max_cpus"] or self._cores.count, self._cores.count)
        busy, count = max(1, ceil(self._busy() - 0.1)), self._cores.number()
        return (min(busy, most) > count) - (min(max(busy, self.numbers["min_cpus"]), most) < count)

    def restart(self) -> None:
        """Starts the delay anew."""
        self.since_s = self._now()
        self._direction = self._wish()

    def notice(self) -> None:
        """Starts the delay anew if the load has turned."""
        if self._wish() != self._direction:
            self.restart()

    def due_s(self) -> float | None:
        """Returns when a core will be parked or woken, None if nothing is to be done."""
        if not self._direction:
            return None
        return self.since_s + self.numbers["down_delay" if self._direction < 0 else "up_delay"] / 1000.0

    def act(self) -> None:
        """Parks the highest core or wakes the lowest."""
        online = self._cores.online
        if self._direction < 0:
            online[max(n for n in range(self._cores.count) if online[n])] = 0
        elif self._direction > 0:
            online[online.index(0)] = 1
        self.restart()

    def load(self, saved: Mapping[str, Any]) -> None:
        """Takes up a state that `save` gave."""
        super().load(saved)
        self._direction = self._wish()

    def _text(self, name: str) -> str:
        return f"{self.numbers[name]}\n"

    def _set(self, name: str, text: str) -> None:
        if name == "enable":
            self.enable = switch(text)
        elif name == "governor":
            self.governor = word(text, self.governors)
        else:
            value = whole(text)
            if name.endswith("cpus") and value > self._cores.count:
                fail(errno.EINVAL)
            self.numbers[name] = value
        self.restart()

    def nodes(self) -> dict[str, Node]:
        """Returns the files of cpuquiet."""
        folder = f"{CPU}/cpuquiet"
        found = {
            f"{folder}/tegra_cpuquiet/{name}": Node(partial(self._text, name), partial(self._set, name))
            for name in self.numbers
        }
        return found | {
            f"{folder}/tegra_cpuquiet/enable": Node(lambda: f"{self.enable}\n", partial(self._set, "enable")),
            f"{folder}/current_governor": Node(lambda: f"{self.governor}\n", partial(self._set, "governor")),
            f"{folder}/available_governors": fixed(" ".join(self.governors) + " \n"),
        }


class IdleStates(Part):
    """The idle states of each core; ``disable`` = 1 forbids one. Settings without effect on the twin's power."""

    keeps = ("disabled",)

    def __init__(self, names: Sequence[str], count: int) -> None:
        self.names = names
        self.disabled = [[0] * len(names) for _ in range(count)]

    def _text(self, n: int, m: int) -> str:
        return f"{self.disabled[n][m]}\n"

    def _set(self, n: int, m: int, text: str) -> None:
        self.disabled[n][m] = int(whole(text) > 0)

    def nodes(self) -> dict[str, Node]:
        """Returns the cpuidle files."""
        found = {}
        for n, row in enumerate(self.disabled):
            for m in range(len(row)):
                folder = f"{CPU}/cpu{n}/cpuidle/state{m}"
                found[f"{folder}/name"] = fixed(f"{self.names[m]}\n")
                found[f"{folder}/disable"] = Node(partial(self._text, n, m), partial(self._set, n, m))
        return found


class Cluster(Part):
    """The switch between the fast and the shadow cluster, of which L4T uses only the fast one, G."""

    keeps = ("immediate", "force")

    def __init__(self) -> None:
        self.immediate = 0
        self.force = 0

    def _set(self, name: str, text: str) -> None:
        setattr(self, name, switch(text))

    def _set_active(self, text: str) -> None:
        word(text, ("G", "g"))

    def nodes(self) -> dict[str, Node]:
        """Returns the files of the cluster switch."""
        folder = "/sys/kernel/cluster"
        return {
            f"{folder}/immediate": Node(lambda: f"{self.immediate}\n", partial(self._set, "immediate")),
            f"{folder}/force": Node(lambda: f"{self.force}\n", partial(self._set, "force")),
            f"{folder}/active": Node(lambda: "G\n", self._set_active),
        }
