"""What the board's sampler promises: its pace, what it makes of what it reads, and that it keeps it to itself."""

from __future__ import annotations

import errno
import json
import os
import statistics
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remote import boards
from remote.onboard.agent import Agent
from remote.onboard.sampler import Samplers
from remote.onboard.system import System
from remote.sim.process import Action, Context, Out, Sleep
from remote.sim.system import TwinSystem
from remote.types import Job, Sampling
from tests.remote.sim_board import machine

Answer = bytes | int
"""What a file says, or the errno with which it fails."""


class Bench:
    """A machine whose clock stands until the test moves it. ``says`` is what each file answers, one reading each."""

    def __init__(self, **files: Callable[[], Answer]) -> None:
        self.now_s = 0.0
        self.closed: list[str] = []
        self._files = files

    def now(self) -> float:
        return self.now_s

    def wall(self) -> float:
        return self.now_s + 1e9

    def exists(self, path: str) -> bool:
        return path in self._files

    def open(self, path: str) -> Bench.File:
        return Bench.File(self, path)

    class File:
        def __init__(self, bench: Bench, path: str) -> None:
            self._bench, self._path = bench, path

        def read(self) -> bytes:
            answer = self._bench._files[self._path]()
            if isinstance(answer, int):
                raise OSError(answer, os.strerror(answer))
            return answer

        def close(self) -> None:
            self._bench.closed.append(self._path)


def one_after_the_other(*answers: Answer) -> Callable[[], Answer]:
    left: Iterator[Answer] = iter(answers)
    return lambda: next(left)


def samplers(bench: Bench, channel: dict[str, Any], rate_hz: float = 10.0, seed: int = 0) -> Samplers:
    asked = {"rails": ["X"], "rate_hz": rate_hz, "watch_hz": 1.0, "seed": seed}
    return Samplers(cast(System, bench), {"X": channel}, {}, asked)


def sampled(bench: Bench, channel: dict[str, Any], count: int, rate_hz: float = 10.0, seed: int = 0) -> dict[str, Any]:
    """Takes ``count`` samples, each when it is due."""
    recording = samplers(bench, channel, rate_hz, seed)
    for _ in range(count):
        bench.now_s = cast(float, recording.deadline())
        recording.tick()
    (series,) = recording.end()
    return series


@pytest.mark.parametrize(
    ("texts", "watts"),
    [([b"5048 1000\n"], 5.048), ([b"5000\n", b"2000\n"], 10.0), ([b"5000\n", b"-40\n"], -0.2), ([b"0\n", b"7\n"], 0.0)],
)
def test_watts_are_the_product_of_the_numbers_in_one_file_or_two(texts: list[bytes], watts: float) -> None:
    bench = Bench(**{f"f{n}": (lambda text=text: text) for n, text in enumerate(texts)})
    channel = {"path": "f0", "times": "f1" if len(texts) > 1 else "", "scale": 1e-6}
    assert sampled(bench, channel, 3)["values"] == [pytest.approx(watts)] * 3
    assert bench.closed == [f"f{n}" for n in range(len(texts))]


@pytest.mark.parametrize("text", [b"", b"\n", b"12 volts", b"<unsupported>", b"\xff"])
def test_what_is_no_number_is_a_failed_sample_and_not_the_end(text: bytes) -> None:
    bench = Bench(f=one_after_the_other(text, b"7"))
    assert sampled(bench, {"path": "f"}, 2)["values"] == [None, 7.0]


def test_a_busy_sensor_is_asked_twice_more_in_the_same_moment() -> None:
    again = errno.EAGAIN
    bench = Bench(f=one_after_the_other(again, again, b"1", again, again, again, b"2"))
    series = sampled(bench, {"path": "f"}, 3)
    assert series["values"] == [1.0, None, 2.0]
    assert series["missed"] == 0


def test_a_broken_sensor_is_not_asked_again_before_the_next_moment() -> None:
    bench = Bench(f=one_after_the_other(errno.EREMOTEIO, b"1"))
    assert sampled(bench, {"path": "f"}, 2)["values"] == [None, 1.0]


@given(st.floats(1.0, 200.0), st.integers(0, 2**32))
def test_samples_are_dithered_by_half_a_period_and_keep_the_pace(rate_hz: float, seed: int) -> None:
    times_s = sampled(Bench(f=lambda: b"1"), {"path": "f"}, 40, rate_hz, seed)["times_s"]
    period_s = 1 / rate_hz
    assert all(abs(t - n * period_s) <= 0.5001 * period_s for n, t in enumerate(times_s))
    assert times_s == sorted(times_s)


def test_a_load_in_step_with_the_sampling_does_not_bias_the_mean() -> None:
    bench = Bench()
    bench._files = {"f": lambda: b"10" if (bench.now_s * 20.0) % 1.0 < 0.5 else b"0"}
    values = sampled(bench, {"path": "f"}, 4000, rate_hz=20.0)["values"]
    assert statistics.fmean(values) == pytest.approx(5.0, abs=0.3)


