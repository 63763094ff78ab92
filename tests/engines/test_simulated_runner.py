from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engines.simulated.plan import read_plan
from engines.simulated.programs import programs
from remote.types import Completed
from tests.engines.board import CACHE, TWIN, FakeBoard, asked, event, events, seconds, small

RUNNER = programs()["runner.zip"]


def ask(board: FakeBoard, action: str = "bench", interrupt_after: str = "never", **changes: Any) -> Completed:
    return board.run(RUNNER, stdin=asked(action, **changes), interrupt_after=interrupt_after)


def run(board: FakeBoard, **changes: Any) -> Completed:
    ask(board, "build", **changes)
    return ask(board, **changes)


def speed(said: Completed, batch: int = 16) -> float:
    start, stop = event(said, "start"), event(said, "stop")
    return float(batch * stop["iterations"] / (stop["t_s"] - start["t_s"]))


def names(said: Completed) -> list[str]:
    return [found["event"] for found in events(said)]


def test_it_speaks_like_the_runner_of_a_real_board() -> None:
    board = FakeBoard()
    built = ask(board, "build")
    assert names(built) == ["hello", "built", "done"]
    said = ask(board)
    expected = ["hello", "loaded", "outputs", "warm", "start", "stop", "latencies", "host", "layers", "done"]
    assert names(said) == expected
    assert (built.exit_code, said.exit_code) == (0, 0)
    assert names(ask(board, "probe")) == ["hello", "done"]


def test_hello_says_what_the_key_is_made_of() -> None:
    hello = event(ask(FakeBoard(), "probe"), "hello")
    assert hello["board"] == {"tensorrt": "8.2.1", "gpu": "tx1 sm_53", "active_sms": "2"}
    assert hello["device"] == "sm_53, 2 multiprocessors"
    assert len(hello["key"]) == 32


def test_a_run_lasts_as_long_as_asked() -> None:
    said = run(FakeBoard())
    start, stop = event(said, "start"), event(said, "stop")
    assert 10.0 <= stop["t_s"] - start["t_s"] < 10.2
    # Nothing is copied and a batch is queued ahead: the GPU computes all the time, the host waits for two batches.
    assert sum(seconds(said, "latencies")) == pytest.approx(stop["t_s"] - start["t_s"], rel=1e-6)
    host, gpu = sum(seconds(said, "host")), sum(seconds(said, "latencies"))
    assert host == pytest.approx(2 * gpu, rel=0.01)


def test_iterations_are_exact_and_there_are_never_fewer_than_the_minimum() -> None:
    assert event(run(FakeBoard(), iterations=37), "stop")["iterations"] == 37
    assert event(run(FakeBoard(), duration_s=0.01), "stop")["iterations"] == 10


def test_an_engine_is_built_once_and_anything_else_is_another_engine() -> None:
    board = FakeBoard()
    first, second = event(ask(board, "build"), "built"), event(ask(board, "build"), "built")
    assert (first["cached"], second["cached"]) == (False, True)
    assert second["seconds"] < first["seconds"]
    assert (first["why"], second["why"]) == ("no engine of it was kept", "")
    assert first["path"] == second["path"] == f"{CACHE}/engines/{event(ask(board), 'hello')['key']}.plan"
    for change, word in (
        ({"batch": 8}, "batch"),
        ({"precision": "fp32"}, "precision"),
        ({"power_mode": "MAXN"}, "power mode"),
        ({"protocol": {"workspace_bytes": 64 << 20}}, "workspace"),
    ):
        other = event(ask(board, "build", **change), "built")
        assert not other["cached"]
        assert word in other["why"]
    newer = replace(board, twin={**TWIN, "tensorrt": {"tensorrt": "8.5.2", "cuda": "11.4", "python": "3.8"}})
    assert "TensorRT 8.2.1 instead of 8.5.2" in event(ask(newer, "build"), "built")["why"]


@pytest.mark.parametrize("end", ["plan", "json"])
@pytest.mark.parametrize("damage", [b"", b"{", b"{}", b'{"format": 1}'])
def test_a_damaged_engine_is_built_again_and_never_run(end: str, damage: bytes) -> None:
    board = FakeBoard()
    path = event(ask(board, "build"), "built")["path"].removesuffix("plan") + end
    board.files[path] = damage
    assert event(ask(board), "failed")["kind"] == "engine"
    board = FakeBoard(files={**board.files, path: damage}, used_s=dict.fromkeys([*board.files, path], 0.0))
    again = event(ask(board, "build"), "built")
    assert not again["cached"]
    assert "damaged" in again["why"] or "no engine" in again["why"] or "gone" in again["why"]
    assert "failed" not in names(ask(board))


