"""Rails read by a tool of the board, behind the same seam as those of its own sensors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from edgeperf.options import opened
from edgeperf.sources import source_of, through
from remote import hosts
from remote.board import Board
from remote.errors import BoardError
from remote.types import Ended, Job, Line, Sampling, Series

FAKE_JTOP = """
import time

class jtop:
    def __init__(self, interval):
        self.interval = interval
        self.power = {"rail": {"VDD_IN": {"power": 5060, "avg": 1}, "VDD_SOC": {"power": 1500}}, "tot": {"power": 9}}

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def ok(self):
        time.sleep(self.interval)
        return True
"""


@contextmanager
def board(name: str) -> Iterator[Board]:
    with opened(hosts.parse(name)) as found:
        yield found


def sampled(found: Board, job: Job, rate_hz: float = 10.0) -> dict[str, Series]:
    sampling = Sampling(tuple(found.transport.rails), rate_hz, ("cpu.hz",))
    done = found.transport.run(Job(job.argv, duration_s=job.duration_s, sampling=sampling))
    assert done.beside == ()
    return {series.id: series for series in done.series}


def test_a_tool_reads_the_rails_and_the_sampler_what_else_there_is() -> None:
    with board("sim:agx-thor") as own:
        told = through(own, "tegrastats")
        assert (source_of(own.transport.rails), source_of(told.transport.rails)) == ("sysfs", "tegrastats")
        assert told.transport.rails["VDD_GPU"].parent == "VIN"
        assert told.transport.rails["VIN"].sensor == own.transport.rails["VIN"].sensor
        found = sampled(told, Job(duration_s=3))
        assert set(found) == {"VIN", "VDD_GPU", "VDD_CPU_SOC_MSS", "VIN_SYS_5V0", "cpu.hz"}
        assert 28 <= len(found["VIN"].times_s) <= 30
        assert found["VIN"].values[0] == pytest.approx(22.2, abs=1)


def test_names_of_the_tool_become_those_of_the_monitors() -> None:
    with board("sim:tx2@r28") as own:
        assert "VDD_SYS_GPU" in through(own, "tegrastats").transport.rails


def test_nothing_runs_beside_a_job_that_has_no_rails_sampled() -> None:
    with board("sim:orin-nx") as own:
        done = through(own, "tegrastats").transport.run(Job(("echo", "5/5"), sampling=Sampling(readings=("cpu.hz",))))
        assert [series.id for series in done.series] == ["cpu.hz"]
        assert done.text() == "5/5\n"


def test_a_stream_gives_the_series_before_its_end_and_passes_ctrl_c_on() -> None:
    with board("sim:orin-nx") as own:
        told = through(own, "tegrastats")
        job = Job(("sleep", "2"), sampling=Sampling(("VDD_IN",), 5))
        *events, end = told.transport.stream(job)
        assert [type(event) for event in events] == [Series]
        assert isinstance(end, Ended)
        stream = told.transport.stream(Job(("tegrastats",), sampling=Sampling(("VDD_IN",), 5)))
        assert isinstance(next(stream), Line)
        after = [stream.throw(KeyboardInterrupt()), *stream]
        assert isinstance(after[-1], Ended)
        assert after[-1].reason == "cancelled"


def test_auto_takes_the_sensors_and_a_tool_only_where_they_make_no_total() -> None:
    with board("sim:orin-nx") as own:
        assert through(own, "auto") is own
        own.transport.rails = {}
        assert source_of(through(own, "auto").transport.rails) == "tegrastats"
    with board("sim:nano") as own:  # whose tegrastats shows rails to root only
        own.transport.rails = {}
        assert through(own, "auto") is own


def test_while_a_job_runs_the_rails_are_those_that_such_a_board_has() -> None:
    with board("sim:orin-nx") as own:
        assert set(through(own, "tegrastats", look=False).transport.rails) >= {"VDD_IN", "VDD_SOC"}


def test_jtop_is_asked_with_the_boards_own_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jtop.py").write_text(FAKE_JTOP, "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with board("local") as own:
        told = through(own, "jtop")
        assert set(told.transport.rails) == {"VDD_IN", "VDD_SOC"}
        assert set(sampled(told, Job(duration_s=1.0))["VDD_IN"].values) == {5.06}


def test_a_tool_that_fails_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jtop.py").write_text("raise SystemExit('the service is not running')", "utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with board("local") as own, pytest.raises(BoardError) as caught:
        through(own, "jtop")
    assert "the service is not running" in caught.value.what
