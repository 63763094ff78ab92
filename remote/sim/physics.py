"""Work -> time, power and heat. Pure: no clock, no files.

Time per layer = max(arithmetic, memory) + launches. A matrix product is done in tiles, of which each multiprocessor
takes one at a time: what does not fill a tile, or the last round of tiles, is waited for all the same.
Power = idle + busy GPU + J per operation + J per byte + busy CPU cores, each scaled with the clocks.
Heat = two stages, each a capacity behind a resistance.

Dynamic power goes with f V^2, energy per operation with V^2; bandwidth with the EMC clock, launches with the CPU clock.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, Literal, TypeVar, cast
from zlib import crc32

Precision = Literal["fp32", "fp16"]
Bound = Literal["arithmetic", "memory", "launch"]
Record = TypeVar("Record")
CHANNELS = ("CPU", "GPU", "SOC", "DDR_IO", "DDR")

# Rows, columns and relative speed of the tiles that a library chooses from. Assumed: these are usual sizes; a small
# tile reads more of its operands per operation, which makes it slower.
_TILES = ((128, 128, 1.0), (128, 64, 1.0), (64, 64, 0.9), (128, 32, 0.8), (64, 32, 0.7), (32, 32, 0.55))

# Assumed: by how much more than its tiles a product may take, as kernels suit some sizes better than others. How much
# of it is drawn from the size, always alike; equal rounds of equal tiles take equal time, so that twice the work never
# takes less.
_ROUGHNESS = 0.4


@dataclass(frozen=True)
class Clocks:
    """Rates in effect, in hertz, how many CPU cores are online, and which part of the GPU's lanes is not gated."""

    cpu_hz: float
    gpu_hz: float
    emc_hz: float
    cpus: int = 4
    gpu_share: float = 1.0


@dataclass(frozen=True)
class Activity:
    """What the silicon is doing: rates averaged over the action, busy CPU cores, share of time the GPU is busy."""

    flops_per_s: float = 0.0
    bytes_per_s: float = 0.0
    precision: Precision = "fp32"
    gpu_load: float = 0.0
    cpu_load: float = 0.0


@dataclass(frozen=True)
class Work:
    """What one layer asks of the GPU, for a whole batch.

    ``flops`` are operations, a multiply-accumulate counting as two; ``bytes`` are read or written in memory.
    ``outputs`` are results that are accumulated over many terms, 0 in a layer without such. A matrix product makes
    ``groups`` times ``rows`` x ``columns`` of them; 0 rows where that limits nothing. ``winograd`` says that Winograd's
    method applies, which needs fewer operations than are counted.
    """

    name: str
    flops: float
    bytes: float
    outputs: float = 0.0
    precision: Precision = "fp32"
    launches: float = 1.0
    rows: int = 0
    columns: int = 0
    groups: int = 1
    winograd: bool = False


@dataclass(frozen=True)
class Gpu:
    """What the chip can do at best: ``lanes`` in multiprocessors of ``lanes_per_sm``.

    ``reference_cpu_hz`` is the CPU clock at which launch times were measured.
    """

    lanes: int
    lanes_per_sm: int
    fp16_rate: float
    bytes_per_emc_clock: float
    reference_cpu_hz: float


@dataclass(frozen=True)
class TimeConstants:
    """How near a library comes to that best.

    The efficiencies are shares of the peak. ``macs_per_output`` is what starting and ending an accumulation costs, in
    multiply-accumulates at the FP32 peak; ``winograd`` how much faster products are that Winograd's method applies to.
    """

    fp32_efficiency: float
    fp16_efficiency: float
    bandwidth_efficiency: float
    launch_s: float
    macs_per_output: float = 0.0
    winograd: float = 1.0


@dataclass(frozen=True)
class LayerTime:
    """How long a layer takes, in seconds: ``seconds``, and what arithmetic, memory and launches alone would take."""

    name: str
    seconds: float
    arithmetic_s: float
    memory_s: float
    launch_s: float

    @property
    def bound(self) -> Bound:
        """What takes most of this layer's time."""
        if self.launch_s >= max(self.arithmetic_s, self.memory_s):
            return "launch"
        return "arithmetic" if self.arithmetic_s > self.memory_s else "memory"


def layer_time(work: Work, clocks: Clocks, gpu: Gpu, constants: TimeConstants) -> LayerTime:
    """Returns how long ``work`` takes, in seconds."""
    arithmetic = arithmetic_s(tiled(work, gpu, clocks.gpu_share), clocks, gpu, constants)
    memory, launch = memory_s(work, clocks, gpu, constants), launch_s(work, clocks, gpu, constants)
    return LayerTime(work.name, max(arithmetic, memory) + launch, arithmetic, memory, launch)


