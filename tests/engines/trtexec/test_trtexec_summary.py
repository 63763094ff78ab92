from __future__ import annotations

import math
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from engines.spec import Protocol
from engines.trtexec.output import Failure
from engines.trtexec.summary import Build, InEffect, Spread, Summary, disagreements, read_build, read_run
from engines.trtexec.version import Version

OUTPUTS = Path(__file__).resolve().parent / "outputs"
TEXTS = {path.stem: path.read_text("utf-8").splitlines() for path in sorted(OUTPUTS.glob("*.txt"))}
RUNS = [name for name in TEXTS if name.startswith("run_")]
EXIT_CODES = {
    "failed_unknown_option": 1,
    "failed_after_its_summary": 1,
    "killed_after_its_summary": 137,
    "killed_while_building": 137,
}
FAILED = [name for name in TEXTS if name.startswith(("failed_", "killed_"))]
FACTS = Path(__file__).resolve().parents[4] / "shared" / "facts" / "trtexec"
TRIALS = 100_000 if os.environ.get("EDGEPERF_SOAK") == "1" else 2_000


def stamped(lines: list[str]) -> list[tuple[float, str]]:
    """Lines as they come from a board: one each 10 ms from 100 s on."""
    return [(100 + i / 100, text) for i, text in enumerate(lines)]


def figures(lines: list[str]) -> Summary:
    found = read_run(stamped(lines))
    assert isinstance(found, Summary), found
    return found


def failure(lines: list[str], exit_code: int = 0) -> Failure:
    found = read_run(stamped(lines), exit_code)
    assert isinstance(found, Failure), found
    return found


def built(name: str) -> Build:
    found = read_build(stamped(TEXTS[name]))
    assert isinstance(found, Build), found
    return found


def spread(found: Spread | None) -> list[float]:
    assert found is not None
    return [found.min_s, found.max_s, math.nan if found.mean_s is None else found.mean_s, found.median_s]


@pytest.mark.parametrize(
    ("name", "version", "queries_per_s", "queries", "walltime_s", "gpu_s"),
    [
        ("run_7_1", None, 0.0, 40, 1.05, [0.0245, 0.0251, 0.024803, 0.0248]),
        ("run_8_0", Version(8, 0, 1), 10.8918, 25, 2.2953, [0.0905, 0.0915, 0.09098, 0.091]),
        ("run_8_2", Version(8, 2, 1), 10.9395, 25, 2.2853, [0.0905, 0.0915, 0.09098, 0.091]),
        ("run_8_4", Version(8, 4, 1), 105.079, 120, 1.142, [0.0085, 0.0105, 0.00950167, 0.0095]),
        ("run_8_5", Version(8, 5, 2), 117.509, 120, 1.0212, [0.0085, 0.00852, 0.00851002, 0.00851]),
        ("run_10_3", Version(10, 3, 0), 1978.57, 2400, 1.213, [0.0005, 0.00051, 0.000504999, 0.000505]),
        ("run_11_1", Version(11, 1, 0, 106), 3958.44, 4000, 1.0105, [0.00025, 0.000254, 0.000252, 0.000252]),
    ],
)
def test_every_layout_gives_its_figures_in_seconds(
    name: str, version: Version | None, queries_per_s: float, queries: int, walltime_s: float, gpu_s: list[float]
) -> None:
    found = figures(TEXTS[name])
    assert (found.version, found.queries) == (version, queries)
    assert [found.queries_per_s, found.walltime_s] == pytest.approx([queries_per_s, walltime_s])
    assert spread(found.gpu) == pytest.approx(gpu_s)


def test_the_other_times_are_there_where_the_version_prints_them() -> None:
    old, first, last = figures(TEXTS["run_7_1"]), figures(TEXTS["run_8_0"]), figures(TEXTS["run_10_3"])
    assert spread(old.latency) == pytest.approx([0.02575, 0.02635, 0.026053, 0.02605])
    assert spread(old.end_to_end) == pytest.approx([0.048925, 0.050065, 0.0495007, 0.049495])
    assert spread(old.enqueue) == pytest.approx([0.0025, 0.0025, math.nan, 0.0025], nan_ok=True)
    assert (old.h2d, old.d2h, last.end_to_end) == (None, None, None)
    assert spread(first.h2d) == pytest.approx([0.00075] * 4)
    assert spread(first.d2h) == pytest.approx([1e-8] * 4)
    assert spread(first.end_to_end) == pytest.approx([0.173375, 0.175275, 0.174287, 0.174325])
    assert spread(last.h2d) == [0.0] * 4


