"""What can go wrong on a simulated board: a class each, whose first line of documentation `sim faults` prints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from math import inf, isfinite, nan

from remote.errors import UsageError
from remote.sim.faults import clocks, engines, line, load, nodes, sensors, storage, system, tools
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
    "write-refused": nodes.WriteRefused,
    "write-ignored": nodes.WriteIgnored,
    "nvpmodel-255": tools.Nvpmodel255,
    "nvpmodel-half": tools.NvpmodelHalf,
    "foreign-load": load.ForeignLoad,
    "gpu-load": load.GpuLoad,
    "desktop": load.Desktop,
    "rail-freeze": sensors.RailFreeze,
    "rail-stale": sensors.RailStale,
    "rail-eagain": sensors.RailEagain,
    "rail-negative": sensors.RailNegative,
    "rail-missing": sensors.RailMissing,
    "sampler-dead": sensors.SamplerDead,
    "tegrastats-dies": tools.TegrastatsDies,
    "tegrastats-garbage": tools.TegrastatsGarbage,
    "tegrastats-silent": tools.TegrastatsSilent,
    "build-oom": engines.BuildOom,
    "engine-hang": engines.EngineHang,
    "engine-crash": engines.EngineCrash,
    "no-fp16": system.NoFp16,
    "reboot": system.Reboot,
    "clock-step": system.ClockStep,
    "slow-python": system.SlowPython,
    "sudo-asks": system.SudoAsks,
    "disk-full": storage.DiskFull,
    "read-only": storage.ReadOnly,
    "link-drop": line.LinkDrop,
    "link-reset": line.LinkReset,
    "link-slow": line.LinkSlow,
    "link-stall": line.LinkStall,
}


def parse(text: str) -> Fault:
    """Returns the fault that ``NAME@START[:FOR][:ARGUMENT]`` names. Raises UsageError."""
    match = _SPEC.fullmatch(text)
    kind = FAULTS.get(match["name"]) if match else None
    if match is None or kind is None:
        name = text.partition("@")[0]
        hint = "a fault is NAME@START[:FOR[:ARGUMENT]]; `edgeperf sim faults` lists the names"
        near = get_close_matches(name, FAULTS, 1)
        if name in FAULTS:
            hint = f"say when: {name}@30s; {hint}"
        elif near:
            hint = f"did you mean {near[0]}? {hint}"
        raise UsageError(f"fault={text} is not a fault of a simulated board", hint)
    start_s = _seconds(text, match["start"])
    stop_s = start_s + _seconds(text, match["span"]) if match["span"] else inf
    return kind(start_s, stop_s, _argument(text, kind, match["argument"]) if match["argument"] else kind.usual)


def _argument(text: str, kind: type[Fault], word: str) -> float:
    if kind.words:
        if word not in kind.words:
            raise UsageError(f"fault={text}: there is no {word!r}", f"give {', '.join(kind.words)}")
        return kind.words.index(word)
    try:
        argument = float(word)
    except ValueError:
        argument = nan
    if not isfinite(argument):
        raise UsageError(f"fault={text}: {word!r} is not a number")
    return argument


def _seconds(text: str, word: str) -> float:
    match = _SPAN.fullmatch(word)
    if match is None:
        raise UsageError(f"fault={text}: {word!r} is not a time", "for example 3s, 500ms or 2m")
    return float(match[1]) * _UNITS[match[2]]
