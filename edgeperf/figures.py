"""From samples to figures: what a run and what was sampled beside it say. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from clockprofiles.targets import Asked
from edgeperf import power, stats
from edgeperf.record import Figure, Latency, Power, Rates, Sampling, Scatter
from edgeperf.stats import Estimate
from edgeperf.verdict import CLOCK_TOLERANCE, Evidence
from engines import toolchains
from engines.simulated.explain import explain
from engines.toolchains import EngineRun
from remote.boards import Total
from remote.sim.physics import Clocks
from remote.types import Outcome, Rail, Series

CLOCKS = ("cpu", "gpu", "emc")
_LOCKS = ("min", "max", "rate", "override")
_HELD_UP_TIMES = 3.0


@dataclass(frozen=True)
class Window:
    """What the measured window gave. None where there is nothing to say it from."""

    throughput: Estimate | None
    latency: Latency | None
    measured: power.Power | None
    power: Power | None
    power_missing: str | None
    images_per_s_per_w: Figure | None
    energy_j_per_image: Figure | None
    edp: Figure | None
    scatter: Scatter | None
    effective: Rates
    seen_hz: Mapping[str, Sequence[float | None]]
    conditions: Mapping[str, Any]
    power_expected: bool
    rail_series: tuple[Series, ...]
    seconds: float


def window(
    run: EngineRun,
    series: Sequence[Series],
    totals: Sequence[Total],
    rails: Mapping[str, Rail],
    idle: Sequence[Series],
) -> Window:
    """Returns the figures of a run, cut by its own marks."""
    seconds = run.stop_s - run.start_s
    rate = run.images_per_s
    images = run.iterations * run.batch
    speed = stats.throughput(images, 0.0, images / rate, run.latencies_s) if rate else None
    rail_series = tuple(item for item in series if item.id in rails)
    total = power.choose_total(totals, rails)
    found = _power(run, rail_series, total, rails)
    measured = found if isinstance(found, power.Power) else None
    readings = {item.id: _cut(item, run.start_s, run.stop_s) for item in series if item.id not in rails}
    seen = {name: readings[f"{name}.hz"].values for name in CLOCKS if f"{name}.hz" in readings}
    return Window(
        throughput=speed,
        latency=latency(run.latencies_s, run.scope),
        measured=measured,
        power=_watts(measured, _idle(idle, total, rails), rails) if measured else None,
        power_missing=found.why if isinstance(found, power.Missing) else None,
        images_per_s_per_w=_efficiency(speed, measured, 1, -1),
        energy_j_per_image=_efficiency(speed, measured, -1, 1),
        edp=_efficiency(speed, measured, -2, 1),
        scatter=scatter(run.latencies_s),
        effective=Rates(*(_middle(seen.get(name, ())) for name in CLOCKS)),
        seen_hz=seen,
        conditions=_conditions(readings),
        power_expected=total is not None and not run.power_missing,
        rail_series=rail_series,
        seconds=seconds,
    )


def _power(
    run: EngineRun, series: Sequence[Series], total: Total | None, rails: Mapping[str, Rail]
) -> power.Power | power.Missing:
    if run.power_missing:
        return power.Missing(run.power_missing)
    if not rails:
        return power.Missing("this machine has no power sensor that edgeperf can read")
    if run.stop_s <= run.start_s:
        return power.Missing("the run ended before its window began")
    # Batches are one load over and over, so nothing is lost with their beginning. A command may do what it likes.
    return power.measure(series, total, run.start_s, run.stop_s, rails, steady=run.iterations > 0)


def _idle(idle: Sequence[Series], total: Total | None, rails: Mapping[str, Rail]) -> power.Power | None:
    watched = [item for item in idle if item.id in rails]
    times = [moment for item in watched for moment in item.times_s]
    if not times or min(times) == max(times):
        return None
    found = power.measure(watched, total, min(times), max(times), rails, steady=True)
    return found if isinstance(found, power.Power) else None


def _watts(found: power.Power, idle: power.Power | None, rails: Mapping[str, Rail]) -> Power:
    total, means = found.total, {name: rail.value for name, rail in found.rails_w.items()}
    carrier = {name for name in means if rails[name].place == "carrier" and name not in found.accuracy}
    return Power(
        total=total.value,
        ci95=total.ci95,
        rails={name: watts for name, watts in means.items() if name not in carrier},
        scope=found.scope,
        leaves_out=found.leaves_out,
        idle_total=idle.total.value if idle else None,
        absolute95=found.absolute.ci95,
        carrier={name: watts for name, watts in means.items() if name in carrier},
        net_of_idle=figure(*found.net_of(idle)) if idle else None,
        settling_s=found.settling_s,
    )


def _efficiency(speed: Estimate | None, watts: power.Power | None, speeds: int, powers: int) -> Figure | None:
    """Returns a figure made of images per second and watts, each to a power, with what both intervals become."""
    if speed is None or watts is None:
        return None
    repeatable, absolute = (stats.product((speed, speeds), (known, powers)) for known in (watts.total, watts.absolute))
    return figure(repeatable, absolute)


def scatter(durations_s: Sequence[float]) -> Scatter | None:
    """Returns how times of single batches scatter, None for fewer than two."""
    if len(durations_s) < 2:
        return None
    far = stats.outliers(durations_s)
    start, slower = stats.beginning(durations_s)
    return Scatter(stats.variation(durations_s), len(far), max(far, key=abs, default=0.0), start, slower)


def latency(samples_s: Sequence[float], scope: str) -> Latency | None:
    """Returns mean and percentiles of times of single batches, None without any."""
    if not samples_s:
        return None
    ordered = sorted(samples_s)
    p50, p90, p95, p99 = (stats.percentile(ordered, share) for share in (0.5, 0.9, 0.95, 0.99))
    return Latency(sum(ordered) / len(ordered), p50, p90, p95, p99, scope)


def engine(run: EngineRun) -> dict[str, Any]:
    """Returns what the record keeps of the engine."""
    protocol = {**asdict(run.effective), "fingerprint": run.effective.fingerprint()} if run.effective else None
    return {
        "built": run.built,
        "versions": dict(run.versions),
        "layers_s": dict(run.layers_s),
        "layers": run.found,
        "outputs": run.check,
        "protocol": protocol,
    }


def _cut(series: Series, start_s: float, stop_s: float) -> Series:
    """Returns the samples inside the window; of a window too short for one, the nearest before it ends."""
    pairs = list(zip(series.times_s, series.values, strict=True))
    inside = [pair for pair in pairs if start_s <= pair[0] <= stop_s]
    inside = inside or [pair for pair in pairs if pair[0] <= stop_s][-1:]
    return Series(series.id, tuple(t for t, _ in inside), tuple(v for _, v in inside), series.late_s)


def _middle(values: Sequence[float | None]) -> int | None:
    known = [value for value in values if value is not None]
    return round(median(known)) if known else None


def _conditions(readings: Mapping[str, Series]) -> dict[str, Any]:
    heat = {}
    for name, series in readings.items():
        known = [value for value in series.values if value is not None]
        if name.startswith("temp.") and known:
            heat[name.removeprefix("temp.")] = {"start": known[0], "max": max(known), "end": known[-1]}
    load = [value for value in readings["gpu.load"].values if value is not None] if "gpu.load" in readings else []
    return {"temperatures_c": heat, "gpu_load": sum(load) / len(load) if load else None}


def figure(estimate: Estimate | None, absolute: Estimate | None = None) -> Figure | None:
    """Returns an estimate as the record keeps it; ``absolute`` is the same with its sensors' errors."""
    return Figure(estimate.value, estimate.ci95, absolute.ci95 if absolute else None) if estimate else None


