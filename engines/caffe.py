"""Reads what Caffe's time command prints (BVLC/caffe, tools/caffe.cpp). Pure.

Its iteration lines time forward and backward together; only a build without backward makes them latencies of inference.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class LayerTime:
    """Mean time of one layer per iteration, in seconds."""

    name: str
    forward_s: float
    backward_s: float


@dataclass(frozen=True)
class CaffeTime:
    """A finished run. ``forward_s`` and ``backward_s`` are means per iteration of one batch.

    ``iterations_s`` are forward and backward together. ``began_s`` is when the benchmark was announced and ``ended_s``
    when its last iteration was, on the clock that stamped the lines: what comes later is printing.
    """

    iterations_s: tuple[float, ...]
    forward_s: float
    backward_s: float
    layers: tuple[LayerTime, ...]
    began_s: float
    ended_s: float

    @property
    def forward_only(self) -> bool:
        """Whether this build leaves out the backward pass, so that iterations and power are those of inference."""
        return self.backward_s == 0

    def images_per_s(self, batch: int) -> float:
        """Returns the images per second of inference: ``batch`` over the mean forward time."""
        return batch / self.forward_s


@dataclass(frozen=True)
class CaffeFailure:
    """A run that gave no figures: the ``Check failed`` text where there is one, else what is missing."""

    text: str
    out_of_memory: bool = False


# glog: severity and date, time, thread, source file and line.
_PREFIX = r"(?P<severity>[IWEF])\d{4,8}\ \d\d:\d\d:\d\d\.\d+\ +\d+\ \S+:\d+\]\ ?"
_LOGGED = re.compile(_PREFIX, re.ASCII)
_LINE = re.compile(
    rf"""(?:{_PREFIX})?
    (?:(?P<begins>\*\*\*\ Benchmark\ begins\ \*\*\*)
    | (?P<ends>\*\*\*\ Benchmark\ ends\ \*\*\*)
    | Testing\ for\ (?P<count>\d{{1,9}})\ iterations\.
    | (?:(?P<iteration>Iteration:\ \d{{1,9}}\ forward-backward\ time)
        | Average\ (?P<average>Forward|Backward)\ pass
        | \s*(?P<layer>\S+)\s+(?P<way>forward|backward)
      ):\ (?P<ms>\d{{1,12}}(?:\.\d{{1,12}})?(?:e[+-]?\d{{1,2}})?)\ ms\.
    )\s*""",
    re.VERBOSE | re.ASCII,
)
_CHECK_FAILED = "Check failed: "
_OUT_OF_MEMORY = ("out of memory", "std::bad_alloc", "CUDNN_STATUS_ALLOC_FAILED")
_S_PER_MS = 1e-3


def parse(lines: Iterable[tuple[float, str]]) -> CaffeTime | CaffeFailure:
    """Returns the figures of a run from its output, lines as (time in s, text), or why it gave none.

    A run gives figures only when it failed no check and printed all it announced, from the benchmark's beginning to
    its end. The exit code is for the caller to look at. Raises nothing, whatever the text.
    """
    found: list[tuple[float, re.Match[str]]] = []
    last = ""
    for time_s, text in lines:
        match = _LINE.fullmatch(text)
        if match and match["severity"] != "F":
            found.append((time_s, match))
        elif failure := _complaint(text):
            return failure
        last = text if text.strip() else last
    marks = [place for place, (_, match) in enumerate(found) if match["begins"] or match["ends"]]
    if [bool(found[place][1]["begins"]) for place in marks] != [True, False]:
        return CaffeFailure(f"Caffe's output has no complete benchmark; it ends with: {_said(last)[:200] or 'nothing'}")
    return _figures(found[marks[0]][0], found[marks[0] + 1 : marks[1]])


def _complaint(text: str) -> CaffeFailure | None:
    logged = _LOGGED.match(text)
    out_of_memory = any(sign in text for sign in _OUT_OF_MEMORY)
    fatal = logged is not None and logged["severity"] == "F"
    if not (fatal or out_of_memory or _CHECK_FAILED in text):
        return None
    said = _said(text)
    return CaffeFailure(said[max(0, said.find(_CHECK_FAILED)) :], out_of_memory)


def _said(text: str) -> str:
    return _LOGGED.sub("", text, count=1).strip()


def _figures(began_s: float, body: Sequence[tuple[float, re.Match[str]]]) -> CaffeTime | CaffeFailure:
    counts = [int(match["count"]) for _, match in body if match["count"]]
    iterations = [(time_s, _seconds(match)) for time_s, match in body if match["iteration"]]
    averages = {match["average"]: _seconds(match) for _, match in body if match["average"]}
    layers: dict[str, dict[str, float]] = {}
    for _, match in body:
        if match["layer"]:
            layers.setdefault(match["layer"], {})[match["way"]] = _seconds(match)
    if not iterations or counts != [len(iterations)]:
        asked = counts[0] if counts else "no"
        return CaffeFailure(f"Caffe announced {asked} iterations and timed {len(iterations)}")
    if averages.keys() != {"Forward", "Backward"} or averages["Forward"] <= 0:
        return CaffeFailure("Caffe's output has no average forward and backward time")
    return CaffeTime(
        iterations_s=tuple(seconds for _, seconds in iterations),
        forward_s=averages["Forward"],
        backward_s=averages["Backward"],
        layers=tuple(LayerTime(n, way.get("forward", 0.0), way.get("backward", 0.0)) for n, way in layers.items()),
        began_s=began_s,
        ended_s=iterations[-1][0],
    )


def _seconds(match: re.Match[str]) -> float:
    return float(match["ms"]) * _S_PER_MS
