"""The rest of the board's files: who it is, its fan, its temperatures, its load and memory."""

from __future__ import annotations

import errno
import random
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from remote.sim.kernel.node import DEBUGFS, Node, Part, fail, fixed, switch, whole, word


class Fan(Part):
    """The fan, at the paths of ``twin["fan"]``: ``pwm`` is the speed, ``now`` shows it, ``auto`` lets the board set it.

    The speed stays as it was set, also under the board's own control (assumed). A speed over 255 is capped by NVIDIA's
    driver (assumed) and refused by hwmon's, whose ``auto`` also takes 2.
    """

    keeps = ("pwm", "auto")

    def __init__(self, places: Mapping[str, Any]) -> None:
        self.pwm = 0
        self.auto = int(places.get("starts_auto", 1))
        self._places = places
        self._hwmon = bool(places.get("hwmon"))

    def _set_pwm(self, text: str) -> None:
        pwm = whole(text)
        if self._hwmon and pwm > 255:
            fail(errno.EINVAL)
        self.pwm = min(255, pwm)

    def _set_auto(self, text: str) -> None:
        self.auto = int(word(text, ("0", "1", "2"))) if self._hwmon else switch(text)

    def nodes(self) -> dict[str, Node]:
        """Returns the fan's files."""
        target = Node(lambda: f"{self.pwm}\n", self._set_pwm)
        auto = Node(lambda: f"{self.auto}\n", self._set_auto)
        files = {"pwm": target, "now": Node(target.read), "auto": auto}
        return {
            path: Node(node.read, node.write, private=path.startswith(DEBUGFS))
            for name, node in files.items()
            for path in self._places.get(name, ())
        }


class Switches(Part):
    """Settings of their own, without effect on the twin, by path: 0 or 1, some shown as N or Y."""

    keeps = ("values",)

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.values = {path: int(text in ("1", "Y")) for path, text in texts.items()}
        self._shown = {path: "NY" if text in ("N", "Y") else "01" for path, text in texts.items()}

    def _text(self, path: str) -> str:
        return f"{self._shown[path][self.values[path]]}\n"

    def _set(self, path: str, text: str) -> None:
        self.values[path] = switch(text)

    def nodes(self) -> dict[str, Node]:
        """Returns a file per setting."""
        return {
            path: Node(partial(self._text, path), partial(self._set, path), private=path.startswith(DEBUGFS))
            for path in self.values
        }


class Identity(Part):
    """Who the board is: release, model, serial number, this boot."""

    keeps = ("boot_id",)

    def __init__(self, twin: Mapping[str, Any], seed: int) -> None:
        draw = random.Random(f"identity {seed}")
        self._twin = twin
        self.serial = f"{draw.randrange(10**13):013d}"
        self.boot_id = _uuid(draw)

    def reboot(self, number: int) -> None:
        """Draws the name of another boot."""
        self.boot_id = _uuid(random.Random(f"boot {self.serial} {number}"))

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
        } | {path: fixed(text) for path, text in twin.get("texts", {}).items()}


def _uuid(draw: random.Random) -> str:
    return str(uuid.UUID(int=draw.getrandbits(128), version=4))


def thermal_zones(
    zones: Sequence[tuple[str, str]], step_c: float, temperature: Callable[[str], float]
) -> dict[str, Node]:
    """Returns the files of the thermal zones, in millidegrees; ``zones`` are names with the source of each.

    A zone of ``off`` lies in a part that has no power: reading it answers EAGAIN.
    """

    def text(source: str) -> str:
        if source == "off":
            fail(errno.EAGAIN)
        return f"{int(round(temperature(source) / step_c) * step_c * 1000)}\n"

    found = {}
    for n, (name, source) in enumerate(zones):
        folder = f"/sys/class/thermal/thermal_zone{n}"
        found[f"{folder}/type"] = fixed(f"{name}\n")
        found[f"{folder}/temp"] = Node(partial(text, source))
    return found


def traffic_nodes(traffic_khz: Callable[[], int]) -> dict[str, Node]:
    """Returns the memory traffic in kHz of its clock."""
    return {"/sys/kernel/actmon_avg_activity/mc_all": Node(lambda: f"{traffic_khz()}\n")}


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
