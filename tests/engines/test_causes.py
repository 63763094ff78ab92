from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines import causes
from engines.causes import error_of, explain
from remote.errors import (
    DeviceDenied,
    EngineError,
    OutOfMemory,
    PlanMismatch,
    ToolMissing,
    UnsupportedModel,
    UsageError,
)

# One line in the real wording for every row of the table: what the message must name, and the fix it must hold.
ROWS = [
    (
        "The engine plan file is not compatible with this version of TensorRT, expecting library version 8.2.1.9 got "
        "8.0.1.6, please rebuild.",
        PlanMismatch,
        "built by TensorRT 8.0.1.6, here is 8.2.1.9",
        "edgeperf build",
    ),
    (
        "1: [stdArchiveReader.cpp::StdArchiveReader::40] Error Code 1: Serialization (Serialization assertion "
        "stdVersionRead == serializationVersion failed.Version tag does not match. Note: Current Version: 213, "
        "Serialized Engine Version: 205)",
        PlanMismatch,
        "another version of TensorRT",
        "edgeperf build",
    ),
    (
        "The engine plan file is generated on an incompatible device, expecting compute 5.3 got compute 6.2, please "
        "rebuild.",
        PlanMismatch,
        "compute capability 6.2, this one has 5.3",
        "edgeperf build",
    ),
    (
        "Using an engine plan file across different models of devices is not recommended and is likely to affect "
        "performance or even cause errors.",
        PlanMismatch,
        "another model of device",
        "edgeperf build",
    ),
    (
        "Using an engine plan file across different models of devices is not supported and may deadlock.",
        PlanMismatch,
        "another model of device",
        "edgeperf build",
    ),
    ("NvRmMemInitNvmap failed: error Permission denied", DeviceDenied, "/dev/nvmap", "usermod -aG video,render"),
    ("CUDA initialization failure with error: 2", OutOfMemory, "no memory is left", "smaller batch"),
    ("CUDA initialization failure with error: 35. Please check", DeviceDenied, "35: the driver", "edgeperf doctor"),
    ("CUDA initialization failure with error: 100", DeviceDenied, "100: no device", "edgeperf doctor"),
    ("CUDA initialization failure with error: 999", DeviceDenied, "999: the driver is in no state", "doctor"),
    ("CUDA initialization failure with error: 3", DeviceDenied, "3: unknown", "edgeperf doctor"),
    ("TypeError: pybind11::init(): factory function returned nullptr", DeviceDenied, "CUDA cannot", "edgeperf doctor"),
    (
        "Unknown embedded device detected. Using 59655MiB as the allocation cap for memory on embedded devices "
        "checkMemLimit {{1794, 6, 16}, 12660}",
        DeviceDenied,
        "does not know the board",
        "8.2.1.9",
    ),
    ("ModuleNotFoundError: No module named 'tensorrt'", ToolMissing, "TensorRT", "--system-site-packages"),
    (
        "ImportError: libnvinfer.so.10: cannot open shared object file: No such file or directory",
        ToolMissing,
        "libnvinfer.so.10",
        "pip uninstall",
    ),
    ("AttributeError: module 'numpy' has no attribute 'bool'.", ToolMissing, "NumPy", "numpy<1.24"),
    ("Unknown option: --workspace 2048", ToolMissing, "--workspace", "edgeperf doctor"),
    (
        "[TRT] ModelImporter.cpp:773: ERROR: builtin_op_importers.cpp:5404 In function importFallbackPluginImporter: "
        "No importer registered for op: NonZero. Attempting to import as plugin.",
        UnsupportedModel,
        "does not know: NonZero",
        "another opset",
    ),
    ("UNSUPPORTED_NODE: Unsupported ONNX operator: GridSample", UnsupportedModel, ": GridSample", "another opset"),
    (
        "getPluginCreator could not find plugin: RoiAlign version: 1",
        UnsupportedModel,
        "does not know: RoiAlign",
        "another opset",
    ),
    ("op is UNSUPPORTED_NODE here", UnsupportedModel, "operator", "another opset"),
    (
        "Network has dynamic or shape inputs, but no optimization profile has been defined.",
        UsageError,
        "dimensions",
        "--shape name:1x3x224x224",
    ),
    (
        "10: [optimizer.cpp::computeCosts::2011] Error Code 10: Internal Error (Could not find any implementation for "
        "node conv1 + relu1.)",
        OutOfMemory,
        "no tactic for conv1 + relu1 fits",
        "--workspace",
    ),
    ("Cuda Runtime (out of memory)", OutOfMemory, "memory is used up", "smaller batch"),
    (
        "2: [virtualMemoryBuffer.cpp::resizePhysical::145] Error Code 2: OutOfMemory (no further information)",
        OutOfMemory,
        "memory",
        "isolate",
    ),
    ("Killed", OutOfMemory, "memory is used up", "multi-user.target"),
    (
        "Tactic Device request: 414MB Available: 216MB. Device memory is insufficient to use tactic.",
        OutOfMemory,
        "needed 414 MB, 216 MB were free",
        "smaller batch",
    ),
    ("UNSUPPORTED_STATE: Skipping tactic 0", OutOfMemory, "left out", "smaller batch"),
    (
        "Some tactics do not have sufficient workspace memory to run. Increasing workspace size will enable more "
        "tactics, please check verbose output for requested sizes.",
        OutOfMemory,
        "workspace is small",
        "--workspace",
    ),
    ("Failed to parse onnx file", UsageError, "cannot read the model's file", "onnx.checker"),
    (
        "AttributeError: 'NoneType' object has no attribute 'create_execution_context'",
        EngineError,
        "could not load the plan",
        "edgeperf build",
    ),
    (
        "docker: Error response from daemon: pull access denied for my/trt, repository does not exist or may require "
        "'docker login'.",
        ToolMissing,
        "docker has no image my/trt,",
        "--container",
    ),
    (
        "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock",
        DeviceDenied,
        "may not use docker",
        "usermod -aG docker",
    ),
    (
        "docker: Error response from daemon: unknown or invalid runtime name: nvidia",
        ToolMissing,
        "no runtime called nvidia",
        "nvidia-container-toolkit",
    ),
    (
        "docker: Error response from daemon: Get https://images.example/v2/: dial tcp: i/o timeout.",
        ToolMissing,
        "docker: Get https://images.example/v2/: dial tcp: i/o timeout",
        "docker run --rm",
    ),
    (
        "cannot write /home/me/.cache/edgeperf/engines/ab12.times: No space left on device",
        EngineError,
        "the board's disk is full",
        "edgeperf engines prune",
    ),
    (
        "cannot write /home/me/.cache/edgeperf/engines/ab12.times: Read-only file system",
        EngineError,
        "the board's disk takes no changes",
        "dmesg",
    ),
]


