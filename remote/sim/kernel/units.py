"""Services of the board as systemd knows them: which are there, whether they run, and start at boot."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from remote.sim.kernel.node import Node, word

FOLDER = "/run/systemd/units"
"""Holds a file for each, of two words: `active` or `inactive`, and `enabled` or `disabled`."""
_STATES = [f"{now} {boot}" for now in ("active", "inactive") for boot in ("enabled", "disabled")]


def at_boot(twin: Mapping[str, Any]) -> dict[str, str]:
    """Returns the services with their states after boot; none on Ubuntu 14.04, which has no systemd.

    What is documented: nvzramconfig ends when it has done its work, nvpmodel stays active; Docker is part of JetPack
    from L4T R32 on, and the cameras' service has its name since then. Assumed: a board that was set up with ssh.
    """
    if twin["ubuntu"] == "14.04":
        return {}
    told = re.search(r"R(\d+)", str(twin["nv_tegra_release"]))
    new = told is not None and int(told[1]) >= 32
    running = {
        "ssh": True,
        "nvpmodel": "nvpmodel" in twin,
        "nvfancontrol": bool(twin["fan"].get("hwmon")),
        "docker": new,
        "nvargus-daemon": new,
    }
    states = {name: _STATES[0] for name, there in running.items() if there}
    return states | ({"nvzramconfig": "inactive enabled"} if float(twin["swap_share"]) else {})


def unit_nodes(states: dict[str, str]) -> dict[str, Node]:
    """Returns a file for each service, by which its entry in ``states`` is read and set."""

    def read(name: str) -> str:
        return f"{states[name]}\n"

    def write(name: str, text: str) -> None:
        states[name] = word(text, _STATES)

    return {f"{FOLDER}/{name}.service": Node(partial(read, name), partial(write, name)) for name in states}
