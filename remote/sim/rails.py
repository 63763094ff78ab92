"""The INA3221 power monitors: what their iio driver shows of the true power.

One conversion reads the three channels of a chip. Bus voltage comes in steps of 8 mV, shunt voltage in steps of 40 uV
(Texas Instruments, INA3221 data sheet); the driver makes integers of mV, mA and mW of them (facts of the Linux 4.9
staging driver: P = V x I, triggered mode, one conversion per read unless one has just been made). Gain, offset and
shunt error of a channel are drawn once per board from its seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import partial
from math import exp, sqrt
from typing import Any

from remote.sim.kernel.node import Node, fixed

_BUS_STEP_MV = 8
_SHUNT_STEP_UV = 40


class LoadNoise:
    """Relative fluctuation of the whole board's load: a first-order process with a memory of ``tau_s``."""

    def __init__(self, sigma: float, tau_s: float, seed: str) -> None:
        self._gauss = random.Random(seed).gauss
        self._sigma, self._tau_s = sigma, tau_s
        self._value = self._gauss(0.0, sigma)
        self._at_s = 0.0

    def factor(self, now_s: float) -> float:
        """Returns what to multiply power with at ``now_s``; time may not run backwards."""
        step_s = now_s - self._at_s
        if step_s > 0.0:
            keep = exp(-step_s / self._tau_s)
            self._value = keep * self._value + sqrt(1.0 - keep * keep) * self._gauss(0.0, self._sigma)
            self._at_s = now_s
        return 1.0 + self._value


class _Channel:
    """One of the three inputs of a chip, with its errors."""

    def __init__(self, rail: str, shunt_ohm: float, errors: Mapping[str, float], draw: random.Random) -> None:
        self.rail = rail
        self.shunt_mohm = round(shunt_ohm * 1000)
        true_ohm = shunt_ohm * (1.0 + draw.gauss(0.0, errors["shunt"]))
        self._uv_per_a = 1e6 * true_ohm * (1.0 + draw.gauss(0.0, errors["gain"]))
        self._offset_uv = draw.gauss(0.0, errors["offset_v"]) * 1e6
        self._bus_gain = 1000.0 * (1.0 + draw.gauss(0.0, errors["gain"]))
        self.mv = 0
        self.ma = 0

    def convert(self, watts: float, volts: float) -> None:
        """Takes a reading: ``watts`` at ``volts``."""
        self.mv = int(volts * self._bus_gain / _BUS_STEP_MV + 0.5) * _BUS_STEP_MV
        uv = int((watts / volts * self._uv_per_a + self._offset_uv) / _SHUNT_STEP_UV + 0.5) * _SHUNT_STEP_UV
        self.ma = max(0, (uv + self.shunt_mohm // 2) // self.shunt_mohm)


class Chip:
    """One INA3221. ``watts`` gives the true power of all rails, ``noise`` is shared by the board's chips."""

    def __init__(
        self,
        spec: Mapping[str, Any],
        twin: Mapping[str, Any],
        seed: int,
        now: Callable[[], float],
        watts: Callable[[], Mapping[str, float]],
        noise: LoadNoise,
    ) -> None:
        self._now, self._watts, self._noise = now, watts, noise
        self._volts = float(spec["volts"])
        self._conversion_s = float(twin["conversion_s"])
        self._sag_ohm = float(twin["supply_ohm"])
        self._converted_s = -1.0
        self.channels = [
            _Channel(rail, ohm, twin["errors"], random.Random(f"ina {seed} {spec['device']} {rail}"))
            for rail, ohm in zip(spec["rails"], spec["shunts_ohm"], strict=True)
        ]

    def _convert(self) -> None:
        now_s = self._now()
        if now_s - self._converted_s < self._conversion_s:
            return
        self._converted_s = now_s
        watts, factor = self._watts(), self._noise.factor(now_s)
        sagged = self._volts - self._sag_ohm * watts[self.channels[0].rail] / self._volts
        for channel in self.channels:
            channel.convert(watts[channel.rail] * factor, sagged)

    def _power(self, channel: _Channel) -> str:
        self._convert()
        return f"{channel.mv * channel.ma // 1000}\n"

    def _voltage(self, channel: _Channel) -> str:
        self._convert()
        return f"{channel.mv}\n"

    def _current(self, channel: _Channel) -> str:
        self._convert()
        return f"{channel.ma}\n"

    def _both(self, channel: _Channel) -> str:
        self._convert()
        return f"{channel.mv} {channel.ma}\n"

    def nodes(self, folder: str) -> dict[str, Node]:
        """Returns the chip's files below ``folder``."""
        found = {}
        for n, channel in enumerate(self.channels):
            found[f"{folder}/rail_name_{n}"] = fixed(f"{channel.rail}\n")
            found[f"{folder}/in_voltage{n}_input"] = Node(partial(self._voltage, channel))
            found[f"{folder}/in_current{n}_input"] = Node(partial(self._current, channel))
            found[f"{folder}/in_power{n}_input"] = Node(partial(self._power, channel))
            found[f"{folder}/ui_input{n}"] = Node(partial(self._both, channel))
        return found


def monitors(
    twin: Mapping[str, Any],
    seed: int,
    probe: str,
    now: Callable[[], float],
    watts: Callable[[], Mapping[str, float]],
) -> dict[str, Node]:
    """Returns the files of all power monitors of a board; those of a laboratory only with ``probe`` naming it."""
    ina = twin["ina"]
    noise = LoadNoise(ina["noise"], ina["noise_tau_s"], f"load {seed}")
    found = {}
    for n, spec in enumerate(ina["chip"]):
        if spec.get("probe", probe) == probe:
            found.update(Chip(spec, ina, seed, now, watts, noise).nodes(folder(twin, n)))
    return found


def folder(twin: Mapping[str, Any], number: int) -> str:
    """Returns where the files of a board's chip lie in this release."""
    spec = twin["ina"]["chip"][number]
    return str(spec.get("folder", twin["ina_folder"])).format(device=spec["device"], n=number)
