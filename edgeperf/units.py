"""Durations, rates and figures as people write and read them. Inside everything is SI; this is the edge."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from math import floor, isfinite, log10

from remote.errors import UsageError

_NUMBER = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,12})?|\.[0-9]{1,12})\s*([a-z]*)", re.IGNORECASE | re.ASCII)
_SECONDS = {"us": "1e-6", "ms": "1e-3", "": "1", "s": "1", "sec": "1", "m": "60", "min": "60", "h": "3600"}
_HERTZ = {"": "1", "hz": "1", "khz": "1e3", "mhz": "1e6", "ghz": "1e9"}
_PREFIXES = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T"}


def parse_seconds(text: str) -> float:
    """Returns seconds from ``10s``, ``5m``, ``1.5h``, ``250ms`` or a plain number.

    Raises UsageError with these forms.
    """
    return _parse(text, _SECONDS, "duration", "10s, 5m, 1.5h, 250ms or plain seconds such as 10")


def parse_hz(text: str) -> float:
    """Returns hertz from ``20Hz``, ``844.8MHz``, ``1.6GHz`` or a plain number.

    Raises UsageError with these forms, also for 0.
    """
    forms = "20Hz, 844.8MHz, 1.6GHz or plain hertz such as 998400000"
    hz = _parse(text, _HERTZ, "rate", forms)
    if hz == 0:
        raise UsageError(f"{text!r} is no rate: it must be above 0", f"write {forms}")
    return hz


def show_figure(value: float, ci95: tuple[float, float] | None, unit: str) -> str:
    """Returns ``255.1 +- 1.8 img/s``: two digits of half the 95 % interval, the value to the same place.

    An interval of no width leaves four digits of the value; None says that it is not known.
    """
    if ci95 is None or not isfinite(ci95[1] - ci95[0]):
        return f"{_digits(value, 3)} {unit} (+- unknown)"
    half = (ci95[1] - ci95[0]) / 2
    if half <= 0:
        return f"{_digits(value, 4)} {unit}"
    place = _place(half, 2)
    decimals = max(0, place)
    return f"{round(value, place):.{decimals}f} +- {round(half, place):.{decimals}f} {unit}"


def show_both(value: float, ci95: tuple[float, float] | None, absolute95: tuple[float, float] | None, unit: str) -> str:
    """Returns ``8.522 +- 0.025 W (repeatable), +- 0.17 W absolute``: how well it repeats, how near the truth it is."""
    shown = show_figure(value, ci95, unit)
    shown = f"{shown} (repeatable)" if ci95 else shown
    if absolute95 is None or not isfinite(absolute95[1] - absolute95[0]):
        return shown
    half = (absolute95[1] - absolute95[0]) / 2
    return f"{shown}, +- {_fixed(half, 2)} {unit} absolute"


def show(value: float, unit: str = "", digits: int = 4) -> str:
    """Returns ``3.9 ms``, ``243.9 MB``, ``724.4 M``: a decimal prefix, at most ``digits`` digits, no trailing zeros."""
    if not value or not isfinite(value):
        return f"{value:g} {unit}".rstrip()
    # Rounded first: 999.96 k is 1 M, not 1000 k.
    rounded = float(f"{value:.{digits - 1}e}")
    exponent = 3 * floor(log10(abs(rounded)) / 3 + 1e-12)
    exponent = min(max(exponent, min(_PREFIXES)), max(_PREFIXES))
    return f"{_digits(rounded / 10.0**exponent, digits)} {_PREFIXES[exponent]}{unit}".rstrip()


def show_seconds(seconds: float) -> str:
    """Returns ``3.9 ms``, ``12.5 s``."""
    return show(seconds, "s", 3)


def show_hz(hz: float) -> str:
    """Returns a clock rate as boards are spoken of: ``1734 MHz``, ``691.2 MHz``, and ``20 Hz`` below a megahertz."""
    return f"{hz / 1e6:.10g} MHz" if hz >= 1e6 else show(hz, "Hz")


def show_bytes(count: float) -> str:
    """Returns ``244 MB``: three digits and decimal prefixes, 1 MB being a million bytes."""
    return show(count, "B", 3)


def show_count(count: float) -> str:
    """Returns ``724.4 M``: four digits and a decimal prefix."""
    return show(count)


def _parse(text: str, scales: Mapping[str, str], what: str, forms: str) -> float:
    match = _NUMBER.fullmatch(text.strip())
    scale = scales.get(match[2].lower()) if match else None
    if match is None or scale is None:
        raise UsageError(f"{text!r} is no {what}", f"write {forms}")
    return float(Decimal(match[1]) * Decimal(scale))


def _place(value: float, digits: int) -> int:
    """Returns the decimal place of the last of so many digits. 0.0998 rounds to 0.10, so it is asked after rounding."""
    return digits - 1 - floor(log10(abs(float(f"{value:.{digits - 1}e}"))))


def _fixed(value: float, digits: int) -> str:
    """Returns a number to so many significant digits, with its trailing zeros."""
    if not value:
        return "0"
    place = _place(value, digits)
    return f"{round(value, place):.{max(0, place)}f}"


def _digits(value: float, digits: int) -> str:
    """Returns a number to so many significant digits, without an exponent and without trailing zeros."""
    if not value or not isfinite(value):
        return f"{value:g}"
    place = _place(value, digits)
    text = f"{round(value, place):.{max(0, place)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