@pytest.mark.parametrize(("line", "error", "named", "fix"), ROWS)
def test_every_known_text_becomes_its_error_with_the_fix_in_the_message(
    line: str, error: type[Exception], named: str, fix: str
) -> None:
    found = error_of("engine", "the run failed", log=["[E] something else", line])
    assert type(found) is error
    assert named in found.what
    assert fix in found.hint
    assert line in str(found)  # the user sees what TensorRT itself said


def test_every_row_of_the_table_has_its_line_here() -> None:
    shadowed = [row for row in causes._ROWS if not any(row.pattern.search(line) for line, *_ in ROWS)]
    assert shadowed == []
    explained = {cause.hint for line, *_ in ROWS if (cause := explain([line]))}
    assert explained == {row.hint for row in causes._ROWS}


def test_the_parser_tells_the_node_in_a_line_of_its_own() -> None:
    lines = [
        'While parsing node number 37 [NonZero -> "out"]:',
        "No importer registered for op: NonZero. Attempting to import as plugin.",
    ]
    cause = explain(lines)
    assert cause is not None
    assert cause.what.endswith("NonZero (node 37)")
    short = explain(["In node 12 (parseGraph): UNSUPPORTED_NODE: No importer registered for op: NonZero"])
    assert short is not None
    assert short.what.endswith("NonZero (node 12)")


def test_the_cause_wins_over_its_consequences_wherever_it_stands() -> None:
    lines = [
        "Some tactics do not have sufficient workspace memory to run.",
        "The engine plan file is generated on an incompatible device, expecting compute 7.2 got compute 8.7.",
        "Engine deserialization failed",
    ]
    cause = explain(lines)
    assert cause is not None
    assert (cause.kind, "8.7" in cause.what) == ("version", True)


@pytest.mark.parametrize(
    "line",
    ["", "Your ONNX model has been generated with INT64 weights, while TensorRT does not natively support INT64."],
)
def test_what_is_no_cause_is_not_taken_for_one(line: str) -> None:
    assert explain([line]) is None


def test_a_failure_that_knows_its_kind_keeps_its_words_and_shows_the_log() -> None:
    found = error_of("permission", "no access", "do this", ["first", "last"])
    assert isinstance(found, DeviceDenied)
    assert (found.what, found.hint) == ("no access", "do this\nthe last it said:\n  first\n  last")
    assert found.exit_code == 5


def test_a_failure_that_nobody_knows_is_an_engine_error_with_its_last_lines() -> None:
    found = error_of("never heard of", "it failed", log=[str(n) for n in range(9)])
    assert type(found) is EngineError
    assert found.hint.splitlines()[1:] == ["  4", "  5", "  6", "  7", "  8"]


@given(st.lists(st.text(max_size=80), max_size=5))
def test_any_log_gives_an_error(lines: list[str]) -> None:
    assert error_of("engine", "it failed", log=lines).what.startswith("it failed")