def test_lateness_is_recorded_and_missed_moments_are_counted_and_not_made_up_for() -> None:
    bench = Bench(f=lambda: b"1")
    recording = samplers(bench, {"path": "f"})
    recording.tick()
    bench.now_s = cast(float, recording.deadline()) + 0.010
    recording.tick()
    bench.now_s = 0.56  # the second is due since long; those of 0.3, 0.4 and 0.5 are over
    late_s = bench.now_s - cast(float, recording.deadline())
    recording.tick()
    assert 0.55 <= cast(float, recording.deadline()) <= 0.65
    (series,) = recording.end()
    assert len(series["values"]) == 3
    assert series["late_s"] == pytest.approx((0.010 + late_s) / 3)
    assert series["late_worst_s"] == pytest.approx(late_s)
    assert series["missed"] == 3


def test_a_counter_of_energy_becomes_watts_of_the_time_between_two_readings() -> None:
    bench = Bench(f=one_after_the_other(b"100000", b"600000", b"200000", errno.EIO, b"1200000"))
    recording = samplers(bench, {"path": "f", "scale": 1e-6, "wraps": 1e6})
    read_s = []
    for _ in range(5):
        bench.now_s = cast(float, recording.deadline())
        read_s.append(bench.now_s)
        recording.tick()
    (series,) = recording.end()
    spans = [(0, 1, 0.5), (1, 2, 0.6), (2, 4, 1.0)]  # in the second the counter started anew
    joules = [
        (watts * (read_s[last] - read_s[first]), moment_s)
        for (first, last, _), watts, moment_s in zip(
            spans, filter(None, series["values"]), [series["times_s"][n] for n in (0, 1, 3)], strict=True
        )
    ]
    assert joules == [(pytest.approx(j), pytest.approx((read_s[a] + read_s[b]) / 2)) for a, b, j in spans]
    assert series["values"][2] is None


def test_a_file_stays_open_and_is_read_anew_each_time(tmp_path: Path) -> None:
    path = tmp_path / "power"
    path.write_text("1\n")
    node = System(str(tmp_path)).open("/power")
    assert node.read() == b"1\n"
    with path.open("r+") as same:
        same.write("2\n")
    assert node.read() == b"2\n"
    path.unlink()
    assert node.read() == b"2\n"
    node.close()
    with pytest.raises(FileNotFoundError):
        node.read()
    path.write_text("3\n")
    assert node.read() == b"3\n"
    node.close()


def talker(context: Context) -> Generator[Action, None, int]:
    yield Sleep(4.0)
    yield Out("half\n")
    yield Sleep(4.0)
    return 0


def test_while_a_job_runs_only_its_own_lines_are_sent() -> None:
    board = machine(programs={"talker": talker})
    system = TwinSystem(board)
    agent = Agent(cast(System, system), boards.table(), "build")
    sampling = {"rails": ["VDD_IN"], "rate_hz": 100.0, "readings": ["clock.wall_offset_s"], "watch_hz": 1.0}
    asked = {"id": 1, "verb": "stream", "argv": ["talker"], "timeout_s": 60.0, "sampling": sampling}
    request = {**asked, "beside": ["tegrastats", "100"]}
    system.input.feed(json.dumps(request).encode() + b"\n")
    told: list[tuple[float, dict[str, Any]]] = []
    while not told or told[-1][1]["kind"] != "end":
        agent.turn()
        told += [(board.now_s, json.loads(line)) for line in b"".join(system.outbox).splitlines()]
        system.outbox.clear()
    end = told[-1][1]
    during = [message for moment_s, message in told if moment_s < end["ended_s"]]
    assert [message.get("lines") for message in during] == [["half"]]
    after = [message for moment_s, message in told if moment_s >= end["ended_s"]]
    kept = {message["series"]["id"]: message["series"] for message in after if "series" in message}
    assert len(kept["VDD_IN"]["values"]) == pytest.approx(800, abs=4)
    assert [len(message["beside"]) for message in after if "beside" in message] == [pytest.approx(80, abs=2)]


@pytest.mark.skipif(sys.platform != "linux", reason="CPU seconds are read from /proc")
def test_the_cpu_seconds_of_a_job_count_what_it_started(tmp_path: Path) -> None:
    from remote.local import connect

    spin = "import time\nwhile time.process_time() < 0.3: pass"
    argv = ("sh", "-c", f"{sys.executable} -c '{spin}'; true")
    with connect(tmp_path / "cache") as board:
        done = board.run(Job(argv=argv, sampling=Sampling(readings=tuple(board.readings), watch_hz=50.0)))
    found = {series.id: [value for value in series.values if value is not None] for series in done.series}
    assert 0.2 < found["job.cpu_s"][-1] - found["job.cpu_s"][0] < 0.6
    assert found["job.cpu_s"] == sorted(found["job.cpu_s"])
    assert found["host.cpu_s"][-1] - found["host.cpu_s"][0] >= 0.2
    assert max(found["clock.wall_offset_s"]) - min(found["clock.wall_offset_s"]) < 0.1
