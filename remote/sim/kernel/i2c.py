"""The power monitors as devices of their bus, and the other places where their files are found.

As in Linux's sysfs (Documentation/i2c/i2c-sysfs.rst, ABI/testing/sysfs-class-hwmon): a device lies in its driver's
folder and in the bus's list of devices; `/sys/class/hwmon` and `/sys/bus/iio/devices` list what the drivers made of
them. The files themselves are `remote.sim.rails`'.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from remote.sim.kernel.node import Node, Part, fixed

_DRIVERS = {"iio": "ina3221x", "hwmon": "ina3221"}


class Bus(Part):
    """The devices that the board itself has; ``twin["i2c_folders"]`` are folders of adapters, by their number."""

    def __init__(self, twin: Mapping[str, Any]) -> None:
        ina, places = twin["ina"], twin["ina_places"]
        self._adapters: Mapping[str, str] = twin.get("i2c_folders", {})
        self._chips = [
            (str(spec["device"]), str(spec.get("kind", _DRIVERS[ina["driver"]])), folders[0])
            for spec, folders in zip(ina.get("chip", ()), places, strict=True)
            if "probe" not in spec
        ]

    def nodes(self) -> dict[str, Node]:
        """Returns the name of each device."""
        return {f"{_above(folder, device)}/name": fixed(f"{name}\n") for device, name, folder in self._chips}

    def links(self) -> dict[str, str]:
        """Returns the lists of devices, of the bus, its drivers and the classes."""
        found = {}
        for n, (device, name, folder) in enumerate(self._chips):
            number = device.partition("-")[0]
            lists = (f"/sys/bus/i2c/drivers/{name}", f"/sys/class/i2c-adapter/i2c-{number}", self._adapters.get(number))
            for place in lists:
                if place and not folder.startswith(place):
                    found[f"{place}/{device}"] = _above(folder, device)
            found[f"/sys/bus/i2c/devices/{device}"] = _above(folder, device)
            last = folder.rpartition("/")[2]
            if last.startswith("hwmon"):
                found[f"/sys/class/hwmon/{last}"] = folder
            else:
                found[f"{_above(folder, device)}/iio:device{n}"] = folder
                found[f"{_above(folder, device)}/iio_device"] = folder
                found[f"/sys/bus/iio/devices/iio:device{n}"] = folder
        return found


def _above(folder: str, device: str) -> str:
    """Returns the folder of the device that ``folder`` lies in."""
    return folder[: folder.index(device) + len(device)]