def tiled(work: Work, gpu: Gpu, gpu_share: float = 1.0) -> Work:
    """Returns ``work`` with the operations that its tiles stand for, full or not, done by that share of the lanes."""
    if not work.rows:
        return work
    sms = max(1, round(gpu.lanes * gpu_share / gpu.lanes_per_sm))
    return replace(work, flops=work.flops * _padding(work.rows, work.columns, work.groups, sms), rows=0)


@lru_cache(maxsize=4096)
def _padding(rows: int, columns: int, groups: int, sms: int) -> float:
    """Returns how many times longer a product takes than without tiles, with the best choice of tiles."""

    def padded(high: int, wide: int, speed: float) -> float:
        rounds = math.ceil(groups * math.ceil(rows / high) * math.ceil(columns / wide) / sms)
        luck = crc32(f"{rows} {groups} {rounds} {high} {wide}".encode()) / 2**32
        return rounds * sms * high * wide / speed * (1 + _ROUGHNESS * luck)

    return min(padded(*tile) for tile in _TILES) / (groups * rows * columns)


def arithmetic_s(work: Work, clocks: Clocks, gpu: Gpu, constants: TimeConstants) -> float:
    """Returns the seconds that the operations alone take; those of tiles are counted if ``work`` is `tiled`."""
    speed = gpu.fp16_rate * constants.fp16_efficiency if work.precision == "fp16" else constants.fp32_efficiency
    products = work.flops / (speed * (1 + (constants.winograd - 1) * work.winograd))
    return (products + 2 * constants.macs_per_output * work.outputs) / (
        2 * gpu.lanes * clocks.gpu_share * clocks.gpu_hz
    )


def memory_s(work: Work, clocks: Clocks, gpu: Gpu, constants: TimeConstants) -> float:
    """Returns the seconds that moving the bytes alone takes."""
    return work.bytes / (gpu.bytes_per_emc_clock * clocks.emc_hz * constants.bandwidth_efficiency)


def launch_s(work: Work, clocks: Clocks, gpu: Gpu, constants: TimeConstants) -> float:
    """Returns the seconds that the CPU needs to start the layer."""
    return work.launches * constants.launch_s * gpu.reference_cpu_hz / clocks.cpu_hz


def activity(works: Sequence[Work], times: Sequence[LayerTime], spinning: bool) -> Activity:
    """Returns what the silicon does while ``works`` run over and over.

    With ``spinning`` a CPU core waits busily for the GPU; else the CPU works only to start layers.
    """
    seconds = sum(t.seconds for t in times)
    return Activity(
        flops_per_s=sum(w.flops for w in works) / seconds,
        bytes_per_s=sum(w.bytes for w in works) / seconds,
        precision=works[0].precision,
        gpu_load=sum(max(t.arithmetic_s, t.memory_s) for t in times) / seconds,
        cpu_load=1.0 if spinning else min(1.0, sum(t.launch_s for t in times) / seconds),
    )


@dataclass(frozen=True)
class PowerConstants:
    """Fitted. ``idle_w``: everything on and nothing running; ``gpu_busy_w``: added by a GPU that is never idle.

    Both in watts at the reference clocks. ``j_per_flop`` is for FP32 there, ``j_per_byte`` for memory.
    """

    idle_w: float
    gpu_busy_w: float
    j_per_flop: float
    j_per_byte: float


@dataclass(frozen=True)
class Domain:
    """A clock and its voltage, which rises from ``low_v`` at ``low_hz`` to ``high_v`` at ``high_hz``.

    Assumed: with the square of the clock's distance, as the last operating points cost most. ``reference_hz`` is where
    power was fitted.
    """

    reference_hz: float
    low_hz: float
    high_hz: float
    low_v: float
    high_v: float

    def energy(self, hz: float) -> float:
        """Returns V^2 at ``hz`` relative to the reference: what an operation costs."""
        return (self._volts(hz) / self._volts(self.reference_hz)) ** 2

    def effort(self, hz: float) -> float:
        """Returns f V^2 at ``hz`` relative to the reference: what a running clock costs."""
        return hz / self.reference_hz * self.energy(hz)

    def _volts(self, hz: float) -> float:
        rise = (hz - self.low_hz) / (self.high_hz - self.low_hz)
        return self.low_v + max(0.0, rise) ** 2 * (self.high_v - self.low_v)


@dataclass(frozen=True)
class Electrics:
    """Assumed: where power goes and how it follows the clocks.

    ``idle`` is each channel's part of the idle power, ``fixed`` the part of that which no clock changes; ``byte`` is
    each channel's part of the energy of a byte. ``module_w`` is what a module draws besides the five channels,
    ``carrier_w`` what its carrier does. ``rails`` says what each power rail feeds: channels, MODULE, CARRIER, TOTAL.
    """

    cpu: Domain
    gpu: Domain
    emc_reference_hz: float
    cores: int
    idle: Mapping[str, float]
    fixed: Mapping[str, float]
    byte: Mapping[str, float]
    fp16_energy: float
    core_w: float
    module_w: float
    rails: Mapping[str, Sequence[str]]
    carrier_w: float = 0.0


