"""Frozen records that cross the seam between the host and a board.

Times are the board's monotonic clock in seconds, rates are hertz, sizes are bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Value = int | str
"""A knob's typed value: hertz, a plain number, 0 or 1 for a switch, or a word such as a governor."""

Result = Literal["applied", "unchanged", "clamped", "refused", "absent", "needs-reboot", "restored", "left"]
"""What became of a knob. ``restored`` and ``left`` (changed by someone else since) come from an undo only."""


@dataclass(frozen=True)
class Step:
    """One change of one knob. ``was`` is None when the knob could not be read."""

    knob: str
    value: Value
    was: Value | None
    why: str


@dataclass(frozen=True)
class Apply:
    """Steps to apply in order, for ``owner``. With ``lease`` they last until undone or until the link ends.

    After ``ttl_s``, if that is not 0, the board puts them back by itself. With ``reboot`` it may reboot for a power
    mode that takes one; it may then not come to answer.
    """

    steps: tuple[Step, ...]
    owner: str
    lease: bool = False
    ttl_s: float = 0.0
    reboot: bool = False


@dataclass(frozen=True)
class Undo:
    """Puts back what was found, by a lease or by `apply` (``lease`` ""). ``force``: also what others changed.

    ``others`` ends a lease whoever holds it.
    """

    lease: str = ""
    force: bool = False
    others: bool = False


@dataclass(frozen=True)
class Outcome:
    """What became of a step, read back from the board. ``now`` is the value found after the write."""

    knob: str
    was: Value | None
    now: Value | None
    result: Result
    why: str = ""


@dataclass(frozen=True)
class Written:
    """What became of a write: a row per knob in the order of writing, and the lease that now holds them, if any."""

    outcomes: tuple[Outcome, ...]
    lease: str = ""


@dataclass(frozen=True)
class Text:
    """A file as read: its text, or the errno name that the kernel answered (``ENOENT``, ``EACCES`` ...)."""

    text: str = ""
    error: str = ""


@dataclass(frozen=True)
class Knob:
    """A setting found on the board.

    ``choices`` are the values that the driver lists (hertz or words, ascending for rates; empty when it lists none),
    ``low`` and ``high`` the limits that it reports; a lower ``high`` is set by ``capped_by``, a power mode. ``value``
    is None when it could not be read (``error`` says why) or when the driver says that it does not apply now.
    """

    id: str
    path: str
    kind: Literal["hz", "int", "bool", "text"]
    value: Value | None
    text: str
    choices: tuple[Value, ...] = ()
    low: int | None = None
    high: int | None = None
    error: str = ""
    capped_by: str = ""


@dataclass(frozen=True)
class Snapshot:
    """The settable state of a board at one moment. ``absent`` are knobs that this board or release does not have."""

    knobs: Mapping[str, Knob]
    absent: tuple[str, ...] = ()

    def nodes(self) -> dict[str, str]:
        """Returns {path: text} of the settable nodes that could be read."""
        return {k.path: k.text for k in self.knobs.values() if not k.error}


@dataclass(frozen=True)
class Readout:
    """Files that were read, by path, and the settable nodes where they were asked for."""

    texts: Mapping[str, Text]
    settings: Snapshot | None = None


@dataclass(frozen=True)
class Rail:
    """A power rail found on the board. ``parent`` names the rail that contains it, "" for none."""

    id: str
    path: str
    parent: str = ""
    place: str = ""


@dataclass(frozen=True)
class Reading:
    """A number that the board reports and nobody sets: a current clock rate, a temperature, a load."""

    id: str
    path: str
    unit: str


@dataclass(frozen=True)
class Facts:
    """What the board said of itself in its first message."""

    board: str
    model: str
    l4t: str
    kernel: str
    serial: str
    machine: str
    python: str
    cpus: int
    memory_bytes: int
    boot_id: str
    user: str
    cache: str
    root: bool
    simulated: bool
    cpu_model: str = ""
    wall_s: float = 0.0
    cache_free_bytes: int = 0


@dataclass(frozen=True)
class Blob:
    """Something to put on the board under ``name``: bytes in memory or a file of this machine."""

    name: str
    data: bytes = b""
    path: Path | None = None


@dataclass(frozen=True)
class Sampling:
    """What to sample while a job runs: rails at ``rate_hz`` (dithered by ``seed``), readings at ``watch_hz``."""

    rails: tuple[str, ...] = ()
    rate_hz: float = 20.0
    readings: tuple[str, ...] = ()
    watch_hz: float = 1.0
    seed: int = 0


@dataclass(frozen=True)
class Job:
    """A command to run on the board; no shell. Without ``argv`` nothing runs and ``duration_s`` is only sampled.

    A job that lasts longer than ``timeout_s`` is killed. ``note`` is kept beside it on the board, for whoever picks
    it up: with ``resume`` nothing is started, the job that was left running tells all it said, and goes on.
    """

    argv: tuple[str, ...] = ()
    stdin: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    duration_s: float = 0.0
    timeout_s: float = 3600.0
    note: str = ""
    resume: bool = False
    sampling: Sampling | None = None


@dataclass(frozen=True)
class Line:
    """One line that a job printed, without its newline, stamped on the board as it arrived there."""

    t_s: float
    source: Literal["stdout", "stderr"]
    text: str


@dataclass(frozen=True)
class Series:
    """The samples of one channel. ``values[i]`` was read at ``times_s[i]``; None where the read failed.

    Watts for rails, the reading's own unit otherwise. ``late_s`` is the mean lateness against the asked times.
    """

    id: str
    times_s: tuple[float, ...]
    values: tuple[float | None, ...]
    late_s: float = 0.0


@dataclass(frozen=True)
class Ended:
    """The end of a job. ``reason`` is "" for a normal exit, else "timeout", "cancelled" or "signal N"."""

    exit_code: int
    started_s: float
    ended_s: float
    reason: str = ""


@dataclass(frozen=True)
class Completed:
    """A finished job with all it printed. ``series`` holds what was sampled beside it."""

    argv: tuple[str, ...]
    exit_code: int
    lines: tuple[Line, ...]
    series: tuple[Series, ...]
    started_s: float
    ended_s: float
    reason: str = ""

    def text(self, source: Literal["stdout", "stderr"] = "stdout") -> str:
        """Returns what the job printed on one of its two outputs."""
        return "".join(line.text + "\n" for line in self.lines if line.source == source)


Event = Line | Series | Ended


@dataclass(frozen=True)
class Held:
    """Settings in force that will be put back: whose, since when, which, in how many seconds (None: not by itself)."""

    owner: str
    since_wall_s: float
    knobs: tuple[str, ...]
    left_s: float | None = None


@dataclass(frozen=True)
class Journal:
    """What the board remembered when the connection was opened: what ``apply`` set, and what a running measurement did.

    ``notes`` say what was dropped or put back on that occasion, and why.
    """

    apply: Held | None = None
    lease: Held | None = None
    notes: tuple[str, ...] = ()
