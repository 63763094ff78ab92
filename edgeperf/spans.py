"""Options of measuring commands that are a span, a rate or a temperature, with the limits that make sense."""

from __future__ import annotations

import re

from remote.errors import UsageError

_LONGEST_S = 24 * 3600
_FASTEST_HZ = 200
_CELSIUS = re.compile(r"(-?[0-9]{1,3}(?:\.[0-9]{1,3})?)\s*C?", re.IGNORECASE | re.ASCII)


def span(option: str, text: str) -> float:
    """Returns seconds. Raises UsageError for what is none, or longer than a day."""
    from edgeperf.units import parse_seconds

    seconds = parse_seconds(text)
    if seconds > _LONGEST_S:
        raise UsageError(f"{option} {text} is too long", "at most 24h")
    return seconds


def rail_rate(text: str, option: str = "--rail-rate") -> float:
    """Returns hertz. Raises UsageError, which names ``option``, for what is none, or faster than sensors are."""
    from edgeperf.units import parse_hz

    hz = parse_hz(text)
    if hz > _FASTEST_HZ:
        raise UsageError(f"{option} {text} is faster than any power sensor converts", "at most 200Hz; 20Hz is usual")
    return hz


def celsius(option: str, text: str) -> float:
    """Returns degrees Celsius from ``45C`` or a plain number. Raises UsageError."""
    match = _CELSIUS.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{option} {text!r} is no temperature", "write 45C, or plain degrees Celsius such as 45")
    return float(match[1])
