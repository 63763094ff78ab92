"""`sim fit` makes a simulated board of measured results, and that board predicts what was not measured."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from remote import boards, own_boards
from tests.cli.command import Ran, bench, edgeperf, tiny_model

SHIPPED = boards.load("tx1").twin
# What a board of somebody else is like, by factors to the shipped one: nobody knows but its file.
FACTORS = {
    "time.tensorrt": {"fp32_efficiency": 0.6, "fp16_efficiency": 0.7, "launch_s": 1.6},
    "power": {"idle_w": 1.4, "gpu_busy_w": 0.7},
}


def theirs_text() -> str:
    """That file."""
    blocks = ['inherits = "tx1"']
    for place, factors in FACTORS.items():
        table = SHIPPED["power"] if place == "power" else SHIPPED["time"]["tensorrt"]
        blocks.append(f'[{place}]\nsource = "measured: on a board of somebody else"')
        blocks += [f"{name} = {table[name] * factor}" for name, factor in factors.items()]
    return "\n".join(blocks)


MEASURED = [("alexnet", 1), ("alexnet", 16), ("googlenet", 2), ("googlenet", 16)]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of results of that board; nothing in it is changed."""
    home = tmp_path_factory.mktemp("theirs")
    (home / "theirs.toml").write_text(theirs_text())
    folder = home / "results"
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGEPERF_BOARDS", str(home))
        for model, batch in MEASURED:
            for precision in ("fp32", "fp16"):
                file = folder / f"{model}-{batch}-{precision}.json"
                _measure("sim:theirs", file, model, f"--batch={batch}", f"--precision={precision}")
    return folder


def _measure(host: str, file: Path, model: str, *words: str) -> Any:
    return bench("--host", host, "--out", str(file), "--duration", "3s", *words, model=model)


@pytest.fixture
def results(kept: Path, tmp_path: Path) -> Path:
    """A copy of the folder, to be changed."""
    return Path(shutil.copytree(kept, tmp_path / "results"))


@pytest.fixture
def theirs() -> None:
    """That board, at hand under its name."""
    own_boards.folder().mkdir(parents=True)
    own_boards.path("theirs").write_text(theirs_text())


def fit(*words: str | Path, board: str = "tx1", folds: int | None = 2) -> Ran:
    parts = ("--folds", str(folds)) if folds else ()
    return edgeperf("sim", "fit", *map(str, words), "--board", board, *parts)


