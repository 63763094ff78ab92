"""A stand-in for a simulated board: runs one program of the twin and keeps what it printed, in simulated time.

And what the runner there is asked: the request that the host would send.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any, Literal

from engines.cost import Precision, cost, total
from engines.emit.graphjson import graph_json
from engines.models import load
from engines.network import Conv, FullyConnected, Input, Network, ReLU, Softmax
from engines.spec import EngineSpec, Options
from remote.sim.kernel.node import pattern
from remote.sim.physics import Activity, Clocks
from remote.sim.process import Busy, Err, Out, OutOfBoardMemory, Program, Sleep
from remote.types import Completed, Line

_TIMES = {
    "fp32_efficiency": 0.6,
    "fp16_efficiency": 0.5,
    "bandwidth_efficiency": 0.7,
    "launch_s": 5e-5,
    "macs_per_output": 30.0,
    "half_columns": 10.0,
}
TWIN: Mapping[str, object] = {
    "wall_s": 1447451082.0,
    "device": "NVIDIA Tegra X1",
    "tensorrt": {"tensorrt": "8.2.1", "cuda": "10.2", "python": "3.6.9"},
    "gpu": {
        "lanes": 256,
        "lanes_per_sm": 128,
        "sm": "5.3",
        "fp16_rate": 2.0,
        "bytes_per_emc_clock": 16.0,
        "reference_cpu_hz": 1.734e9,
    },
    "protocol": {
        "copy_share": 0.5,
        "contention": 0.5,
        "wake_s": 1e-4,
        "graph_launch": 0.25,
        "small_workspace_bytes": 64 << 20,
        "small_workspace_speed": 0.75,
        "tf32_share": 0.5,
        "tactics": 0.01,
    },
    "images": ["trt:8.2"],
    "time": {"tensorrt": _TIMES, "caffe-cudnn4": _TIMES},
}


@dataclass
class FakeBoard:
    """Is the `Context` of the programs that it runs. ``files`` last from one program to the next, ``used_s`` tells
    when each was written or touched. ``boom_after`` lets that many operations that change files pass, and no more."""

    release: str = "r32.7"
    gpu_hz: float = 998.4e6
    memory_bytes: int = 3_500_000_000
    seed: int = 0
    now_s: float = 100.0
    files: dict[str, bytes] = field(default_factory=dict)
    twin: Mapping[str, object] = field(default_factory=lambda: TWIN)
    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: str = ""
    busy: list[Busy] = field(default_factory=list)
    used_bytes: int = 0
    used_s: dict[str, float] = field(default_factory=dict)
    boom_after: int = -1

    def run(
        self, program: Program, argv: tuple[str, ...] = (), stdin: str = "", interrupt_after: str = "never"
    ) -> Completed:
        """Runs to the end; Ctrl-C comes in the middle of the second action after a line with ``interrupt_after``."""
        self.argv, self.stdin, self.used_bytes, self.busy = argv, stdin, 0, []
        lines: list[Line] = []
        began_s, countdown, code = self.now_s, -1, 0
        run = program(self)
        try:
            action = next(run)
            while True:
                signal = False
                if isinstance(action, Out | Err):
                    source: Literal["stdout", "stderr"] = "stdout" if isinstance(action, Out) else "stderr"
                    texts = action.text.removesuffix("\n").split("\n")
                    lines += [Line(self.now_s, source, text) for text in texts]
                    if interrupt_after in action.text:
                        countdown = 2
                elif isinstance(action, Sleep | Busy):
                    countdown -= 1
                    signal = countdown == 0
                    self.now_s += action.seconds / (2 if signal else 1)
                    if isinstance(action, Busy):
                        self.busy.append(action)
                action = run.throw(KeyboardInterrupt()) if signal else next(run)
        except StopIteration as stop:
            code = stop.value
        except KeyboardInterrupt:
            code = -2
        except OSError:
            code = 1
        reason = "" if interrupt_after == "never" else "cancelled"
        return Completed(argv, code, tuple(lines), (), began_s, self.now_s, reason)

    def asks(self) -> bool:
        return False

    def now(self) -> float:
        return self.now_s

    def random(self) -> int:
        return random.Random(f"{self.seed} {self.now_s}").getrandbits(63)

    def clocks(self, activity: Activity | None = None) -> Clocks:
        return Clocks(1.734e9, self.gpu_hz, 1.6e9)

    def gpu_share(self) -> float:
        return 1.0

    def allocate(self, size_bytes: int) -> None:
        if self.used_bytes + size_bytes > self.memory_bytes:
            raise OutOfBoardMemory(f"{size_bytes} bytes asked for")
        self.used_bytes += size_bytes

    def read(self, path: str) -> str:
        return self.load(path).decode()

    def write(self, path: str, text: str) -> None:
        self.save(path, text.encode())

    def load(self, path: str) -> bytes:
        if path not in self.files:
            raise FileNotFoundError(2, "No such file or directory", path)
        return self.files[path]

    def save(self, path: str, data: bytes) -> None:
        self._change()
        self.files[path] = data
        self.used_s[path] = self.wall()

    def match(self, path: str) -> list[str]:
        shape = pattern(path)
        return [name for name in self.files if shape.fullmatch(name)]

    def size(self, path: str) -> int:
        return len(self.load(path))

    def changed_s(self, path: str) -> float:
        self.load(path)
        return self.used_s[path]

    def touch(self, path: str) -> None:
        self._change()
        self.used_s[path] = self.wall()

    def rename(self, old: str, new: str) -> None:
        self._change()
        self.load(old)
        self.files[new], self.used_s[new] = self.files.pop(old), self.used_s.pop(old)

    def remove(self, path: str) -> None:
        self._change()
        self.files.pop(path, None)

    def make_folder(self, path: str) -> None:
        self._change()

    def start(self, argv: Sequence[str]) -> None:
        raise AssertionError(f"starts {argv}: no engine's program starts another one")

    def stop(self, name: str) -> None:
        raise AssertionError(f"ends {name}: no engine's program ends another one")

    def wall(self) -> float:
        return 1447451082.0 + self.now_s

    def _change(self) -> None:
        if not self.boom_after:
            raise OSError(28, "No space left on device")
        self.boom_after -= 1


CACHE = "/cache"
SKELETON = f"{CACHE}/model.json"


def asked(
    action: str,
    toolchain: str = "tensorrt",
    name: str = "alexnet",
    batch: int = 16,
    precision: Precision = "fp16",
    gpu: str = "tx1",
    power_mode: str = "",
    protocol: Mapping[str, Any] | None = None,
    **changes: Any,
) -> str:
    """Returns the request for an action on a built-in network; ``changes`` replace fields of it."""
    options = Options().with_protocol(**(protocol or {}))
    digest, graph, need = _model(name, batch, precision)
    spec = EngineSpec(name, precision, batch, toolchain, 0, digest, options.flags())
    request = {
        "action": action,
        "toolchain": toolchain,
        "name": name,
        "model": None,
        "graph": graph,
        "skeleton": SKELETON,
        "inputs": {},
        "precision": precision,
        "batch": batch,
        "seed": 0,
        "input_value": 0.7,
        "content": spec.content({"gpu": gpu, "l4t": "32.7.1", "power_mode": power_mode}),
        "cache": CACHE,
        "options": asdict(options.protocol),
        "need": need,
        "cuda": None,
        "variant": None,
        "files": {},
        "warmup_s": 2.0,
        "duration_s": 10.0,
        "iterations": None,
        "min_iterations": 10,
    }
    return json.dumps({**request, **changes})


def small() -> Network:
    """Returns a network whose file is small."""
    layers = (
        Conv.square("conv", "data", 8, 3, pad=1),
        ReLU("relu", ("conv",)),
        FullyConnected("fc", ("relu",), 10),
        Softmax("prob", ("fc",)),
    )
    return Network("small", (Input("data", (3, 8, 8)),), layers, ("prob",))


@cache
def _model(name: str, batch: int, precision: Precision) -> tuple[str, str, dict[str, int]]:
    model = load(name, batch)
    rows = cost(model.network, batch, precision)
    largest = max(row.read_bytes - row.weight_bytes + row.written_bytes for row in rows)
    need = {"weight_bytes": total(rows).weight_bytes, "tensor_bytes": largest}
    return model.digest, graph_json(model.network, batch, precision, 0), need


def events(said: Completed) -> list[dict[str, Any]]:
    """Returns what the runner said."""
    return [json.loads(line.text) for line in said.lines if line.text.startswith("{")]


def event(said: Completed, name: str) -> dict[str, Any]:
    """Returns the last event of that name."""
    return next(found for found in reversed(events(said)) if found["event"] == name)


def seconds(said: Completed, name: str) -> list[float]:
    """Returns the seconds of all events of that name."""
    return [value for found in events(said) if found["event"] == name for value in found["seconds"]]
