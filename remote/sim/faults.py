"""What can go wrong on a simulated board: ``fault=NAME@START[:FOR][:ARGUMENT]``.

START and FOR are seconds, or have a unit (``500ms``, ``3s``, ``2m``); START counts from when the board was opened,
without FOR a fault stays. ``throttle@3s``, ``rail-freeze@2s:500ms``, ``foreign-load@0::2.5``.
"""

from __future__ import annotations

import errno
import random
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf, isfinite, nan
from typing import Any, ClassVar, Protocol

from remote.errors import UsageError
from remote.sim.kernel.node import Node, fail, fixed
from remote.sim.physics import Activity
from remote.sim.process import Action, Busy, Context, Program

_SPEC = re.compile(r"(?P<name>[\w-]+)@(?P<start>[^:]*)(:(?P<span>[^:]*))?(:(?P<argument>[^:]*))?", re.ASCII)
_SPAN = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)(ms|s|m|)", re.ASCII)
_STALL_S = 6.0
_UNITS = {"": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0}
_POWER = re.compile(r".*/(in_power\d|in_current\d|ui_input\d|curr\d_input|power\d_input)[^/]*")
_VALUE = re.compile(r".*/((in_|ui_input).*|(in[123]|curr\d|power\d)_input)")
_VOLTAGE = re.compile(r".*/(in_voltage\d_input|ui_input\d|in[123]_input)")


class Victim(Protocol):
    """What a fault needs of the machine that it befalls."""

    wall_step_s: float
    silence: tuple[float, float]

    def throttle(self, steps: int) -> None:
        """Takes operating points off the highest rates, as heat does."""

    def limit(self, clock: str, share: float) -> None:
        """Holds ``gpu`` or ``emc`` below a share of its highest rate, whatever is set."""

    def start(self, name: str, program: Program) -> Callable[[], None]:
        """Starts a program that nobody asked for; returns what ends it."""

    def count_over_current(self, events: int, alarm: bool) -> None:
        """Adds to the counters of over-current, and sets the alarm of the input's monitor."""

    def reboot(self) -> None:
        """Starts again: settings, processes and connections are lost."""


@dataclass
class Fault:
    """Something that goes wrong from ``start_s`` until ``stop_s``, on the board's clock; ``argument`` is its size."""

    start_s: float
    stop_s: float
    argument: float

    usual: ClassVar[float] = 0.0
    """The argument where none is given."""

    def begin(self, board: Victim) -> None:
        """Breaks something."""

    def end(self, board: Victim) -> None:
        """Mends it."""

    def is_on(self, now_s: float) -> bool:
        """Says whether it holds now."""
        return self.start_s <= now_s < self.stop_s

    def sensor(self, path: str, node: Node, now: Callable[[], float]) -> Node:
        """Returns a file of a power monitor as this fault makes it."""
        return node

    def files(self, now: Callable[[], float]) -> Mapping[str, Node]:
        """Returns the files that are there because of it."""
        return {}

    def alter(self, twin: dict[str, Any]) -> None:
        """Changes the table of the board, for as long as it is open."""


class Throttle(Fault):
    """Cooling devices take operating points off CPU and GPU, as when the fan stops. ARGUMENT: how many."""

    usual = 3.0

    def begin(self, board: Victim) -> None:
        board.throttle(int(self.argument))

    def end(self, board: Victim) -> None:
        board.throttle(0)


class OverCurrent(Fault):
    """The supply gives less than the board draws: events are counted and clocks fall. ARGUMENT: how many events."""

    usual = 3.0

    def begin(self, board: Victim) -> None:
        board.count_over_current(int(self.argument), True)
        board.limit("gpu", 0.5)

    def end(self, board: Victim) -> None:
        board.count_over_current(0, False)
        board.limit("gpu", 1.0)


class EmcClamp(Fault):
    """The memory's clock is held below what is set. ARGUMENT: the share of its highest rate that is left."""

    usual = 0.5

    def begin(self, board: Victim) -> None:
        board.limit("emc", self.argument)

    def end(self, board: Victim) -> None:
        board.limit("emc", 1.0)


class GpuSag(Fault):
    """The GPU's clock falls below its lock. ARGUMENT: the share of its highest rate that is left."""

    usual = 0.5

    def begin(self, board: Victim) -> None:
        board.limit("gpu", self.argument)

    def end(self, board: Victim) -> None:
        board.limit("gpu", 1.0)


class _Program(Fault):
    """Programs run that nobody asked for."""

    names: ClassVar[Sequence[str]] = ()
    _stops: Sequence[Callable[[], None]] = ()

    def activity(self) -> Activity:
        """Returns what all of them do together."""
        return Activity()

    def begin(self, board: Victim) -> None:
        first, *others = self.names
        busy = [(first, self.activity()), *((name, Activity()) for name in others)]
        self._stops = [board.start(name, partial(_forever, does)) for name, does in busy]

    def end(self, board: Victim) -> None:
        for stop in self._stops:
            stop()


class ForeignLoad(_Program):
    """Another program keeps processor cores busy. ARGUMENT: how many."""

    usual = 1.0
    names = ("updatedb",)

    def activity(self) -> Activity:
        return Activity(cpu_load=self.argument)


class GpuLoad(_Program):
    """Another program keeps the GPU busy. ARGUMENT: which share of its time."""

    usual = 0.3
    names = ("camera",)

    def activity(self) -> Activity:
        return Activity(gpu_load=self.argument)


class Desktop(_Program):
    """Somebody is logged in at a screen. ARGUMENT: the share of the GPU that the desktop takes."""

    usual = 0.03
    names = ("gnome-shell", "Xorg", "gdm3")

    def activity(self) -> Activity:
        return Activity(gpu_load=self.argument)

    def files(self, now: Callable[[], float]) -> Mapping[str, Node]:
        present = partial(_while_on, self, now)
        texts = {f"/proc/{801 + n}/comm": f"{name}\n" for n, name in enumerate(self.names)}
        return {path: Node(fixed(text).read, present=present) for path, text in texts.items()}


