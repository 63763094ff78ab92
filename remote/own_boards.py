"""Simulated boards of the user: TOML files that take a shipped board and replace some of its constants.

A file such as ``my-tx1.toml`` says ``inherits = "tx1"`` and holds tables as in ``boards/twins``; `edgeperf sim fit`
writes it. What it leaves out is the shipped board's.
"""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from remote.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Table = Mapping[str, Any]

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")
_CONSTANTS = ("time", "power")
"""The tables of constants that are rates, times or energies: none of them can be negative."""


def folder() -> Path:
    """Returns where they lie: EDGEPERF_BOARDS, else ``boards`` in the user's configuration folder."""
    named = os.environ.get("EDGEPERF_BOARDS")
    if named:
        return Path(named).expanduser()
    import platformdirs  # only who asks for a board that is not shipped pays for it

    return Path(platformdirs.user_config_dir("edgeperf", appauthor=False)) / "boards"


def is_name(text: str) -> bool:
    """Says whether a board may be called so: a host string has to be able to name it."""
    return _NAME.fullmatch(text) is not None


def path(name: str) -> Path:
    """Returns the file of the board of that name, whether it is there or not."""
    return folder() / f"{name}.toml"


def names(shipped: Collection[str]) -> tuple[str, ...]:
    """Returns the names of the user's boards. Files that have the name of a shipped board do not count."""
    try:
        found = sorted(file.stem for file in folder().iterdir() if file.suffix == ".toml")
    except OSError:
        return ()
    return tuple(name for name in found if is_name(name) and name not in shipped)


def read(name: str, base_of: Callable[[str], Table | None]) -> tuple[str, Table]:
    """Returns the shipped board that one of the user's inherits from, and its own tables.

    ``base_of`` gives the tables of a shipped board, None where there is none. Raises UsageError with file and key.
    """
    file = path(name)
    try:
        data = tomllib.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{file}: {error}", "correct it, or remove it and make it anew with `edgeperf sim fit`"
        ) from error
    base = data.pop("inherits", None)
    tables = base_of(base) if isinstance(base, str) else None
    if tables is None:
        what = f"there is no simulated board {base!r}" if base is not None else "it names no board"
        raise UsageError(f"{file}: inherits: {what}", 'name a shipped one: inherits = "tx1"')
    _check(file, data, tables, ())
    return str(base), data


def _check(file: Path, own: Table, base: Table, above: tuple[str, ...]) -> None:
    """Raises UsageError for the first key that the shipped board does not have, or has in another form."""
    known = {*base, "source", *_optional(above)}
    for key, value in own.items():
        place = (*above, key)
        where = f"{file}: {'.'.join(place)}"
        if key not in known:
            import difflib

            near = difflib.get_close_matches(key, known, 1)
            raise UsageError(f"{where}: unknown key", f"did you mean {near[0]}?" if near else "leave it out")
        was = base.get(key, "" if key == "source" else 0.0)
        if isinstance(was, Mapping) and isinstance(value, Mapping):
            _check(file, value, was, place)
        elif _form(value) is not _form(was):
            raise UsageError(f"{where}: {value!r} is not {_FORMS[_form(was)]}", "see the board that it inherits from")
        elif above[:1] and above[0] in _CONSTANTS and isinstance(value, int | float) and not _possible(value, was):
            raise UsageError(f"{where}: {value!r} cannot be", "it is a number above 0")


def _optional(above: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the constants that a shipped table may leave out, because they are 0 there."""
    if len(above) != 2 or above[0] != "time":
        return ()
    from dataclasses import fields

    from remote.sim.physics import TimeConstants

    return tuple(field.name for field in fields(TimeConstants))


def _form(value: object) -> type:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float
    return next(form for form in (bool, str, list, Mapping, object) if isinstance(value, form))


_FORMS = {float: "a number", bool: "true or false", str: "a text", list: "a list", Mapping: "a table", object: "known"}


def _possible(value: float, was: float) -> bool:
    return math.isfinite(value) and (value > 0 if was > 0 else value >= 0)
