"""The result record: what a measurement leaves behind. SI units throughout; ``ci95`` is [low, high].

Schema history:
1  first version
2  host_latency_s; engine has layers, outputs and protocol
3  repeats, between, over_time, cooling, no_gain, raw; records of kind exec; absolute95, edp, scatter, and in power_w
   carrier, net_of_idle and settling_s
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from edgeperf.verdict import Verdict
from engines.toolchains import Built

SCHEMA = 3


@dataclass(frozen=True)
class Figure:
    """A measured value with two 95 % intervals; None where the samples do not carry one.

    ``ci95`` is repeatability: where the next run on this board would be. ``absolute95`` should contain the truth: it
    adds what the sensors may be off by, and is None where that is not known or no sensor is involved.
    """

    value: float
    ci95: tuple[float, float] | None
    absolute95: tuple[float, float] | None = None


@dataclass(frozen=True)
class Latency:
    """Seconds per batch; a percentile is None where too few samples carry it. ``scope`` says what was timed."""

    mean: float
    p50: float | None
    p90: float | None
    p95: float | None
    p99: float | None
    scope: str


@dataclass(frozen=True)
class Power:
    """Watts during the run. ``scope`` says what ``total`` covers, ``leaves_out`` what it does not.

    ``carrier`` are rails outside of the total, such as the carrier board's; all others are in ``rails``. Of the window
    the first ``settling_s`` were left out, while sensors that average still showed the load before. ``net_of_idle`` is
    the total less ``idle_total``: a figure of its own, that no other is made of.
    """

    total: float
    ci95: tuple[float, float] | None
    rails: Mapping[str, float]
    scope: str
    leaves_out: str
    idle_total: float | None
    absolute95: tuple[float, float] | None = None
    carrier: Mapping[str, float] = field(default_factory=dict)
    net_of_idle: Figure | None = None
    settling_s: float = 0.0


@dataclass(frozen=True)
class Scatter:
    """How single batches scatter. All of them count in every figure.

    ``variation`` is the coefficient of variation: standard deviation / mean. ``outliers`` lie far from the median, the
    farthest by the share ``farthest`` of it. The run was not yet steady for its first ``unsteady`` batches, which took
    longer than the rest by the share ``slower``; ``unsteady`` is None where it never settled.
    """

    variation: float
    outliers: int
    farthest: float
    unsteady: int | None
    slower: float


@dataclass(frozen=True)
class Sampling:
    """How the rails were sampled. ``fresh_share`` is the share of samples that differ from the one before.

    ``source`` is what read them: "sysfs" for the board's own sensors, or "tegrastats" or "jtop".
    """

    asked_hz: float
    achieved_hz: float
    fresh_share: float
    source: str = "sysfs"


@dataclass(frozen=True)
class Rates:
    """Clocks in hertz; None where nothing was asked or nothing could be read."""

    cpu_hz: int | None
    gpu_hz: int | None
    emc_hz: int | None


@dataclass(frozen=True)
class Clocks:
    """The profile, what it asked for, and what the drivers reported under load."""

    profile: str | None
    asked: Rates
    effective: Rates


@dataclass(frozen=True)
class Spec:
    """What was measured. ``key`` is the engine's content key."""

    model: str
    precision: str
    batch: int
    toolchain: str
    key: str
    precision_found: str | None
    seed: int


@dataclass(frozen=True)
class BoardInfo:
    """The board's identity as it said it."""

    name: str
    model: str
    l4t: str
    serial: str
    kernel: str
    machine: str
    cpus: int
    memory_bytes: int


@dataclass(frozen=True)
class Cooling:
    """The wait for a board to cool down: the hottest zone before and after it in degrees Celsius, and its seconds."""

    asked_c: float
    start_c: float
    end_c: float
    waited_s: float


@dataclass(frozen=True)
class Repeat:
    """One of several runs under one lease, with its own figures and samples; fields are as in `Bench`."""

    throughput_per_s: Figure | None
    latency_s: Latency | None
    host_latency_s: Latency | None
    power_w: Power | None
    images_per_s_per_w: Figure | None
    energy_j_per_image: Figure | None
    edp: Figure | None
    conditions: Mapping[str, Any]
    cooling: Cooling | None
    verdict: Verdict
    samples_s: tuple[float, ...]
    rail_samples_w: Mapping[str, Any]


