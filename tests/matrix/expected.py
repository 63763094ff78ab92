"""What each command is to do about each fault, and why: written down before it is tried.

An expectation is ``CODE [VERDICT] [REMARK, ...] [| what is said]``: the exit code; the verdict of the record that is
kept, where one is; the reasons of that verdict, of maxperf what became of settings beside being applied, of rails what
its summary warns of; and a piece of the error where there is one. Where a fault that is there from the start does
something else than one that begins in the middle of the command, there are two.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_SHAPE = re.compile(r"(\d+)(?: (VALID|DEGRADED|INVALID))?(?: ([a-z][\w, -]*))?(?: \| (.+))?", re.ASCII)

INCIDENTAL = ("stale-samples", "coarse-sensors", "few-samples", "drift")
"""Reasons that may come with others: how fast a rail moves is not what is looked at here."""

FOLLOWING = (*INCIDENTAL, "sampler-dead", "rail-frozen", "rail-unreadable", "throttled")
"""Those that may come with another that makes a result INVALID: what one sensor does wrong has several signs."""


@dataclass(frozen=True)
class Cell:
    """What a command ends with; see the module."""

    code: int
    verdict: str = ""
    remarks: tuple[str, ...] = ()
    said: str = ""

    @classmethod
    def parse(cls, text: str) -> Cell:
        """Returns what a line says. Raises ValueError."""
        match = _SHAPE.fullmatch(text)
        if match is None:
            raise ValueError(f"{text!r} is no expectation")
        code, verdict, remarks, said = match.groups()
        return cls(int(code), verdict or "", tuple(remarks.split(", ")) if remarks else (), said or "")


@dataclass(frozen=True)
class Row:
    """A fault as it is named (``@`` stands for @START), and the cells of each command: from the start, in the middle.

    A command that takes no time on the board has the first only. ``words`` are given to the commands named beside what
    they are always given. A ``cold`` board has no engine yet. It may take ``slack_s`` longer than without the fault.
    Another toolchain or another moment may give the exit codes ``also``; with ``once`` the middle is not looked at.
    """

    fault: str
    maxperf: str
    bench: tuple[str, ...]
    rails: tuple[str, ...]
    exec: tuple[str, ...]
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    cold: bool = False
    slack_s: float = 0.0
    also: tuple[int, ...] = ()
    once: bool = False

    @property
    def name(self) -> str:
        """Returns the fault's name."""
        return self.fault.partition("@")[0]

    def at(self, start_s: float) -> str:
        """Returns the fault from a moment on, as an option takes it."""
        name, _, rest = self.fault.partition("@")
        return f"{name}@{start_s:.3f}{rest}"

    def cells(self, command: str) -> tuple[Cell, ...]:
        """Returns what a command does: where the fault is there from the start, and where it begins in the middle."""
        texts = (self.maxperf,) if command == "maxperf" else getattr(self, command)
        first, *rest = map(Cell.parse, texts)
        return (first,) if command == "maxperf" or self.once else (first, *(rest or [first]))