@pytest.mark.parametrize("steps", range(12))
def test_a_build_that_is_cut_off_leaves_nothing_that_is_taken_for_an_engine(steps: int) -> None:
    board = FakeBoard(boom_after=steps)
    said = ask(board, "build")
    board.boom_after = -1
    failed = said.exit_code != 0
    after = event(ask(board, "build"), "built")
    assert not failed or not after["cached"] or read_plan(board.files[after["path"]])
    assert "failed" not in names(ask(board))


def test_what_was_timed_before_is_built_faster() -> None:
    board = FakeBoard()
    first = event(ask(board, "build"), "built")["seconds"]
    again = event(ask(board, "build", power_mode="MAXN"), "built")["seconds"]
    assert again < first


def test_several_engines_differ_and_the_chosen_one_is_kept() -> None:
    board = FakeBoard()
    speeds = []
    for variant in range(3):
        built = event(ask(board, "build", variant=variant), "built")
        assert not built["cached"]
        assert built["path"].endswith(f".v{variant}.plan")
        speeds.append(speed(ask(board, variant=variant)))
    assert 1.001 < max(speeds) / min(speeds) < 1.1
    chosen = ask(board, "choose", variant=1)
    assert names(chosen) == ["hello", "built", "done"]
    assert not [path for path in board.files if ".v" in path]
    assert event(ask(board, "build"), "built")["cached"]
    assert speed(ask(board)) == pytest.approx(speeds[1], rel=0.005)


def test_a_higher_clock_is_never_slower() -> None:
    speeds = [speed(run(FakeBoard(gpu_hz=hz))) for hz in (307.2e6, 614.4e6, 998.4e6)]
    assert speeds == sorted(speeds)


def test_the_same_seed_gives_the_same_run() -> None:
    assert run(FakeBoard(seed=5)).lines == run(FakeBoard(seed=5)).lines != run(FakeBoard(seed=6)).lines


def test_the_activity_is_that_of_the_network() -> None:
    board = FakeBoard()
    said = run(board)
    load_now = board.busy[-1].activity
    assert load_now.precision == "fp16"
    assert load_now.flops_per_s / speed(said) == pytest.approx(2 * 724.4e6, rel=0.05)


def test_what_does_not_fit_the_memory_is_out_of_memory_with_what_would_free_some() -> None:
    said = event(ask(FakeBoard(memory_bytes=1_200_000_000), "build", batch=256, precision="fp32"), "failed")
    assert said["kind"] == "out_of_memory"
    assert "batch" in said["hint"]


def test_a_shortage_is_answered_by_a_smaller_workspace_once_and_said() -> None:
    board = FakeBoard(memory_bytes=1_100_000_000)
    built = event(ask(board, "build"), "built")
    assert built["workspace_bytes"] == 64 << 20
    assert "64 MiB instead of 512 MiB" in built["notes"][0]
    again = event(ask(board, "build"), "built")
    assert (again["cached"], again["notes"]) == (True, built["notes"])


@pytest.mark.parametrize(
    ("board", "toolchain"),
    [(FakeBoard(twin={**TWIN, "tensorrt": None}), "tensorrt"), (FakeBoard(), "onnxruntime"), (FakeBoard(), "x")],
)
def test_what_the_release_does_not_have_is_missing(board: FakeBoard, toolchain: str) -> None:
    said = ask(board, toolchain=toolchain)
    assert (said.exit_code, event(said, "failed")["kind"]) == (1, "missing")


def test_another_way_to_cuda_is_missing() -> None:
    assert event(ask(FakeBoard(), "build", cuda="pycuda"), "failed")["kind"] == "missing"
    assert event(ask(FakeBoard(), "build", cuda="ctypes"), "built")


@pytest.mark.parametrize("graph", [None, "", "{}", "[]"])
def test_what_is_no_network_is_the_models_fault(graph: str | None) -> None:
    assert event(ask(FakeBoard(), "build", graph=graph), "failed")["kind"] == "model"


def test_a_users_model_is_read_from_its_file(tmp_path: Path) -> None:
    from engines.emit.onnx import emit_onnx

    emit_onnx(small(), 4, "fp32", 0, tmp_path / "m.onnx")
    board = FakeBoard(files={"/m.onnx": (tmp_path / "m.onnx").read_bytes(), "/junk.onnx": b"junk"})
    assert event(run(board, model="/m.onnx", graph=None, batch=4), "stop")["iterations"] > 10
    for path in ("/junk.onnx", "/none.onnx"):
        said = event(ask(FakeBoard(files=board.files), "build", model=path, graph=None, batch=5), "failed")
        assert said["kind"] == "model"


