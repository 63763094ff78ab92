"""What protects the board: cooling devices that hold rates back, counters and alarms of over-current.

Names as on NVIDIA's boards: balanced cooling devices with a state per operating point up to Linux 4.9, later alerts
that are on or off. The counters of the over-current inputs appear with Linux 5.10 (assumed: which inputs count).
"""

from __future__ import annotations

from remote.sim.kernel.board import THERMAL
from remote.sim.kernel.node import Node, Part, Version, below, fixed

_COUNTS = (5, 10)
_INPUTS = 3
_FOLDER = "/sys/class/hwmon/hwmon20"


class Protection(Part):
    """``steps`` are the operating points taken away, ``events`` what was counted; ``alarm`` is of the first monitor.

    ``monitor`` is the folder of that monitor where its driver has alarms, else "".
    """

    keeps = ("events",)

    def __init__(self, version: Version, monitor: str) -> None:
        self.steps = 0
        self.events = 0
        self.alarm = False
        self._version, self._monitor = version, monitor

    def nodes(self) -> dict[str, Node]:
        """Returns the files of the cooling devices, the counters and the alarms."""
        alerts = self._version >= _COUNTS
        state = Node(lambda: f"{min(1, self.steps) if alerts else self.steps}\n")
        kinds = ("cpu-throttle-alert", "gpu-throttle-alert") if alerts else ("cpu-balanced", "gpu-balanced")
        devices = [*((kind, state) for kind in kinds), ("pwm-fan", fixed("1\n"))]
        found = {}
        for n, (kind, shown) in enumerate(devices):
            files = {"type": fixed(f"{kind}\n"), "cur_state": shown, "max_state": fixed("1\n" if alerts else "8\n")}
            found.update(below(f"{THERMAL}/cooling_device{n}", files))
        if alerts:
            counters = {f"oc{n}_event_cnt": fixed("0\n") for n in range(2, _INPUTS + 1)}
            counters |= {"name": fixed("soctherm_oc\n"), "oc1_event_cnt": Node(lambda: f"{self.events}\n")}
            found |= below(_FOLDER, counters)
        alarms = {f"curr{n}_{kind}_alarm": fixed("0\n") for n in (1, 2, 3) for kind in ("max", "crit")}
        alarms["curr1_crit_alarm"] = Node(lambda: f"{int(self.alarm)}\n")
        return found | (below(self._monitor, alarms) if self._monitor else {})
