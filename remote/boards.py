"""Board specifications: what settings, readings and rails a kind of board has, from ``boards/*.toml``. Pure.

What only a simulated board needs lies in ``boards/twins/*.toml``, and is read when a twin is asked for. Simulated
boards of the user (`remote.own_boards`) are the shipped ones with other constants.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

from remote import own_boards
from remote.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_KEYS = {"name", "model", "inherits", "abstract", "match", "l4t", "variant", "knob", "reading", "rail", "total"}


@dataclass(frozen=True)
class Total:
    """How a board's watt figure is formed: the sum of ``rails``, what that covers and what it leaves out."""

    scope: str
    rails: tuple[str, ...]
    leaves_out: str


@dataclass(frozen=True)
class BoardSpec:
    """One kind of board. Rows of ``knobs``, ``readings``, ``rails`` and ``variants`` are as in the TOML.

    ``l4t`` are the major L4T releases that its nodes are known of. An ``abstract`` one is what several boards have in
    common; it stands for a board of that family that is not known itself. ``own`` is the table of a simulated board of
    the user, which is known by the name of the one that it inherits from.
    """

    name: str
    model: str
    match: tuple[str, ...]
    l4t: tuple[int, ...]
    abstract: bool
    variants: tuple[Mapping[str, Any], ...]
    knobs: tuple[Mapping[str, Any], ...]
    readings: tuple[Mapping[str, Any], ...]
    rails: tuple[Mapping[str, Any], ...]
    totals: tuple[Total, ...]
    own: Mapping[str, Any] | None = None

    @property
    def twin(self) -> Mapping[str, Any]:
        """What only the simulated board needs; empty where there is no twin."""
        if self.own is not None:
            return self.own
        return _twin(self.name) if self.name in twins() else {}

    @property
    def releases(self) -> tuple[str, ...]:
        """The simulated L4T releases, oldest first."""
        return tuple(sorted(self.twin.get("release", {}), key=lambda name: [int(n) for n in name[1:].split(".")]))

    def release(self, prefix: str) -> str:
        """Returns the newest simulated release that starts with ``prefix`` ("" for the newest of all).

        Raises UsageError with those that there are.
        """
        if not self.releases:
            raise UsageError(f"there is no simulated {self.name}", f"simulated boards: {', '.join(twins())}")
        for name in reversed(self.releases):
            if name == prefix or name.startswith(prefix and prefix + ".") or not prefix:
                return name
        raise UsageError(f"the simulated {self.name} has no release {prefix!r}", f"it has {', '.join(self.releases)}")


@cache
def names() -> tuple[str, ...]:
    """Returns the names of all boards."""
    return tuple(name for name in _files() if not load(name).abstract)


@cache
def _files() -> tuple[str, ...]:
    folder = resources.files("remote") / "boards"
    return tuple(sorted(file.name[:-5] for file in folder.iterdir() if file.name.endswith(".toml")))


def load(name: str) -> BoardSpec:
    """Returns a board's specification with what it inherits. Raises UsageError with the nearest name.

    A simulated board of the user has the specification of the one that it inherits from, and a ``twin`` of its own.
    """
    if name in _files():
        return _shipped(name)
    if name in of_user():
        base, own = own_boards.read(name, lambda base: _twin(base) if base in twins() else None)
        return replace(_shipped(base), own=_merged(_twin(base), own))
    import difflib

    known = (*names(), *of_user())
    near = difflib.get_close_matches(name, known, 1)
    guess = f"did you mean {near[0]}? " if near else ""
    raise UsageError(f"there is no board {name!r}", f"{guess}boards: {', '.join(known)}")


def simulated(name: str) -> BoardSpec:
    """Returns the specification of a board that is to be simulated.

    Raises UsageError as `load`, and where a file of the user has the name of a shipped board: which one is meant?
    """
    if name in _files() and os.path.exists(file := own_boards.path(name)):
        raise UsageError(f"{file}: {name} is a board that comes with edgeperf", "give the file another name")
    return load(name)


