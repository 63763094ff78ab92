"""Clocks behind the boot and power management processor (Tegra186 and later), and the power mode's cap on the memory's.

A rate that is written holds until the kernel asks for another one: in the twin two seconds later (assumed: so that
a script's next line can lock it), for good while ``mrq_rate_locked`` keeps the kernel's requests away. Nothing goes
over the cap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from remote.sim.kernel.devfreq import round_down, round_up
from remote.sim.kernel.node import DEBUGFS, Node, Part, fixed, switch, whole


class Cap(Part):
    """The highest rate that the power mode allows, in hertz; 0 for none. Only root reads it."""

    keeps = ("hz",)

    def __init__(self, path: str) -> None:
        self.hz = 0
        self._path = path

    def _set(self, text: str) -> None:
        self.hz = 0 if text.strip() == "-1" else whole(text)

    def nodes(self) -> dict[str, Node]:
        """Returns the cap's file."""
        return {self._path: Node(lambda: f"{self.hz}\n", self._set, private=True)}


_KEPT_S = 2.0


class BpmpClock(Part):
    """One clock. ``free`` gives its rate while nobody holds it."""

    keeps = ("rate_hz", "written_s", "locked", "state")

    def __init__(
        self, name: str, table: Sequence[int], cap: Cap | None, free: Callable[[], int], now: Callable[[], float]
    ) -> None:
        self.table = table
        self.rate_hz = table[-1]
        self.written_s = -1.0
        self.locked = 0
        self.state = 1
        self.most_hz: float = table[-1]
        self._name, self._cap, self._free, self._now = name, cap, free, now

    def capped(self, hz: int) -> int:
        """Returns ``hz``, or the highest operating point under the cap, and that the hardware can keep."""
        cap = self._cap.hz if self._cap else 0
        return min(hz, round_down(self.table, min(cap or self.most_hz, self.most_hz)))

    def held_hz(self) -> int | None:
        """Returns the rate at which the clock is held, None while the kernel sets it."""
        held = self.locked or 0.0 <= self._now() - self.written_s < _KEPT_S
        return self.capped(self.rate_hz) if held else None

    def _set_rate(self, text: str) -> None:
        self.rate_hz = round_up(self.table, whole(text))
        self.written_s = self._now()

    def _set_lock(self, text: str) -> None:
        locked = switch(text)
        if locked and self.held_hz() is None:
            self.rate_hz = self._free()
        self.locked, self.written_s = locked, -1.0

    def _set_state(self, text: str) -> None:
        self.state = switch(text)

    def _rate(self) -> str:
        held = self.held_hz()
        return f"{self._free() if held is None else held}\n"

    def nodes(self) -> dict[str, Node]:
        """Returns the clock's files."""
        folder = f"{DEBUGFS}bpmp/debug/clk/{self._name}"
        files = {
            "rate": Node(self._rate, self._set_rate),
            "mrq_rate_locked": Node(lambda: f"{self.locked}\n", self._set_lock),
            "state": Node(lambda: f"{self.state}\n", self._set_state),
            "min_rate": fixed(f"{self.table[0]}\n"),
            "max_rate": fixed(f"{self.table[-1]}\n"),
        }
        found = {f"{folder}/{name}": Node(node.read, node.write, private=True) for name, node in files.items()}
        common = {"clk_rate": "rate", "clk_min_rate": "min_rate", "clk_max_rate": "max_rate"}
        for name, own in common.items():  # the same in the kernel's list of all clocks, where it cannot be set
            found[f"{DEBUGFS}clk/{self._name}/{name}"] = Node(files[own].read, private=True)
        tables = (
            f"{DEBUGFS}bpmp/debug/{self._name}/tables/regular"  # a folder for each rate, in kHz; its file is assumed
        )
        return found | {f"{tables}/{hz // 1000}/rate": Node(fixed(f"{hz}\n").read, private=True) for hz in self.table}
