from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.cost import Precision
from engines.spec import Protocol
from engines.trtexec.flags import build_argv, effective, profile_argv, run_argv
from engines.trtexec.version import Version, from_text
from remote.errors import EngineError

MATRIX = Path(__file__).resolve().parents[4] / "shared" / "facts" / "trtexec" / "options_matrix.csv"
VERSIONS = ["7.1.3", "7.2.1", "8.0.1", "8.2.1", "8.4.1", "8.5.2", "8.6.1", "10.0.0", "10.3.0", "10.16.2", "11.1.0"]
PROTOCOLS = [
    Protocol(transfers, spin, graph, ahead, tf32)
    for transfers, spin, graph, ahead, tf32 in itertools.product(
        [False, True], [False, True], [False, True], [0, 1], [False, True]
    )
]
SHAPES = {"data": (8, 3, 224, 224), "a:b": (8, 1)}


def build(
    text: str, protocol: Protocol | None = None, precision: Precision = "fp16", shapes: bool = False
) -> tuple[str, ...]:
    return build_argv(
        from_text(text), "T", "M.onnx", "P", precision, protocol or Protocol(), SHAPES if shapes else None, "C"
    )


def run(text: str, protocol: Protocol | None = None, shapes: bool = False, iterations: int | None = None) -> list[str]:
    return list(
        run_argv(
            from_text(text),
            "T",
            "P",
            protocol or Protocol(),
            warmup_s=2.0005,
            duration_s=9.2,
            iterations=iterations,
            min_iterations=10,
            times="X",
            shapes=SHAPES if shapes else None,
        )
    )


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("7.1.3", "--explicitBatch --fp16 --noTF32 --workspace=512 --buildOnly"),
        ("8.0.1", "--fp16 --noTF32 --workspace=512 --timingCacheFile=C --buildOnly"),
        ("8.2.1", "--fp16 --noTF32 --workspace=512 --timingCacheFile=C --profilingVerbosity=detailed --buildOnly"),
        (
            "8.5.2",
            "--fp16 --noTF32 --memPoolSize=workspace:512 --timingCacheFile=C --profilingVerbosity=detailed --buildOnly",
        ),
        (
            "10.3.0",
            "--fp16 --noTF32 --memPoolSize=workspace:512 --timingCacheFile=C --profilingVerbosity=detailed "
            "--skipInference",
        ),
        (
            "11.1.0",
            "--noTF32 --memPoolSize=workspace:512 --timingCacheFile=C --profilingVerbosity=detailed --skipInference",
        ),
    ],
)
def test_a_build_says_everything_in_the_words_of_its_version(text: str, rest: str) -> None:
    assert build(text) == ("T", "--onnx=M.onnx", "--saveEngine=P", *rest.split())


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ("7.1.3", "--explicitBatch --warmUp=2001 --duration=10 --iterations=10 --avgRuns=1 --percentile=99"),
        (
            "8.2.1",
            "--warmUp=2001 --duration=10 --iterations=10 --avgRuns=100 --percentile=99 --exportTimes=X "
            "--noDataTransfers",
        ),
        (
            "11.1.0",
            "--warmUp=2001 --duration=10 --iterations=10 --avgRuns=100 --percentile=99 --exportTimes=X --noSpinWait "
            "--noCudaGraph",
        ),
    ],
)
def test_a_run_says_everything_in_the_words_of_its_version(text: str, rest: str) -> None:
    assert run(text) == ["T", "--loadEngine=P", *rest.split()]


def obeyed(version: Version, argv: list[str]) -> Protocol:
    """What a trtexec of ``version`` does when told ``argv``: its defaults, changed by its options."""
    new = version.major >= 11
    transfers = "--includeDataTransfers" in argv if new else "--noDataTransfers" not in argv
    spin = "--noSpinWait" not in argv if new else "--useSpinWait" in argv
    graph = "--noCudaGraph" not in argv if new else "--useCudaGraph" in argv
    return Protocol(transfers, spin, graph, 0 if "--exposeDMA" in argv else 1)


@pytest.mark.parametrize("text", VERSIONS)
def test_every_version_is_made_to_follow_every_protocol_that_it_can(text: str) -> None:
    for protocol in PROTOCOLS:
        wanted, notes = effective(from_text(text), protocol)
        assert obeyed(from_text(text), run(text, protocol)) == replace(wanted, tf32=False)
        assert (wanted == protocol) == (not notes)


