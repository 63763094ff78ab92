from __future__ import annotations

import pytest

from engines.caffe import CaffeFailure, CaffeTime, parse
from engines.emit.prototxt import prototxt
from engines.models import load
from engines.simulated.caffe import memory_bytes
from engines.simulated.deploy import read_deploy
from engines.simulated.programs import programs
from remote.types import Completed
from tests.engines.board import FakeBoard

TX1_BYTES = 3_750_000_000  # what R23.1 leaves of the TX1's memory


def board(name: str = "alexnet", batch: int = 8, memory_bytes: int = TX1_BYTES) -> FakeBoard:
    text = prototxt(load(name, batch).network, batch)
    return FakeBoard("r23.1", memory_bytes=memory_bytes, files={"/net": text.encode()})


def time(on: FakeBoard, program: str = "caffe", *options: str, interrupt_after: str = "never") -> Completed:
    words = options or ("--model=/net", "-gpu", "0", "-iterations", "12")
    return on.run(programs()[program], (program, "time", *words), interrupt_after=interrupt_after)


def figures(said: Completed) -> CaffeTime:
    found = parse((line.t_s, line.text) for line in said.lines)
    assert isinstance(found, CaffeTime)
    return found


def test_the_parser_of_the_real_tool_reads_it() -> None:
    said = time(board())
    found = figures(said)
    assert said.exit_code == 0
    assert {line.source for line in said.lines} == {"stderr"}
    assert len(found.iterations_s) == 12
    assert found.forward_only
    assert found.forward_s == pytest.approx(sum(found.iterations_s) / 12, rel=1e-4)
    assert found.ended_s - found.began_s == pytest.approx(sum(found.iterations_s), rel=1e-4)


def test_its_lines_come_in_the_tools_order() -> None:
    texts = [line.text.partition("] ")[2] for line in time(board()).lines]
    order = [
        "Use GPU with device ID 0",
        "Creating Layer conv1",
        "Performing Forward",
        "Initial loss: 0",
        "*** Benchmark begins ***",
        "Testing for 12 iterations.",
        "*** Benchmark ends ***",
    ]
    assert [text for text in texts if text in order] == order
    assert [text for text in texts if text.startswith("Iteration: ")][11].startswith("Iteration: 12 forward-backward")


@pytest.mark.parametrize(
    ("name", "batch", "fits"), [("googlenet", 128, False), ("googlenet", 64, True), ("alexnet", 128, True)]
)
def test_what_fits_the_tx1_fits_here(name: str, batch: int, fits: bool) -> None:
    need = memory_bytes(read_deploy(prototxt(load(name, batch).network, batch)))
    assert (need <= TX1_BYTES) is fits


def test_too_little_memory_ends_as_cuda_ends_it() -> None:
    said = time(board("googlenet", 128))
    found = parse((line.t_s, line.text) for line in said.lines)
    assert isinstance(found, CaffeFailure)
    assert found.out_of_memory
    assert found.text == "Check failed: error == cudaSuccess (2 vs. 0)  out of memory"
    assert said.exit_code == 134


def test_the_batch_and_the_network_are_those_of_the_file_not_of_a_name() -> None:
    on = board(batch=4)
    four = figures(time(on)).forward_s
    on.files["/net"] = on.files["/net"].replace(b"  dim: 4\n", b"  dim: 32\n", 1)
    thirty_two = figures(time(on)).forward_s
    assert 2 < thirty_two / four < 8
    on.files["/net"] = on.files["/net"].replace(b"num_output: 4096", b"num_output: 64")
    assert figures(time(on)).forward_s < thirty_two


def test_the_fp16_program_is_faster_and_works_in_fp16() -> None:
    on = board(batch=64)
    single = figures(time(on)).forward_s
    assert figures(time(on, "caffe_fp16")).forward_s < single
    assert on.busy[-1].activity.precision == "fp16"


@pytest.mark.parametrize(
    "options",
    [
        ("-iterations", "5", "-model", "/net"),
        ("--iterations=5", "--model", "/net", "-gpu=0"),
    ],
)
def test_flags_are_written_as_gflags_takes_them(options: tuple[str, ...]) -> None:
    assert len(figures(time(board(), "caffe", *options)).iterations_s) == 5


def test_without_a_number_of_iterations_it_runs_fifty() -> None:
    assert len(figures(time(board(), "caffe", "--model=/net")).iterations_s) == 50


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("-gpu", "0"), "Need a model definition"),
        (("--model=/absent",), "/absent"),
        (("--model=/net", "-iterations", "0"), "FLAGS_iterations"),
        (("--model=/net", "-iterations", "many"), "FLAGS_iterations"),
    ],
)
def test_wrong_use_is_a_failed_check(options: tuple[str, ...], text: str) -> None:
    said = time(board(), "caffe", *options)
    found = parse((line.t_s, line.text) for line in said.lines)
    assert isinstance(found, CaffeFailure)
    assert text in found.text
    assert said.exit_code == 134


def test_a_layer_it_does_not_have_is_named() -> None:
    on = board()
    on.files["/net"] = on.files["/net"].replace(b'"Softmax"', b'"Sofmax"')
    found = parse((line.t_s, line.text) for line in time(on).lines)
    assert isinstance(found, CaffeFailure)
    assert "Unknown layer type: Sofmax" in found.text


def test_ctrl_c_ends_it_without_averages() -> None:
    said = time(board(batch=64), interrupt_after="Benchmark begins")
    assert said.exit_code == -2
    assert isinstance(parse((line.t_s, line.text) for line in said.lines), CaffeFailure)
