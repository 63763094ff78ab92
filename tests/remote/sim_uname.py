"""Says whether this machine can have programs told of a board when they ask its kernel."""

from __future__ import annotations

import os
from pathlib import Path

_ACTIONS = Path("/proc/sys/kernel/seccomp/actions_avail")


def unanswered() -> str:
    """Returns why programs that ask the kernel are told of this machine, "" where they can be told of the board."""
    if os.uname().machine not in ("x86_64", "aarch64"):
        return "the filter is for other instruction sets"
    if not _ACTIONS.exists() or "user_notif" not in _ACTIONS.read_text().split():
        return "the kernel has no seccomp notification"
    return ""
