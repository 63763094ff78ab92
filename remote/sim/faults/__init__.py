"""What can go wrong on a simulated board: a class each, whose first line of documentation `sim faults` prints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import inf, isfinite, nan

from remote.errors import UsageError
from remote.sim.faults import clocks, line, load, sensors, system
from remote.sim.faults.fault import Fault

_SPEC = re.compile(r"(?P<name>[\w-]+)@(?P<start>[^:]*)(:(?P<span>[^:]*))?(:(?P<argument>[^:]*))?", re.ASCII)
_SPAN = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)(ms|s|m|)", re.ASCII)
_UNITS = {"": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0}

FAULTS: Mapping[str, type[Fault]] = {
    "throttle": clocks.Throttle,
    "over-current": clocks.OverCurrent,
    "undervoltage": sensors.Undervoltage,
    "emc-clamp": clocks.EmcClamp,
    "gpu-sag": clocks.GpuSag,
    "foreign-load": load.ForeignLoad,
    "gpu-load": load.GpuLoad,
    "desktop": load.Desktop,
    "rail-freeze": sensors.RailFreeze,
    "rail-eagain": sensors.RailEagain,
    "rail-negative": sensors.RailNegative,
    "rail-missing": sensors.RailMissing,
    "sampler-dead": sensors.SamplerDead,
    "no-fp16": system.NoFp16,
    "reboot": system.Reboot,
    "clock-step": system.ClockStep,
    "link-stall": line.LinkStall,
}


def parse(text: str) -> Fault:
    """Returns the fault that ``NAME@START[:FOR][:ARGUMENT]`` names. Raises UsageError."""
    match = _SPEC.fullmatch(text)
    kind = FAULTS.get(match["name"]) if match else None
    if match is None or kind is None:
        raise UsageError(
            f"fault={text} is not a fault of a simulated board", f"NAME@START[:FOR][:ARGUMENT]; {', '.join(FAULTS)}"
        )
    start_s = _seconds(text, match["start"])
    stop_s = start_s + _seconds(text, match["span"]) if match["span"] else inf
    try:
        argument = float(match["argument"]) if match["argument"] else kind.usual
    except ValueError:
        argument = nan
    if not isfinite(argument):
        raise UsageError(f"fault={text}: {match['argument']!r} is not a number")
    return kind(start_s, stop_s, argument)


def _seconds(text: str, word: str) -> float:
    match = _SPAN.fullmatch(word)
    if match is None:
        raise UsageError(f"fault={text}: {word!r} is not a time", "for example 3s, 500ms or 2m")
    return float(match[1]) * _UNITS[match[2]]