@dataclass(frozen=True)
class Spread:
    """How a figure differs between runs: their mean, its 95 % interval by Student's t, their standard deviation."""

    runs: int
    mean: float
    ci95: tuple[float, float]
    deviation: float


@dataclass(frozen=True)
class Part:
    """A span of a long run, in seconds since its window began. None where nothing was read in it.

    ``power_w`` is the mean of the rails that make up the total, ``lowest_hz`` has the lowest reading of each clock.
    """

    start_s: float
    stop_s: float
    throughput_per_s: float | None
    power_w: float | None
    hottest_c: float | None
    lowest_hz: Mapping[str, float]


@dataclass(frozen=True)
class Bench:
    """One measurement; docs/result.md explains every field. ``bounds`` is None where no peaks are known.

    Of several runs the figures are the means over ``repeats``, and ``between`` says by figure how the runs differ.
    ``over_time`` has the parts of a soak. ``no_gain`` has the layers that FP16 did not speed up, where a run in FP32
    was measured too. ``raw`` is what the record was made from, beside the samples.
    """

    schema: int
    kind: str
    simulated: bool
    created: str
    host: str
    board: BoardInfo
    spec: Spec
    clocks: Clocks
    throughput_per_s: Figure | None
    latency_s: Latency | None
    host_latency_s: Latency | None
    power_w: Power | None
    power_missing: str | None
    images_per_s_per_w: Figure | None
    energy_j_per_image: Figure | None
    edp_js: float | None
    sampling: Sampling | None
    conditions: Mapping[str, Any]
    bounds: Mapping[str, Any] | None
    verdict: Verdict
    notes: tuple[str, ...]
    protocol: str
    samples_s: tuple[float, ...]
    rail_samples_w: Mapping[str, Any]
    engine: Mapping[str, Any]
    made_with: Mapping[str, str]
    repeats: tuple[Repeat, ...] = ()
    between: Mapping[str, Spread] = field(default_factory=dict)
    over_time: tuple[Part, ...] = ()
    cooling: Cooling | None = None
    edp: Figure | None = None
    scatter: Scatter | None = None
    no_gain: Mapping[str, Any] | None = None
    raw: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Exec:
    """A command that was measured on a board. ``ended`` is "" for its own end, else as in `remote.types.Ended`.

    ``energy_j`` is what the board took while it ran, idle power included.
    """

    schema: int
    kind: str
    simulated: bool
    created: str
    host: str
    board: BoardInfo
    argv: tuple[str, ...]
    exit_code: int
    ended: str
    duration_s: float
    limit_s: float | None
    clocks: Clocks
    power_w: Power | None
    power_missing: str | None
    energy_j: Figure | None
    sampling: Sampling | None
    conditions: Mapping[str, Any]
    verdict: Verdict
    notes: tuple[str, ...]
    rail_samples_w: Mapping[str, Any]
    made_with: Mapping[str, str]
    raw: Mapping[str, Any] | None = None

    @property
    def failed(self) -> bool:
        """Says whether the command ended badly. One that was interrupted as asked, after its time, did not."""
        return self.exit_code != 0 and self.ended != "duration"


@dataclass(frozen=True)
class Build:
    """An engine made, or found, on a board. ``built`` is None where a toolchain has nothing to tell."""

    schema: int
    kind: str
    simulated: bool
    host: str
    board: str
    l4t: str
    spec: Spec
    built: Built | None
    versions: Mapping[str, str]
    notes: tuple[str, ...]


def plain(value: Any) -> Any:
    """Returns a record as dictionaries, lists and numbers. Long tuples of numbers pass through untouched."""
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return value if value and isinstance(value[0], float) else [plain(item) for item in value]
    return value


def to_json(value: Any, *, indent: int | None = None) -> str:
    """Returns a record as JSON. Numbers that are not finite never get this far: ValueError."""
    return json.dumps(plain(value), indent=indent, allow_nan=False)