@pytest.mark.parametrize("text", VERSIONS)
def test_equal_protocols_have_one_fingerprint_over_all_versions_but_where_copies_cannot_be_left_out(text: str) -> None:
    fingerprint = effective(from_text(text), Protocol())[0].fingerprint()
    assert (fingerprint == Protocol().fingerprint()) == (text != "7.1.3")


def test_what_a_version_cannot_do_is_said() -> None:
    done, notes = effective(Version(7, 1, 3), Protocol(ahead=3, workspace_bytes=(100 << 20) + 7))
    assert done == Protocol(transfers=True, ahead=1, workspace_bytes=100 << 20)
    assert [word in note for word, note in zip(("copies", "one batch ahead", "100 MiB"), notes, strict=True)] == [
        True
    ] * 3


def test_a_number_of_iterations_wins_over_a_duration() -> None:
    assert {"--duration=0", "--iterations=3"} <= {*run("8.2.1", iterations=3)}


def test_open_dimensions_are_given_to_build_and_run_with_odd_names_in_quotes() -> None:
    spelled = "data:8x3x224x224,'a:b':8x1"
    built = build("8.5.2", shapes=True)
    assert [flag for flag in built if "Shapes" in flag] == [f"--{end}Shapes={spelled}" for end in ("min", "opt", "max")]
    assert f"--shapes={spelled}" in run("8.5.2", shapes=True)


def test_layers_are_profiled_in_a_run_of_their_own_without_a_cuda_graph() -> None:
    by_version = {text: profile_argv(from_text(text), "T", "P", "F", "L") for text in VERSIONS}
    assert all("--exportProfile=F" in argv and "--useCudaGraph" not in argv for argv in by_version.values())
    assert [text for text, argv in by_version.items() if "--dumpProfile" in argv] == ["7.1.3", "7.2.1"]
    assert [text for text, argv in by_version.items() if "--exportLayerInfo=L" not in argv] == VERSIONS[:3]
    assert [text for text, argv in by_version.items() if "--noCudaGraph" in argv] == ["11.1.0"]
    assert not any("rofile" in flag for text in VERSIONS for flag in run(text))


def test_an_unknown_version_is_told_nothing() -> None:
    for ask in (build, run, lambda text: profile_argv(from_text(text), "T", "P", "F", "L")):
        with pytest.raises(EngineError, match="not known"):
            ask("9.0.0")


@given(workspace=st.integers(1, 1 << 36))
def test_the_workspace_is_told_in_whole_mebibytes_and_never_none(workspace: int) -> None:
    done, _ = effective(Version(8, 5, 2), Protocol(workspace_bytes=workspace))
    assert done.workspace_bytes % (1 << 20) == 0
    assert done.workspace_bytes >= 1 << 20
    told = build("8.5.2", Protocol(workspace_bytes=workspace))
    assert f"--memPoolSize=workspace:{done.workspace_bytes >> 20}" in told


def columns() -> Iterator[tuple[str, set[str]]]:
    with MATRIX.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for version in rows[0]:
        if version != "option" and tuple(map(int, version.split(".")[:2])) >= (7, 1):
            yield version, {row["option"] for row in rows if row[version]}


@pytest.mark.skipif(not MATRIX.is_file(), reason="the folder of facts is not beside this checkout")
def test_every_flag_is_an_option_of_the_version_that_is_told_it() -> None:
    seen = set()
    for column, options in columns():
        text = column if column.count(".") == 2 else column + ".0"
        version = from_text(text)
        argvs = [list(profile_argv(version, "T", "P", "F", "L", SHAPES))]
        for protocol in PROTOCOLS:
            argvs += [
                run(text, protocol, True),
                *map(list, (build(text, protocol, "fp16", True), build(text, protocol, "fp32"))),
            ]
        flags = {flag.partition("=")[0] for argv in argvs for flag in argv[1:]}
        assert flags <= options, f"{column}: {flags - options}"
        seen.add(column)
    assert {"7.1.3", "8.0.1", "8.6.1", "10.16", "11.1"} <= seen