def sampling(asked_hz: float, found: Window, source: str) -> Sampling | None:
    """Returns how the rails were sampled, and by what; None without rails."""
    if found.measured is None:
        return None
    return Sampling(asked_hz, found.measured.achieved_hz, found.measured.fresh_share, source)


def rates(asked: Asked) -> Rates:
    """Returns what a profile asks of the clocks."""
    return Rates(asked.cpu_hz, asked.gpu_hz, asked.emc_hz)


def accepted(asked: Asked, outcomes: Sequence[Outcome]) -> dict[str, float]:
    """Returns the rates that a lock holds, in hertz: as asked, or what a driver clamped them to.

    A clock of which a part of the lock was refused is held by nothing.
    """
    wanted = {name: getattr(asked, f"{name}_hz") for name in CLOCKS}
    free = set()
    for row in outcomes:
        clock, _, part = row.knob.partition(".")
        name = clock.rstrip("0123456789")
        if row.result == "clamped" and name in wanted and isinstance(row.now, int):
            wanted[name] = row.now
        elif row.result == "refused" and part in _LOCKS:
            free.add(name)
    return {name: float(hz) for name, hz in wanted.items() if hz is not None and name not in free}


def evidence(
    precision: str,
    rail_rate_hz: float,
    run: EngineRun,
    found: Window,
    accepted_hz: Mapping[str, float],
    floating: str,
    mode_missing: str,
) -> Evidence:
    """Returns what the verdict is to be made from."""
    measured = found.measured
    lost = found.power_missing if found.power_expected else None
    return Evidence(
        window_s=max(0.0, found.seconds),
        power_missing=lost or "",
        asked_hz=rail_rate_hz if measured else 0.0,
        achieved_hz=measured.achieved_hz if measured else None,
        fresh_share=measured.fresh_share if measured and not measured.coarse else None,
        longest_gap_s=measured.longest_gap_s if measured else 0.0,
        rounding_share=measured.rounding_share if measured else 0.0,
        clocks_asked_hz=accepted_hz,
        clocks_seen_hz=found.seen_hz,
        unlocked=floating,
        mode_missing=mode_missing,
        throttled_share=_sagging(accepted_hz, found.seen_hz),
        interrupted=run.interrupted,
        precision_asked=precision,
        precision_found=run.precision_found or "",
        on_cpu=run.versions.get("device", "CPU").upper() == "CPU" and "onnxruntime" in run.versions,
        outputs_wrong=run.check.text if run.check is not None and not run.check.passed else "",
        drift=stats.drift(run.latencies_s) if len(run.latencies_s) >= 30 else None,
        held_up_s=_held_up_s(run.latencies_s),
    )


