"""Finds the power rails of a board: by driver, address and label, never by a number that the kernel happened to give.

A row of the boards' tables names the ``driver`` and, of a monitor on the I2C bus, the ``chip``. Where each driver has
its files: NVIDIA's iio driver of the INA3221 (Linux 3.10 to 4.9), and the Linux hwmon and powercap documentation.
"""

import errno
import re

from remote.onboard import probe

MYPY = False
if MYPY:  # the typing module is newer than the oldest Python of the boards
    from typing import Any, Dict  # novm

    from remote.onboard.system import System

    Found = Dict[str, Any]


TRIES = 3
"""How often a sensor that is busy (EAGAIN) is asked before it is given up."""

_MICRO, _MILLI = 1e-6, 1e-3  # mV times mA is uW
_MILLIS, _MICROS = 1e3, 1e6
_NOBODY = "NC"  # the label of an input that is not connected

_INA3221_S = 3 * (1.1e-3 + 1.1e-3)
"""Three channels, shunt and bus, with the conversion times that the chip starts with (data sheet)."""

_IIO_AVERAGES = 64
"""Of NVIDIA's driver when it lets the chip run by itself; a triggered conversion is a single one."""

_INA238_S = 16 * 3 * 1.052e-3
"""Linux' driver averages 16 conversions of voltage, current and temperature."""

_RAPL_S = 1e-3
"""How often the counter is updated (Intel SDM, volume 3, on RAPL)."""

_NO_RAIL = re.compile(r"ucsi|tcpm|.*psy|.*charger|.*battery|bat\d|ac\d?$|adp\d|cw2015|sbs|bq\d|max170", re.IGNORECASE)
_SUPPLIES = ("Battery", "Mains", "UPS", "USB", "Wireless")  # what a power_supply says of its type in sysfs


def rails(system: "System", rows: "list[Found]") -> "dict[str, Found]":
    """Returns the rails that this program can read here, by id.

    Each is a channel for `remote.onboard.sampler`: the watts are ``scale`` times the numbers in the files ``path`` and
    ``times``, or the rate of a counter that starts anew beyond ``wraps``. ``sensor`` has the fields of the host's
    ``Sensor``.
    """
    chips = {}  # type: dict[str, dict[str, str]]
    found = {}  # type: dict[str, Found]
    for row in rows:
        driver, chip = str(row["driver"]), str(row.get("chip", ""))
        if driver == "ina3221" and chip not in chips:
            chips[chip] = _labels(system, chip)
        made = _hwmon(system) if driver == "hwmon" else [_known(system, driver, row, chips.get(chip, {}))]
        for rail in made:
            if rail is not None:
                rail.update({"parent": row.get("parent", ""), "place": row.get("place", "")})
                found.setdefault(str(rail["id"]), rail)
    return found


def _known(system: "System", driver: str, row: "Found", labels: "dict[str, str]") -> "Found | None":
    """Returns the rail that a row names. ``labels`` are those of its chip."""
    if driver == "ina3221":
        return _ina3221(system, row, labels[row["id"]]) if row["id"] in labels else None
    return {"ina238": _ina238, "rapl": _rapl}[driver](system, row)


def _text(system: "System", path: str) -> "str | None":
    """Returns what a sensor shows, "" when it is busy, None when this program cannot read it."""
    for _ in range(TRIES):
        try:
            return system.read(path).strip()
        except OSError as error:
            if error.errno != errno.EAGAIN:
                return None
    return ""


def _number(system: "System", path: str, parts: float = 1.0) -> "float | None":
    """Returns the first number of a file, of which ``parts`` make one; None where there is none."""
    words = (_text(system, path) or "").split()
    try:
        return float(words[0]) / parts
    except (ValueError, IndexError):
        return None


def _sensor(
    kind: str, shunt_ohm: "float | None", volts: "float | None", conversion_s: "float | None", mode: str
) -> "Found":
    return {"kind": kind, "shunt_ohm": shunt_ohm, "volts": volts, "conversion_s": conversion_s, "mode": mode}


def _readable(system: "System", name: str, forms: "list[tuple[float, str, str]]") -> "Found | None":
    """Returns a rail in the first of its forms (scale, file, second file) of which all files can be read here."""
    for scale, path, times in forms:
        if _text(system, path) is not None and (not times or _text(system, times) is not None):
            return {"id": name, "path": path, "times": times, "scale": scale}
    return None


# INA3221


def _labels(system: "System", chip: str) -> "dict[str, str]":
    """Returns the file with the label of each channel of a chip, by label."""
    found = {}  # type: dict[str, str]
    for pattern in (
        "/sys/bus/i2c/drivers/ina3221x/%s/iio:device*/rail_name*" % chip,
        "/sys/class/i2c-adapter/i2c-%s/%s/iio_device/rail_name*" % (chip.split("-")[0], chip),
        "/sys/bus/i2c/drivers/ina3221/%s/hwmon/hwmon*/in?_label" % chip,
    ):
        for path in system.glob(pattern):
            found.setdefault(probe.text_of(system, path), path)
    return found


def _ina3221(system: "System", row: "Found", label: str) -> "Found | None":
    if label.endswith("_label"):
        return _ina3221_hwmon(system, label, str(row["id"]), row["shunt_ohm"])
    folder, _, name = label.rpartition("/")
    number = name[len("rail_name") :].lstrip("_")

    def file(form: str) -> str:
        return "%s/%s" % (folder, form % number)

    volts, amperes = file("in_voltage%s_input"), file("in_current%s_input")
    # The first two are of one conversion; voltage and current each make their own when it is triggered by reading.
    forms = [
        (_MICRO, file("ui_input%s"), ""),
        (_MILLI, file("in_power%s_input"), ""),
        (_MICRO, volts, amperes),
    ]
    rail = _readable(system, str(row["id"]), forms)
    if rail is not None:
        mode = {"0": "triggered", "1": "continuous"}.get(_text(system, folder + "/running_mode") or "", "")
        conversion_s = {"triggered": _INA3221_S, "continuous": _IIO_AVERAGES * _INA3221_S}.get(mode)
        looked_at = rail["path"] if rail["path"] == forms[0][1] else volts
        seen = _number(system, looked_at, _MILLIS)
        rail["sensor"] = _sensor("ina3221", row["shunt_ohm"], seen, conversion_s, mode)
    return rail


