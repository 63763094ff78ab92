"""The runner as a board starts it, a process of its own with a zip: whole conversations, from request to exit code.

Its TensorRT and CUDA are the stand-ins, which a container's Python finds where a board has the real ones.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from engines.spec import Options
from remote.board import Board
from remote.errors import ToolMissing, UnsupportedModel
from remote.hosts import Host

if os.name != "posix":
    pytest.skip("local boards are POSIX machines", allow_module_level=True)

from edgeperf import commands
from edgeperf.left import Request
from edgeperf.ui import Ui
from remote import boards
from remote.local import connect
from tests.contract.backends import tree

CHECKOUT = Path(__file__).resolve().parents[2]
IMAGE = "tensorrt-standin"
SITE = """
import sys
from tests.engines.trt import standin
from tests.engines.trt.building import Machine
from tests.engines.trt.fake_cuda import modules
from tests.engines.trt.fake_gpu import Gpu
from tests.engines.trt.surfaces import record
gpu = Gpu()
sys.modules.update(modules("cuda-python", gpu))
sys.modules["tensorrt"] = standin.load(record("{version}"), Machine(gpu=gpu, fast_fp16={fast_fp16}))
"""
DOCKER = """#!/bin/sh
while [ "$1" != --entrypoint ]; do shift; done
[ "$3" = {image} ] || {{ echo "docker: Error response from daemon: No such image: $3" >&2; exit 125; }}
shift 3
PYTHONPATH={site}:{checkout} exec {python} "$@"
"""


@dataclass
class Rehearsal:
    """A Jetson that is a folder: its file system, its container, and the commands of its user."""

    folder: Path

    def install(self, version: str = "8.2.1", fast_fp16: bool = True) -> None:
        """Gives the container another TensorRT."""
        site = self.folder / "site"
        site.mkdir(exist_ok=True)
        (site / "sitecustomize.py").write_text(SITE.format(version=version, fast_fp16=fast_fp16))

    def bench(self, model: str | Path, image: str = IMAGE, code: int = 0, **changes: Any) -> Any:
        """Returns the record of a measurement that ends with this exit code."""
        options = Options(container=image, builds=changes.pop("builds", 1))
        short = {"idle_s": 0.0, "warmup_s": 0.0, "duration_s": 0.1, "iterations": 12, "toolchain": "tensorrt"}
        request = Request(str(model), options=options, **{**short, **changes})
        out = self.folder / "result.json"
        with redirect_stdout(StringIO()):
            assert commands.bench(request, "local", out, True, Ui(quiet=True), self._opened) == code
        return json.loads(out.read_text())

    @contextmanager
    def _opened(self, host: Host, *, engines: bool = False, resume: bool = False) -> Iterator[Board]:
        with connect(self.folder / "host", str(self.folder / "tree")) as transport:
            yield Board(host, boards.load(transport.facts.board), transport)

    def engines(self) -> list[str]:
        """Returns the kinds of files in the cache of engines."""
        return sorted(path.suffix for path in (self.folder / "cache/edgeperf/engines").iterdir())

    def plan(self) -> Path:
        """Returns the one engine that is kept."""
        (path,) = (self.folder / "cache/edgeperf/engines").glob("*.plan")
        return path


@pytest.fixture
def rehearsal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rehearsal:
    root, cache, bin_ = tmp_path / "tree", tmp_path / "cache", tmp_path / "bin"
    tree(root)
    (root / "etc").mkdir()
    (root / "etc/nv_tegra_release").write_text("# R32 (release), REVISION: 7.1, GCID: 1, BOARD: t210ref\n")
    (root / "proc/device-tree").mkdir(parents=True)
    (root / "proc/device-tree/model").write_text("NVIDIA Jetson Nano Developer Kit\0")
    # What runs on this board sees the machine's own files, so the user's cache has to be the same in both.
    (cache / "edgeperf").mkdir(parents=True)
    (root / cache.relative_to("/")).parent.mkdir(parents=True)
    (root / cache.relative_to("/")).symlink_to(cache)
    bin_.mkdir()
    (bin_ / "docker").write_text(
        DOCKER.format(image=IMAGE, site=tmp_path / "site", checkout=CHECKOUT, python=sys.executable)
    )
    (bin_ / "docker").chmod(0o700)
    monkeypatch.setenv("PATH", f"{bin_}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    made = Rehearsal(tmp_path)
    made.install()
    return made


def model(folder: Path) -> Path:
    """Writes a small user's model with an open batch."""
    rng = np.random.default_rng(0)
    weights = {"w": rng.normal(0, 0.2, (8, 3, 3, 3)), "m": rng.normal(0, 0.2, (8, 10))}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("GlobalAveragePool", ["r"], ["p"], name="pool"),
        helper.make_node("Flatten", ["p"], ["f"], name="flat"),
        helper.make_node("MatMul", ["f", "m"], ["y"], name="classes"),
    ]
    value = helper.make_tensor_value_info
    ends = value("x", 1, ["N", 3, 8, 8]), value("y", 1, ["N", 10])
    made = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "small", [ends[0]], [ends[1]], made)
    path = folder / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6), path)
    return path


