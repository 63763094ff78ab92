"""Faults for a simulated board: what there are, from the command line, from a TOML file, and on to a host.

::

    [[fault]]
    name = "throttle"    # `edgeperf sim faults` lists them
    start = "30s"        # after the board was opened; a number is in seconds
    for = "5s"           # without it the fault stays
    argument = 3         # a number, or a word such as "gpu"; without it the fault's usual one
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from remote.errors import UsageError
from remote.hosts import Host, Twin
from remote.sim.faults import FAULTS, parse

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FORM = "NAME@START[:FOR[:ARGUMENT]]"
_KEYS = ("name", "start", "for", "argument")
_ALLOWED = f"a [[fault]] has {', '.join(_KEYS)}"


@dataclass(frozen=True)
class Kind:
    """A fault that there is: its documentation line, and its argument where none is given; None: it takes none."""

    name: str
    form: str
    usual_argument: float | str | None
    summary: str


def kinds() -> tuple[Kind, ...]:
    """Returns all faults of a simulated board."""
    found = []
    for name, fault in FAULTS.items():
        summary = (fault.__doc__ or "").partition("\n")[0]
        sized = "ARGUMENT" in summary
        form = FORM if sized else "NAME@START[:FOR]"
        usual = fault.words[0] if fault.words else fault.usual
        found.append(Kind(name, form.replace("NAME", name), usual if sized else None, summary))
    return tuple(found)


def broken(host: Host, faults: Sequence[str]) -> Host:
    """Returns a simulated board with more faults, as if ``fault=`` had named them in its host string.

    Raises UsageError for another kind of host and for what is no fault.
    """
    if not faults:
        return host
    if not isinstance(host, Twin):
        raise UsageError(f"{host.text} is no simulated board, and faults befall only those", "give --host sim:tx1")
    for fault in faults:
        parse(fault)
    text = ",fault=".join([host.text, *faults]) if host.text.startswith("sim:") else host.text
    return replace(host, faults=(*host.faults, *faults), text=text)


def from_file(path: Path) -> tuple[str, ...]:
    """Returns the faults of a TOML file as ``NAME@START[:FOR[:ARGUMENT]]``.

    Raises UsageError that names the file and the key: for a file that cannot be read, broken TOML, unknown keys and
    wrong values.
    """
    try:
        data = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"--faults {path}: {why}", "name a TOML file with tables [[fault]]") from error
    unknown = sorted(set(data) - {"fault"})
    if unknown:
        raise UsageError(f"{path}: unknown key {unknown[0]!r}", "it may hold nothing but tables [[fault]]")
    tables = data.get("fault")
    if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
        raise UsageError(f"{path}: fault: there is no table [[fault]]", f"write one or more; {_ALLOWED}")
    return tuple(_fault(table, f"{path}: fault {number}") for number, table in enumerate(tables, 1))


def _fault(table: Mapping[str, object], where: str) -> str:
    unknown = sorted(set(table) - set(_KEYS))
    if unknown:
        raise UsageError(f"{where}: unknown key {unknown[0]!r}", _ALLOWED)
    for key in ("name", "start"):
        if key not in table:
            raise UsageError(f"{where}: {key} is missing", _ALLOWED)
    name = table["name"]
    if not isinstance(name, str) or name not in FAULTS:
        raise UsageError(
            f"{where}: name: {name!r} is not a fault of a simulated board", "`edgeperf sim faults` lists them"
        )
    times = [_time(table[key], f"{where}: {key}") if key in table else "" for key in ("start", "for")]
    argument = _argument(table["argument"], FAULTS[name].words, where) if "argument" in table else ""
    return f"{name}@{':'.join([*times, argument])}".rstrip(":")


def _time(value: object, where: str) -> str:
    text = value if isinstance(value, str) else str(value) if _is_number(value) else ""
    try:
        if ":" in text:
            raise UsageError(text)
        parse(f"reboot@{text}")
    except UsageError:
        raise UsageError(f"{where}: {value!r} is not a time", 'for example "3s", "500ms", "2m", or 3') from None
    return text


def _argument(value: object, words: Sequence[str], where: str) -> str:
    if words:
        if value not in words:
            raise UsageError(f"{where}: argument: there is no {value!r}", f"give {', '.join(words)}")
    elif not _is_number(value):
        raise UsageError(f"{where}: argument: {value!r} is not a number", "for example 3 or 0.5")
    return str(value)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
