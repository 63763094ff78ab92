"""Faults of the power monitors."""

from __future__ import annotations

import errno
import random
import re
from dataclasses import replace

from remote.sim.faults.fault import Fault, Now
from remote.sim.kernel.node import Node, fail

_POWER = re.compile(r".*/(in_power\d|in_current\d|ui_input\d|curr\d_input|power\d_input)[^/]*")
_VALUE = re.compile(r".*/((in_|ui_input).*|(in[123]|curr\d|power\d)_input)")
_VOLTAGE = re.compile(r".*/(in_voltage\d_input|ui_input\d|in[123]_input)")


class Undervoltage(Fault):
    """The supply sags. ARGUMENT: the share of the voltage that is left."""

    usual = 0.92

    def sensor(self, path: str, node: Node, now: Now) -> Node:
        if not _VOLTAGE.fullmatch(path):
            return node

        def read() -> str:
            text = node.read()
            return text if not self.is_on(now()) else _first_times(text, self.argument)

        return replace(node, read=read)


class RailFreeze(Fault):
    """Power monitors go on showing what they showed when it began."""

    def sensor(self, path: str, node: Node, now: Now) -> Node:
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


class RailStale(Fault):
    """Power monitors show a new value only now and then. ARGUMENT: every how many seconds."""

    usual = 2.0

    def sensor(self, path: str, node: Node, now: Now) -> Node:
        if not _VALUE.fullmatch(path):
            return node
        held: dict[int, str] = {}

        def read() -> str:
            if not self.is_on(now()) or self.argument <= 0:
                return node.read()
            turn = int((now() - self.start_s) / self.argument)
            if turn not in held:
                text = node.read()
                held.clear()
                held[turn] = text
            return held[turn]

        return replace(node, read=read)


class RailEagain(Fault):
    """Power monitors answer EAGAIN, all files alike at one moment. ARGUMENT: in which share of the moments."""

    usual = 0.5

    def sensor(self, path: str, node: Node, now: Now) -> Node:
        if not _VALUE.fullmatch(path):
            return node

        def read() -> str:
            busy = random.Random(f"{now():.9f}").random() < self.argument
            return fail(errno.EAGAIN, path) if busy and self.is_on(now()) else node.read()

        return replace(node, read=read)


class RailNegative(Fault):
    """Power monitors show currents the other way round."""

    def sensor(self, path: str, node: Node, now: Now) -> Node:
        if not _POWER.fullmatch(path):
            return node

        def read() -> str:
            return re.sub(r"(\d+)\s*$", r"-\1\n", node.read()) if self.is_on(now()) else node.read()

        return replace(node, read=read)


class RailMissing(Fault):
    """The files of the power monitors are gone, as when their driver is not loaded."""

    def sensor(self, path: str, node: Node, now: Now) -> Node:
        return replace(node, present=lambda: not self.is_on(now()))


class SamplerDead(Fault):
    """Power monitors do not answer on their bus any more: EREMOTEIO."""

    def sensor(self, path: str, node: Node, now: Now) -> Node:
        if not _VALUE.fullmatch(path):
            return node

        def read() -> str:
            return fail(errno.EREMOTEIO, path) if self.is_on(now()) else node.read()

        return replace(node, read=read)


def _first_times(text: str, share: float) -> str:
    first, *rest = text.split()
    return " ".join([str(round(int(first) * share)), *rest]) + "\n"
