"""`bench` prints, saves and shows one record, marked as simulated where no hardware was measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import bench, edgeperf, tiny_model

NUMBER = (int, float)
FIELDS: dict[str, Any] = {
    "schema": int,
    "kind": str,
    "simulated": bool,
    "host": str,
    "board": {"name": str, "model": str, "l4t": str, "serial": str},
    "spec": {"model": str, "precision": str, "batch": int, "toolchain": str, "key": str},
    "clocks": {"profile": str, "asked": dict, "effective": {"cpu_hz": int, "gpu_hz": int, "emc_hz": int}},
    "throughput_per_s": {"value": NUMBER, "ci95": list},
    "latency_s": {"mean": NUMBER, "p50": NUMBER, "p90": NUMBER, "p95": NUMBER, "p99": NUMBER, "scope": str},
    "power_w": {"total": NUMBER, "rails": dict, "scope": str, "idle_total": NUMBER, "ci95": list},
    "images_per_s_per_w": {"value": NUMBER, "ci95": list},
    "energy_j_per_image": {"value": NUMBER, "ci95": list},
    "edp_js": NUMBER,
    "sampling": {"asked_hz": NUMBER, "achieved_hz": NUMBER, "fresh_share": NUMBER},
    "conditions": dict,
    "verdict": {"state": str, "reasons": list},
    "protocol": str,
    "samples_s": list,
    "made_with": dict,
}


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One result with enough samples for every percentile."""
    return bench("--duration", "20s", "--out", str(tmp_path_factory.mktemp("record") / "result.json"))


def wrong_fields(asked: dict[str, Any], found: Any, place: str = "") -> list[str]:
    wrong = []
    for name, kind in asked.items():
        value = found.get(name) if isinstance(found, dict) else None
        if isinstance(kind, dict):
            wrong += wrong_fields(kind, value, f"{place}{name}.")
        elif not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            wrong.append(f"{place}{name} is {value!r}")
    return wrong


def test_the_record_has_every_field_in_its_type(record: Any) -> None:
    assert wrong_fields(FIELDS, record) == []
    assert (record["schema"], record["kind"], record["simulated"]) == (3, "bench", True)
    assert record["power_missing"] is None


def test_the_derived_figures_follow_from_the_measured_ones(record: Any) -> None:
    speed, watts = record["throughput_per_s"]["value"], record["power_w"]["total"]
    assert record["images_per_s_per_w"]["value"] == pytest.approx(speed / watts)
    assert record["energy_j_per_image"]["value"] == pytest.approx(watts / speed)
    assert record["edp_js"] == pytest.approx(watts / speed**2)
    for name in ("throughput_per_s", "images_per_s_per_w", "energy_j_per_image"):
        low, high = record[name]["ci95"]
        assert low <= record[name]["value"] <= high
    assert record["latency_s"]["p50"] <= record["latency_s"]["p90"] <= record["latency_s"]["p99"]


def test_the_main_job_is_marked_simulated_on_line_two_and_saved() -> None:
    ran = edgeperf("bench", "alexnet", "--fp16", "--batch", "64")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[1].startswith("SIMULATED")
    saved = Path(next(line for line in lines if line.startswith("saved")).split(maxsplit=1)[1])
    assert json.loads(saved.read_text())["simulated"] is True


@pytest.mark.parametrize(
    "words",
    [
        ("bench", "alexnet"),
        ("build", "alexnet"),
        ("status",),
        ("doctor",),
        ("maxperf", "--host", "sim:tx1"),
        ("restore", "--host", "sim:tx1"),
    ],
)
def test_whatever_a_twin_says_is_marked_simulated(words: tuple[str, ...]) -> None:
    assert edgeperf(*words).out.splitlines()[1].startswith("SIMULATED")
    assert edgeperf(*words, "--json").data()["simulated"] is True