def _ina3221_hwmon(system: "System", label: str, name: str, shunt_ohm: "float | None") -> "Found | None":
    folder, _, file = label.rpartition("/")
    number = file[len("in") : -len("_label")]
    volts = "%s/in%s_input" % (folder, number)
    rail = _readable(system, name, [(_MICRO, volts, "%s/curr%s_input" % (folder, number))])
    if rail is not None:
        shown_ohm = _number(system, "%s/shunt%s_resistor" % (folder, number), _MICROS)
        interval_s = _number(system, folder + "/update_interval", _MILLIS)
        rail["sensor"] = _sensor(
            "ina3221", shown_ohm or shunt_ohm, _number(system, volts, _MILLIS), interval_s, "continuous"
        )
    return rail


# Other monitors


def _ina238(system: "System", row: "Found") -> "Found | None":
    for path in system.glob("/sys/bus/i2c/drivers/ina238/%s/hwmon/hwmon*/power1_input" % row["chip"]):
        rail = _readable(system, str(row["id"]), [(_MICRO, path, "")])
        if rail is not None:
            folder = path.rpartition("/")[0]
            interval_s = _number(system, folder + "/update_interval", _MILLIS) or _INA238_S
            volts = _number(system, folder + "/in1_input", _MILLIS)
            rail["sensor"] = _sensor("ina238", row["shunt_ohm"], volts, interval_s, "continuous")
            return rail
    return None


def _rapl(system: "System", row: "Found") -> "Found | None":
    for path in system.glob("/sys/class/powercap/intel-rapl:*/name"):
        folder = path.rpartition("/")[0]
        if probe.text_of(system, path) == row["id"]:
            rail = _readable(system, str(row["id"]), [(_MICRO, folder + "/energy_uj", "")])
            if rail is not None:
                rail["wraps"] = _number(system, folder + "/max_energy_range_uj") or 0.0
                rail["sensor"] = _sensor("rapl", None, None, _RAPL_S, "continuous")
                return rail
    return None


def _hwmon(system: "System") -> "list[Found | None]":
    """Returns what any other monitor shows: powers, and voltages with the current of the same label.

    Batteries, chargers and USB ports are monitors too, but none of a rail.
    """
    found = {}  # type: dict[str, Found]
    folders = {path.rpartition("/")[0] for kind in ("power", "curr") for path in _inputs(system, kind)}
    for folder in sorted(folders, key=_natural):
        chip = probe.text_of(system, folder + "/name")
        if _NO_RAIL.match(chip) or probe.text_of(system, folder + "/device/type") in _SUPPLIES:
            continue
        for rail in _ina3221s(system, folder) if chip == "ina3221" else _pairs(system, folder, chip):
            names = (rail["id"], "%s.%s" % (chip, rail["id"]), "%s.%s" % (folder.rpartition("/")[2], rail["id"]))
            rail["id"] = next((name for name in names if name not in found), names[-1])
            found[str(rail["id"])] = rail
    return list(found.values())


def _inputs(system: "System", kind: str, folder: str = "/sys/class/hwmon/hwmon*") -> "list[str]":
    return sorted(system.glob("%s/%s*_input" % (folder, kind)), key=_natural)


def _natural(path: str) -> "list[int]":
    return [int(digits) for digits in re.findall(r"\d+", path)]


def _ina3221s(system: "System", folder: str) -> "list[Found]":
    labels = [path for path in system.glob(folder + "/in?_label") if path[-len("N_label")] in "123"]
    rails = [_ina3221_hwmon(system, path, probe.text_of(system, path), None) for path in labels]
    return [rail for rail in rails if rail is not None and rail["id"] not in ("", _NOBODY)]


def _pairs(system: "System", folder: str, chip: str) -> "list[Found]":
    """Returns the powers that a monitor shows, and those to be made of a voltage and a current of one label."""
    interval_s = _number(system, folder + "/update_interval", _MILLIS)
    shunt_ohm = _number(system, folder + "/shunt_resistor", _MICROS)
    kind = "ina238" if chip == "ina238" else "hwmon"
    rails = []
    for path in _inputs(system, "power", folder):
        stem = path[: -len("_input")]
        name = probe.text_of(system, stem + "_label") or "%s.%s" % (chip or "hwmon", stem.rpartition("/")[2])
        rail = _readable(system, name, [(_MICRO, path, "")])
        if rail is not None:
            volts = _number(system, folder + "/in1_input", _MILLIS) if chip.startswith("ina") else None
            rail["sensor"] = _sensor(kind, shunt_ohm, volts, interval_s, "")
            rails.append(rail)
    there = {rail["id"] for rail in rails}
    volts_by = {probe.text_of(system, path[: -len("input")] + "label"): path for path in _inputs(system, "in", folder)}
    for path in _inputs(system, "curr", folder):
        name = probe.text_of(system, path[: -len("input")] + "label")
        if name and name in volts_by and name not in there:
            rail = _readable(system, name, [(_MICRO, volts_by[name], path)])
            if rail is not None:
                rail["sensor"] = _sensor("hwmon", None, _number(system, volts_by[name], _MILLIS), interval_s, "")
                rails.append(rail)
    return rails
