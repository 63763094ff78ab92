"""What was recorded with one command is answered to the same command, and reports are made again without a board."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import edgeperf, tiny_model

SHORT = ("--duration", "2s", "--warmup", "0.5s", "--idle", "1s")
TWIN = "sim:tx1"
COMMANDS = {
    "bench": ("bench", "alexnet", "--fp16", *SHORT),
    "bench-repeat": ("bench", "alexnet", "--repeat", "2", "--out", "r.json", *SHORT),
    "build": ("build", "alexnet"),
    "exec": ("exec", "--out", "r.json", "--idle", "1s"),
    "doctor": ("doctor",),
    "status": ("status",),
    "apply": ("apply", "maxperf"),
    "maxperf-dry": ("maxperf", "--dry-run"),
    "restore": ("restore",),
}


def command(name: str, *options: str) -> tuple[str, ...]:
    return (*COMMANDS[name], *options, *(("--", "sleep", "2") if name == "exec" else ()))


def figures(out: str) -> list[str]:
    """Returns what was printed, without the lines that name the host or a file."""
    return [line for line in out.splitlines() if not line.startswith(("SIMULATED", "saved", "undo:"))]


@pytest.fixture(autouse=True)
def _in_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_a_command_says_on_its_recording_what_it_said_on_the_board(name: str) -> None:
    then = edgeperf(*command(name, "--quiet", "--host", TWIN, "--record", "board.jsonl.gz"))
    now = edgeperf(*command(name, "--quiet", "--host", "replay:board.jsonl.gz"))
    assert then.code == 0, then.err
    assert (now.code, figures(now.out), now.err) == (0, figures(then.out), then.err)
    assert "SIMULATED" in now.out


def test_attach_is_recorded_as_any_other_command() -> None:
    assert edgeperf("attach", "--host", TWIN, "--record", "board.jsonl").code == 4
    assert edgeperf("attach", "--host", "replay:board.jsonl").code == 4


@pytest.mark.parametrize("toolchain", ["caffe", "trtexec"])
def test_other_toolchains_are_replayed_bit_for_bit(toolchain: str) -> None:
    host = "sim:tx1@r23.1,probe=lab" if toolchain == "caffe" else TWIN
    words = ("bench", "alexnet", "--toolchain", toolchain, "--json", "--quiet", *SHORT)
    then = edgeperf(*words, "--host", host, "--record", "board.jsonl").data()
    now = edgeperf(*words, "--host", "replay:board.jsonl").data()
    for name in ("created", "host"):
        del then[name], now[name]
    assert now == then


def test_this_machine_is_replayed_as_a_board_is(tmp_path: Path) -> None:
    words = ("exec", "--idle", "0", "--quiet", "--json", "--out", "r.json")
    then = edgeperf(*words, "--host", "local", "--record", "board.jsonl", "--", "echo", "hello")
    now = edgeperf(*words, "--host", "replay:board.jsonl", "--", "echo", "hello")
    assert (then.code, now.code) == (0, 0)
    assert "hello" in now.err
    assert now.data()["duration_s"] == then.data()["duration_s"]
    assert now.data()["simulated"] is False


def test_a_network_on_this_machine_is_replayed_bit_for_bit(tmp_path: Path) -> None:
    model = str(tiny_model(tmp_path / "tiny.onnx"))
    words = ("bench", model, "--quiet", "--json", "--duration", "0.2", "--warmup", "0", "--idle", "0")
    then = edgeperf(*words, "--host", "local", "--record", "board.jsonl.gz").data()
    now = edgeperf(*words, "--host", "replay:board.jsonl.gz").data()
    assert now["samples_s"] == then["samples_s"]
    assert now["latency_s"] == then["latency_s"]
    assert edgeperf("report", "last", "--json").data()["differences"] == []


def test_another_question_than_the_recorded_one_ends_with_3_and_names_it() -> None:
    edgeperf(*command("exec", "--host", TWIN, "--record", "board.jsonl"))
    ran = edgeperf("exec", "--host", "replay:board.jsonl", "--idle", "1s", "--", "sleep", "3")
    assert ran.code == 3
    assert "'2', now it is '3'" in ran.err
    assert "edgeperf" in ran.err
    assert edgeperf("bench", "alexnet", "--host", "replay:board.jsonl").code == 3


@pytest.mark.parametrize(("host", "code"), [("replay:", 2), ("replay:nowhere", 3), ("replay:x.txt", 3)])
def test_what_is_no_recording_is_said(host: str, code: int) -> None:
    Path("x.txt").write_text("hello\n")
    ran = edgeperf("status", "--host", host)
    assert ran.code == code
    assert "--record FILE" in ran.err or "No such file" in ran.err


def test_one_file_records_one_board() -> None:
    ran = edgeperf("status", "--host", TWIN, "--host", "sim:nano", "--record", "board.jsonl")
    assert ran.code == 2
    assert "--host" in ran.err
    assert edgeperf("status", "--host", TWIN, "--record", "nowhere/board.jsonl").code == 2


def saved(*words: str, kind: str = "bench") -> Path:
    path = Path(f"{kind}.json")
    assert edgeperf(*command(kind, "--quiet", "--host", TWIN, "--out", str(path), *words)).code == 0
    return path


def changed(path: Path, change: Any) -> str:
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data) + "\n")
    return str(path)


@pytest.mark.parametrize("kind", ["bench", "bench-repeat", "exec"])
def test_a_result_is_made_again_from_its_own_samples(kind: str) -> None:
    path = saved(kind=kind)
    ran = edgeperf("report", str(path), "--json")
    assert ran.code == 0, ran.err
    assert ran.data()["differences"] == []
    shown = edgeperf("report", str(path)).out
    assert "every figure is as it was saved" in shown
    assert shown.splitlines()[:4] == edgeperf("results", "show", str(path)).out.splitlines()[:4]


def test_figures_that_were_saved_otherwise_are_named_with_both_values() -> None:
    name = changed(saved(), lambda data: data["power_w"].update(total=99.0))
    (row,) = edgeperf("report", name, "--json").data()["differences"]
    assert (row["field"], row["saved"]) == ("power_w.total", 99.0)
    assert "power_w.total: 99.0 was saved" in edgeperf("report", name).out


def test_figures_follow_the_samples() -> None:
    def double(data: Any) -> None:
        for rail in data["rail_samples_w"].values():
            rail["w"] = [2 * watts for watts in rail["w"]]

    path = saved()
    before = json.loads(path.read_text())
    made = edgeperf("report", changed(path, double), "--json").data()["record"]
    assert made["power_w"]["total"] == pytest.approx(2 * before["power_w"]["total"])
    assert made["power_w"]["idle_total"] == before["power_w"]["idle_total"]
    assert made["throughput_per_s"] == before["throughput_per_s"]


@pytest.mark.parametrize("kind", ["bench", "bench-repeat", "exec"])
def test_a_recording_gives_the_figures_of_its_command(kind: str) -> None:
    path = saved("--record", "board.jsonl", kind=kind)
    ran = edgeperf("report", "board.jsonl", "--json")
    assert ran.code == 0, ran.err
    then, now = json.loads(path.read_text()), ran.data()["record"]
    for name in ("power_w", "throughput_per_s", "energy_j", "verdict", "conditions", "rail_samples_w"):
        assert now.get(name) == then.get(name)
    assert ran.data()["differences"] is None


def test_a_run_that_a_restart_ended_is_replayed_and_reported_as_what_it_was() -> None:
    words = ("bench", "alexnet", "--quiet", "--out", "r.json")
    then = edgeperf(*words, "--host", "sim:nano,fault=reboot@28s", "--record", "board.jsonl")
    kept = json.loads(Path("r.json").read_text())
    assert kept["verdict"]["state"] == "INVALID"
    for name in ("r.json", "board.jsonl"):
        ran = edgeperf("report", name, "--json")
        assert ran.code == 8
        assert ran.data()["record"]["rail_samples_w"] == kept["rail_samples_w"]
        assert ran.data()["record"]["verdict"] == kept["verdict"]
    now = edgeperf(*words, "--host", "replay:board.jsonl")
    assert (now.code, figures(now.out), now.err) == (then.code, figures(then.out), then.err)


@pytest.mark.parametrize("words", [("--rails", "tegrastats"), ("--rails", "tegrastats", "--repeat", "2")])
def test_watts_of_another_source_are_replayed_and_made_again(words: tuple[str, ...]) -> None:
    bench = ("bench", "alexnet", "--quiet", "--json", "--out", "r.json", *SHORT, *words)
    then = edgeperf(*bench, "--host", "sim:agx-orin", "--record", "board.jsonl").data()
    assert edgeperf("report", "r.json", "--json").data()["differences"] == []
    assert edgeperf("report", "board.jsonl", "--json").data()["record"]["power_w"] == then["power_w"]
    assert edgeperf(*bench, "--host", "replay:board.jsonl").data()["power_w"] == then["power_w"]


def test_what_cannot_be_made_again_is_said() -> None:
    path = saved()
    ran = edgeperf("report", changed(path, lambda data: data.update(raw=None)))
    assert ran.code == 2
    assert "results show" in ran.err
    assert edgeperf("report", changed(path, lambda data: data.update(raw={"hello": {}}))).code == 2
    edgeperf("status", "--host", TWIN, "--record", "board.jsonl")
    ran = edgeperf("report", "board.jsonl")
    assert ran.code == 2
    assert "--host replay:board.jsonl" in ran.err
    assert edgeperf("report", "nowhere").code == 2


def test_layers_that_fp16_does_not_speed_up_are_named_by_the_model_and_then_by_measurement() -> None:
    words = ("bench", "alexnet", "--quiet", "--host", TWIN, *SHORT)
    assert "(modelled)" in row(edgeperf(*words, "--fp16").out, "FP16")
    assert row(edgeperf(*words).out, "FP16") == ""
    measured = edgeperf(*words, "--fp16", "--json").data()["no_gain"]
    assert "-alexnet-" in measured["against"]
    assert set(measured["layers"]) <= {"norm1", "pool1", "norm2", "pool2", "pool5", "prob"}
    assert "measured, against" in row(edgeperf("results", "show", "last").out, "FP16")
    assert edgeperf("report", "last", "--json").data()["differences"] == []


def test_a_bench_names_what_bounds_each_group_of_layers() -> None:
    out = edgeperf("bench", "alexnet", "--fp16", "--batch", "64", "--quiet", *SHORT).out
    assert row(out, "layers").startswith("conv ")
    assert "arithmetic" in row(out, "layers")
    assert "GPU clock" in row(out, "10% faster")


def row(out: str, name: str) -> str:
    """Returns the text of a report's row, all its lines, "" where there is none."""
    found, inside = [], False
    for line in out.splitlines():
        inside = line.startswith(f"{name:<12}") or (inside and line.startswith(" " * 12))
        if inside:
            found.append(line[12:])
    return " ".join(found)
