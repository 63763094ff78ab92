from __future__ import annotations

import pytest

from edgeperf.figures import evidence, scatter, window
from edgeperf.verdict import judge
from engines.toolchains import EngineRun
from remote.boards import Total
from remote.types import Rail, Sensor, Series

RUN = EngineRun(0.0, 10.0, 100, (0.1,) * 100, 1, "host", "fp32", "protocol")
TIMES = tuple(0.05 * n for n in range(201))
WATTS = tuple(5.0 + 0.01 * (n % 7) for n in range(201))


def codes(series: tuple[Series, ...], totals: tuple[Total, ...], rails: tuple[str, ...]) -> list[str]:
    found = window(RUN, series, totals, {name: Rail(name, "") for name in rails}, ())
    return [reason.code for reason in judge(evidence("fp32", 20.0, RUN, found, {}, "", "")).reasons]


def test_rails_without_a_known_total_are_no_dead_sampler() -> None:
    assert codes((Series("VIN", TIMES, WATTS),), (), ("VIN",)) == []


def test_a_total_that_gave_nothing_is_a_dead_sampler() -> None:
    total = Total("module_in", ("VIN",), "the rest")
    assert codes((Series("VIN", TIMES, (None,) * 201),), (total,), ("VIN",)) == ["sampler-dead"]
    assert codes((Series("VIN", TIMES, WATTS),), (total,), ("VIN",)) == []


INA = Sensor("ina3221", 0.005, 5.0)
RAILS = {"VIN": Rail("VIN", "", sensor=INA), "FAN": Rail("FAN", "", place="carrier", sensor=INA)}
SERIES = tuple(Series(name, TIMES, WATTS) for name in RAILS)
TOTALS = (Total("module_in", ("VIN",), "the rest"),)


def half(ends: tuple[float, float] | None) -> float:
    assert ends is not None
    return (ends[1] - ends[0]) / 2


def test_both_uncertainties_go_into_every_figure_that_watts_go_into() -> None:
    found = window(RUN, SERIES, TOTALS, RAILS, ())
    assert found.power is not None
    for figure, power in (
        (found.images_per_s_per_w, -1),
        (found.energy_j_per_image, 1),
        (found.edp, 1),
    ):
        assert figure is not None
        assert half(figure.absolute95) / figure.value == pytest.approx(
            abs(power) * half(found.power.absolute95) / found.power.total, rel=0.01
        )
        assert half(figure.ci95) < 0.2 * half(figure.absolute95)


def test_the_carrier_s_rails_are_apart_from_the_total_s() -> None:
    found = window(RUN, SERIES, TOTALS, RAILS, ()).power
    assert found is not None
    assert (list(found.rails), list(found.carrier)) == (["VIN"], ["FAN"])


def test_idle_power_is_beside_and_net_of_it_is_a_figure_of_its_own() -> None:
    idle = (Series("VIN", TIMES, tuple(watts / 2 for watts in WATTS)),)
    found = window(RUN, SERIES, TOTALS, RAILS, idle).power
    assert found is not None
    assert found.net_of_idle is not None
    assert found.idle_total == pytest.approx(found.total / 2)
    assert found.net_of_idle.value == pytest.approx(found.total / 2)
    alone = window(RUN, SERIES, TOTALS, RAILS, ()).power
    assert alone is not None
    assert alone.net_of_idle is None
    assert alone.total == found.total


def test_sensors_that_say_nothing_of_themselves_leave_the_absolute_interval_open() -> None:
    found = window(RUN, SERIES, TOTALS, {name: Rail(name, "") for name in RAILS}, ())
    assert found.power is not None
    assert found.energy_j_per_image is not None
    assert (found.power.absolute95, found.energy_j_per_image.absolute95) == (None, None)


def test_batches_that_scatter_are_told_of() -> None:
    times = (*(0.2 - 0.001 * n for n in range(100)), *(0.1 + 0.001 * (n % 5) for n in range(300)), 0.5)
    found = scatter(times)
    assert found is not None
    assert found.outliers > 1
    assert found.farthest == pytest.approx(4.0, rel=0.1)
    assert found.unsteady == pytest.approx(100, abs=20)
    assert found.slower == pytest.approx(0.47, abs=0.1)
    assert scatter(times[:1]) is None
