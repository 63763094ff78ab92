from __future__ import annotations

from edgeperf.figures import evidence, window
from edgeperf.verdict import judge
from engines.toolchains import EngineRun
from remote.boards import Total
from remote.types import Series

RUN = EngineRun(0.0, 10.0, 100, (0.1,) * 100, 1, "host", "fp32", "protocol")
TIMES = tuple(0.05 * n for n in range(201))
WATTS = tuple(5.0 + 0.01 * (n % 7) for n in range(201))


def codes(series: tuple[Series, ...], totals: tuple[Total, ...], rails: tuple[str, ...]) -> list[str]:
    found = window(RUN, series, totals, rails, ())
    return [reason.code for reason in judge(evidence("fp32", 20.0, RUN, found, {}, "", "")).reasons]


def test_rails_without_a_known_total_are_no_dead_sampler() -> None:
    assert codes((Series("VIN", TIMES, WATTS),), (), ("VIN",)) == []


def test_a_total_that_gave_nothing_is_a_dead_sampler() -> None:
    total = Total("module_in", ("VIN",), "the rest")
    assert codes((Series("VIN", TIMES, (None,) * 201),), (total,), ("VIN",)) == ["sampler-dead"]
    assert codes((Series("VIN", TIMES, WATTS),), (total,), ("VIN",)) == []
