from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from engines.onboard import trtexec
from engines.onboard.cuda import Cuda
from engines.onboard.failure import Failed
from engines.onboard.key import engine_key
from engines.onboard.loop import Interrupt
from engines.spec import EngineSpec

PART = base64.b64encode(zlib.compress(b"onnx")).decode()
SKELETON = json.dumps({"onnx": 1, "parts": [PART] * 4, "weights": []})
BUILT = {"seconds": 42.5, "workspace_bytes": 64 << 20, "notes": ["memory is short"], "why": "no engine of it was kept"}
BANNER = "&&&& RUNNING TensorRT.trtexec [TensorRT v8201] # trtexec --help"


class Board:
    """A folder with a trtexec, a fake GPU, and what the runner says there."""

    def __init__(self, folder: Path, banner: str = BANNER) -> None:
        self.folder, self.tool = folder, folder / "trtexec"
        self.tool.write_text(f"#!/bin/sh\ntest \"$*\" = --help || exit 1\necho noise\necho '{banner}'\n")
        self.tool.chmod(0o755)
        (folder / "skeleton").write_text(SKELETON)
        (folder / "cache").mkdir()
        self.sms = 1

    def request(self, action: str, **changes: Any) -> dict[str, Any]:
        spec = EngineSpec("alexnet", "fp16", 64, "trtexec", seed=0, digest="d1")
        return {
            "action": action,
            "toolchain": "trtexec",
            "precision": "fp16",
            "name": "alexnet",
            "model": None,
            "skeleton": str(self.folder / "skeleton"),
            "content": spec.content({"l4t": "32.7.1", "gpu": "nano", "power_mode": "MAXN"}),
            "cache": str(self.folder / "cache"),
            "options": {"workspace_bytes": 64 << 20},
            "need": {"weight_bytes": 1, "tensor_bytes": 1},
            "cuda": None,
            "variant": None,
            "warmup_s": 0.0101,
            "files": {"trtexec": str(self.tool)},
            **changes,
        }

    def connect(self, name: str | None) -> Cuda:
        def call(function: str, *arguments: Any) -> Any:
            if function == "cudaDeviceGetAttribute":
                return {75: 5, 76: 3, 16: self.sms}[arguments[0]]
            return {"cudaRuntimeGetVersion": 10020}[function]

        return Cuda("ctypes", call)

    def ask(self, action: str, **changes: Any) -> dict[str, dict[str, Any]]:
        """Returns what was said, by event; the last of each."""
        said: dict[str, dict[str, Any]] = {}

        def say(event: str, **fields: Any) -> None:
            said[event] = json.loads(json.dumps(fields))

        interrupt = cast(Interrupt, SimpleNamespace(seen=False))
        trtexec.answer(self.request(action, **changes), interrupt, say, self.connect)
        return said

    def kept(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "cache" / "engines").iterdir())


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return Board(tmp_path)


def test_hello_says_what_there_is_and_completes_the_key(board: Board) -> None:
    hello = board.ask("probe")["hello"]
    assert hello["versions"]["tensorrt"] == "8.2.1"
    assert (hello["versions"]["cuda"], hello["versions"]["cuda access"]) == ("10.2", "ctypes 10.2")
    assert hello["device"] == "sm_53, 1 multiprocessor"
    content = board.request("probe")["content"]
    content["board"].update(tensorrt="8.2.1", gpu="nano sm_53", active_sms="1")
    assert (hello["board"], hello["key"]) == (content["board"], engine_key(content))


def test_an_engine_is_prepared_built_sealed_and_found_again(board: Board) -> None:
    first = board.ask("prepare")["prepared"]
    assert (first["cached"], first["why"], first["workspace_bytes"]) == (False, "no engine of it was kept", 64 << 20)
    assert Path(first["onnx"]).read_bytes().startswith(b"onnx")
    assert first["timing"].startswith(str(board.folder / "cache"))
    Path(first["part"]).write_bytes(b"plan")
    built = board.ask("seal", built=BUILT)["built"]
    assert built == {**BUILT, "cached": False, "engine_bytes": 4, "path": first["plan"]}
    assert not Path(first["onnx"]).exists()
    second = board.ask("prepare")["prepared"]
    assert (second["cached"], second["why"], second["onnx"]) == (True, "", "")
    assert (second["engine_bytes"], second["workspace_bytes"], second["notes"]) == (4, 64 << 20, ["memory is short"])
    assert Path(second["plan"]).read_bytes() == b"plan"


def test_other_silicon_does_not_get_the_kept_engine(board: Board) -> None:
    Path(board.ask("prepare")["prepared"]["part"]).write_bytes(b"plan")
    board.ask("seal", built=BUILT)
    board.sms = 2
    again = board.ask("prepare")["prepared"]
    assert not again["cached"]
    assert "multiprocessors 1 instead of 2" in again["why"]