def met(kind: str, twin: str) -> BoardSpec:
    """Returns the specification of a board that says that it is a ``kind``, simulated as ``twin`` ("" if it is real).

    A simulated board of another user, which is not known here, has no model. Raises UsageError as `load`.
    """
    spec = load(kind)
    if not twin or twin in _files():
        return spec
    found = load(twin) if twin in of_user() else None
    return found if found is not None and found.name == kind else replace(spec, own={})


def is_shipped(name: str) -> bool:
    """Says whether a board comes with edgeperf, or what several of those have in common."""
    return name in _files()


def of_user() -> tuple[str, ...]:
    """Returns the names of the user's own simulated boards."""
    return own_boards.names(_files())


@cache
def _shipped(name: str) -> BoardSpec:
    """Returns what a file specifies, with what it inherits.

    Settings and readings add to those inherited, and replace those of the same id. Rails and totals replace all.
    """
    data = tomllib.loads((resources.files("remote") / "boards" / f"{name}.toml").read_text("utf-8"))
    unknown = set(data) - _KEYS
    if unknown:
        raise UsageError(f"boards/{name}.toml: unknown key {sorted(unknown)[0]!r}")
    base = _shipped(data["inherits"]) if "inherits" in data else None
    totals = tuple(Total(t["scope"], tuple(t["rails"]), t["leaves_out"]) for t in data.get("total", ()))
    return BoardSpec(
        name=data["name"],
        model=data["model"],
        match=tuple(data["match"]),
        l4t=tuple(data.get("l4t", ())),
        abstract=data.get("abstract", False),
        variants=tuple(data.get("variant", ())),
        knobs=_added(data.get("knob", ()), base.knobs if base else ()),
        readings=_added(data.get("reading", ()), base.readings if base else ()),
        rails=tuple(data.get("rail", ())) if "rail" in data or base is None else base.rails,
        totals=totals if "total" in data or base is None else base.totals,
    )


def _added(own: Sequence[Mapping[str, Any]], base: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    ids = {row["id"] for row in own}
    return (*own, *(row for row in base if row["id"] not in ids))


def doubts(spec: BoardSpec, l4t: str) -> tuple[str, ...]:
    """Returns what is uncertain about a board found with an L4T release ("" for none), in words for people."""
    if spec.abstract:
        return (f"{spec.model}: only settings in places known from other boards were found, and no watt figure",)
    major = int(l4t.partition(".")[0]) if l4t else 0
    if not spec.l4t or not major or major in spec.l4t:
        return ()
    known = ", ".join(f"R{number}" for number in spec.l4t)
    return (f"L4T R{l4t} is not known of this board (known: {known}): settings were looked for in the known places",)


@cache
def twins() -> tuple[str, ...]:
    """Returns the names of the boards that can be simulated."""
    folder = resources.files("remote") / "boards" / "twins"
    return tuple(sorted({file.name[:-5] for file in folder.iterdir()} & set(names())))


@cache
def _twin(name: str) -> dict[str, Any]:
    """Returns the table of a simulated board, on top of those of the files that it inherits from."""
    data = tomllib.loads((resources.files("remote") / "boards" / "twins" / f"{name}.toml").read_text("utf-8"))
    for base in data.pop("inherits", ()):
        data = _merged(_twin(base), data)
    return data


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Returns ``base`` with the entries of ``over``; tables in both are merged likewise."""
    found = dict(base)
    for key, value in over.items():
        old = base.get(key)
        found[key] = _merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return found


@cache
def table() -> dict[str, dict[str, Any]]:
    """Returns what the on-board programs need of every board, ready for JSON. The same for every call."""
    return {
        name: {
            "name": spec.name,
            "model": spec.model,
            "match": list(spec.match),
            "abstract": spec.abstract,
            "variants": list(spec.variants),
            "knobs": list(spec.knobs),
            "readings": list(spec.readings),
            "rails": list(spec.rails),
        }
        for name, spec in ((name, load(name)) for name in _files())
    }
