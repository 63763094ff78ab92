"""The rest of the board's files: its fan, its temperatures, its load and memory."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from remote.sim.kernel.node import DEBUGFS, Node, Part, below, fail, fixed, switch, whole, word

THERMAL = "/sys/devices/virtual/thermal"
"""Where the kernel keeps zones and cooling devices; `/sys/class/thermal` links to each."""


FAN_SERVICE = "/run/systemd/units/invocation:nvfancontrol.service"
"""From R34 on: whether the service runs that controls the fan, ``active`` or ``inactive``, as `systemctl` sets it."""


_FAN_UNIT = "nvfancontrol.service"
_FAN_CONF = """<FAN 1>
\tFAN_GOVERNOR cont {
\t}
\tFAN_CONTROL close_loop {
\t}
\tFAN_PROFILE quiet {
\t}
\tFAN_PROFILE cool {
\t}
<FAN_DEFAULT_PROFILE quiet>
"""


class Fan(Part):
    """The fan, at the paths of ``twin["fan"]``: ``pwm`` is the speed, ``now`` shows it, ``auto`` lets the board set it.

    ``rpm`` counts its turns, 20 a minute for each step (assumed). The speed stays as it was set, also under the board's
    own control (assumed). A speed over 255 is capped by NVIDIA's
    driver (assumed) and refused by hwmon's, whose ``auto`` also takes 2.
    """

    keeps = ("pwm", "auto", "service")

    def __init__(self, places: Mapping[str, Any]) -> None:
        self.pwm = 0
        self.auto = int(places.get("starts_auto", 1))
        self.service = "active"
        self._places = places
        self._hwmon = bool(places.get("hwmon"))

    def _set_pwm(self, text: str) -> None:
        pwm = whole(text)
        if self._hwmon and pwm > 255:
            fail(errno.EINVAL)
        self.pwm = min(255, pwm)

    def _set_auto(self, text: str) -> None:
        self.auto = int(word(text, ("0", "1", "2"))) if self._hwmon else switch(text)

    def _set_service(self, text: str) -> None:
        self.service = word(text, ("active", "inactive"))

    def nodes(self) -> dict[str, Node]:
        """Returns the fan's files."""
        target = Node(lambda: f"{self.pwm}\n", self._set_pwm)
        auto = Node(lambda: f"{self.auto}\n", self._set_auto)
        files = {"pwm": target, "now": Node(target.read), "auto": auto, "rpm": Node(lambda: f"{20 * self.pwm}\n")}
        nodes = {
            path: Node(node.read, node.write, private=path.startswith(DEBUGFS))
            for name, node in files.items()
            for path in self._places.get(name, ())
        }
        names = {"pwm": "pwmfan", "rpm": "pwm_tach"} if self._hwmon else {}
        if self._hwmon:
            nodes |= {"/etc/nvfancontrol.conf": fixed(_FAN_CONF), f"/etc/systemd/system/{_FAN_UNIT}": fixed("")}
            nodes[FAN_SERVICE] = Node(lambda: f"{self.service}\n", self._set_service)
        return nodes | {f"{self._folder(name)}/name": fixed(f"{text}\n") for name, text in names.items()}

    def _folder(self, name: str) -> str:
        return str(self._places[name][0]).rpartition("/")[0]

    def links(self) -> dict[str, str]:
        """Returns the fan's and its tachometer's place in the class."""
        folders = [self._folder(name) for name in ("pwm", "rpm") if self._hwmon]
        return {f"/sys/class/hwmon/{folder.rpartition('/')[2]}": folder for folder in folders}


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
        files = {"type": fixed(f"{name}\n"), "temp": Node(partial(text, source)), "mode": fixed("enabled\n")}
        found.update(below(f"{THERMAL}/thermal_zone{n}", files))
    return found


def thermal_links(zones: int, devices: int) -> dict[str, str]:
    """Returns the list of so many zones and cooling devices in the class."""
    names = [*(f"thermal_zone{n}" for n in range(zones)), *(f"cooling_device{n}" for n in range(devices))]
    return {f"/sys/class/thermal/{name}": f"{THERMAL}/{name}" for name in names}


def traffic_nodes(traffic_khz: Callable[[], int]) -> dict[str, Node]:
    """Returns the memory traffic in kHz of its clock."""
    return {"/sys/kernel/actmon_avg_activity/mc_all": Node(lambda: f"{traffic_khz()}\n")}


_LARGEST_BLOCK_BYTES = 4 << 20  # 1024 pages of 4 KiB, MAX_ORDER of Linux on arm64


def memory_nodes(total_bytes: int, used_bytes: Callable[[], int], swap_share: float) -> dict[str, Node]:
    """Returns /proc/meminfo and /proc/buddyinfo: nothing is cached, fragmented or swapped (assumed)."""

    def text() -> str:
        free_bytes = total_bytes - used_bytes()
        rows = {"MemTotal:": total_bytes, "MemFree:": free_bytes, "MemAvailable:": free_bytes}
        rows |= dict.fromkeys(("Buffers:", "Cached:", "SwapCached:", "SReclaimable:"), 0)
        rows |= dict.fromkeys(("SwapTotal:", "SwapFree:"), round(total_bytes * swap_share))
        return "".join(f"{name:16}{size // 1024:8d} kB\n" for name, size in rows.items())

    def buddies() -> str:
        blocks = (total_bytes - used_bytes()) // _LARGEST_BLOCK_BYTES
        return f"Node 0, zone   Normal {' '.join(['     0'] * 10)} {blocks:6d} \n"

    return {"/proc/meminfo": Node(text), "/proc/buddyinfo": Node(buddies)}


def time_nodes(now: Callable[[], float], core_seconds: Callable[[], list[float]]) -> dict[str, Node]:
    """Returns /proc/uptime, /proc/loadavg and /proc/stat; ``core_seconds`` is how long each core has been busy.

    A jiffy is 10 ms. The load's three means are that since boot (assumed).
    """

    def stat() -> str:
        rows = [(round(busy * 100), round((now() - busy) * 100)) for busy in core_seconds()]
        total = (sum(busy for busy, _ in rows), sum(idle for _, idle in rows))
        names = ["cpu ", *(f"cpu{n}" for n in range(len(rows)))]
        return "".join(
            f"{name} {busy} 0 0 {idle} 0 0 0 0 0 0\n" for name, (busy, idle) in zip(names, [total, *rows], strict=True)
        )

    def uptime() -> str:
        busy = core_seconds()
        return f"{now():.2f} {len(busy) * now() - sum(busy):.2f}\n"

    def load() -> str:
        mean = sum(core_seconds()) / max(now(), 1.0)
        return f"{mean:.2f} {mean:.2f} {mean:.2f} 1/150 1000\n"

    return {"/proc/uptime": Node(uptime), "/proc/stat": Node(stat), "/proc/loadavg": Node(load)}
