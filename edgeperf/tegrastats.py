"""Reads what tegrastats prints, in the layouts of L4T R21 to R39.

A line is a run of tokens that come and go with release, board and rights, so it is cut by what the tokens look like,
never by their position. What is not known is kept as text. Field by field in the "tegrastats Utility" chapter of the
Jetson Linux Developer Guide.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

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

    ``rates_hz`` has one rate per cluster of the unit, floored to whole megahertz by tegrastats.
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

    ``cores`` are in the order of their numbers, None for one that is offline. ``units`` are named without ``_FREQ``
    (EMC, GR3D, VIC, APE ...; ``MTS fg`` and ``MTS bg`` for the code morphing of Denver cores). A temperature of None is
    a sensor that is off. ``rails`` is a list because names repeat. ``unknown`` holds the text that is none of these.
    """

    time: str = ""
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


_UNITS = r"EMC|GR3D\d?|VIC\d?|APE|AVP|VDE|MSENC|NVENC\d?|NVDEC\d?|NVJPG\d?|NVDLA\d?|PVA\d?|OFA\d?"
_CORE = r"off|\d{1,3}%(?:@\d{1,6})?"
_MHZ = r"\d{1,6}|\[\ *\d{1,6}(?:\ *,\ *\d{1,6})*\ *\]"
_CELSIUS = r"-?\d{1,4}(?:\.\d{1,6})?"
_MILLIWATTS = r"-?\d{1,9}"
# The outermost named group is the kind of the token. Names of rails, sensors and cores overlap; what follows does not.
_TOKEN = re.compile(
    rf"""(?<!\S)(?:
      (?P<time>(?P<month>\d\d)-(?P<day>\d\d)-(?P<year>\d{{4}})\ +(?P<clock>\d\d:\d\d:\d\d))
    | (?P<memory>(?P<which>RAM|SWAP|IRAM)\ +(?P<used>\d{{1,9}})/(?P<total>\d{{1,9}})(?P<size>[kM]B)
        (?:\ *\((?:lfb\ +(?:(?P<blocks>\d{{1,9}})x)?(?P<block>\d{{1,9}})(?P<block_size>[kM]B)
                |cached\ +(?P<cached>\d{{1,9}})(?P<cached_size>[kM]B))\))?)
    | (?P<cores>(?:CPU|cpu)\ +\[(?P<each>(?:{_CORE})(?:\ *,\ *(?:{_CORE}))*)\](?:@(?P<shared_mhz>\d{{1,6}}))?)
    | (?P<limit>EDP\ +limit\ +(?P<limit_mhz>\d{{1,6}}))
    | (?P<morphing>MTS\ +fg\ +(?P<fg>\d{{1,3}})%\ +bg\ +(?P<bg>\d{{1,3}})%)
    | (?P<unit>(?P<name>{_UNITS})(?:_FREQ)?\ +
        (?:(?P<off>off)|(?P<mhz>\d{{1,6}})|(?=[\d@])(?:(?P<load>\d{{1,3}})%)?(?:@(?P<at_mhz>{_MHZ}))?))
    | (?P<sensor>(?P<place>[A-Za-z][\w.-]*)@(?P<now>{_CELSIUS})C(?:/(?P<highest>{_CELSIUS})C)?)
    | (?P<rail>(?!I?RAM\b|SWAP\b)(?P<label>[A-Za-z]\w*)\ +
        (?P<mw>{_MILLIWATTS}/{_MILLIWATTS}|{_MILLIWATTS}mW/{_MILLIWATTS}mW(?:/{_MILLIWATTS}mW)?))
    )(?!\S)""",
    re.VERBOSE | re.ASCII,
)
_BYTES = {"kB": 1024, "MB": 1024**2}
_HZ_PER_MHZ = 1e6
_MILLIWATTS_PER_WATT = 1e3


def parse(line: str) -> Tegrastats:
    """Returns what a line says, with text that is not understood kept in ``unknown``.

    Raises BoardError for a line with nothing of tegrastats in it, such as a message of the shell.
    """
    tokens: dict[str, list[re.Match[str]]] = {}
    unknown: list[str] = []
    end = 0
    for match in _TOKEN.finditer(line):
        tokens.setdefault(match.lastgroup or "", []).append(match)
        unknown.append(line[end : match.start()].strip())
        end = match.end()
    unknown.append(line[end:].strip())
    if not tokens:
        raise BoardError(
            f"tegrastats printed a line that is no report: {line.strip()[:80]!r}",
            "run tegrastats on the board to see what it says",
        )
    memory = {match["which"]: _memory(match) for match in tokens.get("memory", ())}
    sensors = tokens.get("sensor", ())
    return Tegrastats(
        time=next((f"{m['year']}-{m['month']}-{m['day']}T{m['clock']}" for m in tokens.get("time", ())), ""),
        ram=memory.get("RAM"),
        swap=memory.get("SWAP"),
        iram=memory.get("IRAM"),
        cores=tuple(core for match in tokens.get("cores", ()) for core in _cores(match)),
        cpu_limit_hz=next((int(m["limit_mhz"]) * _HZ_PER_MHZ for m in tokens.get("limit", ())), None),
        units=_units(tokens),
        temperatures_c={match["place"]: _celsius(match["now"]) for match in sensors},
        highest_c={match["place"]: _celsius(match["highest"]) for match in sensors if match["highest"]},
        rails=tuple(_rail(match) for match in tokens.get("rail", ())),
        unknown=tuple(text for text in unknown if text),
    )


def _memory(match: re.Match[str]) -> Memory:
    scale = _BYTES[match["size"]]
    return Memory(
        used_bytes=int(match["used"]) * scale,
        total_bytes=int(match["total"]) * scale,
        cached_bytes=int(match["cached"]) * _BYTES[match["cached_size"]] if match["cached"] else None,
        free_blocks=int(match["blocks"] or 1) if match["block"] else None,
        free_block_bytes=int(match["block"]) * _BYTES[match["block_size"]] if match["block"] else None,
    )


def _cores(match: re.Match[str]) -> list[Core | None]:
    cores: list[Core | None] = []
    for text in match["each"].split(","):
        load, _, mhz = text.strip().partition("%")
        if load == "off":
            cores.append(None)
            continue
        # Up to R28.1 one rate for all stands behind the bracket.
        rate = mhz.lstrip("@") or match["shared_mhz"]
        cores.append(Core(int(load) / 100, int(rate) * _HZ_PER_MHZ if rate else None))
    return cores


def _units(tokens: Mapping[str, list[re.Match[str]]]) -> dict[str, Unit]:
    units = {match["name"]: _unit(match) for match in tokens.get("unit", ())}
    for match in tokens.get("morphing", ()):
        units |= {"MTS fg": Unit(int(match["fg"]) / 100), "MTS bg": Unit(int(match["bg"]) / 100)}
    return units


def _unit(match: re.Match[str]) -> Unit:
    rates = (match["mhz"] or match["at_mhz"] or "").strip("[]")
    return Unit(
        load=int(match["load"]) / 100 if match["load"] else None,
        rates_hz=tuple(int(mhz) * _HZ_PER_MHZ for mhz in rates.split(",") if mhz),
        off=match["off"] is not None,
    )


def _celsius(text: str) -> float | None:
    celsius = float(text)
    return None if celsius == SENSOR_OFF_C else celsius


def _rail(match: re.Match[str]) -> RailPower:
    watts = [int(mw) / _MILLIWATTS_PER_WATT for mw in match["mw"].replace("mW", "").split("/")]
    return RailPower(match["label"], watts[0], watts[1], watts[2] if len(watts) > 2 else None)
