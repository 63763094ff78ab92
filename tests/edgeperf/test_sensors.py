from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import hypot, inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeperf.power import choose_total
from edgeperf.sensors import UNKNOWN, absolute, accuracy, lag_s, settling_s, step_share, step_w
from remote import boards
from remote.types import Rail, Sensor


def rail(**sensor: Any) -> Rail:
    return Rail("VIN", "", sensor=Sensor(**{"kind": "ina3221", "shunt_ohm": 0.005, "volts": 5.0, **sensor}))


@pytest.mark.parametrize(
    ("shunt_ohm", "volts", "step"),
    [(0.002, 19.9, 0.398), (0.002, 5.0, 0.1), (0.005, 19.3, 0.1544), (0.005, 5.05, 0.0404), (0.01, 19.0, 0.076)],
)
def test_one_count_is_worth_what_is_seen_on_real_boards(shunt_ohm: float, volts: float, step: float) -> None:
    assert step_w(rail(shunt_ohm=shunt_ohm, volts=volts)) == pytest.approx(step, rel=1e-3)


def test_the_finer_chip_has_steps_an_eighth_as_high() -> None:
    assert step_w(rail(kind="ina238")) == pytest.approx(step_w(rail()) / 8)
    assert step_share(rail()) == pytest.approx(0.0016)


def test_offset_counts_at_no_load_and_shunt_and_gain_at_a_high_one() -> None:
    assert absolute(rail(), 0.0) == pytest.approx(80e-6 / 0.005 * 5.0)
    assert absolute(rail(), 1000.0) == pytest.approx(1000 * hypot(0.01, 0.0025, 0.0025, 0.0032), rel=1e-4)


@given(st.floats(0, 100), st.floats(0, 100))
def test_more_watts_are_never_known_better(one: float, more: float) -> None:
    assert absolute(rail(), one) <= absolute(rail(), one + more)


@pytest.mark.parametrize(
    "unknown",
    [
        Rail("VIN", ""),
        rail(kind="hwmon"),
        rail(kind="rapl"),
        rail(kind=""),
        rail(shunt_ohm=None),
        rail(volts=None),
        rail(volts=0.0),
    ],
)
def test_of_a_sensor_that_nothing_is_known_of_nothing_is_claimed(unknown: Rail) -> None:
    assert step_w(unknown) == step_share(unknown) == 0.0
    assert accuracy(unknown) == UNKNOWN
    assert absolute(unknown, 5.0) == inf


def test_only_a_sensor_that_averages_lags() -> None:
    assert lag_s(rail(conversion_s=0.5, mode="continuous")) == 0.5
    assert settling_s(rail(conversion_s=0.5)) == 2.5
    assert lag_s(rail(conversion_s=0.0066, mode="triggered")) == lag_s(rail()) == lag_s(Rail("VIN", "")) == 0.0


# The trees of rails


def ancestors(name: str, rows: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    while name := rows[name].get("parent", ""):
        yield name


@pytest.mark.parametrize("board", boards.names())
def test_no_total_counts_a_rail_twice(board: str) -> None:
    spec = boards.load(board)
    rows = {row["id"]: row for row in spec.rails}
    for total in spec.totals:
        assert len(set(total.rails)) == len(total.rails)
        for name in total.rails:
            assert not set(ancestors(name, rows)) & set(total.rails)
            assert rows[name].get("place") != "carrier" or total.scope == "carrier_in"


@pytest.mark.parametrize(
    ("board", "scope", "rails", "nested", "beside"),
    [
        ("tx1", "module_in", "VDD_IN", "VDD_GPU VDD_CPU", "VDD_MUX"),
        ("nano", "module_in", "POM_5V_IN", "POM_5V_GPU POM_5V_CPU", ""),
        ("orin-nx", "module_in", "VDD_IN", "VDD_CPU_GPU_CV VDD_SOC", ""),
        ("agx-xavier", "soc_rails", "GPU CPU SOC CV VDDRQ SYS5V", "", ""),
        ("agx-orin", "soc_rails", "VDD_GPU_SOC VDD_CPU_CV VIN_SYS_5V0", "VDDQ_VDD2_1V8AO", ""),
        ("agx-thor", "carrier_in", "VIN", "VDD_GPU VDD_CPU_SOC_MSS VIN_SYS_5V0", ""),
    ],
)
def test_totals_are_those_of_the_board_s_wiring(board: str, scope: str, rails: str, nested: str, beside: str) -> None:
    spec = boards.load(board)
    rows = {row["id"]: row for row in spec.rails if row.get("place") != "lab"}
    total = choose_total(spec.totals, rows)
    assert total is not None
    assert (total.scope, set(total.rails)) == (scope, set(rails.split()))
    assert {name for name in rows if set(ancestors(name, rows)) & set(total.rails)} == set(nested.split())
    apart = {name for name, row in rows.items() if row.get("place") == "carrier"} - set(total.rails)
    assert apart == set(beside.split())
    assert total.leaves_out
