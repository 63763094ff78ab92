from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.caffe import CaffeFailure, CaffeTime, LayerTime, parse

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "caffe"
OUTPUT = {path.stem: path.read_text("utf-8").splitlines() for path in sorted(GOLDEN.glob("*.txt"))}


def stamped(lines: list[str]) -> list[tuple[float, str]]:
    """Lines as they come from a board: one each 10 ms from 100 s on."""
    return [(100 + i / 100, text) for i, text in enumerate(lines)]


def figures(name: str) -> CaffeTime:
    found = parse(stamped(OUTPUT[name]))
    assert isinstance(found, CaffeTime)
    return found


def failure(lines: list[str]) -> CaffeFailure:
    found = parse(stamped(lines))
    assert isinstance(found, CaffeFailure)
    return found


def place(name: str, sign: str) -> int:
    return max(i for i, text in enumerate(OUTPUT[name]) if sign in text)


def test_times_are_seconds_and_layers_keep_their_order() -> None:
    found = figures("forward_and_backward")
    assert [found.forward_s, found.backward_s] == pytest.approx([0.0125, 0.02525])
    assert found.iterations_s == pytest.approx((0.03775, 0.0378, 0.0377, 0.03785, 0.03765))
    assert [layer.name for layer in found.layers] == ["conv_a", "a_long_layer/3x3_reduce", "prob"]
    assert found.layers[0] == LayerTime("conv_a", 0.007125, 0.0155)
    assert [found.layers[2].forward_s, found.layers[2].backward_s] == pytest.approx([12.3e-6, 4.56e-6])
    assert not found.forward_only


def test_images_per_second_are_those_of_the_forward_pass() -> None:
    assert figures("forward_and_backward").images_per_s(16) == pytest.approx(1280.0)
    assert figures("forward_only").images_per_s(16) == pytest.approx(2000.0)
    assert figures("forward_only").forward_only


def test_the_run_lasts_from_its_announcement_to_its_last_iteration_on_the_boards_clock() -> None:
    found = figures("forward_only")
    assert found.began_s == 100 + place("forward_only", "Benchmark begins") / 100
    assert found.ended_s == 100 + place("forward_only", "Iteration: 4") / 100


def test_lines_without_a_log_prefix_read_the_same() -> None:
    bare = [text.partition("] ")[2] or text for text in OUTPUT["forward_only"]]
    assert parse(stamped(bare)) == figures("forward_only")


def test_out_of_memory_is_recognised_with_its_text() -> None:
    found = failure(OUTPUT["out_of_memory"])
    assert found == CaffeFailure("Check failed: error == cudaSuccess (2 vs. 0)  out of memory", out_of_memory=True)


def test_a_failed_check_is_told_and_is_not_out_of_memory() -> None:
    found = failure(OUTPUT["check_failed_while_timing"])
    assert found.text.startswith("Check failed: status == CUBLAS_STATUS_SUCCESS (13 vs. 0)")
    assert not found.out_of_memory


def test_a_run_that_was_killed_says_where_its_output_ends() -> None:
    assert "ends with: Iteration: 3 forward-backward time" in failure(OUTPUT["killed_half_way"]).text
    assert "ends with: nothing" in failure([]).text


@pytest.mark.parametrize(
    "lost", ["Benchmark begins", "Benchmark ends", "Iteration: 2", "Testing for", "Average Forward pass"]
)
def test_a_run_with_a_line_missing_gives_no_figure(lost: str) -> None:
    failure([text for text in OUTPUT["forward_only"] if lost not in text])


@pytest.mark.parametrize("bad", ["0 ms.", "nan ms.", "inf ms.", "-8 ms.", "8", "1e999 ms."])
def test_an_average_that_is_no_positive_time_gives_no_figure(bad: str) -> None:
    failure(
        [text.replace("Average Forward pass: 8 ms.", f"Average Forward pass: {bad}") for text in OUTPUT["forward_only"]]
    )


def test_two_runs_in_one_output_are_not_mixed() -> None:
    failure(OUTPUT["forward_only"] * 2)


LINES = st.sampled_from(sorted({text for lines in OUTPUT.values() for text in lines})) | st.text(max_size=40)


@given(st.lists(LINES, max_size=30))
def test_garbage_never_crashes_and_a_failed_check_never_gives_a_figure(lines: list[str]) -> None:
    found = parse(stamped(lines))
    if any("Check failed" in text for text in lines):
        assert isinstance(found, CaffeFailure)


@given(st.sampled_from(["forward_only", "forward_and_backward"]), st.data())
def test_output_cut_anywhere_before_its_end_gives_no_figure(name: str, data: st.DataObject) -> None:
    text = "\n".join(OUTPUT[name])
    cut = data.draw(st.integers(0, len(text) - 1))
    failure(text[:cut].splitlines())


@given(st.integers(0, 60), st.sampled_from(["out_of_memory", "check_failed_while_timing"]))
def test_a_failed_check_anywhere_spoils_the_run(at: int, name: str) -> None:
    check = next(text for text in OUTPUT[name] if "Check failed" in text)
    lines = OUTPUT["forward_only"]
    failure([*lines[:at], check, *lines[at:]])


@given(st.lists(st.text(alphabet="abc 0123456789.[]\t", max_size=30), max_size=5), st.integers(0, 60))
def test_other_lines_between_change_nothing(others: list[str], at: int) -> None:
    lines = OUTPUT["forward_only"]
    found = parse(stamped([*lines[:at], *others, *lines[at:]]))
    assert isinstance(found, CaffeTime)
    assert (found.forward_s, found.iterations_s) == (0.008, figures("forward_only").iterations_s)
