"""What the files of a board tell a doctor: software, other owners of the clocks, throttling, voltage. Pure.

A function takes the texts that were read, by path, and gives findings; `PATHS` is all that any of them asks for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone

from edgeperf.units import show_bytes
from remote.types import Text

Texts = Mapping[str, Text]
"""Files that were read, by path."""


@dataclass(frozen=True)
class Finding:
    """One thing looked at. ``mark`` is ``ok``, ``note`` or ``problem``."""

    subject: str
    mark: str
    found: str
    advice: str = ""


COMMANDS = "/proc/*/comm"

# A program is not read, which would fetch all of it: "/." behind a file answers ENOTDIR where there is one.
_TRTEXEC = ("/usr/src/tensorrt/bin/trtexec", "/usr/bin/trtexec")
_CUDA = ("/usr/local/cuda/version.json", "/usr/local/cuda/version.txt")
THROTTLED = "/sys/devices/platform/soc/soc:firmware/get_throttled"
_MODE_SERVICE = "/etc/systemd/system/nvpmodel.service"
_IIO = "/sys/bus/i2c/drivers/ina3221x/*/iio:device*"
_HWMON = "/sys/class/hwmon/hwmon*"

PATHS = (
    "/proc/meminfo",
    COMMANDS,
    "/usr/include/NvInferVersion.h",
    "/usr/include/*/NvInferVersion.h",
    "/usr/lib/python3*/dist-packages/tensorrt-*-info/METADATA",
    *(f"{path}/." for path in _TRTEXEC),
    *_CUDA,
    _MODE_SERVICE,
    THROTTLED,
    f"{_HWMON}/name",
    f"{_HWMON}/*_alarm",
    f"{_HWMON}/oc*_event_cnt",
    f"{_HWMON}/in*_label",
    f"{_HWMON}/in*_input",
    f"{_IIO}/rail_name_*",
    f"{_IIO}/in_voltage*_input",
    "/sys/class/thermal/cooling_device*/type",
    "/sys/class/thermal/cooling_device*/cur_state",
)

_OWNERS = {
    "nvfancontrol": "drives the fan; `[fan] pwm` of a profile would be overruled",
    "jtop": "its service can set clocks, fan and power mode when a user of it says so",
    "tuned": "sets governors by profiles of its own",
    "power-profiles-daemon": "sets governors",
    "auto-cpufreq": "sets governors by load",
    "cpufreqd": "sets governors by load",
    "thermald": "lowers rates when it is hot",
}
"""What else may change clocks: the name of the process, and what it does."""

_DESKTOP = ("gdm3", "lightdm", "sddm", "Xorg", "Xwayland", "gnome-shell", "compiz", "lxsession", "weston")
_COMM_LENGTH = 15  # the kernel cuts the name of a process there

_INPUTS = ("VDD_IN", "POM_5V_IN")
LOWEST_5V = 4.75  # documented for the Jetson Nano developer kit; that of the other 5 V inputs is taken as the same

UNDER_VOLTAGE = 0
_THROTTLED_BITS = {UNDER_VOLTAGE: "under-voltage", 1: "rate capped", 2: "throttled", 3: "soft temperature limit"}


def _said(texts: Texts, pattern: str) -> dict[str, str]:
    """Returns the texts, stripped, of the paths that match and could be read."""
    shape = re.compile(re.escape(pattern).replace(r"\*", "[^/]*"))
    return {path: found.text.strip() for path, found in texts.items() if not found.error and shape.fullmatch(path)}


def memory(texts: Texts, total_bytes: int) -> Finding:
    """Returns how much memory there is and how much of it is free."""
    free = re.search(r"^MemAvailable:\s*(\d+) kB", texts.get("/proc/meminfo", Text()).text, re.MULTILINE)
    if not total_bytes:
        return Finding("memory", "note", "unknown")
    if free is None:
        return Finding("memory", "ok", show_bytes(total_bytes))
    free_bytes = int(free[1]) * 1024
    found = f"{show_bytes(total_bytes)}, {show_bytes(free_bytes)} free"
    if free_bytes < total_bytes // 4:
        return Finding("memory", "note", found, "building an engine takes more than running it: end what is not needed")
    return Finding("memory", "ok", found)


def software(texts: Texts, simulated: bool) -> Iterator[Finding]:
    """Yields the versions of TensorRT and CUDA, whether trtexec is there, and where each comes from."""
    if simulated:
        yield Finding("TensorRT", "ok", "simulated: a twin runs engines without it")
        return
    yield _tensorrt(texts)
    there = [path for path in _TRTEXEC if texts.get(f"{path}/.", Text()).error == "ENOTDIR"]
    yield Finding("trtexec", "ok" if there else "note", ", ".join(there) or "none")
    yield _cuda(texts)


def _tensorrt(texts: Texts) -> Finding:
    # From 10.x on NV_TENSORRT_MAJOR names TRT_MAJOR_ENTERPRISE, which has the number.
    line = re.compile(r"#define\s+(?:NV_TENSORRT|TRT)_(MAJOR|MINOR|PATCH|BUILD)(?:_ENTERPRISE)?\s+(\d+)")
    found = []
    for pattern in ("/usr/include/NvInferVersion.h", "/usr/include/*/NvInferVersion.h"):
        for path, text in _said(texts, pattern).items():
            numbers = dict(line.findall(text))
            version = ".".join(numbers[part] for part in ("MAJOR", "MINOR", "PATCH") if part in numbers)
            found.append(f"{version or 'of an unknown version'} ({path})")
    for path in _said(texts, "/usr/lib/python3*/dist-packages/tensorrt-*-info/METADATA"):
        package = path.split("/")[-2]
        found.append(f"{package.split('-')[1].removesuffix('.dist')} for Python ({path.rpartition('/')[0]})")
    if found:
        return Finding("TensorRT", "ok", ", ".join(found))
    return Finding("TensorRT", "note", "none", "on a Jetson: sudo apt install nvidia-jetpack; elsewhere not needed")


def _cuda(texts: Texts) -> Finding:
    for path in _CUDA:
        text = texts.get(path, Text(error="ENOENT"))
        if text.error:
            continue
        try:
            version = str(json.loads(text.text)["cuda"]["version"]) if path.endswith("json") else text.text
        except (ValueError, KeyError, TypeError):
            return Finding("CUDA", "note", f"{path} is not in the form known")
        return Finding("CUDA", "ok", f"{version.strip().removeprefix('CUDA Version ')} ({path})")
    return Finding("CUDA", "note", "none in /usr/local/cuda")


def others(texts: Texts) -> Iterator[Finding]:
    """Yields the programs that may change clocks as well, and whether a desktop runs."""
    running = set(_said(texts, COMMANDS).values())
    if not running:
        yield Finding("other owners", "ok", "no processes are listed here")
        return
    owners = {name: what for name, what in _OWNERS.items() if name[:_COMM_LENGTH] in running}
    for name, what in owners.items():
        advice = f"if settings change by themselves: sudo systemctl stop {name}"
        yield Finding("other owners", "note", f"{name}: {what}", advice)
    if not owners:
        yield Finding("other owners", "ok", f"none of {', '.join(_OWNERS)} is running")
    if _MODE_SERVICE in texts and not texts[_MODE_SERVICE].error:
        yield Finding("power mode service", "ok", "nvpmodel.service sets the power mode at each boot")
    session = desktop(texts)
    if session:
        advice = "it takes memory and GPU time; until the next boot without: sudo systemctl isolate multi-user.target"
        yield Finding("desktop", "note", ", ".join(session), advice)
    else:
        yield Finding("desktop", "ok", "none is running")


def desktop(texts: Texts) -> tuple[str, ...]:
    """Returns the programs of a desktop session that run."""
    running = set(_said(texts, COMMANDS).values())
    return tuple(name for name in _DESKTOP if name[:_COMM_LENGTH] in running)


def throttling(texts: Texts) -> Iterator[Finding]:
    """Yields what holds clocks back now, and the over-current events since the board was switched on."""
    names = {path.rpartition("/")[0]: name for path, name in _said(texts, f"{_HWMON}/name").items()}
    alarms = [f"{_of(path, names)}" for path, text in _said(texts, f"{_HWMON}/*_alarm").items() if text == "1"]
    if alarms:
        advice = "a limit of current, voltage or temperature is passed: see to supply and cooling"
        yield Finding("alarms", "problem", ", ".join(alarms), advice)
    events = _said(texts, f"{_HWMON}/oc*_event_cnt")
    counted = [f"{_of(path, names)} {text}" for path, text in events.items() if text.isdigit() and int(text)]
    if counted:
        advice = "each throttled the clocks for a moment, locked or not: a stronger supply, or a lower power mode"
        yield Finding("over-current", "note", f"{', '.join(counted)} since it was switched on", advice)
    elif events:
        yield Finding("over-current", "ok", "no event since it was switched on")
    cooling = list(_cooling(texts))
    firmware = _said(texts, THROTTLED).get(THROTTLED, "")
    if cooling:
        yield Finding("throttling", "problem", f"now by {', '.join(cooling)}", "let it cool down; is the fan running?")
    elif not firmware:
        yield Finding("throttling", "ok", "nothing holds the clocks back now")
    else:
        yield _firmware(firmware)


def _of(path: str, names: Mapping[str, str]) -> str:
    folder, _, file = path.rpartition("/")
    return f"{names.get(folder, folder.rpartition('/')[2])} {file.removesuffix('_event_cnt').removesuffix('_alarm')}"


def _cooling(texts: Texts) -> Iterator[str]:
    """Yields the cooling devices at work that slow something down; not fans, and not screens, which are some too."""
    for path, kind in _said(texts, "/sys/class/thermal/cooling_device*/type").items():
        state = texts.get(path.replace("/type", "/cur_state"), Text()).text.strip()
        slows = re.search(r"cpu|gpu|emc|processor|devfreq|throttle|alert|balanced", kind.lower())
        if slows and "fan" not in kind.lower() and state.isdigit() and int(state):
            yield f"{kind} (state {state})"


def _firmware(text: str) -> Finding:
    """Reads the bits of the Raspberry Pi's firmware: what is now, and 16 bits higher what was since it was on."""
    try:
        bits = int(text, 16)
    except ValueError:
        return Finding("throttling", "note", f"{THROTTLED} is not in the form known")
    now = [word for bit, word in _THROTTLED_BITS.items() if bits >> bit & 1]
    once = [word for bit, word in _THROTTLED_BITS.items() if bits >> bit + 16 & 1]
    if now:
        return Finding("throttling", "problem", f"now: {', '.join(now)}", "a stronger supply, or more cooling")
    if once:
        return Finding("throttling", "note", f"since it is on: {', '.join(once)}", "see to supply and cooling")
    return Finding("throttling", "ok", "nothing holds the clocks back, nor did since it was switched on")


