"""Clocks that the twin shows and nobody sets: video, audio and deep-learning engines, the GPU's by its other names.

Which files a board has: jetson_clocks --show, and what tegrastats reads (jetson_stats#360).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from remote.sim.kernel.node import DEBUGFS, Node, Part, fixed


class Engines(Part):
    """The engines of ``twin["engines"]``, by name with their highest rate in Hz: powered off, at that rate (assumed).

    ``twin["gpu_clocks"]`` are the files below debugfs that show the GPU's rate.
    """

    def __init__(self, twin: Mapping[str, Any], gpu_hz: Callable[[], int]) -> None:
        self._engines: Mapping[str, int] = twin.get("engines", {})
        self._gpu_clocks: list[str] = twin.get("gpu_clocks", [])
        self._bpmp = "bpmp" in twin
        self._gpu_hz = gpu_hz

    def nodes(self) -> dict[str, Node]:
        """Returns the clocks' files, and the list of who has memory of the GPU's: nobody (assumed)."""
        texts = {"nvmap/iovmm/maps": "CLIENT PROCESS PID SIZE\ntotal 0K\n"} if self._engines else {}
        for name, hz in self._engines.items():
            folder = f"clk/{name}"
            texts |= {f"{folder}/clk_{kind}": f"{hz}\n" for kind in ("rate", "max_rate")}
            texts |= {f"{folder}/clk_min_rate": "0\n", f"{folder}/clk_enable_count": "0\n"}
            if self._bpmp:
                texts |= {f"bpmp/debug/{folder}/{kind}": f"{hz}\n" for kind in ("rate", "max_rate")}
        nodes = {path: fixed(text) for path, text in texts.items()}
        nodes |= {path: Node(lambda: f"{self._gpu_hz()}\n") for path in self._gpu_clocks}
        return {DEBUGFS + path: Node(node.read, private=True) for path, node in nodes.items()}
