"""Engines of simulated boards from the command line: two tools that agree, engines that are kept, and rebuilt."""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from edgeperf.bench import prepare
from edgeperf.left import Request
from engines.simulated.programs import programs
from engines.toolchains import Put
from remote.board import open_board
from remote.hosts import parse
from tests.cli.command import bench, edgeperf, tiny_model

BOARDS = ("sim:orin-nx@r36.4", "sim:nano@r32.7", "sim:xavier-nx@r35", "sim:agx-thor@r38.4")
ALEXNET = ("--fp16", "--batch", "64")


def speed(record: Any) -> float:
    value: float = record["throughput_per_s"]["value"]
    return value


def built(record: Any) -> dict[str, Any]:
    made: dict[str, Any] = record["engine"]["built"]
    return made


@pytest.fixture
def nano(tmp_path: Path) -> str:
    return f"sim:nano@r32.7,state={tmp_path / 'board.json'}"


# Two tools, one protocol


@pytest.mark.parametrize("host", BOARDS)
def test_both_tools_agree_within_one_percent_as_their_protocol_is_the_same(host: str) -> None:
    one, other = (bench(*ALEXNET, "--host", host, "--toolchain", name) for name in ("tensorrt", "trtexec"))
    assert speed(other) == pytest.approx(speed(one), rel=0.01)
    assert other["latency_s"]["mean"] == pytest.approx(one["latency_s"]["mean"], rel=0.01)
    assert other["power_w"]["total"] == pytest.approx(one["power_w"]["total"], rel=0.01)
    assert other["engine"]["protocol"] == one["engine"]["protocol"]
    assert (one["verdict"]["state"], other["verdict"]["state"]) == ("VALID", "VALID")
    assert one["spec"]["precision_found"] == other["spec"]["precision_found"] == "fp16"


@pytest.mark.parametrize("tool", ["tensorrt", "trtexec"])
@pytest.mark.parametrize("option", ["--transfers", "--spin", "--cuda-graph", "--tf32", "--workspace=16MiB"])
def test_another_protocol_is_another_fingerprint(tool: str, option: str) -> None:
    asked = ("--batch", "8", "--host", "sim:orin-nx@r36.4", "--toolchain", tool, "--duration", "1s")
    plain, other = bench(*asked), bench(*asked, option)
    assert plain["engine"]["protocol"]["fingerprint"] != other["engine"]["protocol"]["fingerprint"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), None),
        (("--transfers", "--spin"), "inputs and outputs are copied for every batch, a CPU core spins while it waits"),
        (("--cuda-graph", "--tf32", "--workspace", "16MiB"), "as a CUDA graph, TF32 allowed, workspace 16 MiB"),
    ],
)
def test_the_report_says_what_is_not_the_usual_protocol(options: tuple[str, ...], said: str | None) -> None:
    ran = edgeperf("bench", "alexnet", "--host", "sim:orin-nx@r36.4", "--duration", "1s", *options)
    rows = [line[12:] for line in ran.out.splitlines() if line.startswith("protocol")]
    assert rows == ([said] if said else [])


@pytest.mark.parametrize("tool", ["tensorrt", "trtexec"])
@pytest.mark.parametrize("model", ["alexnet", "googlenet"])
def test_a_built_in_model_costs_less_than_100_kb_on_the_wire(tool: str, model: str, tmp_path: Path) -> None:
    request = Request(model=model, precision="fp16", batch=64, toolchain=tool)
    with open_board(parse("sim:orin-nx@r36.4"), programs(), tmp_path) as board:
        chain, asked = prepare(request, board, tmp_path)
        talk, sent = chain.bench(asked), 0
        answer: Any = None
        with suppress(StopIteration):
            while True:
                ask = talk.send(answer)
                if isinstance(ask, Put):
                    sent += len(ask.blob.data) + (ask.blob.path.stat().st_size if ask.blob.path else 0)
                    answer = board.transport.put(ask.blob)
                else:
                    sent += len(json.dumps([ask.job.argv, ask.job.stdin]))
                    answer = board.transport.run(ask.job)
    assert 0 < sent < 100_000


# Engines that are kept


@pytest.mark.parametrize("tool", ["tensorrt", "trtexec"])
def test_the_second_bench_does_not_build_again(tool: str, nano: str) -> None:
    first = bench(*ALEXNET, "--host", nano, "--toolchain", tool)
    second = bench(*ALEXNET, "--host", nano, "--toolchain", tool)
    assert (built(first)["cached"], built(second)["cached"]) == (False, True)
    assert first["spec"]["key"] == second["spec"]["key"]
    assert built(first)["why"] == ""
    assert speed(second) == pytest.approx(speed(first), rel=0.02)


@pytest.mark.parametrize("tool", ["tensorrt", "trtexec"])
@pytest.mark.parametrize(
    ("changed", "named"),
    [
        (("--fp16", "--batch", "8"), "batch"),
        (("--fp32", "--batch", "64"), "precision"),
        ((*ALEXNET, "--workspace", "256MiB"), "workspace"),
        ((*ALEXNET, "--seed", "1"), "seed"),
    ],
    ids=["batch", "precision", "workspace", "seed"],
)
def test_an_engine_of_anything_else_is_built_and_why_is_said(
    tool: str, changed: tuple[str, ...], named: str, nano: str
) -> None:
    bench(*ALEXNET, "--host", nano, "--toolchain", tool)
    other = built(bench(*changed, "--host", nano, "--toolchain", tool))
    assert not other["cached"]
    assert named in other["why"]


