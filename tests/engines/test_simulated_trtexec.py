from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from engines.causes import error_of
from engines.emit.onnx import emit_onnx
from engines.onboard.times import profile, times
from engines.simulated.plan import read_plan
from engines.simulated.trtexec.options import OPTIONS, known, parse
from engines.trtexec.output import Failure
from engines.trtexec.summary import read_run
from remote.errors import OutOfMemory
from tests.engines.board import TWIN, FakeBoard, small
from tests.engines.trtexec_board import (
    TRTEXEC,
    VERSIONS,
    Flags,
    board,
    built,
    has,
    lines,
    numbers,
    start,
    summary,
    texts,
    timed,
)

MATRIX = Path(__file__).resolve().parents[2] / "../shared/facts/trtexec/options_matrix.csv"


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_builds_runs_and_prints_its_layout(version: str) -> None:
    at, on = numbers(version), built(version)
    said = start(on, "--loadEngine=/plan", "--warmUp=500", "--duration=2", *Flags.of(version).run)
    found = summary(said)
    assert found.walltime_s == pytest.approx(2.0, abs=0.2)
    assert found.queries == pytest.approx(found.walltime_s / (found.gpu.mean_s or 0), rel=0.03)
    assert found.queries_per_s == (0 if at < (8,) else pytest.approx(found.queries / found.walltime_s, rel=1e-4))
    assert has(said, "=== Performance summary ===") == (at >= (8,))
    assert has(said, "End-to-End Host Latency") == ((8,) <= at < (8, 4))
    assert has(said, "percentile(90%)") == (at >= (8, 5))
    assert has(said, "Engine deserialized in") == (at >= (8, 5))
    assert has(said, "Data transfers: ") == (at >= (8,))
    assert texts(said)[0].startswith("&&&& RUNNING TensorRT.trtexec")
    assert ("[TensorRT v" in texts(said)[0]) == (at >= (8,))
    assert texts(said)[-1].startswith("&&&& PASSED TensorRT.trtexec")


@pytest.mark.parametrize(
    ("version", "banner"),
    [
        ("8.0.1", "[TensorRT v8001] #"),
        ("8.5.2", "[TensorRT v8502] #"),
        ("10.3.0", "[TensorRT v100300] #"),
        ("10.13.3.9", "[TensorRT v101303] [b9] #"),
        ("11.4.1.106", "[TensorRT v110401] [b106] #"),
    ],
)
def test_the_banner_has_the_version(version: str, banner: str) -> None:
    said = start(board(version), "--help")
    assert said.exit_code == 0
    assert banner in texts(said)[0]


@pytest.mark.parametrize(
    ("version", "transfers", "spin", "graph"),
    [
        ("7.1.3", None, False, False),
        ("8.2.1", True, False, False),
        ("10.3.0", True, False, False),
        ("11.4.1.106", False, True, True),
    ],
)
def test_defaults_are_those_of_the_version(version: str, transfers: bool | None, spin: bool, graph: bool) -> None:
    explicit = ["--explicitBatch", "--avgRuns=1"] if version.startswith("7") else []
    found = timed(built(version), *explicit)
    assert found.in_effect.transfers is transfers
    assert (found.in_effect.spin, found.in_effect.cuda_graph) == (spin, graph)
    assert found.h2d is None or (found.h2d.max_s > 0) == bool(transfers)


def test_a_dropped_flag_is_seen() -> None:
    on = built("8.2.1")
    plain = timed(on, *Flags.of("8.2.1").run)
    copied, spun, graph = timed(on), timed(on, "--useSpinWait", "--noDataTransfers"), timed(on, "--useCudaGraph")
    assert copied.latency is not None
    assert plain.latency is not None
    assert copied.latency.median_s > 1.01 * plain.latency.median_s
    assert (plain.in_effect.transfers, copied.in_effect.transfers) == (False, True)
    assert (plain.in_effect.spin, spun.in_effect.spin) == (False, True)
    assert graph.queries_per_s > 1.1 * copied.queries_per_s
    assert copied.queries_per_s < 0.997 * plain.queries_per_s


def test_spinning_keeps_a_core_busy() -> None:
    on = built("8.2.1", "alexnet")
    timed(on, "--noDataTransfers")
    quiet = on.busy[-1].activity.cpu_load
    timed(on, "--noDataTransfers", "--useSpinWait")
    assert quiet < 0.2 < on.busy[-1].activity.cpu_load == 1.0


