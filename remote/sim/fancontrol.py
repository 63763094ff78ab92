"""The service that controls the fan from L4T R34 on, nvfancontrol, and as much of systemctl as it takes to stop it."""

from __future__ import annotations

from collections.abc import Generator

from remote.sim.kernel.board import FAN_SERVICE
from remote.sim.process import Action, Context, Err, Out

_INACTIVE = 3  # systemctl's code for a unit that is not active
_UNKNOWN = 5  # and for one that is not there


def systemctl(context: Context) -> Generator[Action, None, int]:
    """``start``, ``stop``, ``restart``, ``status``, ``is-active`` of nvfancontrol; the twin has no other services."""
    verb, unit, *_ = [*(word for word in context.argv[1:] if not word.startswith("-")), "", ""]
    if unit.removesuffix(".service") != "nvfancontrol":
        yield Err(f"Unit {unit} not found: the simulated board has nvfancontrol only.\n")
        return _UNKNOWN
    if verb in ("start", "stop", "restart"):
        context.write(FAN_SERVICE, "inactive" if verb == "stop" else "active")
        return 0
    state = context.read(FAN_SERVICE).strip()
    if verb == "status":
        yield Out(f"nvfancontrol.service - fan control\n     Active: {state}\n")
    else:
        yield Out(f"{state}\n")
    return 0 if state == "active" else _INACTIVE


def nvfancontrol(context: Context) -> Generator[Action, None, int]:
    """``-q`` tells profile, governor and control of the fan while the service runs."""
    if "-q" not in context.argv or context.read(FAN_SERVICE).strip() != "active":
        yield Err("nvfancontrol: -q asks the running service, which it is not\n")
        return 1
    yield Out("FAN1:FAN_PROFILE:quiet\nFAN1:FAN_GOVERNOR:cont\nFAN1:FAN_CONTROL:close_loop\n")
    return 0
