from __future__ import annotations

from dataclasses import asdict, replace
from functools import cache

import numpy as np
import pytest

from engines.cost import Precision
from engines.simulated.fit import FREE, Model, Row, batch_s, measured, minimum, nonnegative, report

PAPER = "caffe-cudnn4"


@cache
def fitted() -> Model:
    return Model.stored().fitted()


def speed_errors(model: Model, name: str) -> list[float]:
    return [abs(model.speed_error(name, row)) for row in measured()[name]]


def test_stored_constants_are_what_the_fit_gives() -> None:
    stored = Model.stored()
    for name in measured():
        assert asdict(stored.times[name]) == pytest.approx(asdict(fitted().times[name]), rel=5e-3)
    assert asdict(stored.power.constants) == pytest.approx(asdict(fitted().power.constants), rel=5e-3)


def test_the_white_papers_speeds_are_within_10_percent_mean_and_20_worst() -> None:
    errors = speed_errors(Model.stored(), PAPER)
    assert np.mean(errors) < 0.10
    assert max(errors) < 0.20


def test_the_white_papers_watts_are_within_7_percent_mean_and_12_worst() -> None:
    errors = [abs(Model.stored().power_error(PAPER, row)) for row in measured()[PAPER]]
    assert np.mean(errors) < 0.07
    assert max(errors) < 0.12


def test_tensorrt_points_are_within_12_percent_mean() -> None:
    assert np.mean(speed_errors(Model.stored(), "tensorrt")) < 0.12


@pytest.mark.parametrize("name", sorted(FREE))
def test_points_that_were_left_out_are_predicted(name: str) -> None:
    stored = Model.stored()
    errors = [abs(stored.fitted(without=row).speed_error(name, row)) for row in measured()[name]]
    assert np.mean(errors) < 0.15
    assert max(errors) < 0.30


def test_at_most_six_time_constants_a_set_and_four_for_power() -> None:
    assert set(FREE) == set(measured())
    assert all(len(free) <= 6 for free in FREE.values())
    assert len(asdict(Model.stored().power.constants)) <= 4


def test_there_is_a_row_for_each_published_measurement() -> None:
    assert [len(rows) for rows in measured().values()] == [8, 12]
    assert all(row.watts for row in measured()[PAPER])


@pytest.mark.parametrize("name", sorted(FREE))
@pytest.mark.parametrize("network", ["alexnet", "googlenet"])
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_images_per_second_rise_with_the_batch(name: str, network: str, precision: Precision) -> None:
    row = replace(measured()[name][0], network=network, precision=precision)
    speeds = [_speed(Model.stored(), name, replace(row, batch=batch)) for batch in (1, 2, 4, 8, 16, 32)]
    assert speeds == sorted(speeds)


def _speed(model: Model, name: str, row: Row) -> float:
    return row.batch / batch_s(row, model.gpu, model.times[name])


def test_the_report_names_every_row_and_stored_beside_fitted() -> None:
    lines = list(report())
    for rows in measured().values():
        for row in rows:
            assert any(line.startswith(f"{row.network} {row.precision} batch {row.batch} ") for line in lines)
    assert sum("# stored:" in line for line in lines) == sum(map(len, FREE.values())) + 4


def test_the_minimum_of_a_bent_valley_is_found() -> None:
    def valley(x: np.ndarray) -> float:
        return float((1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2)

    assert minimum(valley, np.array([-1.2, 1.0]), 0.5) == pytest.approx([1.0, 1.0], abs=1e-3)


def test_weights_that_would_be_negative_are_zero() -> None:
    columns = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    assert nonnegative(columns, np.array([2.0, -1.0, 2.0])) == pytest.approx([2.0, 0.0])
    assert nonnegative(columns, np.array([2.0, 1.0, 3.0])) == pytest.approx([2.0, 1.0])
