"""What a power sensor can be trusted with: the worth of one count, and how far from the truth it may be. Pure.

Limits of a data sheet are taken as two standard deviations, and so is the tolerance of a shunt; a half width of 95 %
is then the limit itself. The errors of a sensor do not depend on each other, so they add as squares.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot, inf

from remote.types import Rail

SHUNT_TOLERANCE = 0.01
"""Assumed: shunts of 1 %. No board tells, and none is measured."""

_SETTLING = 5
"""In this many of its averaging times a sensor comes within 1 % of a load's new value."""


@dataclass(frozen=True)
class _Chip:
    """Steps and limits of error: of the shunt voltage and of the bus voltage in volts, of both gains as a share."""

    shunt_step_v: float
    bus_step_v: float
    shunt_offset_v: float
    bus_offset_v: float
    gain: float


_CHIPS = {
    # Texas Instruments SBOS576B, electrical characteristics at 25 degrees Celsius, maximum: steps of 40 uV and
    # 8 mV, offset 80 uV of the shunt and 16 mV of the bus voltage, gain 0.25 % of both.
    "ina3221": _Chip(40e-6, 8e-3, 80e-6, 16e-3, 0.0025),
    # Texas Instruments SLYS025, likewise, in the range of 163.84 mV: steps of 5 uV and 3.125 mV, offset 5 uV and
    # 5 mV, gain 0.1 %.
    "ina238": _Chip(5e-6, 3.125e-3, 5e-6, 5e-3, 0.001),
}


@dataclass(frozen=True)
class Accuracy:
    """How far a rail's watts may be from the truth (95 %): ``offset_w`` whatever it reads, and a share of its watts.

    Both are infinite for a sensor of which nothing is known.
    """

    offset_w: float
    share: float

    def half_w(self, watts: float) -> float:
        """Returns half the 95 % interval of the truth around a reading that has no other error, in watts."""
        return hypot(self.offset_w, self.share * watts)


UNKNOWN = Accuracy(inf, inf)


def step_w(rail: Rail) -> float:
    """Returns what one count of the rail's sensor is worth, in watts: step / shunt x volts. 0 where it is unknown."""
    known = _known(rail)
    if known is None:
        return 0.0
    chip, shunt_ohm, volts = known
    return chip.shunt_step_v / shunt_ohm * volts


def step_share(rail: Rail) -> float:
    """Returns what one count of the bus voltage is worth, as a share of the rail's watts. 0 where it is unknown."""
    known = _known(rail)
    return known[0].bus_step_v / known[2] if known else 0.0


def accuracy(rail: Rail) -> Accuracy:
    """Returns how far the rail's sensor may be from the truth, `UNKNOWN` for one without a data sheet."""
    known = _known(rail)
    if known is None:
        return UNKNOWN
    chip, shunt_ohm, volts = known
    share = hypot(SHUNT_TOLERANCE, chip.gain, chip.gain, chip.bus_offset_v / volts)
    return Accuracy(chip.shunt_offset_v / shunt_ohm * volts, share)


def absolute(rail: Rail, watts: float) -> float:
    """Returns half the 95 % interval by which the sensor may be off at ``watts``, infinite where that is unknown."""
    return accuracy(rail).half_w(watts)


def lag_s(rail: Rail) -> float:
    """Returns by how many seconds the rail's readings lag behind its power: the time over which the sensor averages.

    A first-order low-pass lags by its time constant. A mean over a span that is shown until the next one lags by half
    the span for the mean, and on average by the other half for the wait. A triggered conversion does not lag.
    """
    sensor = rail.sensor
    return 0.0 if sensor is None or sensor.mode == "triggered" else sensor.conversion_s or 0.0


def settling_s(rail: Rail) -> float:
    """Returns how long after a change of load the rail's readings still show the load before."""
    return _SETTLING * lag_s(rail)


def _known(rail: Rail) -> tuple[_Chip, float, float] | None:
    sensor = rail.sensor
    chip = _CHIPS.get(sensor.kind) if sensor else None
    if sensor is None or chip is None or not sensor.shunt_ohm or not sensor.volts:
        return None
    return chip, sensor.shunt_ohm, sensor.volts
