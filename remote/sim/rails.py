"""The power monitors: what their drivers show of the true power.

INA3221 (Texas Instruments): one conversion reads the three channels of a chip. Bus voltage comes in steps of 8 mV,
shunt voltage in steps of 40 uV (data sheet). The iio driver up to L4T R32 makes integers of mV, mA and mW of them, one
conversion per read unless one has just been made (facts of the Linux 4.9 staging driver); hwmon's, from R34 on, shows
mV and mA as last converted, but no power. INA238: one channel, power in microwatts. Gain, offset and shunt error of a
channel are drawn once per board from its seed.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import exp, sqrt
from typing import Any

from remote.sim.kernel.node import Node, Part, below, fail, fixed, whole, word

_BUS_STEP_MV = 8
_SHUNT_STEP_UV = 40
_INA238_STEP_W = 0.005  # assumed: 0.2 x a current step of 25 mA

# What the INA3221 can do (data sheet): averages, and times of one conversion, of which each channel needs two.
_AVERAGES = (1, 4, 16, 64, 128, 256, 512, 1024)
_CONVERSIONS_S = (140e-6, 204e-6, 332e-6, 588e-6, 1.1e-3, 2.116e-3, 4.156e-3, 8.244e-3)
_TWO_EACH = 6
_CONTINUOUS = 64
"""How many conversions NVIDIA's driver averages in its continuous mode (Linux 4.9, ina3221.c)."""

