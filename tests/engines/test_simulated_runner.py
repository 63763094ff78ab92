from __future__ import annotations

import json
from typing import Any, Literal

import pytest

from engines import toolchains
from engines.emit.graphjson import graph_json
from engines.models import load
from engines.simulated.programs import programs
from engines.toolchains.conversation import EngineRun
from engines.toolchains.talk import Timed, understand
from remote.types import Completed
from tests.engines.board import TWIN, FakeBoard

RUNNER = programs()["runner.zip"]
TIMED = Timed("scope", "protocol")


def ask(
    board: FakeBoard,
    name: str = "alexnet",
    batch: int = 16,
    precision: Literal["fp32", "fp16"] = "fp16",
    interrupt_after: str = "never",
    **changes: Any,
) -> Completed:
    request = {
        "action": "bench",
        "toolchain": "tensorrt",
        "model": None,
        "graph": graph_json(load(name, batch).network, batch, precision, 0),
        "precision": precision,
        "batch": batch,
        "seed": 0,
        "key": "k",
        "cache": "/cache",
        "input_value": 0.7,
        "warmup_s": 2.0,
        "duration_s": 10.0,
        "iterations": None,
        "min_iterations": 10,
    }
    return board.run(RUNNER, stdin=json.dumps({**request, **changes}), interrupt_after=interrupt_after)


def run(board: FakeBoard, **options: Any) -> EngineRun:
    return understand(ask(board, **options), "tensorrt", options.get("batch", 16), TIMED)


def test_it_speaks_like_the_runner_of_a_real_board() -> None:
    said = ask(FakeBoard())
    events = [json.loads(line.text)["event"] for line in said.lines]
    assert events == ["hello", "built", "warm", "start", "stop", "latencies", "done"]
    assert said.exit_code == 0


def test_a_run_lasts_as_long_as_asked() -> None:
    board = FakeBoard()
    found = run(board)
    assert 10.0 <= found.stop_s - found.start_s < 10.2
    assert sum(found.latencies_s) == pytest.approx(found.stop_s - found.start_s, rel=1e-6)
    assert found.precision_found == "fp16"
    assert found.versions["tensorrt"] == "8.2.1"


def test_iterations_are_exact_and_there_are_never_fewer_than_the_minimum() -> None:
    assert run(FakeBoard(), iterations=37).iterations == 37
    assert run(FakeBoard(), duration_s=0.01).iterations == 10


def test_an_engine_is_built_once() -> None:
    board = FakeBoard()
    first, second = run(board).built, run(board).built
    assert first is not None
    assert second is not None
    assert (first.cached, second.cached) == (False, True)
    assert second.seconds < first.seconds
    other = run(board, key="other").built
    assert other is not None
    assert not other.cached


def test_a_higher_clock_is_never_slower() -> None:
    speeds = [run(FakeBoard(gpu_hz=hz)).images_per_s or 0 for hz in (307.2e6, 614.4e6, 998.4e6)]
    assert speeds == sorted(speeds)


def test_the_same_seed_gives_the_same_run() -> None:
    assert run(FakeBoard(seed=5)) == run(FakeBoard(seed=5)) != run(FakeBoard(seed=6))


def test_the_activity_is_that_of_the_network() -> None:
    board = FakeBoard()
    found = run(board, precision="fp16")
    load_now = board.busy[-1].activity
    assert load_now.precision == "fp16"
    operations = load_now.flops_per_s / (found.images_per_s or 1)
    assert operations == pytest.approx(2 * 724.4e6, rel=0.05)


def test_what_does_not_fit_the_memory_is_out_of_memory() -> None:
    said = json.loads(ask(FakeBoard(memory_bytes=1_200_000_000), batch=256, precision="fp32").lines[-1].text)
    assert (said["event"], said["kind"]) == ("failed", "out_of_memory")


@pytest.mark.parametrize(
    ("board", "toolchain"),
    [(FakeBoard(twin={**TWIN, "tensorrt": None}), "tensorrt"), (FakeBoard(), "onnxruntime"), (FakeBoard(), "x")],
)
def test_what_the_release_does_not_have_is_missing(board: FakeBoard, toolchain: str) -> None:
    said = ask(board, toolchain=toolchain)
    assert (said.exit_code, json.loads(said.lines[-1].text)["kind"]) == (1, "missing")


@pytest.mark.parametrize("graph", [None, "", "{}", "[]"])
def test_what_is_no_network_is_the_models_fault(graph: str | None) -> None:
    assert json.loads(ask(FakeBoard(), graph=graph).lines[-1].text)["kind"] == "model"


def test_probe_and_build_do_no_more_than_that() -> None:
    said = [[json.loads(line.text)["event"] for line in ask(FakeBoard(), action=a).lines] for a in ("probe", "build")]
    assert said == [["hello", "done"], ["hello", "built", "done"]]


@pytest.mark.parametrize("word", ["hello", "built", "start"])
def test_ctrl_c_keeps_what_was_finished(word: str) -> None:
    board = FakeBoard()
    found = understand(ask(board, interrupt_after=f'"{word}"', duration_s=600.0), "tensorrt", 16, TIMED)
    assert found.interrupted
    if word == "start":
        assert found.iterations > 0
        assert sum(found.latencies_s) <= found.stop_s - found.start_s < 2.0
    else:
        assert found.iterations == 0


def test_ten_minutes_of_short_batches_are_told_in_pieces() -> None:
    said = ask(FakeBoard(), batch=1, duration_s=600.0)
    pieces = [e for e in map(json.loads, (line.text for line in said.lines)) if e["event"] == "latencies"]
    assert len(pieces) > 1
    assert all(len(piece["seconds"]) <= 20_000 for piece in pieces)
    assert sum(len(piece["seconds"]) for piece in pieces) == understand(said, "tensorrt", 1, TIMED).iterations


def test_every_program_is_known_by_the_name_it_is_started_under() -> None:
    assert set(programs()) == {"runner.zip", "caffe", "caffe_fp16"}
    assert "tensorrt" in toolchains.names()