def test_json_is_one_document_on_stdout_and_equals_the_saved_one(tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    ran = edgeperf("bench", "alexnet", "--json", "--out", str(out))
    assert ran.data() == json.loads(out.read_text())
    assert [path.name for path in tmp_path.glob("*.json")] == ["result.json"]


def test_a_result_is_listed_and_shown_again() -> None:
    ran = edgeperf("bench", "alexnet", "--batch", "4")
    (listed,) = edgeperf("results", "list", "--json").data()
    assert listed["name"] in edgeperf("results", "list").out
    for name in ("last", listed["name"], listed["path"]):
        shown = edgeperf("results", "show", name).out
        assert shown.splitlines()[:-1] == ran.out.splitlines()[:-1]
    assert edgeperf("results", "show", "last", "--json").data()["spec"]["batch"] == 4


def test_a_result_of_schema_2_is_still_listed_and_shown(tmp_path: Path) -> None:
    record = bench()
    for name in ("repeats", "between", "over_time", "cooling", "edp", "scatter", "no_gain", "raw"):
        del record[name]
    for name in ("throughput_per_s", "images_per_s_per_w", "energy_j_per_image", "power_w"):
        del record[name]["absolute95"]
    for name in ("carrier", "net_of_idle", "settling_s"):
        del record["power_w"][name]
    for name in ("groups", "no_gain"):
        del record["bounds"][name]
    del record["sampling"]["source"]
    old = tmp_path / "old.json"
    old.write_text(json.dumps({**record, "schema": 2}))
    shown = edgeperf("results", "show", str(old))
    assert shown.code == 0, shown.err
    assert "img/s" in shown.out


def test_notes_go_to_stderr_and_quiet_leaves_them_out() -> None:
    loud, quiet = edgeperf("bench", "alexnet"), edgeperf("bench", "alexnet", "--quiet")
    assert "sim:tx1" in loud.err
    assert quiet.err == ""
    assert quiet.out.splitlines()[:-1] == loud.out.splitlines()[:-1]


def test_a_file_that_is_no_whole_result_is_passed_over_and_named() -> None:
    bench()
    (listed,) = edgeperf("results", "list", "--json").data()
    for number, text in enumerate(("[]", "{}", '{"kind": "bench", "schema": 1}', "{", '{"kind": "bench"}')):
        path = Path(listed["path"]).with_name(f"0-{number}.json")
        path.write_text(text)
        ran = edgeperf("results", "show", str(path))
        assert (ran.code, ran.out) == (2, "")
        assert str(path) in ran.err
    assert len(edgeperf("results", "list", "--json").data()) == 1


def test_a_result_whose_figures_are_damaged_is_named_and_hides_no_other() -> None:
    record = bench()
    (listed,) = edgeperf("results", "list", "--json").data()
    damaged = Path(listed["path"]).with_name("0-damaged.json")
    damaged.write_text(json.dumps({**record, "power_w": {}, "throughput_per_s": "fast"}))
    assert "damaged" in edgeperf("results", "list").out
    assert listed["name"] in edgeperf("results", "list").out
    ran = edgeperf("results", "show", str(damaged))
    assert (ran.code, ran.out) == (2, "")
    assert f"{damaged} is damaged" in ran.err


def test_a_machine_without_rails_has_no_watts_and_says_why(tmp_path: Path) -> None:
    model = tiny_model(tmp_path / "tiny.onnx")
    found = bench("--host", "local", "--duration", "0.2", "--warmup", "0", "--idle", "0", model=str(model))
    assert found["simulated"] is False
    assert found["throughput_per_s"]["value"] > 0
    if found["power_w"] is None:
        assert found["power_missing"]
        assert found["energy_j_per_image"] is None
    else:  # a machine with a sensor
        assert found["power_w"]["total"] > 0


def test_fp16_on_a_cpu_is_degraded_with_the_reason(tmp_path: Path) -> None:
    model = tiny_model(tmp_path / "tiny.onnx")
    found = bench("--fp16", "--host", "local", "--duration", "0.2", "--warmup", "0", "--idle", "0", model=str(model))
    assert found["verdict"]["state"] == "DEGRADED"
    assert any("FP16" in reason["text"] or "fp16" in reason["text"] for reason in found["verdict"]["reasons"])