class Undervoltage(Fault):
    """The supply sags. ARGUMENT: the share of the voltage that is left."""

    usual = 0.92

    def sensor(self, path: str, node: Node, now: Callable[[], float]) -> Node:
        if not _VOLTAGE.fullmatch(path):
            return node

        def read() -> str:
            text = node.read()
            return text if not self.is_on(now()) else _first_times(text, self.argument)

        return replace(node, read=read)


class RailFreeze(Fault):
    """Power monitors go on showing what they showed when it began."""

    def sensor(self, path: str, node: Node, now: Callable[[], float]) -> Node:
        if not _VALUE.fullmatch(path):
            return node
        held: list[str] = []

        def read() -> str:
            if not self.is_on(now()):
                held.clear()
                return node.read()
            if not held:
                held.append(node.read())
            return held[0]

        return replace(node, read=read)


class RailEagain(Fault):
    """Power monitors answer EAGAIN, all files alike at one moment. ARGUMENT: in which share of the moments."""

    usual = 0.5

    def sensor(self, path: str, node: Node, now: Callable[[], float]) -> Node:
        if not _VALUE.fullmatch(path):
            return node

        def read() -> str:
            busy = random.Random(f"{now():.9f}").random() < self.argument
            return fail(errno.EAGAIN, path) if busy and self.is_on(now()) else node.read()

        return replace(node, read=read)


class RailNegative(Fault):
    """Power monitors show currents the other way round."""

    def sensor(self, path: str, node: Node, now: Callable[[], float]) -> Node:
        if not _POWER.fullmatch(path):
            return node

        def read() -> str:
            return re.sub(r"(\d+)\s*$", r"-\1\n", node.read()) if self.is_on(now()) else node.read()

        return replace(node, read=read)


class RailMissing(Fault):
    """The files of the power monitors are gone, as when their driver is not loaded."""

    def sensor(self, path: str, node: Node, now: Callable[[], float]) -> Node:
        return replace(node, present=lambda: not self.is_on(now()))


class SamplerDead(Fault):
    """Power monitors do not answer on their bus any more: EREMOTEIO."""

    def sensor(self, path: str, node: Node, now: Callable[[], float]) -> Node:
        if not _VALUE.fullmatch(path):
            return node

        def read() -> str:
            return fail(errno.EREMOTEIO, path) if self.is_on(now()) else node.read()

        return replace(node, read=read)


class NoFp16(Fault):
    """TensorRT leaves layers in FP32, whatever START and FOR are. ARGUMENT: which share of their time, 1 for all."""

    usual = 1.0

    def alter(self, twin: dict[str, Any]) -> None:
        twin["no_fp16"] = self.argument


class Reboot(Fault):
    """The board starts again by itself."""

    def begin(self, board: Victim) -> None:
        board.reboot()


class ClockStep(Fault):
    """The board's calendar is set, as by NTP. ARGUMENT: by how many seconds; FOR has no effect."""

    usual = 3600.0

    def begin(self, board: Victim) -> None:
        board.wall_step_s += self.argument


class LinkStall(Fault):
    """The line carries nothing; for 6 s where FOR is not given."""

    def begin(self, board: Victim) -> None:
        board.silence = (self.start_s, self.start_s + _STALL_S if self.stop_s == inf else self.stop_s)


FAULTS: Mapping[str, type[Fault]] = {
    "throttle": Throttle,
    "over-current": OverCurrent,
    "undervoltage": Undervoltage,
    "emc-clamp": EmcClamp,
    "gpu-sag": GpuSag,
    "foreign-load": ForeignLoad,
    "gpu-load": GpuLoad,
    "desktop": Desktop,
    "rail-freeze": RailFreeze,
    "rail-eagain": RailEagain,
    "rail-negative": RailNegative,
    "rail-missing": RailMissing,
    "sampler-dead": SamplerDead,
    "no-fp16": NoFp16,
    "reboot": Reboot,
    "clock-step": ClockStep,
    "link-stall": LinkStall,
}


def parse(text: str) -> Fault:
    """Returns the fault that ``NAME@START[:FOR][:ARGUMENT]`` names. Raises UsageError."""
    match = _SPEC.fullmatch(text)
    kind = FAULTS.get(match["name"]) if match else None
    if match is None or kind is None:
        raise UsageError(
            f"fault={text} is not a fault of a simulated board", f"NAME@START[:FOR][:ARGUMENT]; {', '.join(FAULTS)}"
        )
    start_s = _seconds(text, match["start"])
    stop_s = start_s + _seconds(text, match["span"]) if match["span"] else inf
    try:
        argument = float(match["argument"]) if match["argument"] else kind.usual
    except ValueError:
        argument = nan
    if not isfinite(argument):
        raise UsageError(f"fault={text}: {match['argument']!r} is not a number")
    return kind(start_s, stop_s, argument)


def _seconds(text: str, word: str) -> float:
    match = _SPAN.fullmatch(word)
    if match is None:
        raise UsageError(f"fault={text}: {word!r} is not a time", "for example 3s, 500ms or 2m")
    return float(match[1]) * _UNITS[match[2]]


def _forever(does: Activity, context: Context) -> Generator[Action, None, int]:
    while True:
        yield Busy(3600.0, does)


def _while_on(fault: Fault, now: Callable[[], float]) -> bool:
    return fault.is_on(now())


def _first_times(text: str, share: float) -> str:
    first, *rest = text.split()
    return " ".join([str(round(int(first) * share)), *rest]) + "\n"
