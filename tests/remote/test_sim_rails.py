"""What the simulated power monitors show of the true power."""

from __future__ import annotations

import statistics
from collections.abc import Generator
from math import exp

import pytest

from remote import boards
from remote.sim.machine import Machine
from remote.sim.physics import Activity
from remote.sim.process import Action, Busy, Context
from tests.remote.sim_board import RELEASES, Shell, machine, shell, steady

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
        assert _mean_w(board, f"{LAB}/{place}_input", 200) == pytest.approx(board.board.watts(name), rel=0.1, abs=0.03)


def _orin_nx(release: str = "r36.4") -> Shell:
    return Shell(
        Machine("orin-nx", release, steady(boards.load("orin-nx").twin), programs={"burner": burner}), "nvidia"
    )


def burner(context: Context) -> Generator[Action, None, int]:
    yield Busy(10.0, Activity(cpu_load=4.0, bytes_per_s=2e10))
    return 0


def _watts(board: Shell) -> float:
    (volts,) = board.system.glob("/sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon*/in1_input")
    return board.number(volts) * board.number(volts.replace("in1", "curr1")) * 1e-6


def test_a_monitor_that_averages_follows_the_load_with_its_time_constant_and_shows_it() -> None:
    board = _orin_nx()
    (interval,) = board.system.glob("/sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon*/update_interval")
    tau_s = board.number(interval) / 1000
    assert tau_s == pytest.approx(0.42, abs=0.01)
    idle_w = _watts(board)
    board.sleep(5.0)
    board.system.spawn(["burner"], {}, "")
    full_w = board.board.watts("VDD_IN")
    assert full_w > idle_w + 1.0
    for taus in (1.0, 2.0, 3.0):
        board.sleep(tau_s)
        assert _watts(board) == pytest.approx(full_w - (full_w - idle_w) * exp(-taus), abs=0.15)


def test_a_monitor_that_converts_when_it_is_read_shows_a_change_at_once() -> None:
    board = Shell(machine("r32.7", programs={"burner": burner}), "nvidia")
    path = f"{_folder('r32.7')}/ui_input0"
    board.sleep(1.0)
    board.get(path)
    board.system.spawn(["burner"], {}, "")
    board.sleep(0.01)
    mv, ma = map(int, board.get(path).split())
    assert mv * ma * 1e-6 == pytest.approx(board.board.watts("VDD_IN"), rel=0.06)
    assert board.get(f"{_folder('r32.7')}/running_mode") == "0"


def test_a_conversion_is_now_and_then_not_ready_in_time_and_asking_again_helps() -> None:
    system = Shell(machine("r32.7"), "nvidia").system
    busy = 0
    for _ in range(10_000):
        system.wait([], system.now() + 0.01)
        try:
            system.read(f"{_folder('r32.7')}/in_power0_input")
        except BlockingIOError:
            busy += 1
            assert int(system.read(f"{_folder('r32.7')}/in_power0_input")) > 0
    assert 1 <= busy <= 30


def test_a_monitor_switched_to_run_by_itself_averages_and_never_is_not_ready() -> None:
    board = Shell(machine("r32.7", programs={"burner": burner}))
    folder = _folder("r32.7")
    board.put(f"{folder}/running_mode", 1)
    assert board.get(f"{folder}/running_mode") == "1"
    idle_w = board.number(f"{folder}/in_power0_input") / 1000
    board.sleep(5.0)
    board.system.spawn(["burner"], {}, "")
    full_w = board.board.watts("VDD_IN")
    board.sleep(0.1)
    early_w = board.number(f"{folder}/in_power0_input") / 1000
    assert idle_w < early_w < idle_w + 0.4 * (full_w - idle_w)
    board.put(f"{folder}/running_mode", 0)
    board.sleep(0.1)
    assert board.number(f"{folder}/in_power0_input") / 1000 == pytest.approx(full_w, rel=0.06)
    with pytest.raises(OSError, match="Invalid argument"):
        board.put(f"{folder}/running_mode", 2)


def test_readings_of_a_monitor_that_runs_by_itself_spread_less() -> None:
    spreads = []
    for mode in (0, 1):
        board = Shell(machine("r32.7"))
        board.put(f"{_folder('r32.7')}/running_mode", mode)
        board.sleep(5.0)
        readings = []
        for _ in range(300):
            board.sleep(0.05)
            try:
                readings.append(board.number(f"{_folder('r32.7')}/in_power0_input"))
            except BlockingIOError:
                assert mode == 0
        spreads.append(statistics.pstdev(readings))
    assert spreads[1] < 0.8 * spreads[0]


def test_hwmon_takes_the_nearest_number_of_samples_and_the_nearest_interval() -> None:
    board = Shell(Machine("orin-nx", "r36.4", steady(boards.load("orin-nx").twin), programs={"burner": burner}))
    (samples,) = board.system.glob("/sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon*/samples")
    interval = samples.replace("samples", "update_interval")
    assert (board.number(samples), board.number(interval)) == (64, 422)
    board.put(samples, 100)
    assert (board.number(samples), board.number(interval)) == (128, 845)
    board.put(samples, 1)
    board.put(interval, 2)
    assert board.number(interval) == 2
    board.sleep(1.0)
    board.system.spawn(["burner"], {}, "")
    board.sleep(0.01)
    assert _watts(board) == pytest.approx(board.board.watts("VDD_IN"), rel=0.06)
