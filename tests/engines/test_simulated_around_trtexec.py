from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from engines.simulated.programs import programs
from remote.types import Completed
from tests.engines.board import CACHE, SKELETON, FakeBoard, asked, event, events, seconds
from tests.engines.trtexec_board import Flags, board, start, summary

RUNNER = programs()["runner.zip"]


def around(on: FakeBoard, action: str, **changes: Any) -> Completed:
    return on.run(RUNNER, stdin=asked(action, toolchain="trtexec", **changes))


def prepared(version: str = "8.2.1") -> FakeBoard:
    on = board(version)
    on.save(SKELETON, on.files["/alexnet.onnx"])
    return on


def seal(on: FakeBoard, paths: Mapping[str, Any], **changes: Any) -> Completed:
    """Builds what "prepare" found missing, and puts it into the cache."""
    words = Flags.of(paths["version"]).build
    assert start(on, f"--onnx={paths['onnx']}", f"--saveEngine={paths['part']}", *words).exit_code == 0
    told = {"seconds": 20.0, "workspace_bytes": 512 << 20, "notes": [], "why": paths["why"]}
    return around(on, "seal", built=told, **changes)


@pytest.mark.parametrize("version", ["8.2.1", "10.3.0"])
def test_prepare_build_seal_run_and_collect_give_what_the_runner_of_tensorrt_gives(version: str) -> None:
    on = prepared(version)
    paths = event(around(on, "prepare"), "prepared")
    assert (paths["version"], paths["cached"], paths["why"]) == (version, False, "no engine of it was kept")
    sealed = event(seal(on, paths), "built")
    assert (sealed["cached"], sealed["path"]) == (False, paths["plan"])
    assert not {paths["onnx"], paths["part"]} & set(on.files)
    again = event(around(on, "prepare"), "prepared")
    assert (again["cached"], again["onnx"], again["engine_bytes"]) == (True, "", sealed["engine_bytes"])

    words = ("--warmUp=2000", "--duration=10", f"--exportTimes={paths['times']}", *Flags.of(version).run)
    found = summary(start(on, f"--loadEngine={paths['plan']}", *words))
    exports = (f"--exportProfile={paths['profile']}", f"--exportLayerInfo={paths['layers']}")
    assert start(on, f"--loadEngine={paths['plan']}", "--duration=0", *exports).exit_code == 0
    collected = around(on, "collect", files=paths, version=version)
    assert [row["event"] for row in events(collected)][-2:] == ["collected", "done"]
    assert len(seconds(collected, "latencies")) == len(seconds(collected, "host")) == found.queries
    assert not {paths["times"], paths["layers"], paths["profile"]} & set(on.files)

    on.run(RUNNER, stdin=asked("build"))
    other = on.run(RUNNER, stdin=asked("bench"))
    mean_s = sum(seconds(other, "latencies")) / len(seconds(other, "latencies"))
    assert found.gpu.mean_s == pytest.approx(mean_s, rel=0.01)
    ours, theirs = (event(said, "layers")["rows"] for said in (other, collected))
    assert [row["name"] for row in ours if "relu" in row["name"]] == [
        row["name"] for row in theirs if "relu" in row["name"]
    ]
    assert {row["precision"] for row in theirs} == {"fp16", "fp32"}


def test_the_chosen_one_of_several_is_kept() -> None:
    on = prepared()
    for variant in range(2):
        paths = event(around(on, "prepare", variant=variant), "prepared")
        assert (paths["timing"], paths["part"]) == ("", paths["plan"])
        assert event(seal(on, paths, variant=variant), "built")["path"] == paths["plan"]
    chosen = event(around(on, "choose", variant=1), "built")
    assert chosen["path"] == event(around(on, "prepare"), "prepared")["plan"]
    assert chosen["workspace_bytes"] == 512 << 20
    assert event(around(on, "prepare"), "prepared")["cached"]
    assert not [path for path in on.files if ".v" in path]


def test_sealing_nothing_is_an_error() -> None:
    on = prepared()
    around(on, "prepare")
    assert event(around(on, "seal", built={}), "failed")["kind"] == "engine"
    assert not [path for path in on.files if path.endswith(".onnx") and path.startswith(CACHE)]


def test_a_shortage_of_memory_is_told_before_building() -> None:
    on = replace(prepared(), memory_bytes=1_150_000_000)
    found = event(around(on, "prepare"), "prepared")
    assert found["workspace_bytes"] == 64 << 20
    assert found["notes"]
    assert event(around(replace(on, memory_bytes=600_000_000), "prepare"), "failed")["kind"] == "out_of_memory"


def test_collecting_what_is_not_there_says_so() -> None:
    said = around(prepared(), "collect", files={"times": "/none"}, version="8.2.1")
    assert event(said, "failed")["kind"] == "engine"
    said = around(prepared(), "collect", files={"profile": "/none"}, version="8.2.1")
    assert "not known" in event(said, "collected")["notes"][0]
