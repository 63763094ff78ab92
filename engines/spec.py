"""What an engine is made of, and the key under which it is cached: content, never a name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from engines.cost import Precision
from engines.weights import ALGORITHM

KEY_FACTS = ("tensorrt", "l4t", "gpu", "active_sms", "power_mode")
"""The facts of a board that an engine depends on: its tactics are timed on that silicon, with that software."""


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

    def key(self, facts: Mapping[str, str]) -> str:
        """Returns 32 hex digits for this engine on a board with ``facts``.

        Of the facts only `KEY_FACTS` count, absent ones as empty; the model's name and the order of flags do not.
        """
        content = {
            "digest": self.digest,
            "precision": self.precision,
            "batch": self.batch,
            "toolchain": self.toolchain,
            "weights": [ALGORITHM, self.seed],
            "flags": sorted(self.flags),
            "board": {name: facts.get(name, "") for name in KEY_FACTS},
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]
