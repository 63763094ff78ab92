"""Reads what trtexec prints of a build and of a timed run, in the layouts of TensorRT 7.1 to 11. Pure.

Its numbers have six digits. TensorRT 7 prints a block per metric, later ones a line per metric; up to 8.2 there is an
end-to-end latency, from 8.5 on more than one percentile may be given. Whatever is missing, doubled or contradicts
itself makes the whole run a `Failure`: there are no figures of a part of a run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from engines.spec import Protocol
from engines.trtexec.output import Failure, Output, read
from engines.trtexec.version import Version

_S_PER_MS = 1e-3
_MIB = 1 << 20
_ROUNDING = 1e-3  # figures of six digits agree much better than this, other figures do not
_SUMMING = 0.05  # trtexec sums in single precision, which in a long run of short batches takes its mean this far off


@dataclass(frozen=True)
class Spread:
    """How a time spreads over the batches, in seconds. ``percentiles_s``: from percent to time."""

    min_s: float
    max_s: float
    median_s: float
    mean_s: float | None = None
    percentiles_s: Mapping[float, float] = field(default_factory=dict)

    def sound(self) -> bool:
        """Whether the numbers can be those of one set of times."""
        inside = [(value, _ROUNDING) for value in (self.median_s, *self.percentiles_s.values())]
        inside += [] if self.mean_s is None else [(self.mean_s, _SUMMING)]
        low_s, high_s = self.min_s, self.max_s
        return all(low_s - slack * high_s <= value <= high_s + slack * high_s for value, slack in inside)


@dataclass(frozen=True)
class InEffect:
    """How trtexec says that it ran; None where it does not say."""

    transfers: bool | None = None
    spin: bool | None = None
    cuda_graph: bool | None = None


@dataclass(frozen=True)
class Sample:
    """One batch, in seconds: on the GPU, and from the beginning of its input to the end of its output."""

    gpu_s: float
    host_s: float


@dataclass(frozen=True)
class Summary:
    """A timed run. ``queries_per_s`` is as printed: 0 with TensorRT 7, which does not count queries of fixed batch.

    ``queries`` are batches, counted by their GPU time: total over mean. ``walltime_s`` is from the first to the last of
    them, ``ended_s`` when that was, on the clock that stamped the lines. ``variation`` is the coefficient of variation
    of the GPU times where trtexec warns of it, ``loaded_s`` how long loading the engine took. ``samples`` has one per
    batch where the trace shows every batch.
    """

    version: Version | None
    queries_per_s: float
    queries: int
    walltime_s: float
    gpu: Spread
    gpu_total_s: float
    ended_s: float
    latency: Spread | None = None
    end_to_end: Spread | None = None
    enqueue: Spread | None = None
    h2d: Spread | None = None
    d2h: Spread | None = None
    in_effect: InEffect = field(default_factory=InEffect)
    variation: float | None = None
    enqueue_bound: bool = False
    loaded_s: float | None = None
    samples: tuple[Sample, ...] = ()

    @property
    def began_s(self) -> float:
        """When the first batch that counts began, on the clock of ``ended_s``."""
        return self.ended_s - self.walltime_s

    def images_per_s(self, batch: int) -> float:
        """Returns the images per second of an engine whose batch is fixed: every query is one of ``batch`` images.

        The rate is formed here, for trtexec's own is 0 with TensorRT 7 and has the batch in it with some models.
        """
        return batch * self.queries / self.walltime_s


@dataclass(frozen=True)
class Build:
    """A finished build; None is what this version does not say. ``precision`` is what the builder was allowed to use.

    ``short_of_memory``: tactics were left out for lack of memory or workspace, so the engine may be slower than others.
    """

    version: Version | None
    built_s: float | None
    engine_bytes: int | None
    precision: str
    short_of_memory: bool
    log: tuple[str, ...]


class _Unclear(Exception):
    """What is wrong with the figures."""


_PERCENT = r"(\d{1,3}(?:\.\d{1,6})?)"
_NUMBER = r"(\d{1,12}(?:\.\d{1,12})?(?:e[+-]?\d{1,3})?)"
_SPREADS = {
    "Latency": "latency",
    "Host Latency": "latency",
    "End-to-End Host Latency": "end_to_end",
    "Enqueue Time": "enqueue",
    "H2D Latency": "h2d",
    "GPU Compute Time": "gpu",
    "GPU Compute": "gpu",
    "D2H Latency": "d2h",
}
_SPREAD = re.compile(rf"({'|'.join(_SPREADS)})(?:: (.*))?")
_ITEM = re.compile(rf"(?:(min|max|mean|median)|percentile\({_PERCENT}%\)) = {_NUMBER} ms")
_BLOCK_ITEM = re.compile(
    rf"(?:(min|max|mean|median): {_NUMBER} ms|percentile: {_NUMBER} ms at {_PERCENT}%)"
    rf"(?: \(end to end {_NUMBER} ms(?: at {_PERCENT}%)?\))?"
)
_SCALARS = {
    "throughput": re.compile(rf"[Tt]hroughput: {_NUMBER} qps"),
    "walltime": re.compile(rf"(?:Total Host Walltime|walltime): {_NUMBER} s"),
    "gpu_total": re.compile(rf"(?:Total GPU Compute Time|total compute time): {_NUMBER} s"),
}
_SCALAR = re.compile(r"(?:throughput|walltime|total host walltime|total (?:gpu )?compute time):.*", re.IGNORECASE)
_TRACE = re.compile(
    rf"Average on \d+ runs - GPU latency: {_NUMBER} ms - Host latency: {_NUMBER} ms"
    rf"(?: \((?:end to end {_NUMBER} ms, )?enqueue {_NUMBER} ms\))?"
)
_AFTER_THE_RUN = ("Warmup completed ", "Timing trace has ", "Average on ", "Host Latency", "Throughput: ")
_OPTION = re.compile(r"(Data transfers|Spin-wait|CUDA Graph): (Enabled|Disabled)")
_VARIATION = re.compile(rf".*GPU compute time is unstable, with coefficient of variance = {_NUMBER}%.*")
_LOADED = re.compile(rf"Engine (?:loaded|deserialized) in {_NUMBER} sec\.")
_BUILT = re.compile(rf"Engine built in {_NUMBER} sec\.")
_SIZE = re.compile(rf"(?:Created engine with size|\[TRT\] Loaded engine size): {_NUMBER} MiB")
_SHORT = ("insufficient to use tactic", "Skipping tactic", "do not have sufficient workspace memory")


def read_run(lines: Iterable[tuple[float, str]], exit_code: int = 0) -> Summary | Failure:
    """Returns the figures of a timed run from its output, lines as (time in s, text), or why it gave none.

    Raises nothing, whatever the text.
    """
    output = read(lines, exit_code)
    if isinstance(output, Failure):
        return output
    try:
        return _summary(output)
    except _Unclear as unclear:
        return Failure(f"trtexec's figures are not clear: {unclear}", output.log)


def read_build(lines: Iterable[tuple[float, str]], exit_code: int = 0) -> Build | Failure:
    """Returns what a build says, lines as (time in s, text), or why there is none. Raises nothing, whatever the text.

    A build that passed has built an engine; from 8.0 on it says so, and one that does not is a failure.
    """
    output = read(lines, exit_code)
    if isinstance(output, Failure):
        return output
    built_s = _first(_BUILT, output)
    if built_s is None and output.version and output.version.major >= 8:
        return Failure("trtexec passed, but says of no engine that it was built", output.log)
    size_mib = _first(_SIZE, output)
    precision = next((text.partition(": ")[2] for _, text in output.said if text.startswith("Precision: ")), "")
    everything = [*output.warned, *(text for _, text in output.said)]
    short = any(sign in text for text in everything for sign in _SHORT)
    return Build(output.version, built_s, round(size_mib * _MIB) if size_mib else None, precision, short, output.log)


def disagreements(found: InEffect, asked: Protocol) -> tuple[str, ...]:
    """Returns in words what trtexec says that it did other than ``asked``; what it does not say is no disagreement."""
    pairs = (
        ("copies of input and output", found.transfers, asked.transfers),
        ("spin-wait", found.spin, asked.spin),
        ("CUDA graphs", found.cuda_graph, asked.cuda_graph),
    )
    return tuple(
        f"trtexec ran {'with' if found else 'without'} {name}, which was not asked for"
        for name, found, asked in pairs
        if found is not None and found != asked
    )


def _summary(output: Output) -> Summary:
    scalars: dict[str, float] = {}
    spreads: dict[str, dict[str, float]] = {}
    block = ""
    for _, text in output.said:
        if spread := _SPREAD.fullmatch(text):
            block = _SPREADS[spread[1]]
            if block in spreads:
                raise _Unclear(f"{spread[1]} is there twice")
            spreads[block] = {} if spread[2] is None else _items(spread[2])
        elif block and (item := _BLOCK_ITEM.fullmatch(text)):
            _add_block_item(spreads, block, item)
        elif _SCALAR.fullmatch(text):
            _add_scalar(scalars, text)
    if absent := ({*_SCALARS} - {*scalars}) or {"gpu"} - {*spreads}:
        raise _Unclear(f"there is no {', '.join(sorted(absent))}")
    return _checked(output, scalars, {name: _spread(name, items) for name, items in spreads.items()})


def _add_scalar(scalars: dict[str, float], text: str) -> None:
    for name, pattern in _SCALARS.items():
        if match := pattern.fullmatch(text):
            if name in scalars:
                raise _Unclear(f"{name} is there twice")
            scalars[name] = float(match[1])
            return
    raise _Unclear(text[:80])


def _items(text: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for part in text.split(", "):
        item = _ITEM.fullmatch(part)
        if item is None:
            raise _Unclear(text[:80])
        _put(found, item[1] or item[2], item[3])
    return found


def _add_block_item(spreads: dict[str, dict[str, float]], block: str, item: re.Match[str]) -> None:
    name, value, at_value, percent, end_to_end, _ = item.groups()
    _put(spreads[block], name or percent, value or at_value)
    if end_to_end:
        _put(spreads.setdefault("end_to_end", {}), name or percent, end_to_end)


def _put(found: dict[str, float], name: str, value: str) -> None:
    if name in found:
        raise _Unclear(f"{name} is there twice")
    found[name] = float(value) * _S_PER_MS


def _spread(name: str, items: dict[str, float]) -> Spread:
    percentiles = {float(key): value for key, value in items.items() if key[0].isdigit()}
    if not {"min", "max", "median"} <= {*items} or not all(map(math.isfinite, items.values())):
        raise _Unclear(f"{name} is not complete")
    spread = Spread(items["min"], items["max"], items["median"], items.get("mean"), percentiles)
    if not spread.sound():
        raise _Unclear(f"{name} contradicts itself")
    return spread


def _checked(output: Output, scalars: dict[str, float], spreads: dict[str, Spread]) -> Summary:
    """Puts the figures together if they agree: rate, time and number of queries."""
    walltime_s, gpu_total_s, gpu = scalars["walltime"], scalars["gpu_total"], spreads["gpu"]
    mean_s = gpu.mean_s or 0.0
    if not (math.isfinite(walltime_s + gpu_total_s) and min(walltime_s, gpu_total_s, mean_s, gpu.median_s) > 0):
        raise _Unclear("a time is not positive")
    exact = gpu_total_s / mean_s
    queries = round(exact) if exact < 1e12 else 0
    if not queries or abs(exact - queries) > 0.05 + 2e-5 * queries:
        raise _Unclear("total and mean GPU time contradict each other")
    per_query = scalars["throughput"] * walltime_s / queries
    version_7 = output.version is None or output.version.major == 7
    if not (abs(per_query - 1) <= _ROUNDING or (version_7 and _whole(per_query))):
        raise _Unclear("throughput, walltime and GPU time contradict each other")
    samples = _trace(output)
    variation = next((float(m[1]) / 100 for text in output.warned if (m := _VARIATION.fullmatch(text))), None)
    return Summary(
        version=output.version,
        queries_per_s=scalars["throughput"],
        queries=queries,
        walltime_s=walltime_s,
        gpu_total_s=gpu_total_s,
        ended_s=next((time_s for time_s, text in output.said if text.startswith(_AFTER_THE_RUN)), 0.0),
        in_effect=_in_effect(output),
        variation=variation,
        enqueue_bound=any("may be bound by Enqueue Time" in text for text in output.warned),
        loaded_s=_first(_LOADED, output),
        samples=samples if len(samples) == queries else (),
        **spreads,
    )


def _whole(counted: float) -> bool:
    """Whether that is how TensorRT 7 counts a query: as many as the batch, and as none if the batch is in the model."""
    return 0 <= counted < 1e6 and abs(counted - round(counted)) <= _ROUNDING * counted


def _in_effect(output: Output) -> InEffect:
    said = {match[1]: match[2] for _, text in output.said if (match := _OPTION.fullmatch(text))}
    names = ("Data transfers", "Spin-wait", "CUDA Graph")
    return InEffect(*(said[name] == "Enabled" if name in said else None for name in names))


def _trace(output: Output) -> tuple[Sample, ...]:
    matches = (match for _, text in output.said if (match := _TRACE.fullmatch(text)))
    samples = tuple(Sample(float(m[1]) * _S_PER_MS, float(m[3] or m[2]) * _S_PER_MS) for m in matches)
    return samples if all(math.isfinite(sample.gpu_s + sample.host_s) for sample in samples) else ()


def _first(pattern: re.Pattern[str], output: Output) -> float | None:
    found = next((float(match[1]) for _, text in output.said if (match := pattern.fullmatch(text))), math.inf)
    return found if math.isfinite(found) else None
