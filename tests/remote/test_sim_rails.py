"""What the simulated power monitors show of the true power."""

from __future__ import annotations

import statistics

import pytest

from tests.remote.sim_board import RELEASES, Shell, shell

OLD_IIO = "/sys/class/i2c-adapter/i2c-1/1-0040/iio_device"
LAB = "/sys/class/i2c-adapter/i2c-0"


def _folder(release: str) -> str:
    return "/sys/bus/i2c/drivers/ina3221x/1-0040/iio:device0" if release == "r32.7" else OLD_IIO


@pytest.mark.parametrize("release", RELEASES)
def test_everybody_may_read_the_module_s_rails_where_the_release_has_them(release: str) -> None:
    board = shell(release, user="nvidia")
    names = [board.get(f"{_folder(release)}/rail_name_{n}") for n in range(3)]
    assert names == ["VDD_IN", "VDD_GPU", "VDD_CPU"]
    for n, name in enumerate(names):
        watts = board.number(f"{_folder(release)}/in_power{n}_input") / 1000
        assert watts == pytest.approx(board.board.watts(name), rel=0.1, abs=0.08)


def test_power_is_the_driver_s_product_of_whole_millivolts_and_milliamperes() -> None:
    board = shell("r24.2")
    for _ in range(50):
        board.sleep(0.05)
        mv, ma, mw = (board.number(f"{OLD_IIO}/in_{kind}0_input") for kind in ("voltage", "current", "power"))
        assert mv % 8 == 0
        assert ma % 2 == 0  # 40 uV on 20 mOhm
        assert mw == mv * ma // 1000
        assert board.get(f"{OLD_IIO}/ui_input0") == f"{mv} {ma}"


def test_a_reading_holds_for_the_time_of_a_conversion() -> None:
    board = shell()
    fresh = held = 0
    for _ in range(100):
        first = board.get(f"{OLD_IIO}/in_power0_input")
        board.sleep(0.001)
        held += first != board.get(f"{OLD_IIO}/in_power0_input")
        board.sleep(0.05)
        fresh += first != board.get(f"{OLD_IIO}/in_power0_input")
    assert held == 0
    assert fresh > 20


def _mean_w(board: Shell, path: str, count: int = 1500) -> float:
    values = []
    for _ in range(count):
        board.sleep(0.05)
        values.append(board.number(path) / 1000)
    return statistics.fmean(values)


def test_the_mean_of_many_readings_is_the_true_power_within_the_errors_of_the_channel() -> None:
    ratios = []
    for seed in range(8):
        board = shell(seed=seed)
        ratios.append(_mean_w(board, f"{OLD_IIO}/in_power0_input", 400) / board.board.watts("VDD_IN"))
    assert statistics.fmean(ratios) == pytest.approx(1.0, abs=0.01)
    assert 0.001 < statistics.pstdev(ratios) < 0.02


def test_a_laboratory_s_module_has_five_more_channels_and_others_have_none() -> None:
    assert not shell().system.exists(f"{LAB}/0-0040/iio_device/in_power0_input")
    board = shell(probe="lab")
    rails = {
        "CPU": "0-0040/iio_device/in_power0",
        "GPU": "0-0040/iio_device/in_power1",
        "DDR": "0-0041/iio_device/in_power1",
    }
    for name, place in rails.items():
        assert _mean_w(board, f"{LAB}/{place}_input", 200) == pytest.approx(board.board.watts(name), rel=0.1, abs=0.02)