def voltage(texts: Texts) -> Iterator[Finding]:
    """Yields the voltage of the board's input, where a sensor of it says so."""
    millivolts = {}
    for path, name in _said(texts, f"{_HWMON}/in*_label").items():
        millivolts[name] = texts.get(path.replace("_label", "_input"), Text()).text.strip()
    for path, name in _said(texts, f"{_IIO}/rail_name_*").items():
        folder, _, file = path.rpartition("/")
        number = file.removeprefix("rail_name_")
        millivolts[name] = texts.get(f"{folder}/in_voltage{number}_input", Text()).text.strip()
    for name in _INPUTS:
        text = millivolts.get(name, "")
        if not text.isdigit() or not int(text):
            continue
        volts = int(text) * 1e-3
        if sags(volts):
            advice = "5 V sags under load: a stronger supply, by the barrel jack and not by USB"
            yield Finding("input voltage", "problem", f"{name} {volts:.2f} V, below {LOWEST_5V} V", advice)
        else:
            yield Finding("input voltage", "ok", f"{name} {volts:.2f} V")


def sags(volts: float) -> bool:
    """Says whether an input of 5 V is below what a board takes. Other inputs take a wide range."""
    return 3.0 < volts < LOWEST_5V


def firmware_says(texts: Texts, bit: int) -> bool:
    """Says whether the firmware of a Raspberry Pi reports a trouble now, by its bit of get_throttled."""
    text = _said(texts, THROTTLED).get(THROTTLED, "")
    return re.fullmatch(r"(0x)?[0-9a-fA-F]+", text) is not None and bool(int(text, 16) >> bit & 1)


def clock(board_s: float, here_s: float) -> Finding:
    """Returns how far the board's calendar is from this machine's, both in seconds since 1970."""
    if not board_s:
        return Finding("calendar", "note", "unknown")
    away_s = board_s - here_s
    if abs(away_s) < 10.0:
        return Finding("calendar", "ok", "as on this machine, within 10 s")
    there = datetime.fromtimestamp(board_s, timezone.utc).isoformat(timespec="seconds")
    found = f"{there}, {abs(away_s):.0f} s {'ahead of' if away_s > 0 else 'behind'} this machine"
    return Finding("calendar", "note", found, "only dates are wrong, spans are not; sudo timedatectl set-ntp true")
