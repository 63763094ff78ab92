"""nvfancontrol, the service that controls the fan from L4T R34 on."""

from __future__ import annotations

from collections.abc import Generator

from remote.sim.kernel.board import FAN_SERVICE
from remote.sim.process import Action, Context, Err, Out


def nvfancontrol(context: Context) -> Generator[Action, None, int]:
    """``-q`` tells profile, governor and control of the fan while the service runs."""
    if "-q" not in context.argv or context.read(FAN_SERVICE).strip() != "active":
        yield Err("nvfancontrol: -q asks the running service, which it is not\n")
        return 1
    yield Out("FAN1:FAN_PROFILE:quiet\nFAN1:FAN_GOVERNOR:cont\nFAN1:FAN_CONTROL:close_loop\n")
    return 0