@pytest.mark.parametrize("version", ["8.2.1", "11.4.1"])
def test_a_built_in_network_is_built_once_and_its_fp16_outputs_agree_with_the_host(
    rehearsal: Rehearsal, version: str
) -> None:
    rehearsal.install(version)
    built = rehearsal.bench("googlenet", precision="fp16")
    kept = rehearsal.bench("googlenet", precision="fp16")
    for record in (built, kept):
        outputs = record["engine"]["outputs"]
        assert (outputs["passed"], outputs["top1_equal"]) == (True, True)
        assert outputs["cosine"] > 0.999
        assert outputs["max_error"] < 0.01
        assert (record["spec"]["precision_found"], record["engine"]["versions"]["tensorrt"]) == ("fp16", version)
        assert len(record["samples_s"]) == 12
    assert (built["engine"]["built"]["cached"], kept["engine"]["built"]["cached"]) == (False, True)
    assert built["spec"]["key"] == kept["spec"]["key"]


def test_a_users_model_is_fed_its_batch_and_gives_what_the_host_computes(rehearsal: Rehearsal, tmp_path: Path) -> None:
    record = rehearsal.bench(model(tmp_path), batch=4)
    assert record["engine"]["outputs"]["passed"]
    assert record["engine"]["outputs"]["max_error"] < 1e-5
    assert record["spec"]["precision_found"] == "fp32"


def test_of_two_builds_one_is_kept_and_nothing_else_is_left(rehearsal: Rehearsal, tmp_path: Path) -> None:
    record = rehearsal.bench(model(tmp_path), builds=2)
    assert len(record["engine"]["built"]["builds_per_s"]) == 2
    assert all(record["engine"]["built"]["builds_per_s"])
    assert rehearsal.engines() == [".json", ".plan"]
    assert rehearsal.bench(model(tmp_path))["engine"]["built"]["cached"]


def test_a_damaged_plan_is_built_again_and_it_says_so(rehearsal: Rehearsal, tmp_path: Path) -> None:
    rehearsal.bench(model(tmp_path))
    plan = bytearray(rehearsal.plan().read_bytes())
    plan[-1] ^= 1
    rehearsal.plan().write_bytes(plan)
    built = rehearsal.bench(model(tmp_path))["engine"]["built"]
    assert (built["cached"], built["why"]) == (False, "the kept plan is damaged (its hash differs)")
    assert rehearsal.bench(model(tmp_path))["engine"]["built"]["cached"]


def test_another_tensorrt_does_not_take_the_engine_of_the_one_before(rehearsal: Rehearsal, tmp_path: Path) -> None:
    rehearsal.bench(model(tmp_path))
    rehearsal.install("8.5.2")
    built = rehearsal.bench(model(tmp_path))["engine"]["built"]
    assert (built["cached"], built["why"]) == (False, "the kept engine has TensorRT 8.2.1 instead of 8.5.2")


def test_an_fp16_engine_that_computes_in_fp32_makes_the_result_invalid(rehearsal: Rehearsal, tmp_path: Path) -> None:
    rehearsal.install(fast_fp16=False)
    record = rehearsal.bench(model(tmp_path), precision="fp16", code=8)
    assert record["verdict"]["state"] == "INVALID"
    codes = [reason["code"] for reason in record["verdict"]["reasons"] if reason["severity"] == "INVALID"]
    assert codes == ["precision-not-as-asked"]
    assert record["engine"]["layers"]["text"] == "FP32 in 5 of 5 layers"


def test_an_fp32_file_is_refused_in_fp16_where_only_the_file_says_what_is_computed_in(
    rehearsal: Rehearsal, tmp_path: Path
) -> None:
    rehearsal.install("11.4.1")
    with pytest.raises(UnsupportedModel, match="nothing in it is FP16"):
        rehearsal.bench(model(tmp_path), precision="fp16")


def test_a_container_that_is_not_there_is_named(rehearsal: Rehearsal, tmp_path: Path) -> None:
    with pytest.raises(ToolMissing, match="docker has no image nobody/made:it"):
        rehearsal.bench(model(tmp_path), image="nobody/made:it")
