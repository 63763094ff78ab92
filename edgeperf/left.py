"""A measurement as it is left on the board beside its job, so that another process can pick it up."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from clockprofiles.targets import Asked
from engines.cost import Precision
from engines.spec import Options, Protocol
from remote.errors import BoardError
from remote.types import Completed, Line, Outcome, Series


@dataclass(frozen=True)
class Request:
    """What to measure and how. ``profile`` None: maxperf where clocks can be locked, else as found.

    ``soak``: one long run, of which is kept how it went over time. ``cool_to_c``: the board is waited for until its
    hottest zone is as cool as that, for ``cool_limit_s`` at most.
    """

    model: str
    precision: Precision = "fp32"
    batch: int = 1
    toolchain: str | None = None
    profile: str | None = None
    clocks: Mapping[str, str] = field(default_factory=dict)
    duration_s: float = 10.0
    warmup_s: float = 2.0
    iterations: int | None = None
    rail_rate_hz: float = 20.0
    source: str = "auto"
    idle_s: float = 3.0
    seed: int = 0
    require_lock: bool = False
    repeat: int = 1
    soak: bool = False
    cool_to_c: float | None = None
    cool_limit_s: float = 300.0
    options: Options = field(default_factory=Options)


@dataclass(frozen=True)
class Locked:
    """How the clocks are held: as ``profile`` asks, or ``floating`` with the reason why not.

    ``planned`` are the knobs that the profile sets on this board, ``outcomes`` what became of those that were written.
    """

    profile: str | None = None
    asked: Asked = field(default_factory=Asked)
    planned: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    floating: str = ""


@dataclass(frozen=True)
class Left:
    """What is known of a measurement by the time its job starts. ``answers`` are what the toolchain was told so far."""

    request: Request
    locked: Locked
    idle: tuple[Series, ...] = ()
    answers: tuple[str | Completed, ...] = ()

    def text(self) -> str:
        """Returns it as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> Left:
        """Returns what `text` made. Raises BoardError for what is none, such as a job of another program."""
        if not text:
            raise BoardError("no measurement runs there that could be picked up", "see `edgeperf results list`")
        try:
            data = json.loads(text)
            return cls(
                _request(data["request"]),
                _locked(data["locked"]),
                tuple(_series(item) for item in data["idle"]),
                tuple(item if isinstance(item, str) else _completed(item) for item in data["answers"]),
            )
        except (ValueError, KeyError, TypeError) as error:
            what = "what runs on the board is no measurement of this edgeperf"
            raise BoardError(what, "wait for it to end") from error


def _request(data: Mapping[str, Any]) -> Request:
    options = dict(data["options"])
    shapes = {name: tuple(dims) for name, dims in options["shapes"].items()}
    options |= {"protocol": Protocol(**options["protocol"]), "shapes": shapes}
    return Request(**{**data, "options": Options(**options)})


def _locked(data: Mapping[str, Any]) -> Locked:
    return Locked(
        data["profile"],
        Asked(**data["asked"]),
        tuple(data["planned"]),
        tuple(data["notes"]),
        tuple(Outcome(**row) for row in data["outcomes"]),
        data["floating"],
    )


def _series(data: Mapping[str, Any]) -> Series:
    return Series(data["id"], tuple(data["times_s"]), tuple(data["values"]), data["late_s"])


def _completed(data: Mapping[str, Any]) -> Completed:
    lines = tuple(Line(**line) for line in data["lines"])
    series = tuple(_series(item) for item in data["series"])
    return Completed(**{**data, "argv": tuple(data["argv"]), "lines": lines, "series": series})