@pytest.mark.parametrize(("version", "slower"), [("8.2.1", True), ("8.4.1", False), ("10.3.0", False)])
def test_without_a_workspace_old_versions_have_16_mib_and_new_ones_everything(version: str, slower: bool) -> None:
    full = timed(built(version, "alexnet"), *Flags.of(version).run)
    on, flags = board(version), Flags.of(version)
    words = [word for word in flags.build if "orkspace" not in word]
    said = start(on, "--onnx=/alexnet.onnx", "--saveEngine=/plan", *words)
    assert has(said, "do not have sufficient workspace") == slower
    poor = timed(on, *flags.run)
    assert (poor.queries_per_s < 0.9 * full.queries_per_s) == slower


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "word",
    [
        "--workspace=64",
        "--memPoolSize=workspace:64",
        "--noDataTransfers",
        "--fp16",
        "--noCudaGraph",
        "--exportLayerInfo=/l",
        "--nonsense",
        "onnx",
    ],
)
def test_an_option_of_another_version_fails_the_run(version: str, word: str) -> None:
    said = start(board(version), "--onnx=/googlenet.onnx", word)
    name = word.partition("=")[0]
    if not known(name.removeprefix("--"), numbers(version)) or not word.startswith("--"):
        assert said.exit_code == 1
        assert has(said, f"[E] Unknown option: {name} ")
        assert texts(said)[-1].startswith("&&&& FAILED")


def test_options_are_in_the_versions_that_have_them() -> None:
    if not MATRIX.exists():
        pytest.skip("there is no table of options here")
    with MATRIX.open(newline="") as file:
        for row in csv.DictReader(file):
            name = row["option"].removeprefix("--")
            for version, mark in row.items():
                # "m": only the help text names it, which may be another option that begins so.
                if name in OPTIONS and version[0].isdigit() and numbers(version) >= (7, 1) and mark != "m":
                    assert known(name, numbers(version)) == bool(mark), (name, version)


def test_a_plan_of_another_tensorrt_or_gpu_is_refused_in_its_words() -> None:
    plan = built("8.2.1").files["/plan"]
    for on, words in (
        (board("8.5.2"), "expecting library version 8.5.2 got 8.2.1, please rebuild"),
        (board("8.2.1", sm="6.2"), "expecting compute 6.2 got compute 5.3, please rebuild"),
    ):
        on.save("/plan", plan)
        said = start(on, "--loadEngine=/plan")
        assert has(said, words)
        assert isinstance(read_run(lines(said), said.exit_code or 0), Failure)


@pytest.mark.parametrize(
    "words",
    [
        ("--onnx=/none.onnx",),
        ("--loadEngine=/none",),
        (),
        ("--onnx=/junk",),
        ("--loadEngine=/junk",),
        ("--onnx=/googlenet.onnx", "--duration=long"),
        ("--onnx=/googlenet.onnx", "--iterations=x"),
    ],
)
def test_what_cannot_be_done_fails_and_yields_no_figure(words: tuple[str, ...]) -> None:
    on = board("8.2.1")
    on.save("/junk", b"junk")
    said = start(on, *words)
    assert said.exit_code == 1
    assert has(said, "[E] ")
    assert isinstance(read_run(lines(said), 1), Failure)


def test_too_little_memory_fails_the_build_in_tensorrts_words() -> None:
    said = start(board("8.2.1", memory_bytes=700_000_000), "--onnx=/alexnet.onnx")
    assert (said.exit_code, has(said, "OutOfMemory")) == (1, True)


def test_without_tensorrt_there_is_no_trtexec() -> None:
    said = FakeBoard(twin={**TWIN, "tensorrt": None}).run(TRTEXEC, ("trtexec",))
    assert said.exit_code == 127


def test_tensorrt_7_needs_an_explicit_batch_and_a_printed_profile() -> None:
    assert start(board("7.1.3"), "--onnx=/googlenet.onnx").exit_code == 1
    on = built("7.1.3")
    assert start(on, "--loadEngine=/plan", "--exportProfile=/p").exit_code == 139
    assert start(on, "--loadEngine=/plan", "--exportProfile=/p", "--dumpProfile").exit_code == 0


@pytest.mark.parametrize("version", VERSIONS)
def test_times_are_exported_as_the_version_does(version: str) -> None:
    at, on = numbers(version), built(version)
    found = timed(on, "--exportTimes=/times", *Flags.of(version).run)
    text = on.files["/times"].decode()
    rows = json.loads(text)
    assert ("startInMs" in rows[0]) == (at < (8,))
    assert ("endToEndMs" in rows[0]) == (at < (8, 4))
    read: Mapping[str, Any] = times(text, (at[0], at[1]), 500.0)
    assert (read["dropped"] > 0) == (at < (8, 5))
    assert len(read["compute_s"]) == found.queries
    assert sum(read["compute_s"]) == pytest.approx(found.gpu_total_s, rel=1e-4)
    assert min(h - c for h, c in zip(read["host_s"], read["compute_s"], strict=True)) > -1e-5


