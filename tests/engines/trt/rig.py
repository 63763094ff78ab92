"""A board in this process: the stand-in of TensorRT over a fake GPU, spoken to as the host does."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engines.cost import Precision
from engines.emit.graphjson import graph_json
from engines.network import Network
from engines.onboard import trt
from engines.onboard.failure import Failed
from engines.spec import Protocol
from tests.engines.trt import standin
from tests.engines.trt.building import Machine
from tests.engines.trt.fake_cuda import Library, modules
from tests.engines.trt.fake_gpu import Gpu
from tests.engines.trt.surface import Record
from tests.engines.trt.surfaces import record

Answers = dict[str, list[dict[str, Any]]]
FACTS = {"l4t": "32.7.4", "power_mode": "MAXN", "gpu": "board"}
CALM: Any = SimpleNamespace(seen=False)


@contextmanager
def cuda(way: str, gpu: Gpu) -> Iterator[None]:
    """Within, CUDA is reached by ``way`` only: "pycuda", "cuda-python", "cudart" (its older name) or "ctypes"."""

    def load(name: str, *rest: Any, **named: Any) -> Any:
        if way != "ctypes" or "libcudart" not in name:
            raise OSError(f"{name}: cannot open shared object file: No such file or directory")
        return Library(gpu)

    with pytest.MonkeyPatch.context() as patch:
        for name, module in modules(way, gpu).items():
            patch.setitem(sys.modules, name, module)
        patch.setattr(ctypes, "CDLL", load)
        yield


@dataclass
class Rig:
    """``folder`` is the cache. What is asked is the contract of the program on the board."""

    folder: Path
    surface: str | Record
    way: str = "ctypes"
    machine: Machine = field(default_factory=lambda: Machine(gpu=Gpu()))
    forced: str | None = None

    def __post_init__(self) -> None:
        self.tensorrt = standin.load(
            record(self.surface) if isinstance(self.surface, str) else self.surface, self.machine
        )
        self.folder.mkdir(mode=0o700, exist_ok=True)

    @property
    def gpu(self) -> Gpu:
        """Returns the GPU behind it all."""
        assert isinstance(self.machine.gpu, Gpu)
        return self.machine.gpu

    def network(self, network: Network, precision: Precision = "fp32", batch: int = 1, seed: int = 1) -> dict[str, Any]:
        """Returns the part of a request that names one of the project's own networks."""
        graph = graph_json(network, batch, precision, seed)
        return {**self._engine(network.name, precision, batch, seed), "graph": graph, "model": None, "inputs": {}}

    def model(
        self, path: Path, inputs: dict[str, list[int]], precision: Precision = "fp32", batch: int = 1
    ) -> dict[str, Any]:
        """Returns the part of a request that names a user's file."""
        engine = self._engine(path.stem, precision, batch, 0)
        return {**engine, "graph": None, "model": str(path), "inputs": inputs}

    def _engine(self, name: str, precision: Precision, batch: int, seed: int) -> dict[str, Any]:
        content = {"digest": name, "precision": precision, "batch": batch, "board": dict(FACTS)}
        return {"name": name, "precision": precision, "batch": batch, "seed": seed, "content": content}

    def ask(self, action: str, engine: dict[str, Any], protocol: Protocol | None = None, **changes: Any) -> Answers:
        """Returns what the board says, by event. Raises Failed."""
        request = {
            **{
                "action": action,
                "toolchain": "tensorrt",
                "skeleton": None,
                "input_value": 0.7,
                "cache": str(self.folder),
            },
            **{"options": asdict(protocol or Protocol()), "need": {"weight_bytes": 0, "tensor_bytes": 0}},
            **{"cuda": self.forced, "variant": None, "files": {}, "keys": [], "what": ""},
            **{"warmup_s": 0.0, "duration_s": 0.0, "iterations": 5, "min_iterations": 1},
            **engine,
            **changes,
        }
        heard: Answers = {}

        def say(event: str, **fields: Any) -> None:
            heard.setdefault(event, []).append(fields)

        with cuda(self.way, self.gpu), pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, "tensorrt", self.tensorrt)
            trt.answer(request, CALM, say)
        return heard

    def run(self, engine: dict[str, Any], protocol: Protocol | None = None, **changes: Any) -> Answers:
        """Builds, then runs; returns what both said."""
        built = self.ask("build", engine, protocol, **changes)
        return {**built, **self.ask("bench", engine, protocol, **changes)}

    def refused(self, action: str, engine: dict[str, Any], **changes: Any) -> Failed:
        """Returns how the board gave up."""
        with pytest.raises(Failed) as caught:
            self.ask(action, engine, **changes)
        return caught.value
