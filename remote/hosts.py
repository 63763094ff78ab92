"""Host strings -> `Host`. Pure.

``local`` | ``sim:BOARD[@RELEASE][,key=value...]`` | ``user@address:port`` | a name
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from remote import boards
from remote.errors import HostError, UsageError

_TWIN_KEYS = ("seed", "state", "speed", "cores", "probe")


@dataclass(frozen=True)
class Local:
    """This machine; ``root`` is a folder that stands for its file system (for tests)."""

    root: str = ""
    text: str = "local"


@dataclass(frozen=True)
class Twin:
    """A simulated board. ``cores`` is how many it boots with, None for the release's own number."""

    board: str
    release: str
    seed: int = 0
    state: str = ""
    speed: Literal["1", "max"] = "max"
    cores: int | None = None
    probe: str = ""
    text: str = ""


Host = Local | Twin


def parse(text: str) -> Host:
    """Returns the host that a string names.

    Raises UsageError for a simulated board that does not exist or a wrong key, HostError for a name that is unknown.
    """
    if text == "local":
        return Local()
    if text.startswith("sim:"):
        return _twin(text)
    if not text.strip():
        raise UsageError("the host is empty", "name one: local, sim:tx1, sim:tx1@r23.1")
    raise HostError(
        f"host {text!r} is not known: connections over SSH are not part of this version",
        "hosts it reaches: local (this machine) and simulated boards such as sim:tx1 or sim:tx1@r23.1",
    )


def _twin(text: str) -> Twin:
    place, *pairs = text.removeprefix("sim:").split(",")
    board, _, prefix = place.partition("@")
    spec = boards.load(board)
    keys: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if key not in _TWIN_KEYS or not equals or not value:
            raise UsageError(
                f"{text!r}: {pair!r} is not a key of a simulated board", f"keys: {'=, '.join(_TWIN_KEYS)}="
            )
        keys[key] = value
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
        probe=probe,
        text=text,
    )


def _number(text: str, key: str, value: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) < 10):
        raise UsageError(f"{text!r}: {key} is a whole number, not {value!r}")
    return int(value)
