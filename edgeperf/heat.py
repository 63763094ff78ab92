"""Which readings are temperatures, and what they say of a board. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from edgeperf.record import Cooling

_COLDEST_C = -55.0
"""Below that no part works: it is what a zone shows that is switched off."""


def zones(readings: Iterable[str]) -> tuple[str, ...]:
    """Returns the readings that are temperatures. The power chip's is left out: it shows the same number always."""
    return tuple(name for name in readings if name.startswith("temp.") and "pmic" not in name.lower())


def hottest_c(values: Iterable[float | None]) -> float | None:
    """Returns the highest of some temperatures, None where none of them is one."""
    return max((value for value in values if value is not None and value > _COLDEST_C), default=None)


def too_warm(cooling: Cooling | None) -> str:
    """Returns how a board is warmer than was asked for, "" where it is not."""
    if cooling is None or cooling.end_c <= cooling.asked_c:
        return ""
    waited = f"after {cooling.waited_s:.0f} s of waiting the board was at {cooling.end_c:.1f} C"
    return f"{waited}, {cooling.asked_c:g} C was asked; a longer --cool-limit may help"


def not_cooled(asked_c: float | None, cooling: Cooling | None) -> tuple[str, ...]:
    """Returns a note where a board was to cool down and shows no temperature."""
    if asked_c is None or cooling is not None:
        return ()
    return (f"the board shows no temperature, so {asked_c:g} C was not waited for",)