def test_one_percentile_or_three() -> None:
    assert figures(TEXTS["run_8_2"]).gpu.percentiles_s == pytest.approx({99.0: 0.0915})
    assert list(figures(TEXTS["run_8_5"]).gpu.percentiles_s) == [90.0, 95.0, 99.0]


def test_a_query_is_a_batch_and_version_7_that_counts_none_is_counted_by_its_times() -> None:
    assert figures(TEXTS["run_8_2"]).images_per_s(64) == pytest.approx(64 * 10.9395, rel=1e-5)
    assert figures(TEXTS["run_7_1"]).images_per_s(64) == pytest.approx(64 * 40 / 1.05)


def test_no_queries_are_a_contradiction_from_version_8_on() -> None:
    lines = [text.replace("Throughput: 105.079", "Throughput: 0") for text in TEXTS["run_8_4"]]
    assert "contradict" in failure(lines).text


def test_a_trace_of_every_batch_has_samples_and_one_of_averages_has_none() -> None:
    samples = figures(TEXTS["run_7_1"]).samples
    assert len(samples) == 40
    assert [samples[-1].gpu_s, samples[-1].host_s] == pytest.approx([0.02504, 0.049951])
    assert figures(TEXTS["run_8_2"]).samples == ()


def test_what_was_in_effect_is_read_and_compared_with_what_was_asked() -> None:
    copied = figures(TEXTS["run_8_0"]).in_effect
    assert copied == InEffect(transfers=True, spin=False, cuda_graph=False)
    assert disagreements(copied, Protocol(transfers=True)) == ()
    assert disagreements(copied, Protocol(cuda_graph=True)) == (
        "trtexec ran with copies of input and output, which was not asked for",
        "trtexec ran without CUDA graphs, which was not asked for",
    )
    assert disagreements(figures(TEXTS["run_7_1"]).in_effect, Protocol()) == ()
    assert figures(TEXTS["run_8_4"]).in_effect.spin
    assert figures(TEXTS["run_10_3"]).in_effect.cuda_graph


def test_warnings_about_the_timing_are_kept() -> None:
    assert figures(TEXTS["run_8_4"]).variation == pytest.approx(0.0675)
    assert figures(TEXTS["run_10_3"]).enqueue_bound
    assert (figures(TEXTS["run_8_2"]).variation, figures(TEXTS["run_8_2"]).enqueue_bound) == (None, False)


def test_loading_may_take_next_to_no_time() -> None:
    assert [figures(TEXTS[name]).loaded_s for name in ("run_8_2", "run_8_5", "run_11_1")] == [2.5, 0.5, 1e-5]


def test_the_run_lasted_until_its_report_began_on_the_boards_clock() -> None:
    found = figures(TEXTS["run_8_2"])
    report = next(i for i, text in enumerate(TEXTS["run_8_2"]) if "Warmup completed" in text)
    assert found.ended_s == 100 + report / 100
    assert found.began_s == pytest.approx(found.ended_s - 2.2853)


def test_a_build_says_how_long_it_took_and_how_large_the_engine_is() -> None:
    found = built("build_8_2")
    assert (found.version, found.built_s, found.precision) == (Version(8, 2, 1), 184.5, "FP32+FP16")
    assert (found.engine_bytes, found.short_of_memory) == (120 << 20, False)
    assert (built("build_10_13").built_s, built("build_10_13").engine_bytes) == (42.125, 12.5 * (1 << 20))


