"""The result record: what a measurement leaves behind. SI units throughout; ``ci95`` is [low, high].

Schema history:
1  first version
2  host_latency_s; engine has layers, outputs and protocol
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgeperf.verdict import Verdict
from engines.toolchains import Built

SCHEMA = 2


@dataclass(frozen=True)
class Figure:
    """A measured value with its 95 % interval; None where the samples do not carry one."""

    value: float
    ci95: tuple[float, float] | None


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
    """Watts during the run. ``scope`` says what ``total`` covers, ``leaves_out`` what it does not."""

    total: float
    ci95: tuple[float, float] | None
    rails: Mapping[str, float]
    scope: str
    leaves_out: str
    idle_total: float | None


@dataclass(frozen=True)
class Sampling:
    """How the rails were sampled. ``fresh_share`` is the share of samples that differ from the one before."""

    asked_hz: float
    achieved_hz: float
    fresh_share: float


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
class Bench:
    """One measurement; docs/result.md explains every field. ``bounds`` is None where no peaks are known."""

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
    bounds: Mapping[str, float] | None
    verdict: Verdict
    notes: tuple[str, ...]
    protocol: str
    samples_s: tuple[float, ...]
    rail_samples_w: Mapping[str, Any]
    engine: Mapping[str, Any]
    made_with: Mapping[str, str]


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
