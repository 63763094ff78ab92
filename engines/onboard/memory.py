"""Whether a build fits the memory that is left, before it is tried: the kernel would end it without a word."""

import re
from typing import Any, Dict, List, Optional, Tuple

from engines.onboard.failure import Failed

LIBRARIES_BYTES = 600 << 20
"""What TensorRT, cuDNN and cuBLAS take of a board's memory by themselves, roughly."""

SMALL_WORKSPACE_BYTES = 64 << 20
"""The workspace of the second attempt."""

HINT = (
    "use a smaller batch, or free memory on the board: end the desktop (sudo systemctl isolate multi-user.target), "
    "add swap, stop other programs that use the GPU, then: sync; echo 3 | sudo tee /proc/sys/vm/drop_caches"
)


def check(request: Dict[str, Any], meminfo: str = "/proc/meminfo") -> Tuple[int, List[str]]:
    """Returns the bytes of workspace to build with and what to tell the user.

    Counted are the libraries, weights in FP32 twice (ours and the builder's), the largest layer's tensors twice, and
    the workspace. Raises Failed where not even a small workspace fits. Where ``meminfo`` does not say what is
    available, everything fits.
    """
    need, asked_bytes = request["need"], request["options"]["workspace_bytes"]
    weight_bytes = need["weight_bytes"] * (2 if request["precision"] == "fp16" else 1)
    fixed_bytes = LIBRARIES_BYTES + 2 * weight_bytes + 2 * need["tensor_bytes"]
    available_bytes = available(meminfo)
    if available_bytes is None or fixed_bytes + asked_bytes <= available_bytes:
        return asked_bytes, []
    small_bytes = min(asked_bytes, SMALL_WORKSPACE_BYTES)
    if fixed_bytes + small_bytes > available_bytes:
        what = "building takes about %d MiB, %d MiB are available" % (
            (fixed_bytes + small_bytes) >> 20,
            available_bytes >> 20,
        )
        raise Failed("out_of_memory", what, HINT)
    return small_bytes, [reduced(asked_bytes, small_bytes)]


def reduced(asked_bytes: int, used_bytes: int) -> str:
    """Returns the words for a workspace that had to be smaller than asked for."""
    words = "memory is short: built with a workspace of %d MiB instead of %d MiB, the engine may be slower"
    return words % (used_bytes >> 20, asked_bytes >> 20)


def available(meminfo: str) -> Optional[int]:
    """Returns the bytes that can be had without swapping, as Linux estimates them; None where it does not."""
    try:
        with open(meminfo) as file:
            match = re.search(r"^MemAvailable:\s+(\d+) kB", file.read(), re.MULTILINE)
    except OSError:
        return None
    return int(match.group(1)) << 10 if match else None