def test_a_build_that_left_tactics_out_says_so_also_with_version_7() -> None:
    assert built("build_10_13").short_of_memory
    assert built("build_7_1").short_of_memory
    assert (built("build_7_1").built_s, built("build_7_1").engine_bytes) == (None, None)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("failed_unknown_option", "Unknown option: --workspace 512"),
        ("failed_profile_without_summary", "there is no gpu_total, throughput, walltime"),
        ("failed_to_load_yet_passed", "there is no gpu_total"),
        ("failed_after_its_summary", "trtexec failed (exit code 1)"),
        ("killed_after_its_summary", "ended before it was done (exit code 137)"),
        ("killed_while_building", "its last line: Killed"),
    ],
)
def test_a_run_that_failed_gives_no_figure_and_says_why(name: str, words: str) -> None:
    assert words in failure(TEXTS[name], EXIT_CODES.get(name, 0)).text


def test_the_log_of_a_failure_has_its_errors_also_those_without_a_prefix() -> None:
    assert failure(TEXTS["killed_while_building"], 137).log == ("Killed",)
    assert failure(TEXTS["failed_to_load_yet_passed"]).log[-1] == "Engine deserialization failed"


def test_a_plan_that_could_not_be_loaded_is_no_build_even_if_trtexec_passes() -> None:
    found = read_build(stamped(TEXTS["failed_to_load_yet_passed"]))
    assert isinstance(found, Failure)
    assert "no engine" in found.text


def test_no_run_is_passed_by_its_text_if_its_exit_code_says_otherwise_or_the_other_way_round() -> None:
    for name in RUNS:
        failure(TEXTS[name], 1)
        failure(TEXTS[name][:-1])
        failure([*TEXTS[name][:-1], TEXTS[name][-1].replace("PASSED", "FAILED")])


def test_no_output_at_all_is_a_failure() -> None:
    assert "no gpu_total" in failure([]).text
    assert "its last line: nothing" in failure([], 1).text


@pytest.mark.parametrize("name", RUNS)
def test_a_run_with_a_line_of_its_figures_missing_or_twice_gives_none(name: str) -> None:
    lines = TEXTS[name]
    signs = ("hroughput: ", "alltime: ", "GPU Compute", "ompute Time: ", "compute time: ")
    told = [i for i, text in enumerate(lines) if "[I]" in text and any(sign in text for sign in signs)]
    assert len(told) == 4
    for place in told:
        failure(lines[:place] + lines[place + 1 :])
        failure([*lines[: place + 1], *lines[place:]])


@pytest.mark.parametrize("bad", ["nan", "inf", "-1.213", "1e999", "1,213", "0x1p3", ""])
def test_what_is_no_number_gives_no_figure(bad: str) -> None:
    for good in ("Walltime: 1.213", "Time: 1.212", "Throughput: 1978.57", "median = 0.505"):
        failure([text.replace(good, good.rpartition(" ")[0] + " " + bad) for text in TEXTS["run_10_3"]])


def test_figures_that_contradict_each_other_give_none() -> None:
    for good, bad in (
        ("Walltime: 1.213", "Walltime: 12.13"),
        ("Time: 1.212", "Time: 1.2129"),
        ("max = 0.51", "max = 0.4"),
    ):
        lines = [text.replace(good, bad) for text in TEXTS["run_10_3"]]
        assert lines != TEXTS["run_10_3"]
        assert "contradict" in failure(lines).text


# By hand from the folder of facts: name, version, queries/s, queries, walltime, mean and median of GPU time in ms.
BY_HAND = [
    ("trt100300_orin_summary", "10.3.0", 318.007, 956, 3.00622, 3.14068, 3.14062),
    ("trt71_explicit_batch_zero_qps", "None", 0.0, 663, 3.00956, 4.42492, 4.40088),
    ("trt8201_nano_build_and_run", "8.2.1", 11.0613, 35, 3.16419, 90.1061, 90.0183),
]


