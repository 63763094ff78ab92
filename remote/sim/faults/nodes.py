"""Faults of the files through which clocks are set."""

from __future__ import annotations

import errno
import re
from dataclasses import replace
from typing import ClassVar

from remote.sim.faults.fault import Fault, Now
from remote.sim.kernel.node import Node, fail

_RATES = {
    "gpu": re.compile(
        r".*/override\.gbus/(rate|state)|.*/(devfreq/[^/]+|devfreq_dev)/(min_freq|max_freq|governor|userspace/set_freq)"
    ),
    "emc": re.compile(
        r".*/override\.emc/[\w.]+|.*/clk/emc/\w+|.*/nvpmodel_emc_cap/\w+|.*/nvpmodel_clk_cap/emc"
        r"|.*/devfreq/bwmgr/(min_freq|max_freq|governor)"
    ),
    "cpu": re.compile(r".*/cpufreq/(.*/)?scaling_(governor|setspeed|min_freq|max_freq)"),
}


class _Writes(Fault):
    """Something becomes of what is written to the files of one clock."""

    words: ClassVar[tuple[str, ...]] = tuple(_RATES)

    def node(self, path: str, node: Node, now: Now) -> Node:
        if node.write is None or self._clock(path) != self.words[int(self.argument)]:
            return node
        take = node.write

        def write(text: str) -> None:
            if self.is_on(now()):
                self.instead(path)
            else:
                take(text)

        return replace(node, write=write)

    def _clock(self, path: str) -> str:
        """Returns whose rates a file sets, "" for another file."""
        return next((name for name in ("emc", "gpu", "cpu") if _RATES[name].fullmatch(path)), "")

    def instead(self, path: str) -> None:
        """Answers a write to ``path``."""


class WriteRefused(_Writes):
    """Nothing can be written to the files that set a clock: EINVAL. ARGUMENT: gpu, emc or cpu."""

    def instead(self, path: str) -> None:
        fail(errno.EINVAL, path)


class WriteIgnored(_Writes):
    """What is written to the files that set a clock is taken and changes nothing. ARGUMENT: gpu, emc or cpu."""
