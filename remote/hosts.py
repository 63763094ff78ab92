"""Host strings -> `Host`. Pure.

``local`` | ``sim:BOARD[@RELEASE][,key=value...]`` | ``user@address:port`` | ``replay:FILE`` | a name
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from remote.errors import UsageError

# An address may not look like an option of ssh, and holds nothing that a shell or a terminal could act upon.
_PLACE = re.compile(
    r"(?:\[(?P<bracketed>[\w:.%]+)\]|(?P<name>\w[\w.-]*))(?::(?P<port>\d{1,5}))?|(?P<bare>[0-9A-Fa-f]*:[\w.]*:[\w:.%]*)",
    re.ASCII,
)
_USER = re.compile(r"[\w.][\w.@+$\\-]*", re.ASCII)

_TWIN_KEYS = ("seed", "state", "speed", "cores", "mode", "probe", "fault")


@dataclass(frozen=True)
class Local:
    """This machine; ``root`` is a folder that stands for its file system (for tests)."""

    root: str = ""
    text: str = "local"


@dataclass(frozen=True)
class Twin:
    """A simulated board. ``cores`` is how many it boots with, ``mode`` its power mode; None, "": the release's own.

    ``faults`` are what goes wrong on it, as ``NAME@START[:FOR][:ARGUMENT]`` (`remote.sim.faults`).
    """

    board: str
    release: str
    seed: int = 0
    state: str = ""
    speed: Literal["1", "max"] = "max"
    cores: int | None = None
    mode: str = ""
    probe: str = ""
    text: str = ""
    faults: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ssh:
    """A board over SSH. ``address`` is an alias of the SSH config or a network address.

    ``user`` "" and ``port`` 0 are left to the SSH config. ``serial`` is the module that was there when the board was
    added; ``root`` is a folder on it that stands for its file system (for tests).
    """

    address: str
    user: str = ""
    port: int = 0
    serial: str = ""
    root: str = ""
    text: str = ""


@dataclass(frozen=True)
class Replay:
    """A recording in the file ``path``, which answers as the board did."""

    path: str
    text: str = ""


Host = Local | Twin | Ssh | Replay


def parse(text: str) -> Host:
    """Returns the host that a string names.

    Raises UsageError for a simulated board that does not exist or a wrong key, HostError for a name that is unknown.
    """
    if text == "local":
        return Local()
    if text.startswith("sim:"):
        return _twin(text)
    if text.startswith("replay:"):
        return _replay(text)
    return ssh(text)


def ssh(text: str) -> Ssh:
    """Returns the host that ``[user@]address[:port]`` names. Raises UsageError for what cannot be one."""
    user, at, place = text.rpartition("@")
    match = _PLACE.fullmatch(place)
    if match is None or (at and not _USER.fullmatch(user)):
        raise UsageError(
            f"{text!r} is not a host",
            "hosts: local, sim:tx1, a name of `edgeperf hosts list` or ~/.ssh/config, user@address:port",
        )
    port = int(match["port"] or 0)
    if match["port"] and not 1 <= port <= 65535:
        raise UsageError(f"{text!r}: a port is 1 to 65535, not {port}")
    return Ssh(match["bracketed"] or match["name"] or match["bare"], user, port, text=text)


def _replay(text: str) -> Replay:
    path = text.removeprefix("replay:")
    if not path:
        raise UsageError(f"{text!r} names no recording", "replay:FILE, a file that `--record FILE` made")
    return Replay(path, text)


def _twin(text: str) -> Twin:
    from remote import boards  # their tables take longer to load than an address needs

    place, *pairs = text.removeprefix("sim:").split(",")
    board, _, prefix = place.partition("@")
    spec = boards.simulated(board)
    keys: dict[str, str] = {}
    faults = []
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if key not in _TWIN_KEYS or not equals or not value:
            raise UsageError(
                f"{text!r}: {pair!r} is not a key of a simulated board", f"keys: {'=, '.join(_TWIN_KEYS)}="
            )
        keys[key] = value
        if key == "fault":
            faults.append(_fault(value))
    speed = keys.get("speed", "max")
    if speed not in ("1", "max"):
        raise UsageError(f"{text!r}: speed is 1 (real time) or max, not {speed!r}")
    probe = keys.get("probe", "")
    if probe not in ("", "lab"):
        raise UsageError(f"{text!r}: the only probe is lab, not {probe!r}")
    cores = _number(text, "cores", keys["cores"]) if "cores" in keys else None
    cpus = int(spec.twin.get("cores", 1))
    if cores is not None and not 1 <= cores <= cpus:
        raise UsageError(f"{text!r}: cores is 1 to {cpus}, not {cores}")
    return Twin(
        board=board,
        release=spec.release(prefix),
        seed=_number(text, "seed", keys.get("seed", "0")),
        state=keys.get("state", ""),
        speed="1" if speed == "1" else "max",
        cores=cores,
        mode=keys.get("mode", ""),
        probe=probe,
        text=text,
        faults=tuple(faults),
    )


def _fault(value: str) -> str:
    from remote.sim.faults import parse  # only who breaks a twin pays for loading it

    parse(value)
    return value


def _number(text: str, key: str, value: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) < 10):
        raise UsageError(f"{text!r}: {key} is a whole number, not {value!r}")
    return int(value)