@pytest.mark.skipif(not FACTS.is_dir(), reason="the folder of facts is not beside this checkout")
@pytest.mark.parametrize(("name", "version", "rate", "queries", "walltime_s", "mean_ms", "median_ms"), BY_HAND)
def test_recorded_outputs_give_the_figures_that_were_read_by_hand(
    name: str, version: str, rate: float, queries: int, walltime_s: float, mean_ms: float, median_ms: float
) -> None:
    found = figures((FACTS / f"{name}.txt").read_text("utf-8").splitlines())
    assert (str(found.version), found.queries) == (version, queries)
    assert [found.queries_per_s, found.walltime_s] == [rate, walltime_s]
    assert spread(found.gpu)[2:] == pytest.approx([mean_ms / 1000, median_ms / 1000])


@pytest.mark.skipif(not FACTS.is_dir(), reason="the folder of facts is not beside this checkout")
def test_the_other_recorded_outputs_give_what_is_in_them() -> None:
    lines = (FACTS / "trt8201_nano_build_and_run.txt").read_text("utf-8").splitlines()
    build, run = read_build(stamped(lines)), figures(lines)
    assert isinstance(build, Build)
    assert (build.built_s, build.engine_bytes, build.precision, build.short_of_memory) == (
        184.708,
        186 << 20,
        "FP32",
        True,
    )
    assert run.in_effect == InEffect(transfers=True, spin=False, cuda_graph=False)
    assert (FACTS / "trt71_explicit_batch_zero_qps.txt").is_file()
    zero = figures((FACTS / "trt71_explicit_batch_zero_qps.txt").read_text("utf-8").splitlines())
    assert zero.images_per_s(1) == pytest.approx(663 / 3.00956)
    unknown = failure((FACTS / "trt10_unknown_option.txt").read_text("utf-8").splitlines(), 1)
    assert [line.split()[2] for line in unknown.log[-3:]] == ["--workspace", "--buildOnly", "--explicitBatch"]


def mutated(lines: list[str], others: list[str], chance: random.Random) -> list[str]:
    """One to six things that go wrong with a text: lines lost, doubled, cut, moved, damaged or from elsewhere."""

    def damage(text: str) -> str:
        place = chance.randrange(len(text) + 1)
        return text[:place] + chance.choice("0123456789.e-+ %:=[]&IEnaf\x00é") + text[place + chance.randrange(2) :]

    changes: list[Callable[[list[str], int], list[str]]] = [
        lambda rows, i: rows[:i] + rows[i + 1 :],
        lambda rows, i: [*rows[: i + 1], *rows[i:]],
        lambda rows, i: [*rows[:i], rows[i][: chance.randrange(len(rows[i]) + 1)], *rows[i + 1 :]],
        lambda rows, i: [*rows[:i], damage(rows[i]), *rows[i + 1 :]],
        lambda rows, i: [*rows[:i], chance.choice(others), *rows[i:]],
        lambda rows, i: [*rows[i:], *rows[:i]],
        lambda rows, i: rows[: i + 1],
    ]
    for _ in range(chance.randint(1, 6)):
        if lines:
            lines = chance.choice(changes)(lines, chance.randrange(len(lines)))
    return lines


def test_damaged_output_never_crashes_and_a_run_that_failed_never_yields_a_figure(
    record_property: Callable[[str, object], None],
) -> None:
    chance = random.Random(20260203)
    others = [text for lines in TEXTS.values() for text in lines if not text.startswith("&&&&")]
    figures_seen = 0
    for trial in range(TRIALS):
        name = chance.choice(list(TEXTS))
        lines = stamped(mutated(TEXTS[name], others, chance))
        exit_code = EXIT_CODES.get(name, 0)
        found, build = read_run(lines, exit_code), read_build(lines, exit_code)
        if name in FAILED:
            assert isinstance(found, Failure), (trial, name, lines)
        if exit_code:
            assert isinstance(build, Failure), (trial, name, lines)
        # A caller that has lost the exit code is still safe as long as the run's own first and last line are whole.
        verdicts = [text for text in TEXTS[name] if text.startswith("&&&&")]
        if exit_code and set(verdicts) & {text for _, text in lines}:
            assert isinstance(read_run(lines), Failure), (trial, name, lines)
        if isinstance(found, Summary):
            figures_seen += 1
            assert 0 < found.images_per_s(64) < math.inf
            assert found.gpu.sound()
    assert figures_seen > TRIALS / 20
    record_property("trials", TRIALS)