def changed(file: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    data = json.loads(file.read_text())
    change(data)
    file.write_text(json.dumps(data))
    return file


@pytest.mark.usefixtures("theirs")
def test_the_fitted_board_predicts_what_was_not_measured_within_5_percent(results: Path) -> None:
    found = fit(results, "--json", folds=None).data()
    assert found["speed"]["left_out_mean"] < 0.05 < 0.15 < found["speed"]["shipped_mean"]
    assert found["power"]["left_out_mean"] < 0.03 < 0.05 < found["power"]["shipped_mean"]
    for words in (("--batch=6", "--fp16"), ("--batch=3", "--clock", "gpu=460.8MHz")):
        truth, guess = (bench("--host", host, *words, model="googlenet") for host in ("sim:theirs", "sim:my-tx1"))
        assert guess["throughput_per_s"]["value"] == pytest.approx(truth["throughput_per_s"]["value"], rel=0.05)
        assert guess["power_w"]["total"] == pytest.approx(truth["power_w"]["total"], rel=0.05)


def test_a_result_of_a_fitted_board_says_so_and_can_be_made_again(results: Path, tmp_path: Path) -> None:
    assert fit(results).code == 0
    record = _measure("sim:my-tx1", tmp_path / "one.json", "alexnet")
    assert record["simulated"]
    assert record["board"]["name"] == "tx1"
    assert any("fitted by edgeperf sim fit to 8 simulated, not real, results" in note for note in record["notes"])
    again = edgeperf("report", str(tmp_path / "one.json"))
    assert "every figure is as it was saved" in again.out
    own_boards.path("my-tx1").unlink()
    gone = edgeperf("report", str(tmp_path / "one.json"))
    assert "constants that are not known here" in gone.out


def test_the_table_shows_each_point_its_errors_and_what_was_fitted(results: Path) -> None:
    ran = fit(results)
    assert ran.code == 0
    assert ran.out.startswith("my-tx1: tx1 fitted to 8 SIMULATED results with tensorrt, L4T 32.7.1\n")
    for model, batch in MEASURED:
        assert f"{model} fp16 batch {batch} " in ran.out
    assert "left out" in ran.out
    kinds = {line.split()[0]: line.split()[-1] for line in ran.out.splitlines() if line.startswith(("time.", "power."))}
    assert kinds["time.tensorrt.fp32_efficiency"] == kinds["power.idle_w"] == "fitted"
    assert kinds["power.j_per_byte"] in ("partly", "kept")
    assert "to decide more, measure: j_per_byte: a lower memory clock" in ran.out
    assert "--host sim:my-tx1" in ran.err


def test_the_file_says_of_each_number_where_it_is_from(results: Path) -> None:
    fit(results)
    text = own_boards.path("my-tx1").read_text()
    numbers = [line for line in text.splitlines() if "_w = " in line or "_efficiency = " in line or "j_per" in line]
    assert len(numbers) >= 6
    assert all("# fitted" in line or "# kept: as tx1 has it" in line for line in numbers)
    assert text.count('source = "measured: fitted by edgeperf sim fit to 8 simulated, not real, results of 20') == 2


def test_results_of_the_shipped_board_make_no_better_one_and_that_is_said(tmp_path: Path) -> None:
    for batch in (1, 8, 32):
        _measure("sim:tx1", tmp_path / f"{batch}.json", "alexnet", f"--batch={batch}")
    ran = fit(tmp_path)
    assert ran.code == 0
    assert "images/s: NOT better than the shipped constants" in ran.out


def test_what_cannot_be_used_is_named_with_the_reason_and_the_rest_is_fitted(results: Path) -> None:
    files = sorted(results.iterdir())

    def invalid(data: dict[str, Any]) -> None:
        data["verdict"] = {"state": "INVALID", "reasons": [{"code": "throttled", "severity": "INVALID", "text": "hot"}]}

    odd = {
        "its verdict is INVALID: hot": invalid,
        "it is of another board: nano": lambda data: data["board"].update(name="nano"),
        "its emc clock is not known": lambda data: data["clocks"]["effective"].update(emc_hz=None),
        "its network my-net is not built in, and net.onnx is not there": lambda data: (
            data["spec"].update(model="my-net"),
            data["raw"]["measured"]["request"].update(model="net.onnx"),
        ),
        "measured with caffe": lambda data: data["spec"].update(toolchain="caffe"),
    }
    for file, change in zip(files, odd.values(), strict=False):
        changed(file, change)
    (results / "notes.json").write_text("{}")
    (results / "torn.json").write_text('{"schema": 3')
    ran = fit(results, "--json")
    assert ran.code == 0
    refused = {Path(one["file"]).name: one["reason"] for one in ran.data()["refused"]}
    for file, reason in zip(files, odd, strict=False):
        assert reason in refused[file.name]
        assert f"warning: not used: {file}: " in ran.err
    assert set(refused) == {file.name for file in files[:5]} | {"notes.json", "torn.json"}
    assert ran.data()["results"] == 3


def test_a_command_and_a_simulation_of_nothing_known_are_refused(results: Path) -> None:
    assert edgeperf("exec", "--host", "sim:tx1", "--out", str(results / "exec.json"), "--", "sleep", "2").code == 0
    changed(results / "alexnet-1-fp32.json", lambda data: data["spec"].update(toolchain="onnxruntime"))
    reasons = [one["reason"] for one in fit(results, "--json").data()["refused"]]
    assert reasons == ["simulated boards have no model of onnxruntime", "it is of a command, not of a network"]


def test_too_few_results_are_refused_with_how_many_and_what_to_measure_next(results: Path) -> None:
    ran = fit(results / "alexnet-16-fp32.json", results / "alexnet-1-fp32.json")
    assert ran.code == 2
    assert "at least 3 different points are needed, by network, batch, precision or clocks: there are 2" in ran.err
    assert "measure next: FP16" in ran.err
    assert not own_boards.path("my-tx1").exists()


def test_runs_of_the_same_are_one_point(results: Path) -> None:
    shutil.copy(results / "alexnet-1-fp32.json", results / "again.json")
    changed(results / "again.json", lambda data: data["throughput_per_s"].update(value=30.0))
    changed(results / "again.json", lambda data: data["clocks"]["effective"].update(gpu_hz=998_399_000))
    found = fit(results, "--json").data()
    assert found["results"] == 9
    assert len(found["rows"]) == 8
    assert [row["results"] for row in found["rows"] if row["network"] == "alexnet" and row["batch"] == 1] == [2, 1]


def test_results_of_earlier_schemas_are_used_too(results: Path) -> None:
    def older(data: dict[str, Any]) -> None:
        data["schema"] = 2
        for name in ("raw", "repeats", "between", "over_time", "cooling", "edp", "scatter", "no_gain"):
            del data[name]
        del data["power_w"]["absolute95"]

    for file in results.iterdir():
        changed(file, older)
    found = fit(results, "--json").data()
    assert found["refused"] == []
    assert found["speed"]["mean"] < 0.02


def test_a_network_of_the_users_is_found_beside_the_result(results: Path, tmp_path: Path) -> None:
    model = tmp_path / "elsewhere" / "own.onnx"
    model.parent.mkdir()
    tiny_model(model)
    _measure("sim:tx1", results / "own.json", str(model), "--duration=100ms", "--warmup=100ms")
    assert fit(results, "--json").data()["results"] == 9
    model.rename(results / "own.onnx")
    assert fit(results, "--json").data()["results"] == 9
    (results / "own.onnx").unlink()
    assert "its network own is not built in" in fit(results, "--json").data()["refused"][0]["reason"]


def test_watts_before_the_regulators_fit_power_too(tmp_path: Path) -> None:
    for batch in (1, 8, 32):
        _measure("sim:tx1@r23.1,probe=lab", tmp_path / f"{batch}.json", "alexnet", f"--batch={batch}")
    found = fit(tmp_path, "--json").data()
    assert found["toolchain"] == "caffe-cudnn4"
    assert found["power"]["points"] == 3
    assert found["power"]["mean"] < 0.02


def test_watts_that_the_simulated_board_has_not_are_left_out(results: Path) -> None:
    for file in results.iterdir():
        changed(file, lambda data: data["power_w"].update(scope="carrier_in"))
    ran = fit(results)
    assert ran.code == 0
    assert "power is kept as tx1 has it: the simulated tx1 has no watts of the scope carrier_in" in ran.out
    assert "[power]" not in own_boards.path("my-tx1").read_text()


def test_parts_of_the_results_can_be_left_out_at_a_time(results: Path) -> None:
    one, two = (fit(results, "--json", folds=folds).data() for folds in (None, 2))
    assert (one["folds"], two["folds"]) == (8, 2)
    assert one["speed"]["mean"] == two["speed"]["mean"]
    assert one["speed"]["left_out_mean"] < two["speed"]["left_out_mean"] < 0.1


def test_a_fitted_board_is_listed_and_can_lie_in_a_folder_of_its_own(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = fit(results, "--output", tmp_path / "boards" / "lab-tx1.toml")
    assert ran.code == 0
    assert f"EDGEPERF_BOARDS={tmp_path / 'boards'}" in ran.err
    assert edgeperf("status", "--host", "sim:lab-tx1").code == 2
    monkeypatch.setenv("EDGEPERF_BOARDS", str(tmp_path / "boards"))
    assert "lab-tx1" in {row["name"] for row in edgeperf("boards", "list", "--json").data()}
    assert edgeperf("status", "--host", "sim:lab-tx1@r28").code == 0


def test_a_fitted_board_is_fitted_again_but_no_other_file_is_written_over(results: Path) -> None:
    assert fit(results).code == 0
    assert fit(results).code == 0
    file = own_boards.path("my-tx1")
    file.write_text('inherits = "tx1"\n')
    ran = fit(results)
    assert ran.code == 2
    assert "was not made by `edgeperf sim fit`" in ran.err
    assert file.read_text() == 'inherits = "tx1"\n'


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--name", "nano"), "nano is a board that comes with edgeperf"),
        (("--name", "My Board"), "cannot be the name of a board"),
        (("--output", "board.json"), "the board is named as its file"),
        (("--name", "one", "--output", "two.toml"), "the board is named as its file"),
    ],
)
def test_a_name_that_a_host_string_could_not_use_is_refused(results: Path, words: tuple[str, ...], why: str) -> None:
    ran = fit(results, *words)
    assert ran.code == 2
    assert why in ran.err


@pytest.mark.usefixtures("theirs")
def test_only_a_shipped_board_is_fitted(results: Path) -> None:
    assert "name the one that it is made from: --board tx1" in fit(results, board="theirs").err
    assert "there is no simulated generic-linux" in fit(results, board="generic-linux").err
    assert "which results" in edgeperf("sim", "fit").err


def test_a_name_that_means_no_result_is_an_error(tmp_path: Path) -> None:
    assert "there is no result in this folder" in fit(tmp_path).err
    assert "there is no result" in fit(tmp_path / "*.json").err
