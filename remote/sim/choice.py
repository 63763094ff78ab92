"""Which board is simulated: the table of its release, and whether it can be as it was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from remote.errors import UsageError

_PROBES = ("", "lab")


def table_for(twin: Mapping[str, Any], release: str) -> dict[str, Any]:
    """Returns a twin's table with what its release of L4T has, and then the release's own entries, on top.

    Raises UsageError for an unknown release.
    """
    releases = twin.get("release", {})
    if release not in releases:
        raise UsageError(f"there is no simulated release {release!r}", f"releases: {', '.join(releases)}")
    merged = {key: value for key, value in twin.items() if key not in ("release", "l4t")}
    for table in (twin.get("l4t", {}).get(release, {}), releases[release]):
        for key, value in table.items():
            old = merged.get(key)
            merged[key] = {**old, **value} if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return merged


def check(name: str, twin: Mapping[str, Any], cores: int | None, mode: str, probe: str, speed: str) -> None:
    """Raises UsageError for what a board ``name`` with the table ``twin`` of one release cannot have."""
    most = int(twin["cores"])
    modes = [row["name"] for row in twin.get("nvpmodel", {}).get("modes", ())]
    if mode and mode not in modes:
        has = f"modes: {', '.join(modes)}" if modes else "it has no power modes"
        raise UsageError(f"a simulated {name} has no power mode {mode!r}", has)
    if cores is not None and not 1 <= cores <= most:
        raise UsageError(f"a simulated {name} cannot have {cores} cores online", f"cores=1 to cores={most}")
    if probe not in _PROBES:
        raise UsageError(f"there is no probe {probe!r}", "probe=lab is the one there is")
    if speed not in ("max", "1"):
        raise UsageError(f"speed {speed!r} is not known", "speed=max (as fast as it can) or speed=1 (real time)")
