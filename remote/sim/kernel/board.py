"""The rest of the board's files: who it is, its fan, its temperatures, its load and memory."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from remote.sim.kernel.node import DEBUGFS, Node, Part, fixed, switch, whole


class Fan(Part):
    """The fan. ``auto`` is L4T R32's temperature control; the twin leaves the target as it was set (assumed)."""

    keeps = ("pwm", "auto")

    def __init__(self, folder: str, auto: bool) -> None:
        self.pwm = 0
        self.auto = int(auto)
        self._folder = folder
        self._has_auto = auto

    def _set_pwm(self, text: str) -> None:
        self.pwm = min(255, whole(text))  # assumed: capped, as by the driver's pwm_cap

    def _set_auto(self, text: str) -> None:
        self.auto = switch(text)

    def nodes(self) -> dict[str, Node]:
        """Returns the fan's files."""
        private = self._folder.startswith(DEBUGFS)
        target = Node(lambda: f"{self.pwm}\n", self._set_pwm, private)
        current = Node(target.read, private=private)
        found = {f"{self._folder}/target_pwm": target, f"{self._folder}/cur_pwm": current}
        if self._has_auto:
            found[f"{self._folder}/temp_control"] = Node(lambda: f"{self.auto}\n", self._set_auto)
        return found


class Identity(Part):
    """Who the board is: release, model, serial number, this boot."""

    keeps = ("boot_id",)

    def __init__(self, twin: Mapping[str, Any], seed: int) -> None:
        draw = random.Random(f"identity {seed}")
        self._twin = twin
        self.serial = f"{draw.randrange(10**13):013d}"
        self.boot_id = str(uuid.UUID(int=draw.getrandbits(128), version=4))

    def nodes(self) -> dict[str, Node]:
        """Returns the identifying files. Device tree strings end in NUL."""
        twin = self._twin
        name = f"model name\t: {twin['cpu_name']}\n"
        return {
            "/etc/nv_tegra_release": fixed(f"{twin['nv_tegra_release']}\n"),
            "/proc/device-tree/model": fixed(f"{twin['model']}\0"),
            "/proc/device-tree/compatible": fixed("".join(f"{name}\0" for name in twin["compatible"])),
            "/proc/device-tree/serial-number": fixed(f"{self.serial}\0"),
            "/sys/devices/soc0/machine": fixed(f"{twin['machine']}\n"),
            "/sys/devices/soc0/family": fixed(f"{twin['family']}\n"),
            "/proc/sys/kernel/osrelease": fixed(f"{twin['osrelease']}\n"),
            "/proc/sys/kernel/random/boot_id": Node(lambda: f"{self.boot_id}\n"),
            "/proc/cpuinfo": fixed("".join(f"processor\t: {n}\n{name}\n" for n in range(twin["cores"]))),
        }


def thermal_zones(zones: Mapping[str, str], temperature: Callable[[str], float]) -> dict[str, Node]:
    """Returns the files of the thermal zones; ``zones`` names the source of each, in millidegrees and half degrees."""

    def text(source: str) -> str:
        return f"{round(temperature(source) * 2) * 500}\n"

    found = {}
    for n, (name, source) in enumerate(zones.items()):
        folder = f"/sys/class/thermal/thermal_zone{n}"
        found[f"{folder}/type"] = fixed(f"{name}\n")
        found[f"{folder}/temp"] = Node(partial(text, source))
    return found


def load_nodes(gpu_load: Callable[[], float], traffic_khz: Callable[[], int], places: Sequence[str]) -> dict[str, Node]:
    """Returns the GPU's load in thousandths, under several names, and the memory traffic in kHz of its clock."""
    load = Node(lambda: f"{round(1000 * min(1.0, gpu_load()))}\n")
    return dict.fromkeys(places, load) | {"/sys/kernel/actmon_avg_activity/mc_all": Node(lambda: f"{traffic_khz()}\n")}


def memory_nodes(total_bytes: int, used_bytes: Callable[[], int]) -> dict[str, Node]:
    """Returns /proc/meminfo."""

    def text() -> str:
        free_bytes = total_bytes - used_bytes()
        rows = {"MemTotal:": total_bytes, "MemFree:": free_bytes, "MemAvailable:": free_bytes}
        return "".join(f"{name:16}{size // 1024:8d} kB\n" for name, size in rows.items())

    return {"/proc/meminfo": Node(text)}


def time_nodes(now: Callable[[], float], core_seconds: Callable[[], list[float]]) -> dict[str, Node]:
    """Returns /proc/uptime and /proc/stat; ``core_seconds`` is how long each core has been busy. A jiffy is 10 ms."""

    def stat() -> str:
        rows = [(round(busy * 100), round((now() - busy) * 100)) for busy in core_seconds()]
        total = (sum(busy for busy, _ in rows), sum(idle for _, idle in rows))
        names = ["cpu ", *(f"cpu{n}" for n in range(len(rows)))]
        return "".join(
            f"{name} {busy} 0 0 {idle} 0 0 0 0 0 0\n" for name, (busy, idle) in zip(names, [total, *rows], strict=True)
        )

    return {"/proc/uptime": Node(lambda: f"{now():.2f} {now():.2f}\n"), "/proc/stat": Node(stat)}
