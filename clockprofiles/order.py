"""The one place that knows in which order knobs are written. The board puts them back in the exact reverse."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from remote.types import Step, Value

_STAGES = tuple(
    re.compile(pattern)
    for pattern in (
        r"nvpmodel\.mode=.*",  # a power mode rewrites limits and cores
        r"cpuquiet\.enable=0",  # left on, it would park the cores again
        r"cpuquiet\.governor=.*",
        r"cluster\.immediate=.*",  # the three in the order of jetson_clocks
        r"cluster\.force=.*",
        r"cluster\.active=.*",
        r"cpu\d+\.online=.*",  # a core that is off refuses the rest
        r"(cc3\..*|qos\.enable)=.*",  # a cluster that is off, or bounds by others, would keep a rate from taking hold
        r"cpu\d+\.(governor|min|max)=.*",
        r"cpu\d+\.idle\d+=.*",
        r"gpu\.(railgate=0|power=on)",  # a gated GPU takes no lock
        r"gpu\.(rate|override|min|max)=.*",
        r"gpu\.(railgate=1|power=auto)",
        r"fan\.auto=.*",  # the fan's own control would overwrite the speed
        r"fan\.pwm=.*",
        r"(?!cpuquiet\.enable=1).*",  # any other domain: emc and what later boards have
        r"cpuquiet\.enable=1",  # last: from here on it parks cores as it likes
    )
)


def in_order(steps: Iterable[Step], found: Mapping[str, Value | None], l4t: str) -> tuple[Step, ...]:
    """Returns the steps in the order of writing, given the values ``found`` on the board and its L4T release.

    Limits: raising writes max before min, lowering min before max, so that min <= max holds on the way. Overrides:
    up to R28 the rate, then the bit that makes it hold; from R32 the bit first, as jetson_clocks of those releases.
    """
    steps = list(steps)
    lowered = {_domain(step.knob) for step in steps if _is_lowering(step, found)}
    lock = ("override", "rate") if _release(l4t) >= 32 else ("rate", "override")

    def key(step: Step) -> tuple[int, str, list[int], int]:
        domain, _, setting = step.knob.partition(".")
        limits = ("min", "max") if domain in lowered else ("max", "min")
        order = ("governor", *limits, *lock)
        numbers = [int(digits) for digits in re.findall(r"\d+", step.knob)]
        return _stage(step), domain.rstrip("0123456789"), numbers, order.index(setting) if setting in order else 0

    return tuple(sorted(steps, key=key))


def _stage(step: Step) -> int:
    written = f"{step.knob}={step.value}"
    return next(number for number, stage in enumerate(_STAGES) if stage.fullmatch(written))


def _is_lowering(step: Step, found: Mapping[str, Value | None]) -> bool:
    """Whether a new max lies below the min that is in force."""
    domain, _, setting = step.knob.partition(".")
    low = found.get(f"{domain}.min")
    return setting == "max" and isinstance(step.value, int) and isinstance(low, int) and step.value < low


def _domain(knob: str) -> str:
    return knob.partition(".")[0]


def _release(l4t: str) -> int:
    """Returns the major number of an L4T release such as "32.7.1"; a machine without one counts as the newest."""
    digits = re.search(r"\d+", l4t)
    return int(digits[0]) if digits else 99
