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
class Sensor:
    """What measures a rail, as far as the board says so. ``kind`` "" is a sensor of which nothing is known.

    ``volts`` is the bus voltage when it was looked at; one number shown stands for ``conversion_s`` of the rail. A
    "triggered" sensor converts at each reading, a "continuous" one by itself.
    """

    kind: Literal["ina3221", "ina238", "rapl", "hwmon", "probe", ""] = ""
    shunt_ohm: float | None = None
    volts: float | None = None
    conversion_s: float | None = None
    mode: Literal["continuous", "triggered", ""] = ""


@dataclass(frozen=True)
class Rail:
    """A power rail found on the board. ``parent`` names the rail that contains it, "" for none."""

    id: str
    path: str
    parent: str = ""
    place: str = ""
    sensor: Sensor | None = None


@dataclass(frozen=True)
class Reading:
    """A number that the board reports and nobody sets: a current clock rate, a temperature, a load."""

    id: str
    path: str
    unit: str


@dataclass(frozen=True)
class Facts:
    """What the board said of itself in its first message. ``twin`` is the name of a simulated one."""

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
    twin: str = ""


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

    A command that still runs after a ``duration_s`` above 0 is ended as by Ctrl-C; what it then says is told.

    A job that lasts longer than ``timeout_s`` is killed. ``note`` is kept beside it on the board, for whoever picks
    it up: with ``resume`` nothing is started, the job that was left running tells all it said, and goes on.

    ``beside`` is a second command that runs as long as the job does. What it prints is kept on the board, each line
    with the time at which it came, and is told after the job: `Line` events of source "beside".
    """

    argv: tuple[str, ...] = ()
    stdin: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    duration_s: float = 0.0
    timeout_s: float = 3600.0
    note: str = ""
    resume: bool = False
    sampling: Sampling | None = None
    beside: tuple[str, ...] = ()


@dataclass(frozen=True)
class Line:
    """One line that a job printed, without its newline, stamped on the board as it arrived there.

    ``source`` "beside" is what the command beside the job printed on its standard output.
    """

    t_s: float
    source: Literal["stdout", "stderr", "beside"]
    text: str


@dataclass(frozen=True)
class Series:
    """The samples of one channel. ``values[i]`` was read at ``times_s[i]``; None where the read failed.

    Watts for rails, the reading's own unit otherwise. Against the asked times samples came ``late_s`` late in the mean,
    ``late_worst_s`` at worst; ``missed`` of them were left out.
    """

    id: str
    times_s: tuple[float, ...]
    values: tuple[float | None, ...]
    late_s: float = 0.0
    late_worst_s: float = 0.0
    missed: int = 0


@dataclass(frozen=True)
class Ended:
    """The end of a job. ``reason``: "" for a normal exit, else "duration", "timeout", "cancelled" or "signal N".

    ``silent_s`` is the longest time for which the line said nothing, where the board is to say regularly that it is
    there.
    """

    exit_code: int
    started_s: float
    ended_s: float
    reason: str = ""
    silent_s: float = 0.0


@dataclass(frozen=True)
class Completed:
    """A finished job with all it printed. ``series`` holds what was sampled, ``beside`` what its neighbour said."""

    argv: tuple[str, ...]
    exit_code: int
    lines: tuple[Line, ...]
    series: tuple[Series, ...]
    started_s: float
    ended_s: float
    reason: str = ""
    beside: tuple[Line, ...] = ()
    silent_s: float = 0.0

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
