"""Clock profiles in TOML: read, checked, inherited, overridden.

::

    summary = "what it is for"
    inherits = "maxperf"          # another profile, by name or as a file beside this one

    [cpu]
    governor = ["performance", "userspace"]   # a word, or alternatives: the first that the board has
    min = "max"                               # rates: see `clockprofiles.rates.ALLOWED`
    max = "max"
    [cpuquiet]
    enabled = false               # false: also the cores it parked are switched on and the fast cluster is pinned
    governor = "runnable"
    [gpu]
    rate = "691.2MHz"             # "auto": not locked
    [emc]
    rate = "max"
    [fan]
    pwm = 255                     # 0 to 255, or "auto"
    [nvpmodel]
    mode = "MAXN"                 # by name: numbers differ from board to board
    [idle]
    cpu = false                   # may cores enter idle states
    gpu = false                   # may the GPU's power rail be gated

What a profile leaves out is left as it is found.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from clockprofiles.rates import ALLOWED, Rate, parse_rate
from remote.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_DATA = Path(__file__).parent / "data"
_LARGEST_BYTES = 1 << 20


@dataclass(frozen=True)
class Profile:
    """The settings of a profile and all that it inherits. None or an empty tuple: left as found."""

    name: str
    summary: str = ""
    cpu_governor: tuple[str, ...] = ()
    cpu_min: Rate | None = None
    cpu_max: Rate | None = None
    cpuquiet_enabled: bool | None = None
    cpuquiet_governor: tuple[str, ...] = ()
    gpu_rate: Rate | None = None
    emc_rate: Rate | None = None
    fan_pwm: int | Literal["auto"] | None = None
    nvpmodel_mode: str | None = None
    idle_cpu: bool | None = None
    idle_gpu: bool | None = None

    def settings(self) -> dict[str, str]:
        """Returns what is set, {"gpu.rate": "691.2MHz"}, in the order of the schema and in words for people."""
        found = {key: getattr(self, _field(key)) for key in _KEYS if "." in key}
        return {key: _words_of(value) for key, value in found.items() if value is not None and value != ()}


def names() -> tuple[str, ...]:
    """Returns the names of the profiles that come with edgeperf, sorted."""
    return tuple(sorted(path.stem for path in _DATA.glob("*.toml")))


def load(name_or_path: str) -> Profile:
    """Returns a profile by its name, or from a TOML file.

    Raises UsageError naming the file, the key and what is allowed: for unknown names, files that cannot be read,
    broken TOML, unknown keys, wrong values and profiles that inherit from themselves.
    """
    return _load(name_or_path, Path(), ())


def override(profile: Profile, rates: Mapping[str, str | int]) -> Profile:
    """Returns the profile with other rates: ``{"gpu": "844.8MHz"}``, keys cpu (pins min = max), gpu and emc.

    Raises UsageError for another key or for what is no rate.
    """
    fields: dict[str, Any] = {}
    for key, value in rates.items():
        if key not in _CLOCKS:
            raise UsageError(f"unknown clock {key!r}", _suggest(key, _CLOCKS, "a clock is one of"))
        rate = parse_rate(value)
        if rate is None:
            raise UsageError(f"clock {key}: {_shown(value)} is no rate", f"allowed: {ALLOWED}")
        fields.update(dict.fromkeys(_CLOCKS[key], rate))
    return replace(profile, **fields)


def _load(name_or_path: str, folder: Path, heirs: tuple[Path, ...]) -> Profile:
    builtin = name_or_path in names()
    path = _DATA / f"{name_or_path}.toml" if builtin else folder / name_or_path
    shown = path.name if builtin else str(path)
    table = _read(path, shown, name_or_path)
    if path.resolve() in heirs:
        chain = " -> ".join(heir.name for heir in (*heirs, path))
        raise UsageError(f"profile {shown}: it inherits from itself ({chain})", "remove one `inherits`")
    given = _checked(table, shown)
    parent = given.pop("inherits", None)
    base = _load(parent, path.parent, (*heirs, path.resolve())) if parent is not None else Profile(name="")
    return replace(base, **{"summary": "", **given}, name=name_or_path if builtin else path.stem)


def _read(path: Path, shown: str, asked: str) -> dict[str, Any]:
    try:
        if not path.is_file():
            problem = "is not a file" if path.exists() else "does not exist"
            raise UsageError(f"profile {asked!r} {problem}", _suggest(asked, names(), "profiles are a .toml file or"))
        with path.open("rb") as file:
            data = file.read(_LARGEST_BYTES + 1)
    except UsageError:
        raise
    except (OSError, ValueError) as error:
        raise UsageError(f"profile {shown}: cannot be read: {error}", "name a .toml file that you may read") from error
    if len(data) > _LARGEST_BYTES:
        raise UsageError(f"profile {shown}: larger than {_LARGEST_BYTES} bytes", "a profile is a short TOML file")
    try:
        table: dict[str, Any] = tomllib.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"profile {shown}: broken TOML: {error}", "mend the file at that place") from error
    if not table:
        raise UsageError(f"profile {shown}: the file is empty", f"set at least one of {', '.join(_KEYS)}")
    return table


def _checked(table: Mapping[str, Any], shown: str) -> dict[str, Any]:
    """Returns {field of Profile, or inherits: value}."""
    flat: dict[str, Any] = {}
    for name, value in table.items():
        if name not in _TOP:
            raise UsageError(f"profile {shown}: unknown key {name!r}", _suggest(name, _TOP, "allowed:"))
        if name in _KEYS:
            flat[name] = value
        elif isinstance(value, dict):
            flat.update({f"{name}.{key}": setting for key, setting in value.items()})
        else:
            keys = ", ".join(_keys_of(name))
            raise UsageError(
                f"profile {shown}: {name} is {_shown(value)}", f"write it as a table [{name}] with: {keys}"
            )
    fields: dict[str, Any] = {}
    for key, value in flat.items():
        if key not in _KEYS:
            name, _, rest = key.partition(".")
            hint = _suggest(rest, _keys_of(name), f"allowed in [{name}]:")
            raise UsageError(f"profile {shown}: unknown key {rest!r} in [{name}]", hint)
        parse, allowed = _KEYS[key]
        parsed = parse(value)
        if parsed is None:
            raise UsageError(f"profile {shown}: {key} is {_shown(value)}", f"allowed: {allowed}")
        fields[_field(key)] = parsed
    return fields


def _switch(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value.isprintable() and value.strip() else None


def _word(value: object) -> str | None:
    return value if isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", value) else None


def _alternatives(value: object) -> tuple[str, ...] | None:
    listed = value if isinstance(value, list) else [value]
    words = tuple(word for word in map(_word, listed) if word is not None)
    return words if words and len(words) == len(listed) else None


def _pwm(value: object) -> int | str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value if 0 <= value <= 255 else None
    return "auto" if value == "auto" else None


_SWITCH = (_switch, "true or false")
_TEXT = (_text, "text in quotes")
_WORDS = (
    _alternatives,
    'a word (letters, digits, _ . -) such as "userspace", or alternatives such as ["performance", "userspace"]',
)
_RATE = (parse_rate, ALLOWED)
_KEYS: Mapping[str, tuple[Callable[[object], Any], str]] = {
    "summary": _TEXT,
    "inherits": _TEXT,
    "cpu.governor": _WORDS,
    "cpu.min": _RATE,
    "cpu.max": _RATE,
    "cpuquiet.enabled": _SWITCH,
    "cpuquiet.governor": _WORDS,
    "gpu.rate": _RATE,
    "emc.rate": _RATE,
    "fan.pwm": (_pwm, 'a number from 0 to 255, or "auto"'),
    "nvpmodel.mode": (_word, 'the name of a power mode such as "MAXN"'),
    "idle.cpu": _SWITCH,
    "idle.gpu": _SWITCH,
}
_TOP = tuple(dict.fromkeys(key.partition(".")[0] for key in _KEYS))
_CLOCKS = {"cpu": ("cpu_min", "cpu_max"), "gpu": ("gpu_rate",), "emc": ("emc_rate",)}


def _keys_of(table: str) -> list[str]:
    return [key.partition(".")[2] for key in _KEYS if key.startswith(f"{table}.")]


def _field(key: str) -> str:
    return key.replace(".", "_")


def _words_of(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " | ".join(value) if isinstance(value, tuple) else str(value)


def _suggest(word: str, known: Iterable[str], lead: str) -> str:
    """Returns a hint: the known word nearest to ``word``, and all of them."""
    known = list(known)
    near = difflib.get_close_matches(word, known, n=1)
    return (f"did you mean {near[0]}? " if near else "") + f"{lead} {', '.join(known)}"


def _shown(value: object) -> str:
    """Returns a value for a message: short, printable, whatever a file may hold."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return repr(value if len(value) <= 60 else value[:57] + "...")
    if isinstance(value, int) and abs(value) > 10**18:
        return "a number of more than 18 digits"
    if isinstance(value, int | float):
        return str(value)
    return {"list": "a list", "dict": "a table"}.get(type(value).__name__, "a date or time")