def test_the_users_own_file_is_built_from_where_it_is_and_stays(board: Board) -> None:
    mine = board.folder / "mine.onnx"
    mine.write_bytes(b"mine")
    prepared = board.ask("prepare", model=str(mine))["prepared"]
    assert prepared["onnx"] == str(mine)
    Path(prepared["part"]).write_bytes(b"plan")
    board.ask("seal", model=str(mine), built=BUILT)
    assert mine.read_bytes() == b"mine"


def test_a_build_that_left_no_plan_is_not_kept(board: Board) -> None:
    board.ask("prepare")
    with pytest.raises(Failed, match="there is no engine"):
        board.ask("seal", built=BUILT)
    assert board.kept() == []


def test_of_several_builds_the_chosen_one_is_kept_and_the_others_go(board: Board) -> None:
    for number in range(3):
        prepared = board.ask("prepare", variant=number)["prepared"]
        assert (prepared["cached"], prepared["timing"], prepared["plan"]) == (False, "", prepared["part"])
        Path(prepared["part"]).write_bytes(b"plan %d" % number)
        assert board.ask("seal", variant=number, built=BUILT)["built"]["path"] == prepared["part"]
    chosen = board.ask("choose", variant=1, built=BUILT)["built"]
    assert Path(chosen["path"]).read_bytes() == b"plan 1"
    assert [name.partition(".")[2] for name in board.kept()] == ["json", "plan"]
    assert board.ask("prepare")["prepared"]["cached"]


def test_too_little_memory_is_said_before_anything_is_written(board: Board) -> None:
    with pytest.raises(Failed) as failed:
        board.ask("prepare", need={"weight_bytes": 1 << 50, "tensor_bytes": 1})
    assert failed.value.kind == "out_of_memory"
    assert board.kept() == []


def written(folder: Path, **texts: str) -> dict[str, str]:
    for name, text in texts.items():
        (folder / name).write_text(text)
    return {name: str(folder / name) for name in texts}


TIMES = json.dumps(
    [
        {"startEnqMs": start, "startComputeMs": start, "endD2hMs": start + 2, "computeMs": 1.5, "latencyMs": 1.75}
        for start in (0, 5, 10.9, 11, 12)
    ]
)
PROFILE = json.dumps([{"count": 2}, {"name": "conv1", "averageMs": 1.25}])
LAYERS = json.dumps({"Layers": ["conv1", "relu"], "Bindings": []})


def test_the_files_of_a_run_become_small_lines_and_go(board: Board) -> None:
    files = written(board.folder, times=TIMES, profile=PROFILE, layers=LAYERS)
    said = board.ask("collect", files=files, version="8.2.1")
    assert said["latencies"]["seconds"] == [0.0015] * 2  # began within the 11 ms of warm-up: three
    assert said["host"]["seconds"] == [0.002] * 2
    assert [(row["name"], row["seconds"]) for row in said["layers"]["rows"]] == [("conv1", 0.00125), ("relu", None)]
    assert said["collected"] == {"dropped": 3, "notes": []}
    assert not any(Path(path).exists() for path in files.values())


def test_layers_that_cannot_be_read_are_a_note_and_times_that_cannot_are_a_failure(board: Board) -> None:
    files = written(board.folder, times=TIMES, profile=PROFILE[:-3], layers="")
    said = board.ask("collect", files=files, version="10.3.0")
    assert len(said["latencies"]["seconds"]) == 5
    assert "layers" not in said
    assert "times of layers are not known" in said["collected"]["notes"][0]
    with pytest.raises(Failed, match="cut off"):
        board.ask("collect", files={"times": str(board.folder / "absent")}, version="10.3.0")


def test_without_a_trtexec_the_way_to_get_one_is_said(board: Board) -> None:
    with pytest.raises(Failed, match="no trtexec here at") as failed:
        board.ask("probe", files={"trtexec": str(board.folder / "absent")})
    assert (failed.value.kind, "apt-get install" in failed.value.hint) == ("missing", True)


def test_a_program_that_does_not_speak_as_trtexec_does_is_refused_with_its_words(board: Board) -> None:
    words = "error while loading shared libraries: libnvinfer.so.8: cannot open shared object file"
    board.tool.write_text(f"#!/bin/sh\necho '{words}' >&2\nexit 127\n")
    with pytest.raises(Failed) as failed:
        board.ask("probe")
    assert (failed.value.kind, failed.value.log) == ("missing", [words])
    board.tool.chmod(0o644)
    with pytest.raises(Failed, match="cannot be run"):
        trtexec.banner_of(str(board.tool))


def test_version_7_takes_its_version_from_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    board = Board(tmp_path, "&&&& RUNNING TensorRT.trtexec # trtexec --help")
    libraries = tmp_path / "lib"
    libraries.mkdir()
    for name in ("libnvinfer.so.7", "libnvinfer_plugin.so.7.1.3", "libnvinfer.so.7.1.3"):
        (libraries / name).touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nowhere:{libraries}")
    assert board.ask("probe")["hello"]["versions"]["tensorrt"] == "7.1.3"
