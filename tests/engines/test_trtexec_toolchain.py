"""The whole conversation of both TensorRT toolchains with a simulated board, for every version of TensorRT."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from engines import toolchains
from engines.models import load
from engines.simulated.programs import programs
from engines.spec import EngineSpec, Options
from engines.toolchains import EngineRun, Put, Request, Run, kept
from remote.errors import EngineError, UnsupportedModel
from remote.types import Facts
from tests.cli.command import tiny_model
from tests.engines.board import TWIN, FakeBoard
from tests.engines.test_toolchains import JETSON
from tests.engines.trtexec_board import VERSIONS

FACTS = replace(JETSON, cache="/cache")


@dataclass
class Talked:
    """A board, and all that it was asked."""

    board: FakeBoard
    asked: list[Run]

    def hold(self, request: Request, *, build: bool = False) -> EngineRun:
        """Runs a conversation to its end: files are put into the cache, jobs run on the board."""
        chain = toolchains.toolchain(request.spec.toolchain)
        talk = (chain.build if build else chain.bench)(request)
        answer: Any = None
        self.asked = []
        try:
            while True:
                ask = talk.send(answer)
                if isinstance(ask, Put):
                    answer = f"/cache/{ask.blob.name}"
                    self.board.save(answer, ask.blob.data or Path(str(ask.blob.path)).read_bytes())
                else:
                    self.asked.append(ask)
                    name = next(Path(word).name for word in ask.job.argv if Path(word).name in programs())
                    answer = self.board.run(programs()[name], ask.job.argv, ask.job.stdin)
        except StopIteration as end:
            run: EngineRun = end.value
            return run


def talked(version: str) -> Talked:
    tensorrt = {"tensorrt": version, "cuda": "10.2", "python": "3.6.9"}
    return Talked(FakeBoard(twin={**TWIN, "tensorrt": tensorrt}, memory_bytes=16_000_000_000), [])


def request(tool: str, *, facts: Facts = FACTS, options: Options | None = None, **changes: Any) -> Request:
    model, options = load(changes.pop("model", "alexnet"), 8), options or Options()
    spec = EngineSpec(model.name, changes.pop("precision", "fp16"), 8, tool, 0, model.digest, options.flags())
    return Request(model, spec, facts, 0.5, 3.0, None, Path("unused"), options, "MAXN", **changes)


@pytest.mark.parametrize("version", VERSIONS)
def test_both_tools_agree_on_every_version_where_the_protocol_can_be_the_same(version: str) -> None:
    one, other = (talked(version).hold(request(tool)) for tool in ("tensorrt", "trtexec"))
    assert one.images_per_s
    same = version != "7.1.3"  # whose trtexec cannot leave the copies out
    assert other.images_per_s == pytest.approx(one.images_per_s, rel=0.01 if same else 0.05)
    assert other.latencies_s
    assert len(other.latencies_s) == other.iterations
    assert (one.effective == other.effective) == same
    assert any("copies input and output" in note for note in other.notes) != same
    assert other.stop_s - other.start_s == pytest.approx(3.0, rel=0.1)
    assert other.versions["tensorrt"] == version


@pytest.mark.parametrize("version", VERSIONS)
def test_trtexec_is_asked_once_to_build_and_nothing_of_the_model_is_left(version: str) -> None:
    at = talked(version)
    first = at.hold(request("trtexec"))
    words = [" ".join(ask.job.argv) for ask in at.asked]
    assert sum("--saveEngine" in text for text in words) == 1
    assert [ask.measured for ask in at.asked].count(True) == 1
    second = at.hold(request("trtexec"))
    assert not any("--saveEngine" in " ".join(ask.job.argv) for ask in at.asked)
    assert first.built is not None
    assert second.built is not None
    assert (first.built.cached, second.built.cached, first.key == second.key) == (False, True, True)
    left = [path.rpartition(".")[2] for path in at.board.files if path.startswith("/cache/engines/")]
    assert sorted({*left} - {"cache"}) == ["json", "plan"]


def test_on_shortage_a_smaller_workspace_is_tried_once_and_said() -> None:
    at = talked("8.2.1")
    at.board.memory_bytes = 1_250_000_000
    run = at.hold(request("trtexec"))
    assert run.built is not None
    assert run.built.workspace_bytes == 64 << 20
    assert any("workspace" in note for note in run.notes) or "workspace 64 MiB" in run.protocol


def test_of_several_builds_trtexec_keeps_the_fastest_and_leaves_no_other() -> None:
    at = talked("8.2.1")
    run = at.hold(request("trtexec", options=Options(builds=3)))
    assert run.built is not None
    assert len(set(run.built.builds_per_s)) == 3
    assert len([path for path in at.board.files if path.endswith(".plan")]) == 1


def test_fp16_of_an_fp32_file_is_refused_where_types_come_from_the_file(tmp_path: Path) -> None:
    path = tiny_model(tmp_path / "mine.onnx", 8)
    with pytest.raises(UnsupportedModel, match="FP32") as caught:
        talked("11.4.1").hold(request("trtexec", model=str(path)))
    assert "autocast" in caught.value.hint


@pytest.mark.parametrize("version", ["6.0.1", "9.3.0", "12.0.0"])
def test_an_unknown_version_fails_loudly(version: str) -> None:
    with pytest.raises(EngineError, match="not known"):
        talked(version).hold(request("trtexec"))


def test_a_build_measures_nothing() -> None:
    at = talked("10.3.0")
    run = at.hold(request("trtexec"), build=True)
    assert (run.iterations, run.images_per_s) == (0, None)
    assert not any(ask.measured for ask in at.asked)


@pytest.mark.parametrize(("now", "state"), [("8.2.1", "ok"), ("8.5.2", "other board or TensorRT: tensorrt 8.2.1")])
def test_engines_of_another_tensorrt_are_told_apart(now: str, state: str) -> None:
    at = talked("8.2.1")
    at.hold(request("trtexec"), build=True)
    at.board.twin = talked(now).board.twin
    talk = kept.engines(FACTS, "MAXN")
    assert isinstance(next(talk), Put)
    ask = talk.send("/cache/runner.zip")
    assert isinstance(ask, Run)
    with pytest.raises(StopIteration) as end:
        talk.send(at.board.run(programs()["runner.zip"], ask.job.argv, ask.job.stdin))
    assert [row.state for row in end.value.value] == [state]