def test_tensorrt_11_takes_types_from_the_model_only(tmp_path: Path) -> None:
    from engines.emit.onnx import emit_onnx

    twin = {**TWIN, "tensorrt": {"tensorrt": "11.4.1", "cuda": "13.2", "python": "3.12"}}
    emit_onnx(small(), 4, "fp32", 0, tmp_path / "m.onnx")
    emit_onnx(small(), 4, "fp16", 0, tmp_path / "h.onnx")
    board = FakeBoard(twin=twin, files={f"/{p.name}": p.read_bytes() for p in tmp_path.iterdir()})
    assert event(ask(board, "build", model="/m.onnx", batch=4), "failed")["kind"] == "model"
    assert event(ask(board, "build", model="/h.onnx", batch=4), "built")


def test_layers_are_named_as_tensorrt_fuses_them_and_take_the_time_of_the_batch() -> None:
    said = run(FakeBoard())
    rows = {row["name"]: row for row in event(said, "layers")["rows"]}
    assert {"conv1 + relu1", "norm1", "pool1", "fc8", "prob"} <= set(rows)
    assert (rows["fc8"]["precision"], rows["prob"]["precision"]) == ("fp16", "fp32")
    mean_s = sum(seconds(said, "latencies")) / event(said, "stop")["iterations"]
    assert sum(row["seconds"] for row in rows.values()) == pytest.approx(mean_s, rel=0.02)


def test_before_tensorrt_8_2_layers_cannot_be_inspected() -> None:
    twin = {**TWIN, "tensorrt": {"tensorrt": "8.0.1", "cuda": "10.2", "python": "3.6.9"}}
    rows = event(run(FakeBoard(twin=twin)), "layers")["rows"]
    assert {(row["type"], row["precision"]) for row in rows} == {("", "")}
    assert all(row["seconds"] > 0 for row in rows)


@pytest.mark.parametrize("word", ["hello", "loaded", "start"])
def test_ctrl_c_keeps_what_was_finished(word: str) -> None:
    board = FakeBoard()
    ask(board, "build")
    said = ask(board, interrupt_after=f'"{word}"', duration_s=600.0)
    assert event(said, "done")["interrupted"]
    if word == "start":
        start, stop, done = event(said, "start"), event(said, "stop"), seconds(said, "latencies")
        assert len(done) == stop["iterations"] > 0
        assert sum(done) <= stop["t_s"] - start["t_s"] < 2.0
    else:
        assert "stop" not in names(said)


def test_ctrl_c_in_a_build_leaves_no_engine() -> None:
    board = FakeBoard()
    said = ask(board, "build", interrupt_after='"hello"')
    assert names(said) == ["hello", "done"]
    assert not event(ask(board, "build"), "built")["cached"]


def test_ten_minutes_of_short_batches_are_told_in_pieces() -> None:
    said = run(FakeBoard(), batch=1, duration_s=600.0)
    pieces = [found["seconds"] for found in events(said) if found["event"] == "latencies"]
    assert len(pieces) > 1
    assert all(len(piece) <= 20_000 for piece in pieces)
    assert sum(map(len, pieces)) == event(said, "stop")["iterations"]


def test_kept_engines_are_listed_and_removed() -> None:
    board = FakeBoard()
    ask(board, "build")
    ask(board, "build", batch=8)
    request = {"toolchain": "", "cache": CACHE, "content": {"board": {"gpu": "tx1", "l4t": "32.7.1"}}}
    listed = board.run(RUNNER, stdin=json.dumps({**request, "action": "engines"}))
    rows = event(listed, "engines")["rows"]
    assert {(row["name"], row["batch"], row["state"]) for row in rows} == {("alexnet", 16, "ok"), ("alexnet", 8, "ok")}
    assert all(row["plan_bytes"] > 100e6 for row in rows)
    pruned = board.run(RUNNER, stdin=json.dumps({**request, "action": "prune", "what": "all", "keys": []}))
    assert event(pruned, "pruned")["bytes"] > 200e6
    assert not board.files


def test_every_program_is_known_by_the_name_it_is_started_under() -> None:
    assert set(programs()) == {"runner.zip", "trtexec", "docker", "caffe", "caffe_fp16"}


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (("docker", "run", "--rm", "--entrypoint", "python3", "trt:8.2", "/x/runner.zip"), 0, '"event": "hello"'),
        (("docker", "run", "--volume", "/a:/a", "trt:8.2", "python3", "/x/runner.zip"), 0, '"event": "hello"'),
        (("docker", "run", "--runtime=nvidia", "trt:8.2", "trtexec", "--help"), 0, "&&&& RUNNING"),
        (("docker", "run", "other", "trtexec", "--help"), 125, "Unable to find image 'other:latest' locally"),
        (("docker", "run", "trt:8.2", "vim"), 127, "executable file not found"),
        (("docker", "ps"), 1, "only knows: run"),
    ],
)
def test_docker_starts_programs_in_images_that_the_board_has(argv: tuple[str, ...], code: int, words: str) -> None:
    said = FakeBoard().run(programs()["docker"], argv, stdin=asked("probe"))
    assert said.exit_code == code
    assert any(words in line.text for line in said.lines)