def _held_up_s(latencies_s: Sequence[float]) -> float:
    """Returns what the slowest batch took beyond the median, 0.0 where it took less than thrice that."""
    if not latencies_s:
        return 0.0
    usual_s, worst_s = median(latencies_s), max(latencies_s)
    return worst_s - usual_s if worst_s > _HELD_UP_TIMES * usual_s else 0.0


def _sagging(accepted_hz: Mapping[str, float], seen_hz: Mapping[str, Sequence[float | None]]) -> float:
    """Returns the largest share of readings of a locked clock that are below its lock, as heat or current make it."""
    shares = [0.0]
    for name, asked in accepted_hz.items():
        known = [hz for hz in seen_hz.get(name, ()) if hz is not None]
        if known:
            shares.append(sum(hz < asked * (1 - CLOCK_TOLERANCE) for hz in known) / len(known))
    return max(shares)


def bounds(asked: toolchains.Request, effective: Rates, twin: Mapping[str, Any]) -> dict[str, Any] | None:
    """Returns what limits the run at its effective clocks, by the board's model; None where it has none."""
    if not (effective.gpu_hz and effective.emc_hz and effective.cpu_hz):
        return None
    clocks = Clocks(effective.cpu_hz, effective.gpu_hz, effective.emc_hz)
    spec = asked.spec
    return explain(
        asked.model.network, spec.batch, spec.precision, spec.toolchain, clocks, twin, tf32=asked.options.protocol.tf32
    )