@pytest.mark.parametrize("version", VERSIONS)
def test_layers_are_exported_as_the_version_does(version: str) -> None:
    at, on = numbers(version), built(version)
    words = ["--exportProfile=/p", "--dumpProfile", *(["--explicitBatch"] if at < (8,) else [])]
    words += ["--exportLayerInfo=/l", "--profilingVerbosity=detailed"] if at >= (8, 2) else []
    words += ["--noCudaGraph"] if at >= (11,) else []
    said = start(on, "--loadEngine=/plan", "--duration=0", "--warmUp=0", "--iterations=20", *words)
    assert has(said, "=== Profile (20 iterations )")
    # A profiler that is not in a run of its own costs the summary, from 8.4 on until 11.
    assert has(said, "hroughput: ") == (at < (8, 4) or at >= (11,))
    layers = profile(on.files["/p"].decode())
    assert len(layers) > 50
    if at >= (8, 2):
        told = json.loads(on.files["/l"])
        assert {row["Name"] for row in told["Layers"]} == set(layers)
        assert ("I/O Tensors" if at >= (11,) else "Bindings") in told


def test_a_profile_in_a_run_of_its_own_leaves_the_summary() -> None:
    on = built("8.5.2")
    plain = timed(on, "--noDataTransfers")
    found = timed(on, "--noDataTransfers", "--exportProfile=/p", "--separateProfileRun")
    assert found.queries_per_s == pytest.approx(plain.queries_per_s, rel=0.02)


def test_a_batch_that_is_given_multiplies_the_rate_rightly_or_not() -> None:
    on = built("8.2.1")
    said = start(on, "--loadEngine=/plan", "--batch=8")
    (rate,) = (float(text.split()[-2]) for text in texts(said) if "Throughput: " in text)
    assert rate == pytest.approx(8 * timed(on).queries_per_s, rel=0.02)


def test_a_known_layer_is_built_faster() -> None:
    on = built("8.2.1")
    began_s = on.now_s
    start(on, "--onnx=/googlenet.onnx", "--saveEngine=/again", *Flags.of("8.2.1").build)
    with_cache_s, began_s = on.now_s - began_s, on.now_s
    words = [word for word in Flags.of("8.2.1").build if "timing" not in word]
    start(on, "--onnx=/googlenet.onnx", "--saveEngine=/again", *words)
    assert with_cache_s < 0.6 * (on.now_s - began_s)


def test_iterations_are_at_least_those_asked_for() -> None:
    on = built("8.2.1", "alexnet")
    found = summary(start(on, "--loadEngine=/plan", "--duration=0", "--iterations=37", "--warmUp=0"))
    assert found.queries == 37


def test_a_users_file_is_built_at_the_shapes_given(tmp_path: Path) -> None:
    emit_onnx(small(), 4, "fp32", 0, tmp_path / "m.onnx")
    on = board("8.2.1")
    on.save("/m.onnx", (tmp_path / "m.onnx").read_bytes())
    said = start(on, "--onnx=/m.onnx", "--duration=1")
    assert has(said, "dimensions 4x3x8x8")
    assert summary(said).queries > 100
    refused = start(on, "--onnx=/m.onnx", "--optShapes=data:8x3x8x8")
    assert refused.exit_code == 1
    assert not has(refused, "/tmp")


def test_options_of_pools_and_shapes_are_read() -> None:
    found, unknown = parse(("--memPoolSize=workspace:1.5G,dlaSRAM:1", "--shapes='a:b':1x3,c:2"), (8, 5, 2))
    assert not unknown
    assert found.workspace_bytes == 3 << 29
    assert found.shapes == {"a:b": (1, 3), "c": (2,)}


def test_ctrl_c_ends_it_without_a_word() -> None:
    on = built("8.2.1")
    said = on.run(TRTEXEC, ("trtexec", "--loadEngine=/plan", "--duration=60"), interrupt_after="Starting inference")
    assert said.exit_code == -2
    assert not has(said, "PASSED")
    assert not has(said, "hroughput")


def test_precision_is_the_flags_up_to_10_and_the_files_from_11_on() -> None:
    for version, build, expected in (
        ("10.3.0", ("--fp16",), "fp16"),
        ("10.3.0", (), "fp32"),
        ("11.4.1.106", (), "fp16"),
    ):
        on = board(version)
        start(on, "--onnx=/googlenet.onnx", "--saveEngine=/plan", "--skipInference", *build)
        assert read_plan(on.files["/plan"]).engine.precision == expected


@pytest.mark.parametrize("kind", ["build", "load"])
def test_a_shortage_of_memory_is_understood_as_one(kind: str) -> None:
    on = built("8.2.1", "alexnet")
    tight = board("8.2.1", memory_bytes=650_000_000)
    tight.save("/plan", on.files["/plan"])
    said = start(tight, "--onnx=/alexnet.onnx" if kind == "build" else "--loadEngine=/plan")
    failure = read_run(lines(said), said.exit_code or 0)
    assert isinstance(failure, Failure)
    assert isinstance(error_of("engine", failure.text, "", failure.log), OutOfMemory)


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b"null", b'{"twin plan": 1}', b"\xff\xfe", b'{"twin plan": {}}'])
def test_what_is_no_plan_is_refused(data: bytes) -> None:
    on = board("8.2.1")
    on.save("/plan", data)
    said = start(on, "--loadEngine=/plan")
    assert said.exit_code == 1
    assert has(said, "Magic tag does not match")