Watts = Callable[[float], Mapping[str, float]]
"""Gives the true power of every rail: now, or as a filter of first order with that many seconds shows it."""


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
    """One input of a chip, with its errors."""

    def __init__(
        self, rail: str, volts: float, shunt_ohm: float, errors: Mapping[str, float], draw: random.Random
    ) -> None:
        self.rail, self.volts = rail, volts
        self.shunt_mohm = round(shunt_ohm * 1000)
        true_ohm = shunt_ohm * (1.0 + draw.gauss(0.0, errors["shunt"]))
        self._uv_per_a = 1e6 * true_ohm * (1.0 + draw.gauss(0.0, errors["gain"]))
        self._offset_uv = draw.gauss(0.0, errors["offset_v"]) * 1e6
        self._bus_gain = 1000.0 * (1.0 + draw.gauss(0.0, errors["gain"]))
        self.watts = 0.0
        self.mv = self.ma = self.shunt_uv = 0

    def convert(self, watts: float, sag: float) -> None:
        """Takes a reading: ``watts`` at the rail's voltage times ``sag``."""
        volts = self.volts * sag
        self.mv = int(volts * self._bus_gain / _BUS_STEP_MV + 0.5) * _BUS_STEP_MV
        uv = int((watts / volts * self._uv_per_a + self._offset_uv) / _SHUNT_STEP_UV + 0.5) * _SHUNT_STEP_UV
        self.shunt_uv = max(0, uv)
        self.ma = (self.shunt_uv + self.shunt_mohm // 2) // self.shunt_mohm
        self.watts = watts * self._uv_per_a / (1e3 * self.shunt_mohm)


class Chip:
    """One monitor; ``noise`` is shared by the board's chips.

    With ``samples`` above 1 it converts by itself, and each conversion moves what it shows by that part of the
    difference (data sheet, averaging function): a filter of first order. Else it converts when it is read, and is
    now and then not ready in time (EAGAIN). Root may choose, through ``running_mode`` (iio), ``samples`` and
    ``update_interval`` (hwmon); the choice is gone after a reboot.
    """

    def __init__(
        self,
        spec: Mapping[str, Any],
        ina: Mapping[str, Any],
        seed: int,
        now: Callable[[], float],
        watts: Watts,
        noise: LoadNoise,
    ) -> None:
        self._now, self._noise = now, noise
        self._kind = str(spec.get("kind", ina["driver"]))
        self.conversion_s = float(spec.get("conversion_s", ina["conversion_s"]))
        self.samples = int(spec.get("samples", ina["samples"]))
        self.mode = int(self.samples > 1)
        self._watts = watts
        self._factor = 1.0
        self._busy_share = float(ina["busy_share"]) if self._kind == "iio" else 0.0
        self._draw = random.Random(f"busy {seed} {spec['device']}").random
        self._sag_ohm = float(ina["supply_ohm"])
        self._converted_s = -1.0
        volts = spec["volts"] if isinstance(spec["volts"], list) else [spec["volts"]] * len(spec["rails"])
        errors = spec.get("errors", ina["errors"])
        self.channels = [
            _Channel(rail, v, ohm, errors, random.Random(f"ina {seed} {spec['device']} {rail}"))
            for rail, v, ohm in zip(spec["rails"], volts, spec["shunts_ohm"], strict=True)
        ]

    @property
    def _tau_s(self) -> float:
        return self.conversion_s * self.samples if self.samples > 1 else 0.0

    def _set_mode(self, text: str) -> None:
        """Takes 1 for conversions by itself, 0 for one per read, -1 for the driver's choice: here, one per read."""
        self.mode = int(word(text, ("0", "1", "-1")))
        self.samples = _CONTINUOUS if self.mode == 1 else 1

    def _set_samples(self, text: str) -> None:
        """Takes the nearest number of conversions that the chip can average."""
        wanted = whole(text)
        self.samples = min(_AVERAGES, key=lambda count: abs(count - wanted))

    def _set_interval(self, text: str) -> None:
        """Takes the conversions that come nearest to an interval in milliseconds."""
        wanted_s = whole(text) / 1000 / self.samples
        self.conversion_s = _TWO_EACH * min(_CONVERSIONS_S, key=lambda one_s: abs(_TWO_EACH * one_s - wanted_s))

    def _convert(self) -> None:
        now_s = self._now()
        span_s = now_s - self._converted_s
        if span_s < self.conversion_s:
            return
        if self._busy_share and not self._tau_s and self._draw() < self._busy_share:
            fail(errno.EAGAIN)
        self._converted_s = now_s
        watts, noise = self._watts(self._tau_s), self._noise.factor(now_s)
        self._factor += (noise - self._factor) * (1.0 - exp(-span_s / self._tau_s) if self._tau_s else 1.0)
        supply_v = self.channels[0].volts
        sag = 1 - self._sag_ohm * watts["TOTAL"] / supply_v / supply_v
        for channel in self.channels:
            channel.convert(watts[channel.rail] * self._factor, sag)

    def _file(self, text: Callable[[], str]) -> Node:
        def read() -> str:
            self._convert()
            return f"{text()}\n"

        return Node(read)

    def nodes(self, folder: str) -> dict[str, Node]:
        """Returns the chip's files in ``folder``."""
        files = {"iio": self._iio, "hwmon": self._hwmon, "ina238": self._ina238}[self._kind]()
        return below(folder, files)

    def _iio(self) -> dict[str, Node]:
        found = {"running_mode": Node(lambda: f"{self.mode}\n", self._set_mode)}
        for n, channel in enumerate(self.channels):
            found[f"rail_name_{n}"] = fixed(f"{channel.rail}\n")
            found[f"in_voltage{n}_input"] = self._file(partial(_field, channel, "{0.mv}"))
            found[f"in_current{n}_input"] = self._file(partial(_field, channel, "{0.ma}"))
            found[f"in_power{n}_input"] = self._file(partial(_milliwatts, channel))
            found[f"ui_input{n}"] = self._file(partial(_field, channel, "{0.mv} {0.ma}"))
        return found

    def _hwmon(self) -> dict[str, Node]:
        def interval() -> str:
            return f"{round(self.conversion_s * self.samples * 1000)}\n"

        found = {
            "name": fixed("ina3221\n"),
            "samples": Node(lambda: f"{self.samples}\n", self._set_samples),
            "update_interval": Node(interval, self._set_interval),
        }
        for n, channel in enumerate(self.channels, 1):
            found[f"in{n}_label"] = fixed(f"{channel.rail}\n")
            found[f"in{n}_input"] = self._file(partial(_field, channel, "{0.mv}"))
            found[f"curr{n}_input"] = self._file(partial(_field, channel, "{0.ma}"))
            found[f"in{n + 3}_input"] = self._file(partial(_field, channel, "{0.shunt_uv}"))
            found[f"shunt{n}_resistor"] = fixed(f"{channel.shunt_mohm * 1000}\n")
        return found | {"in7_label": fixed("sum of shunt voltages\n")}

    def _ina238(self) -> dict[str, Node]:
        channel = self.channels[0]
        return {
            "name": fixed("ina238\n"),
            "in1_input": self._file(partial(_field, channel, "{0.mv}")),
            "curr1_input": self._file(partial(_field, channel, "{0.ma}")),
            "power1_input": self._file(partial(_microwatts, channel)),
        }


def _field(channel: _Channel, form: str) -> str:
    return form.format(channel)


def _milliwatts(channel: _Channel) -> str:
    return str(channel.mv * channel.ma // 1000)


def _microwatts(channel: _Channel) -> str:
    return str(round(round(channel.watts / _INA238_STEP_W) * _INA238_STEP_W * 1e6))


class Monitors(Part):
    """All power monitors of a board; those of a laboratory only with ``probe`` naming it."""

    keeps = ("settings",)

    def __init__(self, twin: Mapping[str, Any], seed: int, probe: str, now: Callable[[], float], watts: Watts) -> None:
        ina = twin["ina"]
        noise = LoadNoise(ina["noise"], ina["noise_tau_s"], f"load {seed}")
        self._chips = {
            places[0]: Chip(spec, ina, seed, now, watts, noise)
            for spec, places in zip(ina.get("chip", ()), twin["ina_places"], strict=True)
            if spec.get("probe", probe) == probe
        }

    @property
    def settings(self) -> dict[str, list[float]]:
        """How each chip converts, by its folder: mode, samples, seconds of a conversion."""
        return {folder: [chip.mode, chip.samples, chip.conversion_s] for folder, chip in self._chips.items()}

    @settings.setter
    def settings(self, saved: Mapping[str, Sequence[float]]) -> None:
        for folder, (mode, samples, conversion_s) in saved.items():
            if folder in self._chips:
                chip = self._chips[folder]
                chip.mode, chip.samples, chip.conversion_s = int(mode), int(samples), conversion_s

    def nodes(self) -> dict[str, Node]:
        """Returns the files of all chips."""
        return {path: node for folder, chip in self._chips.items() for path, node in chip.nodes(folder).items()}


def places(ina: Mapping[str, Any], seed: int) -> list[list[str]]:
    """Returns the folders of each monitor in this release. hwmon's numbers differ from board to board, as they do."""
    first = random.Random(f"hwmon {seed}").randrange(1, 6)
    found = []
    for n, spec in enumerate(ina.get("chip", ())):
        folder = str(spec.get("folder", ina["folder"])).format(device=spec["device"], n=n)
        found.append([folder if ina["driver"] == "iio" else f"{folder}/hwmon/hwmon{first + n}"])
    return found


def milliwatts(twin: Mapping[str, Any], rail: str, read: Callable[[str], str]) -> int:
    """Returns the power of a rail as its monitor shows it. Raises KeyError for a rail that none of them has."""
    for spec, folders in zip(twin["ina"]["chip"], twin["ina_places"], strict=True):
        if rail not in spec["rails"]:
            continue
        n = spec["rails"].index(rail)
        if spec.get("kind") == "ina238":
            return int(read(f"{folders[0]}/power1_input")) // 1000
        if twin["ina"]["driver"] == "iio":
            return int(_patiently(read, f"{folders[0]}/in_power{n}_input"))
        return int(read(f"{folders[0]}/in{n + 1}_input")) * int(read(f"{folders[0]}/curr{n + 1}_input")) // 1000
    raise KeyError(rail)


def _patiently(read: Callable[[str], str], path: str) -> str:
    """Returns what a sensor shows, asked again for a while when it is not ready."""
    for _ in range(9):
        with suppress(BlockingIOError):
            return read(path)
    return read(path)
