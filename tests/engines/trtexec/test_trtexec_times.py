from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.onboard.failure import Failed
from engines.onboard.times import profile, times, warmup_ms

FACTS = Path(__file__).resolve().parents[4] / "shared" / "facts" / "trtexec"


def row(start_ms: float, compute_ms: float) -> dict[str, float]:
    """A batch as versions from 8.0 on write it: 0.5 ms to submit and copy in, 0.25 ms to copy out."""
    done_ms = start_ms + 0.5 + compute_ms
    return {
        "startEnqMs": start_ms,
        "endEnqMs": start_ms + 0.25,
        "startComputeMs": start_ms + 0.5,
        "endComputeMs": done_ms,
        "startD2hMs": done_ms,
        "endD2hMs": done_ms + 0.25,
        "computeMs": compute_ms,
        "latencyMs": compute_ms + 0.5,
    }


ROWS = json.dumps([row(0, 10), row(10, 8), row(20, 9)])


def test_times_are_those_of_batches_in_seconds_from_submission_to_the_end_of_the_output() -> None:
    found = times(ROWS, (8, 5), 0)
    assert found["compute_s"] == pytest.approx([0.010, 0.008, 0.009])
    assert found["host_s"] == pytest.approx([0.01075, 0.00875, 0.00975])


@pytest.mark.parametrize(("version", "kept"), [((7, 1), None), ((8, 0), 2), ((8, 4), 2), ((8, 5), 3), ((11, 1), 3)])
def test_warm_ups_are_dropped_where_the_version_writes_them(version: tuple[int, int], kept: int | None) -> None:
    if kept is None:
        with pytest.raises(Failed, match="endOutMs"):
            times(ROWS, version, 10.5)
        return
    found = times(ROWS, version, 10.5)
    assert (len(found["compute_s"]), found["dropped"]) == (kept, 3 - kept)


def test_version_7_has_submission_and_input_under_each_others_names() -> None:
    old = {
        "startEnqMs": 1.0,
        "endEnqMs": 2.0,
        "startInMs": 0.5,
        "endInMs": 0.75,
        "startComputeMs": 2.0,
        "endOutMs": 9.5,
        "computeMs": 7.0,
        "latencyMs": 8.0,
    }
    found = times(json.dumps([old]), (7, 1), 1.5)
    assert (found["compute_s"], found["host_s"]) == ([pytest.approx(0.007)], [pytest.approx(0.009)])


def test_host_time_is_never_less_than_what_is_known_to_have_been_done_however_coarse_the_clock_got() -> None:
    late = dict(row(0, 0.5), startEnqMs=1.23457e6, startComputeMs=1.23457e6, endD2hMs=1.23457e6)
    assert times(json.dumps([late]), (8, 2), 200)["host_s"] == [pytest.approx(0.001)]


@pytest.mark.parametrize(
    "text",
    ["", "[", ROWS[:-20], "{}", "[1]", "null", "[" * 5000, ROWS.replace("10", "NaN"), ROWS.replace("8", '"8"')],
)
def test_a_file_that_is_cut_off_or_odd_is_refused_in_words(text: str) -> None:
    with pytest.raises(Failed, match="trtexec"):
        times(text, (8, 5), 0)
    with pytest.raises(Failed, match="trtexec"):
        profile(text)


def test_a_file_of_warm_ups_alone_is_refused() -> None:
    with pytest.raises(Failed, match="no times"):
        times(ROWS, (8, 2), 1000)


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(1e-3, 1e4)), min_size=1, max_size=5), st.data())
def test_any_cut_of_a_file_is_refused_or_read_but_never_crashes(rows: list[tuple[float, float]], data: Any) -> None:
    text = json.dumps([row(*entry) for entry in rows])
    assert len(times(text, (8, 5), 0)["compute_s"]) == len(rows)
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    with pytest.raises(Failed):
        times(cut, (8, 5), 0)


def test_layer_times_are_means_in_seconds_and_layers_of_one_name_are_added() -> None:
    rows: list[dict[str, object]] = [{"count": 20}]
    rows += [{"name": "a + b", "timeMs": 20, "averageMs": 1, "percentage": 50}] * 2 + [{"name": "c", "averageMs": 0.5}]
    assert profile(json.dumps(rows)) == pytest.approx({"a + b": 0.002, "c": 0.0005})


def test_a_profile_without_layers_is_refused() -> None:
    with pytest.raises(Failed, match="no layer"):
        profile('[{"count": 20}]')


def test_warm_up_is_told_in_whole_milliseconds() -> None:
    assert [warmup_ms(0), warmup_ms(0.0005), warmup_ms(2)] == [0, 1, 2000]


# By hand from the folder of facts: file, version, warm-up, ms of computing, ms on the host, warm-ups dropped.
BY_HAND = [
    ("trt7.1", (7, 1), 0, [8.20672, 8.24237, 8.23819], [8.58672, 8.6224, 8.6182], 0),
    ("trt7.1", (7, 1), 8.0, [8.24237, 8.23819], [8.6224, 8.6182], 1),
    ("trt8.0-8.2", (8, 2), 10.0, [8.22247], [8.6025], 2),
    ("trt8.4-11", (8, 4), 10.0, [8.20469], [8.5847], 2),
    ("trt8.4-11", (10, 3), 10.0, [8.23258, 8.23944, 8.20469], [8.61258, 8.6194, 8.5847], 0),
]


@pytest.mark.skipif(not FACTS.is_dir(), reason="the folder of facts is not beside this checkout")
@pytest.mark.parametrize(("name", "version", "until_ms", "compute_ms", "host_ms", "dropped"), BY_HAND)
def test_recorded_files_give_the_times_that_were_read_by_hand(
    name: str, version: tuple[int, int], until_ms: float, compute_ms: list[float], host_ms: list[float], dropped: int
) -> None:
    found = times((FACTS / f"exportTimes_SYNTHETIC_{name}.json").read_text("utf-8"), version, until_ms)
    assert found["compute_s"] == pytest.approx([ms / 1000 for ms in compute_ms])
    assert found["host_s"] == pytest.approx([ms / 1000 for ms in host_ms], rel=1e-4)
    assert found["dropped"] == dropped


@pytest.mark.skipif(not FACTS.is_dir(), reason="the folder of facts is not beside this checkout")
@pytest.mark.parametrize("name", ["trt7.1-8.2", "trt8.4-11"])
def test_recorded_profiles_give_the_layers_that_were_read_by_hand(name: str) -> None:
    found = profile((FACTS / f"exportProfile_SYNTHETIC_{name}.json").read_text("utf-8"))
    assert found == pytest.approx({"conv1 + relu1": 1.1328e-3, "norm1": 0.961e-3})
