"""Reads what tegrastats prints, in the layouts of L4T R21 to R39.

A line is a run of tokens that come and go with release, board and rights, so it is cut by what the tokens look like,
never by their position: a name, and what follows it. What is not known is kept as text. Field by field in the
"tegrastats Utility" chapter of the Jetson Linux Developer Guide.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from remote.errors import BoardError

SENSOR_OFF_C = -256.0
"""What a thermal sensor reports whose block is switched off. It is no temperature."""


@dataclass(frozen=True)
class Memory:
    """RAM, swap or IRAM in bytes. ``free_blocks`` of ``free_block_bytes`` are the largest that are free."""

    used_bytes: int
    total_bytes: int
    cached_bytes: int | None = None
    free_blocks: int | None = None
    free_block_bytes: int | None = None


@dataclass(frozen=True)
class Core:
    """A core that is online. ``load`` is a share of 0 to 1; ``rate_hz`` is as counted, so it jitters under a lock."""

    load: float
    rate_hz: float | None


@dataclass(frozen=True)
class Unit:
    """A clocked unit. ``load`` is a share of 0 to 1; each is None or empty where the board does not tell.

    ``rates_hz`` has one rate per cluster of the unit, floored to whole megahertz by tegrastats, 0 for one that is off.
    """

    load: float | None = None
    rates_hz: tuple[float, ...] = ()
    off: bool = False


@dataclass(frozen=True)
class RailPower:
    """A power rail in watts. ``average_w`` and ``highest_w`` count from the start of that tegrastats process."""

    name: str
    power_w: float
    average_w: float
    highest_w: float | None = None


@dataclass(frozen=True)
class Tegrastats:
    """One line. ``time`` is the board's local time as ``YYYY-MM-DDTHH:MM:SS``. None or empty: not in the line.

    ``logged_s`` are the seconds since 1970 that whoever kept the line wrote before it. ``cores`` are in the order of
    their numbers, None for one that is offline. ``units`` are named without ``_FREQ`` (EMC, GR3D, VIC, APE ...;
    ``MTS fg`` and ``MTS bg`` for the code morphing of Denver cores). A temperature of None is a sensor that is off.
    ``rails`` is a list because names repeat. ``unknown`` holds the words that are none of these, neighbours together.
    """

    time: str = ""
    logged_s: float | None = None
    ram: Memory | None = None
    swap: Memory | None = None
    iram: Memory | None = None
    cores: tuple[Core | None, ...] = ()
    cpu_limit_hz: float | None = None
    units: Mapping[str, Unit] = field(default_factory=dict)
    temperatures_c: Mapping[str, float | None] = field(default_factory=dict)
    highest_c: Mapping[str, float | None] = field(default_factory=dict)
    rails: tuple[RailPower, ...] = ()
    unknown: tuple[str, ...] = ()


_PLAIN = ["EMC", "GR3D", "VIC", "APE", "AVP", "VDE", "MSENC", "NVENC", "NVDEC", "NVJPG", "NVDLA", "PVA", "OFA"]
_NUMBERED = [f"{name}{n}" for name in ("GR3D", *_PLAIN[7:], "VIC") for n in range(10)]
_UNITS = {spelt: name for name in (*_PLAIN, *_NUMBERED) for spelt in (name, f"{name}_FREQ")}
_MEMORIES = {"RAM": "ram", "SWAP": "swap", "IRAM": "iram"}
# Words of other tokens: what is left of a damaged one shall not look like a rail.
_NO_RAILS = {*_UNITS, *_MEMORIES, "EDP", "limit", "MTS", "fg", "bg", "lfb", "cached", "off", "cpu"}

_PREFIX = re.compile(
    r"""\s*(?:(?P<logged>\d{9,10}(?:\.\d{1,9})?)(?:::?\s*|\s+))?
    (?:(?:(?P<month>\d\d)-(?P<day>\d\d)-(?P<year>\d{4})\s+|(?P<date>\d{4}-\d\d-\d\d)[T\ ])
       (?P<clock>\d\d:\d\d:\d\d)(?=\s))?""",
    re.VERBOSE | re.ASCII,
)
_MHZ = r"(?:\d{1,6}|\[\s*(?:\d{1,6}|off)(?:\s*,\s*(?:\d{1,6}|off))*\s*\])"
_CORE = r"(?:off|\d{1,3}%(?:@\d{1,6})?)"
_CELSIUS = r"-?\d{1,4}(?:\.\d{1,6})?C"
_MW = r"-?\d{1,9}"
_MEMORY = re.compile(
    r"(\d+)/(\d+)([kMG]B)(?:\s*\((lfb|cached)\s+(?:(\d+)x)?(\d+)([kMG]B)\))?",
    re.ASCII,
)
# A name and what follows it; names of rails, sensors and cores overlap, what follows does not. Else a word by itself.
_TOKEN = re.compile(
    rf"""([A-Za-z][\w.-]*)(?:
      @({_CELSIUS}(?:/{_CELSIUS})?)
    | \s+(?:
        ({_MW}/{_MW}|{_MW}mW/{_MW}mW(?:/{_MW}mW)?)
      | (off|\d{{1,3}}\s?%(?:@{_MHZ})?|\d{{1,6}}|@{_MHZ})
      | (\[\s*{_CORE}(?:\s*,\s*{_CORE})*\s*\](?:@\d{{1,6}})?
        |\d{{1,9}}/\d{{1,9}}[kMG]B(?:\s*\((?:lfb\s+(?:\d{{1,9}}x)?|cached\s+)\d{{1,9}}[kMG]B\))?
        |limit\s+\d{{1,6}}
        |fg\s+\d{{1,3}}%\s+bg\s+\d{{1,3}}%)
      )
    )(?!\S)
    | (\S+)""",
    re.VERBOSE | re.ASCII,
)
_BYTES = {"kB": 1024, "MB": 1024**2, "GB": 1024**3}
_HZ_PER_MHZ = 1e6
_MILLIWATTS_PER_WATT = 1e3
_REMEMBERED = 8192  # texts of a kind of token: loads, clocks and sizes of memory come again and again in a log


def parse(line: str) -> Tegrastats:
    """Returns what a line says, with text that is not understood kept in ``unknown``.

    Raises BoardError for a line with nothing of tegrastats in it, such as a message of the shell.
    """
    temperatures: dict[str, float] = {}
    highest: dict[str, float] = {}
    units: dict[str, Unit] = {}
    rails: list[RailPower] = []
    rare: dict[str, Any] = {}
    strange: list[tuple[int, str]] = []
    prefix = _PREFIX.match(line)
    tokens = _TOKEN.findall(line, prefix.end() if prefix else 0)
    for n, (name, celsius, milliwatts, unit, other, word) in enumerate(tokens):
        if celsius:
            now, _, most = celsius.partition("/")
            temperatures[name] = float(now[:-1])
            if most:
                highest[name] = float(most[:-1])
        elif milliwatts and name not in _NO_RAILS:
            rails.append(_rail(name, milliwatts))
        elif unit and name in _UNITS:
            units[_UNITS[name]] = _unit(unit)
        elif not (other and _take(name, other, rare, units)):
            strange.append((n, word or f"{name} {milliwatts or unit or other}"))
    if len(strange) == len(tokens):
        raise BoardError(
            f"tegrastats printed a line that is no report: {line.strip()[:80]!r}",
            "run tegrastats on the board to see what it says",
        )
    return Tegrastats(
        time=_time(prefix) if prefix and prefix["clock"] else "",
        logged_s=float(prefix["logged"]) if prefix and prefix["logged"] else None,
        units=units,
        temperatures_c=_celsius(temperatures),
        highest_c=_celsius(highest),
        rails=tuple(rails),
        unknown=_together(strange) if strange else (),
        **rare,
    )


def _take(name: str, text: str, rare: dict[str, Any], units: dict[str, Unit]) -> bool:
    """Keeps a token of which a line has at most one. Says whether it is one that is known."""
    if name in _MEMORIES and text[0].isdigit():
        rare[_MEMORIES[name]] = _memory(text)
    elif name in ("CPU", "cpu") and text[0] == "[":
        rare["cores"] = _cores(text)
    elif name in _UNITS and text[0] == "[":  # the two processors of a PVA, and their one clock
        loads = [core.load for core in _cores(text) if core] or [0.0]
        units[_UNITS[name]] = Unit(sum(loads) / len(loads), _rates(text.partition("]")[2]))
    elif name == "EDP" and text[0] == "l":
        rare["cpu_limit_hz"] = int(text.split()[1]) * _HZ_PER_MHZ
    elif name == "MTS" and text[0] == "f":
        _, fg, _, bg = text.replace("%", "").split()
        units |= {"MTS fg": Unit(int(fg) / 100), "MTS bg": Unit(int(bg) / 100)}
    else:
        return False
    return True


def _time(prefix: re.Match[str]) -> str:
    date = prefix["date"] or f"{prefix['year']}-{prefix['month']}-{prefix['day']}"
    return f"{date}T{prefix['clock']}"


@lru_cache(_REMEMBERED)
def _memory(text: str) -> Memory:
    match = _MEMORY.match(text)
    assert match is not None  # this is how the token was found
    used, total, size, kind, blocks, block, block_size = match.groups()
    scale = _BYTES[size]
    if kind is None:
        return Memory(int(used) * scale, int(total) * scale)
    block_bytes = int(block) * _BYTES[block_size]
    if kind == "cached":
        return Memory(int(used) * scale, int(total) * scale, cached_bytes=block_bytes)
    return Memory(int(used) * scale, int(total) * scale, None, int(blocks or 1), block_bytes)


def _cores(text: str) -> tuple[Core | None, ...]:
    """Returns the cores of ``[12%@1224,off]``; up to R28.1 one rate for all stands behind: ``[12%,off]@1224``."""
    each, _, shared = text[1:].partition("]")
    words = each.split(",")
    return tuple(map(_core, [word if "@" in word else word.strip() + shared for word in words] if shared else words))


@lru_cache(_REMEMBERED)
def _core(text: str) -> Core | None:
    load, percent, mhz = text.partition("%")
    return Core(int(load) / 100, int(mhz[1:]) * _HZ_PER_MHZ if mhz.strip() else None) if percent else None


@lru_cache(_REMEMBERED)
def _unit(text: str) -> Unit:
    """Returns ``12%@[1300,1300]``, or a part of that, as a unit."""
    if text == "off":
        return Unit(off=True)
    load, percent, rates = text.rpartition("%")
    return Unit(int(load) / 100 if percent else None, _rates(rates))


def _rates(text: str) -> tuple[float, ...]:
    """Returns ``1300``, ``@1300`` or ``@[1300,off]`` as hertz."""
    mhz = text[1:] if text[:1] == "@" else text
    if not mhz:
        return ()
    if mhz[0] != "[":
        return (int(mhz) * _HZ_PER_MHZ,)
    return tuple(0.0 if word.strip() == "off" else int(word) * _HZ_PER_MHZ for word in mhz[1:-1].split(","))


def _celsius(found: dict[str, float]) -> Mapping[str, float | None]:
    if SENSOR_OFF_C not in found.values():
        return found
    return {name: None if celsius == SENSOR_OFF_C else celsius for name, celsius in found.items()}


def _rail(name: str, text: str) -> RailPower:
    now, average, *most = text.replace("mW", "").split("/")
    highest_w = int(most[0]) / _MILLIWATTS_PER_WATT if most else None
    return RailPower(name, int(now) / _MILLIWATTS_PER_WATT, int(average) / _MILLIWATTS_PER_WATT, highest_w)


def _together(strange: Sequence[tuple[int, str]]) -> tuple[str, ...]:
    """Returns texts by their places in the line; those that stand side by side become one."""
    found: list[str] = []
    last = -2
    for n, text in strange:
        if n == last + 1:
            found[-1] += f" {text}"
        else:
            found.append(text)
        last = n
    return tuple(found)


def rails_w(read: Tegrastats) -> dict[str, float]:
    """Returns the rails' watts now by their names; of a name that repeats, the second is ``NC#2``."""
    found: dict[str, float] = {}
    for rail in read.rails:
        same = sum(name.partition("#")[0] == rail.name for name in found)
        found[f"{rail.name}#{same + 1}" if same else rail.name] = rail.power_w
    return found
