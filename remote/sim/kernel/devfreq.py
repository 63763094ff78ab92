"""The GPU from L4T R28 on: devfreq's limits and governor, rail gating, gated processors.

Rules as in Linux 4.4 to 6.8 (drivers/devfreq/devfreq.c). Up to 4.9 limits go up to the next operating point and a
minimum over the maximum is refused; later both are requests kept as written, and where they cross the maximum wins.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from remote.sim.kernel.node import Node, Part, Version, aliases, below, fail, fixed, switch, whole, word

_REQUESTS: Version = (5, 5)  # from here on limits are requests (device PM QoS)


def round_up(table: Sequence[int], hz: float) -> int:
    """Returns the lowest operating point that is at least ``hz``, the highest one where none is."""
    return next((point for point in table if point >= hz), table[-1])


def round_down(table: Sequence[int], hz: float) -> int:
    """Returns the highest operating point that is at most ``hz``, the lowest one where none is."""
    return next((point for point in reversed(table) if point <= hz), table[0])


def nearest(table: Sequence[int], hz: float) -> int:
    """Returns the operating point that is closest to ``hz``."""
    return min(table, key=lambda point: abs(point - hz))


class Devfreq(Part):
    """Limits and governor of a clock with operating points ``table``, in the ``folders`` of ``places``."""

    keeps = ("governor", "min_hz", "max_hz", "set_hz")

    def __init__(
        self,
        places: Mapping[str, Any],
        table: Sequence[int],
        governors: Sequence[str],
        current: Callable[[], int],
        version: Version,
    ) -> None:
        self.table, self.governors = table, governors
        self.governor = governors[0]
        self.min_hz, self.max_hz = table[0], table[-1]
        self.set_hz = 0
        self._places, self._current, self._version = places, current, version

    def rate_hz(self, wanted_hz: float) -> int:
        """Returns the rate for a demand: the highest under ``performance``, what was set under ``userspace``."""
        low, high = self.limits_hz()
        held_hz = {"performance": high, "userspace": self.set_hz}.get(self.governor, wanted_hz)
        wanted = max(held_hz, low)
        return min(round_up(self.table, wanted), round_down(self.table, high))

    def limits_hz(self) -> tuple[int, int]:
        """Returns the limits in force."""
        low, high = (min(max(hz, self.table[0]), self.table[-1]) for hz in (self.min_hz, self.max_hz))
        return min(low, high), high

    def _set_limits(self, low: int | None = None, high: int | None = None) -> None:
        if self._version < _REQUESTS:
            low, high = (
                round_up(self.table, old if new is None else new)
                for old, new in ((self.min_hz, low), (self.max_hz, high))
            )
            if low > high:
                fail(errno.EINVAL)
        self.min_hz = self.min_hz if low is None else low
        self.max_hz = self.max_hz if high is None else high

    def _set_governor(self, text: str) -> None:
        governor = word(text, self.governors)
        if governor == "userspace" != self.governor:
            self.set_hz = self._current()  # until another one is set, the rate stays
        self.governor = governor

    def _set_rate(self, text: str) -> None:
        self.set_hz = whole(text)

    def nodes(self) -> dict[str, Node]:
        """Returns the files of devfreq."""
        files = {
            "min_freq": Node(lambda: f"{self.limits_hz()[0]}\n", lambda text: self._set_limits(low=whole(text))),
            "max_freq": Node(lambda: f"{self.limits_hz()[1]}\n", lambda text: self._set_limits(high=whole(text))),
            "userspace/set_freq": Node(
                lambda: f"{self.set_hz}\n", self._set_rate, present=lambda: self.governor == "userspace"
            ),
            "cur_freq": Node(lambda: f"{self._current()}\n"),
            "target_freq": Node(lambda: f"{self._current()}\n"),
            "governor": Node(lambda: f"{self.governor}\n", self._set_governor),
            "available_governors": fixed(" ".join(self.governors) + "\n"),
            "available_frequencies": fixed(" ".join(map(str, self.table)) + "\n"),
        }
        return below(self._places["folders"][0], files)

    def links(self) -> dict[str, str]:
        """Returns the other names of its folder."""
        return aliases(self._places["folders"])


class GpuDevice(Part):
    """The GPU as a device: rail gating, runtime power, scaling, processors gated by the power mode.

    All but the mask are settings without effect: an idle GPU of the twin draws its idle power. The mask of gated
    processors cannot change while the GPU is in use, which it is from boot on.
    """

    keeps = ("railgate", "control", "scaling")

    def __init__(self, twin: Mapping[str, Any], load: Callable[[], float]) -> None:
        self.railgate = 1
        self.scaling = 1
        self.control = "auto"
        self.mask = 0
        self.booting = True
        self._device: Mapping[str, Any] = twin["gpu_device"]
        self._clock = str(twin["devfreq"]["folders"][0]) if "devfreq" in twin else ""
        self._lanes = int(twin["gpu"]["lanes"])
        self._load = load

    def share(self) -> float:
        """Returns which part of the lanes is not gated."""
        if "processors" not in self._device:
            return 1.0
        active = int(self._device["processors"]) - self.mask.bit_count()
        return min(1.0, active * int(self._device["lanes_each"]) / self._lanes)

    def _set_railgate(self, text: str) -> None:
        self.railgate = switch(text)

    def _set_scaling(self, text: str) -> None:
        self.scaling = switch(text)

    def _set_control(self, text: str) -> None:
        self.control = word(text, ("auto", "on"))

    def _set_mask(self, text: str) -> None:
        mask = whole(text)
        if mask != self.mask and not self.booting:
            fail(errno.EBUSY)
        self.mask = mask

    def nodes(self) -> dict[str, Node]:
        """Returns the device's files."""
        files = {
            "load": Node(lambda: f"{round(1000 * min(1.0, self._load()))}\n"),
            "railgate_enable": Node(lambda: f"{self.railgate}\n", self._set_railgate),
            "enable_3d_scaling": Node(lambda: f"{self.scaling}\n", self._set_scaling),
            "power/control": Node(lambda: f"{self.control}\n", self._set_control),
        }
        if "processors" in self._device:
            files["tpc_pg_mask"] = Node(lambda: f"{self.mask}\n", self._set_mask)
        if not self._device.get("railgate", True):
            del files["railgate_enable"]
            if self._clock:  # Linux 3.10 has a switch for the GPU's governor, which is not one of devfreq
                del files["enable_3d_scaling"]
        for name, text in self._device["of_node"].items():  # strings of the device tree, each ended by NUL
            files[f"of_node/{name}"] = fixed(text.replace(" ", "\0") + "\0")
        return below(self._device["folders"][0], files)

    def links(self) -> dict[str, str]:
        """Returns the other names of its folder, and that of its clock's device."""
        links = aliases(self._device["folders"])
        return links | ({f"{self._clock}/device": self._device["folders"][0]} if self._clock else {})
