"""A stand-in for a simulated board: runs one program of the twin and keeps what it printed, in simulated time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

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
    "gpu": {"lanes": 256, "fp16_rate": 2.0, "bytes_per_emc_clock": 16.0, "reference_cpu_hz": 1.734e9},
    "time": {"tensorrt": _TIMES, "caffe-cudnn4": _TIMES},
}


@dataclass
class FakeBoard:
    """Is the `Context` of the programs that it runs. ``files`` last from one program to the next."""

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
        reason = "" if interrupt_after == "never" else "cancelled"
        return Completed(argv, code, tuple(lines), (), began_s, self.now_s, reason)

    def now(self) -> float:
        return self.now_s

    def random(self) -> int:
        return self.seed

    def clocks(self, activity: Activity | None = None) -> Clocks:
        return Clocks(1.734e9, self.gpu_hz, 1.6e9)

    def allocate(self, size_bytes: int) -> None:
        self.used_bytes += size_bytes
        if self.used_bytes > self.memory_bytes:
            raise OutOfBoardMemory(f"{size_bytes} bytes asked for")

    def read(self, path: str) -> str:
        return self.load(path).decode()

    def write(self, path: str, text: str) -> None:
        self.files[path] = text.encode()

    def load(self, path: str) -> bytes:
        if path not in self.files:
            raise FileNotFoundError(2, "No such file or directory", path)
        return self.files[path]

    def save(self, path: str, data: bytes) -> None:
        self.files[path] = data
