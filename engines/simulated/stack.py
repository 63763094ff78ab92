"""The TensorRT of a simulated board: which one, and on which GPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engines.onboard.failure import Failed
from remote.sim.process import Context


@dataclass(frozen=True)
class Stack:
    """``version`` as TensorRT says it, ``sm`` the GPU's compute capability, ``sms`` its multiprocessors in use."""

    version: str
    cuda: str
    python: str
    device: str
    sm: str
    sms: int

    @classmethod
    def of(cls, context: Context) -> Stack:
        """Returns what the board has. Raises Failed where its release has no TensorRT that is simulated."""
        twin: Mapping[str, Any] = context.twin
        found, gpu = twin.get("tensorrt"), twin["gpu"]
        if found is None:
            raise Failed("missing", "No module named 'tensorrt' on the simulated board", "it has caffe")
        share = context.clocks().gpu_share
        sms = max(1, round(gpu["lanes"] * share / gpu["lanes_per_sm"]))
        return cls(found["tensorrt"], found["cuda"], found["python"], str(twin["device"]), gpu["sm"], sms)

    @property
    def numbers(self) -> tuple[int, ...]:
        """Major, minor and patch."""
        return tuple(int(part) for part in self.version.split(".")[:3])

    @property
    def architecture(self) -> str:
        """The GPU's compute capability as compilers name it: "sm_53"."""
        return "sm_" + self.sm.replace(".", "")

    @property
    def inspects(self) -> bool:
        """Whether this TensorRT tells what the layers of an engine are."""
        return self.numbers >= (8, 2)

    def versions(self) -> dict[str, str]:
        """Returns what the runner says hello with."""
        access = f"ctypes {self.cuda}"
        return {"tensorrt": self.version, "cuda": self.cuda, "cuda access": access, "python": self.python}

    def board(self, host: Mapping[str, str]) -> dict[str, str]:
        """Returns the part of an engine's content that names the board; ``host`` is what the host knows of it."""
        facts = {"tensorrt": self.version, "active_sms": str(self.sms)}
        return {**host, **facts, "gpu": f"{host.get('gpu', '')} {self.architecture}".strip()}
