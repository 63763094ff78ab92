"""A simulated board with trtexec of any version, and files for it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from engines.cost import Precision
from engines.emit.onnx import skeleton
from engines.models import load
from engines.simulated.programs import programs
from engines.trtexec.output import Failure
from engines.trtexec.summary import Summary, read_build, read_run
from remote.types import Completed
from tests.engines.board import TWIN, FakeBoard

TRTEXEC = programs()["trtexec"]
TOOL = "/usr/src/tensorrt/bin/trtexec"
VERSIONS = ("7.1.3", "8.0.1", "8.2.1", "8.4.1", "8.5.2", "8.6.2", "10.3.0", "10.13.3.9", "11.4.1.106")


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def board(version: str = "8.2.1", sm: str = "5.3", **changes: Any) -> FakeBoard:
    """Returns a board with that TensorRT, GoogLeNet at batch 1 and AlexNet at batch 16 as trtexec is given them."""
    typed: Precision = "fp16" if version.startswith("11") else "fp32"
    files = {f"/{name}.onnx": _skeleton(name, size, typed) for name, size in (("googlenet", 1), ("alexnet", 16))}
    stack = {"tensorrt": version, "cuda": "10.2", "python": "3.6.9"}
    twin = {**TWIN, "tensorrt": stack, "gpu": {**TWIN["gpu"], "sm": sm}}  # type: ignore[dict-item]
    return FakeBoard(twin=twin, files=files, used_s=dict.fromkeys(files, 0.0), **changes)


@cache
def _skeleton(name: str, batch: int, typed: Precision) -> bytes:
    return skeleton(load(name, batch).network, batch, typed, 0).encode()


def start(on: FakeBoard, *words: str) -> Completed:
    return on.run(TRTEXEC, (TOOL, *words))


def texts(said: Completed) -> list[str]:
    return [line.text for line in said.lines]


def has(said: Completed, words: str) -> bool:
    return any(words in text for text in texts(said))


@dataclass(frozen=True)
class Flags:
    """How one protocol is said to trtexec of a version."""

    build: tuple[str, ...]
    run: tuple[str, ...]

    @classmethod
    def of(cls, version: str, *, spin: bool = False, graph: bool = False) -> Flags:
        at = numbers(version)
        build = ["--explicitBatch"] if at < (8,) else []
        build += ["--fp16"] if at < (11,) else []
        build += ["--memPoolSize=workspace:512" if at >= (8, 4) else "--workspace=512", "--noTF32"]
        build += ["--timingCacheFile=/timing"] if at >= (8,) else []
        build.append("--skipInference" if at >= (8, 6) else "--buildOnly")
        run = [] if at >= (11,) or at < (7, 2) else ["--noDataTransfers"]
        if at >= (11,):
            run += [] if spin else ["--noSpinWait"]
            run += [] if graph else ["--noCudaGraph"]
        else:
            run += ["--useSpinWait"] if spin else []
            run += ["--useCudaGraph"] if graph else []
        run += ["--explicitBatch", "--avgRuns=1"] if at < (8,) else []
        return cls(tuple(build), tuple(run))


def built(version: str, name: str = "googlenet", **changes: Any) -> FakeBoard:
    """Returns a board with an engine at /plan."""
    on = board(version, **changes)
    said = start(on, f"--onnx=/{name}.onnx", "--saveEngine=/plan", *Flags.of(version).build)
    assert not isinstance(read_build(lines(said), said.exit_code or 0), Failure), texts(said)[-3:]
    return on


def lines(said: Completed) -> list[tuple[float, str]]:
    return [(line.t_s, line.text) for line in said.lines]


def summary(said: Completed) -> Summary:
    found = read_run(lines(said), said.exit_code or 0)
    assert isinstance(found, Summary), (found, texts(said)[-5:])
    return found


def timed(on: FakeBoard, *words: str) -> Summary:
    return summary(start(on, "--loadEngine=/plan", "--warmUp=500", "--duration=2", *words))
