"""What a protocol means, in words. Pure."""

from __future__ import annotations

from engines.spec import Protocol

SCOPE = "GPU time of one batch, without copies"
"""What a latency times: the computation, also where copies are made beside it."""


def protocol_text(tool: str, protocol: Protocol) -> str:
    """Returns how the figures of ``tool`` were formed."""
    parts = [
        f"{protocol.ahead} batch queued ahead",
        "a CPU core spins while it waits" if protocol.spin else "the CPU sleeps while it waits",
        "inputs and outputs are copied for every batch" if protocol.transfers else "no copies",
        "as a CUDA graph" if protocol.cuda_graph else "no CUDA graph",
        "TF32 allowed" if protocol.tf32 else "no TF32",
        f"workspace {protocol.workspace_bytes >> 20} MiB",
    ]
    formula = "images/s = batch x iterations / time from the first start to the last end"
    return f"{tool} (protocol {protocol.fingerprint()}): {', '.join(parts)}. {formula}."
