"""Rates as people write them, and the operating point of a board that each of them means."""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from remote.types import Knob

ALLOWED = '"min", "max", "auto" (not locked), a share such as "60%", or a rate such as "844.8MHz" or 998400000 (Hz)'
"""The forms of a rate, in words for a message."""

LOWEST_HZ = 1_000_000
"""No clock of these boards is slower (12.75 MHz is the slowest seen), so a smaller number lacks its unit."""

HIGHEST_HZ = 100_000_000_000

_NUMBER = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,12})?)\s*(hz|khz|mhz|ghz|%|)", re.IGNORECASE)
_UNIT_HZ = {"": 1, "hz": 1, "khz": 10**3, "mhz": 10**6, "ghz": 10**9}


@dataclass(frozen=True)
class Rate:
    """A rate as asked for: by ``name``, as a ``share`` (0 to 1] of the board's highest, or in ``hz``."""

    name: Literal["min", "max", "auto", ""] = ""
    share: float = 0.0
    hz: int = 0

    def __str__(self) -> str:
        """Returns the rate as one would write it."""
        if self.name:
            return self.name
        return f"{self.share * 100:g}%" if self.share else rate_text(self.hz)


_NAMED = {"min": Rate("min"), "max": Rate("max"), "auto": Rate("auto")}


def rate_text(hz: int) -> str:
    """Returns a rate for people, such as ``844.8MHz``."""
    return f"{hz / 1e6:.15g}MHz"


def parse_rate(value: object) -> Rate | None:
    """Returns the rate that a TOML value or a command-line word means, None when it is none of `ALLOWED`."""
    if isinstance(value, int) and not isinstance(value, bool):
        return Rate(hz=value) if LOWEST_HZ <= value <= HIGHEST_HZ else None
    if not isinstance(value, str):
        return None
    word = value.strip().lower()
    if word in _NAMED:
        return _NAMED[word]
    match = _NUMBER.fullmatch(word)
    if match is None:
        return None
    number, unit = Decimal(match[1]), match[2]
    if unit == "%":
        return Rate(share=float(number / 100)) if 0 < number <= 100 else None
    hz = round(number * _UNIT_HZ[unit])
    return Rate(hz=hz) if LOWEST_HZ <= hz <= HIGHEST_HZ else None


def nearest_point(rate: Rate, knob: Knob) -> tuple[int | None, str]:
    """Returns the operating point in Hz nearest to ``rate`` ("auto" has none), and a note where it is another rate.

    Points are the rates that the driver lists within its own limits; a driver that lists none takes any rate within
    them. None: the board does not say enough to tell; the note says what is missing.
    """
    listed = sorted(choice for choice in knob.choices if isinstance(choice, int) and choice > 0)
    points = [hz for hz in listed if (knob.low or 0) <= hz <= (knob.high or hz)] or listed
    lowest_hz = points[0] if points else knob.low
    highest_hz = points[-1] if points else knob.high
    domain = kind_of(knob.id)
    if rate.name == "min":
        return lowest_hz, "" if lowest_hz else f"{domain}: the board does not say its lowest rate"
    if not highest_hz and not rate.hz:
        return None, f"{domain}: the board does not say its highest rate, so {rate} has no meaning"
    wanted_hz = rate.hz or round((rate.share or 1) * (highest_hz or 0))
    if points:
        point_hz = min(points, key=lambda hz: abs(hz - wanted_hz))
    else:
        point_hz = min(max(wanted_hz, lowest_hz or 0), highest_hz or wanted_hz)
    if point_hz == wanted_hz:
        return point_hz, ""
    asked = f"{rate} ({rate_text(wanted_hz)})" if rate.share else rate_text(wanted_hz)
    return point_hz, f"{domain}: {asked} is no operating point of this board; {rate_text(point_hz)} is the nearest"


def kind_of(knob: str) -> str:
    """Returns the name that all alike domains share ("cpu" for "cpu3.max"), so that equal notes are told once."""
    return knob.partition(".")[0].rstrip("0123456789")
