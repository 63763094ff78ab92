"""What an engine is made of, how it is run, and the key under which it is cached: content, never a name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from engines.cost import Precision
from engines.onboard.key import engine_key
from engines.weights import ALGORITHM

KEY_FACTS = ("tensorrt", "l4t", "gpu", "active_sms", "power_mode")
"""The facts of a board that an engine depends on: its tactics are timed on that silicon, with that software."""

WORKSPACE_BYTES = 512 << 20
"""Enough for AlexNet and GoogLeNet. Without a limit TensorRT up to 8.2 has 16 MiB or none and picks poor tactics."""


@dataclass(frozen=True)
class Protocol:
    """What a figure of TensorRT means, whichever tool measured it. Equal protocols give comparable figures.

    ``transfers``: input and output are copied for every batch. ``spin``: a CPU core waits busily for the GPU.
    ``ahead``: batches queued behind the one that runs. ``tf32``: FP32 may be computed in TF32.
    """

    transfers: bool = False
    spin: bool = False
    cuda_graph: bool = False
    ahead: int = 1
    tf32: bool = False
    workspace_bytes: int = WORKSPACE_BYTES

    def fingerprint(self) -> str:
        """Returns 8 hex digits, equal for equal protocols."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:8]


@dataclass(frozen=True)
class Options:
    """How an engine is built and run beyond what it computes.

    ``builds``: engines are built that often, the fastest is kept. ``cuda``: "pycuda", "cuda-python" or "ctypes"; None
    for the first that works. ``shapes`` are those of a user model's inputs whose dimensions the file leaves open.
    ``container``: the image in which everything runs on the board; "" for none.
    """

    protocol: Protocol = field(default_factory=Protocol)
    builds: int = 1
    cuda: str | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    container: str = ""

    def with_protocol(self, **changes: Any) -> Options:
        """Returns these options with fields of their protocol changed."""
        return replace(self, protocol=replace(self.protocol, **changes))

    def flags(self) -> tuple[str, ...]:
        """Returns what changes the engine itself, for its key: how it is run later does not."""
        protocol = self.protocol
        flags = [f"workspace={protocol.workspace_bytes}", *(["tf32"] if protocol.tf32 else [])]
        flags += [f"shape={name}:{'x'.join(map(str, dims))}" for name, dims in sorted(self.shapes.items())]
        flags += [f"container={self.container}"] if self.container else []
        return tuple(flags)


@dataclass(frozen=True)
class EngineSpec:
    """An engine as asked for. ``digest`` is that of the model's content, ``flags`` what the builder is told besides."""

    model: str
    precision: Precision
    batch: int
    toolchain: str
    seed: int
    digest: str
    flags: tuple[str, ...] = ()

    def content(self, facts: Mapping[str, str]) -> dict[str, Any]:
        """Returns all that the engine depends on, on a board with ``facts``.

        Of the facts only `KEY_FACTS` count, absent ones as empty; the model's name and the order of flags do not.
        """
        return {
            "digest": self.digest,
            "precision": self.precision,
            "batch": self.batch,
            "toolchain": self.toolchain,
            "weights": [ALGORITHM, self.seed],
            "flags": sorted(self.flags),
            "board": {name: facts.get(name, "") for name in KEY_FACTS},
        }

    def key(self, facts: Mapping[str, str]) -> str:
        """Returns 32 hex digits for this engine on a board with ``facts``."""
        return engine_key(self.content(facts))