@dataclass(frozen=True)
class PowerModel:
    """All that `power` needs to know of a board."""

    constants: PowerConstants
    electrics: Electrics

    @classmethod
    def of(cls, twin: Mapping[str, Any]) -> PowerModel:
        """Returns the model in a board's table in boards/twins: its entries ``power`` and ``electrics``."""
        table = dict(twin["electrics"])
        table |= {name: record(Domain, table[name]) for name in ("cpu", "gpu")}
        return cls(record(PowerConstants, twin["power"]), record(Electrics, table))


def power(activity: Activity, clocks: Clocks, model: PowerModel) -> dict[str, float]:
    """Returns watts per channel and per rail of the board.

    CPU, GPU, SOC, DDR_IO and DDR are measured before the regulators and add up to the power of chip and memory; TOTAL
    is that sum with the rest of the module. Never falls when a clock rises under the same activity.
    """
    known, e = model.constants, model.electrics
    cpu, gpu, emc = e.cpu.effort(clocks.cpu_hz), e.gpu.effort(clocks.gpu_hz), clocks.emc_hz / e.emc_reference_hz
    gpu *= clocks.gpu_share
    clocked = {"CPU": cpu * clocks.cpus / e.cores, "GPU": gpu, "SOC": emc, "DDR_IO": emc, "DDR": emc}
    watts = {
        name: known.idle_w * e.idle[name] * (e.fixed[name] + (1 - e.fixed[name]) * clocked[name])
        + known.j_per_byte * e.byte.get(name, 0.0) * activity.bytes_per_s
        for name in CHANNELS
    }
    watts["CPU"] += e.core_w * activity.cpu_load * cpu
    j_per_flop = (
        known.j_per_flop * (e.fp16_energy if activity.precision == "fp16" else 1.0) * e.gpu.energy(clocks.gpu_hz)
    )
    watts["GPU"] += known.gpu_busy_w * activity.gpu_load * gpu + j_per_flop * activity.flops_per_s
    watts |= {"TOTAL": sum(watts.values()) + e.module_w, "MODULE": e.module_w, "CARRIER": e.carrier_w}
    return watts | {rail: sum(watts[name] for name in fed) for rail, fed in e.rails.items()}


@dataclass(frozen=True)
class HeatPath:
    """From the die through the board, with its heat sink, to the air.

    Capacity and resistance of the two stages in J/K and K/W, and the air in degrees Celsius.
    """

    die_j_per_k: float
    die_k_per_w: float
    board_j_per_k: float
    board_k_per_w: float
    ambient_c: float


@dataclass(frozen=True)
class Heat:
    """How warm die and board are, in degrees Celsius."""

    die_c: float
    board_c: float

    @classmethod
    def settled(cls, path: HeatPath, watts: float) -> Heat:
        """Returns the temperatures after ``watts`` for ever."""
        board_c = path.ambient_c + watts * path.board_k_per_w
        return cls(board_c + watts * path.die_k_per_w, board_c)

    def after(self, path: HeatPath, watts: float, seconds: float) -> Heat:
        """Returns the temperatures after ``seconds`` of constant ``watts``: exact, however long."""
        end = Heat.settled(path, watts)
        die, board = self.die_c - end.die_c, self.board_c - end.board_c
        # d/dt (die, board) = A (die, board) for the distances from the end; A has two eigenvalues, real and negative.
        into_die = 1 / (path.die_j_per_k * path.die_k_per_w)
        into_board = 1 / (path.board_j_per_k * path.die_k_per_w)
        away = 1 / (path.board_j_per_k * path.board_k_per_w)
        mean, lost = -(into_die + into_board + away) / 2, into_die * away
        spread = math.sqrt(mean * mean - lost)
        slow, fast = lost / (mean - spread), mean - spread
        # exp(A t) = p I + q A, with p and q such that it holds for both eigenvalues.
        q = (math.exp(slow * seconds) - math.exp(fast * seconds)) / (slow - fast)
        p = math.exp(slow * seconds) - slow * q
        return Heat(
            end.die_c + p * die + q * into_die * (board - die),
            end.board_c + p * board + q * (into_board * (die - board) - away * board),
        )


def record(kind: type[Record], table: Mapping[str, Any]) -> Record:
    """Returns a ``kind`` from a TOML table, leaving out keys that it does not have, such as ``source``."""
    return kind(**{f.name: table[f.name] for f in fields(cast(Any, kind)) if f.name in table})
