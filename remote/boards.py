"""Board specifications: what settings, readings and rails a kind of board has, from ``boards/*.toml``. Pure."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from remote.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True)
class Total:
    """How a board's watt figure is formed: the sum of ``rails``, what that covers and what it leaves out."""

    scope: str
    rails: tuple[str, ...]
    leaves_out: str


@dataclass(frozen=True)
class BoardSpec:
    """One kind of board. Rows of ``knobs``, ``readings`` and ``rails`` are as in the TOML.

    ``twin`` holds what only the simulated board needs; empty where there is no twin.
    """

    name: str
    model: str
    match: tuple[str, ...]
    knobs: tuple[Mapping[str, Any], ...]
    readings: tuple[Mapping[str, Any], ...]
    rails: tuple[Mapping[str, Any], ...]
    totals: tuple[Total, ...]
    twin: Mapping[str, Any]

    @property
    def releases(self) -> tuple[str, ...]:
        """The simulated L4T releases, oldest first."""
        return tuple(self.twin.get("release", {}))

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
    folder = resources.files("remote") / "boards"
    return tuple(sorted(file.name[:-5] for file in folder.iterdir() if file.name.endswith(".toml")))


@cache
def load(name: str) -> BoardSpec:
    """Returns a board's specification with what it inherits. Raises UsageError with the nearest name."""
    if name not in names():
        import difflib

        near = difflib.get_close_matches(name, names(), 1)
        guess = f"did you mean {near[0]}? " if near else ""
        raise UsageError(f"there is no board {name!r}", f"{guess}boards: {', '.join(names())}")
    data = tomllib.loads((resources.files("remote") / "boards" / f"{name}.toml").read_text("utf-8"))
    base = load(data["inherits"]) if "inherits" in data else None
    unknown = set(data) - {"name", "model", "inherits", "match", "knob", "reading", "rail", "total", "twin"}
    if unknown:
        raise UsageError(f"boards/{name}.toml: unknown key {sorted(unknown)[0]!r}")
    return BoardSpec(
        name=data["name"],
        model=data["model"],
        match=tuple(data["match"]),
        knobs=(*data.get("knob", ()), *(base.knobs if base else ())),
        readings=(*data.get("reading", ()), *(base.readings if base else ())),
        rails=(*data.get("rail", ()), *(base.rails if base else ())),
        totals=tuple(Total(t["scope"], tuple(t["rails"]), t["leaves_out"]) for t in data.get("total", ())),
        twin=data.get("twin", {}),
    )


def twins() -> tuple[str, ...]:
    """Returns the names of the boards that can be simulated."""
    return tuple(name for name in names() if load(name).twin)


@cache
def table() -> dict[str, dict[str, Any]]:
    """Returns what the on-board programs need of every board, ready for JSON. The same for every call."""
    return {
        name: {
            "name": spec.name,
            "model": spec.model,
            "match": list(spec.match),
            "knobs": list(spec.knobs),
            "readings": list(spec.readings),
            "rails": list(spec.rails),
        }
        for name, spec in ((name, load(name)) for name in names())
    }
