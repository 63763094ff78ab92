"""nvfancontrol, the service that controls the fan from L4T R34 on, and as much of systemctl as scripts use."""

from __future__ import annotations

from collections.abc import Generator

from remote.sim.kernel.board import FAN_SERVICE
from remote.sim.process import Action, Context, Err, Out

_CHANGES = ("start", "stop", "restart", "reload", "try-restart", "reload-or-restart")
_INACTIVE, _NO_STATUS, _NO_UNIT = 3, 4, 5  # systemctl's codes: not active, no status of it, nothing to change


def systemctl(context: Context) -> Generator[Action, None, int]:
    """``start``, ``stop``, ``restart``, ``status``, ``is-active``, ``is-enabled`` of units, with systemd's exit codes.

    There are nvfancontrol from L4T R34 on, which can be stopped, and nvpmodel where there are power modes, which has
    done its work at boot and stays active. Other verbs, such as ``daemon-reload``, do nothing.
    """
    verb, *units = [*(word for word in context.argv[1:] if not word.startswith("-")), ""]
    quiet = {"-q", "--quiet"} & set(context.argv)
    worst = 0
    for unit in units[:-1]:
        name = unit if "." in unit else f"{unit}.service"
        out, err, code = _did(context, verb, name, _state(context, name))
        if out and not quiet:
            yield Out(f"{out}\n")
        if err:
            yield Err(f"{err}\n")
        worst = max(worst, code)
    if verb == "is-system-running":
        yield Out("running\n")
    return worst


def _state(context: Context, unit: str) -> str:
    """Returns ``active`` or ``inactive``, "" where there is no such unit."""
    try:
        if unit == "nvfancontrol.service":
            return context.read(FAN_SERVICE).strip()
    except FileNotFoundError:
        return ""
    return "active" if unit == "nvpmodel.service" and "nvpmodel" in context.twin else ""


def _did(context: Context, verb: str, unit: str, state: str) -> tuple[str, str, int]:
    """Does what ``verb`` says; returns what goes to stdout and stderr, and the exit code."""
    if verb in _CHANGES:
        if not state:
            return "", f"Failed to {verb} {unit}: Unit {unit} not found.", _NO_UNIT
        if unit == "nvfancontrol.service":
            context.write(FAN_SERVICE, "inactive" if verb == "stop" else "active")
        return "", "", 0
    code = 0 if state == "active" else _INACTIVE
    if verb == "is-active":
        return state or "inactive", "", code
    if verb == "is-enabled":
        why = "" if state else f"Failed to get unit file state for {unit}: No such file or directory"
        return "enabled" if state else "", why, 0 if state else 1
    if verb == "status":
        why = "" if state else f"Unit {unit} could not be found."
        return f"{unit}\n     Active: {state}" if state else "", why, code if state else _NO_STATUS
    return "", "", 0


def nvfancontrol(context: Context) -> Generator[Action, None, int]:
    """``-q`` tells profile, governor and control of the fan while the service runs."""
    if "-q" not in context.argv or context.read(FAN_SERVICE).strip() != "active":
        yield Err("nvfancontrol: -q asks the running service, which it is not\n")
        return 1
    yield Out("FAN1:FAN_PROFILE:quiet\nFAN1:FAN_GOVERNOR:cont\nFAN1:FAN_CONTROL:close_loop\n")
    return 0