def test_another_power_mode_needs_another_engine(nano: str) -> None:
    bench(*ALEXNET, "--host", nano)
    assert edgeperf("apply", "stock", "--mode", "5W", "--host", nano).code == 0
    other = built(bench(*ALEXNET, "--host", nano))
    assert (other["cached"], "power mode" in other["why"]) == (False, True)


def test_a_model_of_the_same_name_with_other_bytes_needs_another_engine(nano: str, tmp_path: Path) -> None:
    path = tiny_model(tmp_path / "mine.onnx")
    asked = ("--host", nano, "--duration", "1s")
    bench(*asked, model=str(path))
    assert built(bench(*asked, model=str(path)))["cached"]
    import onnx

    model = onnx.load(path)
    model.graph.node[0].op_type = "Sigmoid"
    onnx.save(model, path)
    again = built(bench(*asked, model=str(path)))
    assert not again["cached"]
    assert "model" in again["why"]


@pytest.mark.parametrize("ending", [".plan", ".json"])
@pytest.mark.parametrize("tool", ["tensorrt", "trtexec"])
def test_what_is_damaged_is_built_again_and_never_loaded(tool: str, ending: str, nano: str, tmp_path: Path) -> None:
    bench(*ALEXNET, "--host", nano, "--toolchain", tool)
    state = tmp_path / "board.json"
    board = json.loads(state.read_text())
    files = next(found for found in _tables(board) if any(path.endswith(".plan") for path in found))
    (path,) = (path for path in files if "/engines/" in path and path.endswith(ending) and "timing" not in path)
    content = bytearray(base64.b64decode(files[path]["data"]))
    content[len(content) // 2] ^= 1
    files[path]["data"] = base64.b64encode(bytes(content)).decode()
    state.write_text(json.dumps(board))
    again = built(bench(*ALEXNET, "--host", nano, "--toolchain", tool))
    assert not again["cached"]
    assert "damaged" in again["why"]


def _tables(value: Any) -> Any:
    """Yields every dictionary within ``value``."""
    if isinstance(value, dict):
        yield value
        for item in value.values():
            yield from _tables(item)


def test_of_several_builds_the_spread_is_told(nano: str) -> None:
    ran = edgeperf("bench", "alexnet", *ALEXNET, "--builds", "3", "--host", nano)
    assert ran.code == 0
    assert "the fastest of 3 was kept" in ran.out
    rates = built(bench(*ALEXNET, "--builds", "3", "--host", nano))["builds_per_s"]
    assert len(set(rates)) == 3
    assert built(bench(*ALEXNET, "--host", nano))["cached"]


def test_engines_are_listed_and_removed(nano: str) -> None:
    bench(*ALEXNET, "--host", nano)
    bench(*ALEXNET, "--host", nano, "--toolchain", "trtexec")
    rows = edgeperf("engines", "list", "--host", nano, "--json").data()["engines"]
    assert [(row["name"], row["batch"], row["state"]) for row in rows] == [("alexnet", 64, "ok")] * 2
    assert edgeperf("engines", "prune", "--host", nano, "--json").data()["engines"] == []
    gone = edgeperf("engines", "prune", rows[0]["key"][:10], "--host", nano, "--json").data()
    assert [row["key"] for row in gone["engines"]] == [rows[0]["key"]]
    assert gone["freed_bytes"] > 0
    assert "none is kept" not in edgeperf("engines", "list", "--host", nano).out
    unknown = edgeperf("engines", "prune", "0000000000", "--host", nano)
    assert (unknown.code, "no kept engine has a key that begins with" in unknown.err) == (2, True)
    assert edgeperf("engines", "prune", "--all", "--host", nano).code == 0
    assert "none is kept" in edgeperf("engines", "list", "--host", nano).out


# What is typed wrongly


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (("--workspace", "much"), "--workspace 'much' is no size"),
        (("--workspace", "0"), "is no size"),
        (("--cuda", "opencl"), "--cuda 'opencl' is not known"),
        (("--shape", "data=1x3"), "--shape 'data=1x3'"),
        (("--container", "--privileged"), "is no image"),
        (("--builds", "0"), "builds"),
        (("--toolchain", "caffe", "--host", "sim:tx1@r23.1", "--spin"), "options of TensorRT"),
        (("--toolchain", "onnxruntime", "--host", "local", "--builds", "2"), "options of TensorRT"),
    ],
)
def test_wrong_options_are_refused_with_what_to_write(words: tuple[str, ...], match: str) -> None:
    ran = edgeperf("bench", "alexnet", *words)
    assert (ran.code, match in ran.err, "Traceback" in ran.err) == (2, True, False), ran.err


def test_an_image_that_is_not_on_the_board_is_named() -> None:
    ran = edgeperf("bench", "alexnet", "--host", "sim:orin-nx@r36.4", "--container", "nowhere:1")
    assert ran.code == 5
    assert "nowhere:1" in ran.err
