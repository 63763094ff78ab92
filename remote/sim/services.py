"""As much of systemctl and service as scripts use, of the services in remote/sim/kernel/units.py."""

from __future__ import annotations

import time
from collections.abc import Generator

from remote.sim.kernel.board import FAN_SERVICE
from remote.sim.kernel.units import FOLDER
from remote.sim.process import Action, Context, Err, Out

_CHANGES = ("start", "stop", "restart", "reload", "try-restart", "reload-or-restart", "enable", "disable")
_INACTIVE, _NO_STATUS, _NO_UNIT = 3, 4, 5  # systemctl's codes: not active, no status of it, nothing to change
_FAN = "nvfancontrol"
_ANSWERS = {"is-system-running": "running", "get-default": "graphical.target"}  # assumed: a board with a desktop
_ABOUT = {
    "docker": "Docker Application Container Engine",
    "nvargus-daemon": "Argus daemon",
    _FAN: "nvfancontrol service",
    "nvpmodel": "nvpmodel service",
    "nvzramconfig": "ZRAM configuration",
    "ssh": "OpenBSD Secure Shell server",
}
"""Documented for those of cameras, memory and ssh; assumed: the others."""


def systemctl(context: Context) -> Generator[Action, None, int]:
    """``start``, ``stop``, ``restart``, ``enable``, ``disable``, ``status``, ``is-active``, ``is-enabled`` of units.

    The exit codes are systemd's. A unit that stops does nothing else to the board, but for nvfancontrol.
    ``get-default``, ``is-system-running`` and ``list-unit-files`` answer; other verbs do nothing.
    """
    verb, *units = [*(word for word in context.argv[1:] if not word.startswith("-")), ""]
    quiet = {"-q", "--quiet"} & set(context.argv)
    worst = 0
    for unit in units[:-1]:
        name = unit if "." in unit else f"{unit}.service"
        known = "ssh.service" if name == "sshd.service" else name
        out, err, code = _did(context, verb, name, known.removesuffix(".service"))
        if out and not quiet:
            yield Out(f"{out}\n")
        if err:
            yield Err(f"{err}\n")
        worst = max(worst, code)
    if verb in _ANSWERS:
        yield Out(f"{_ANSWERS[verb]}\n")
    if verb in ("list-unit-files", "list-units"):
        states = ((name, _state(context, name)) for name in _ABOUT)
        yield Out("".join(f"{name + '.service':<40} {state[1]}\n" for name, state in states if state))
    return worst


def service(context: Context) -> Generator[Action, None, int]:
    """``NAME start|stop|restart|status``, which systemctl does from Ubuntu 16.04 on, and ``--status-all``."""
    if "--status-all" in context.argv:
        states = ((name, _state(context, name)) for name in _ABOUT)
        yield Out("".join(f" [ {'+' if state[0] == 'active' else '-'} ]  {name}\n" for name, state in states if state))
        return 0
    words = [word for word in context.argv[1:] if not word.startswith("-")]
    if len(words) < 2:
        yield Err("Usage: service < option > | --status-all | [ service_name [ command | --full-restart ] ]\n")
        return 1
    if context.twin["ubuntu"] == "14.04":
        yield Err(f"{words[0]}: unrecognized service\n")  # assumed: nothing that was made for a service of that time
        return 1
    context.argv = ("systemctl", words[1], words[0])
    return (yield from systemctl(context))


def _state(context: Context, name: str) -> list[str]:
    """Returns ``active`` or ``inactive``, and ``enabled`` or ``disabled``; [] where there is no such unit."""
    try:
        state = context.read(f"{FOLDER}/{name}.service").split()
        return [context.read(FAN_SERVICE).strip(), state[1]] if name == _FAN else state
    except FileNotFoundError:
        return []


def _did(context: Context, verb: str, unit: str, name: str) -> tuple[str, str, int]:
    """Does what ``verb`` says; returns what goes to stdout and stderr, and the exit code."""
    state = _state(context, name)
    if verb in _CHANGES:
        if not state:
            return "", f"Failed to {verb} {unit}: Unit {unit} not found.", _NO_UNIT
        try:
            _change(context, name, verb, state)
        except PermissionError:
            return "", f"Failed to {verb} {unit}: Interactive authentication required.", 1
        return "", "", 0
    now, boot = state or ("inactive", "")
    code = 0 if now == "active" else _INACTIVE
    if verb == "is-active":
        return now, "", code
    if verb == "is-failed":
        return now, "", 1  # nothing here fails
    if verb == "is-enabled":
        why = "" if state else f"Failed to get unit file state for {unit}: No such file or directory"
        return boot, why, 0 if boot == "enabled" else 1
    if verb == "status":
        return (
            (_status(context, name, state), "", code) if state else ("", f"Unit {unit} could not be found.", _NO_STATUS)
        )
    return "", "", 0


def _change(context: Context, name: str, verb: str, state: list[str]) -> None:
    """Sets what ``verb`` says. Raises PermissionError for a user who may not."""
    now, boot = state
    if verb in ("enable", "disable"):
        boot = f"{verb}d"
        now = {"enable": "active", "disable": "inactive"}[verb] if "--now" in context.argv else now
    else:
        now = "inactive" if verb == "stop" or name == "nvzramconfig" else "active"
    context.write(f"{FOLDER}/{name}.service", f"{now} {boot}")
    if name == _FAN:
        context.write(FAN_SERVICE, now)


def _status(context: Context, name: str, state: list[str]) -> str:
    """Returns the first lines of a status, in the form that the board's systemd gives them."""
    ubuntu = float(str(context.twin["ubuntu"]))
    ends = {"nvpmodel": "exited"}.get(name, "running") if state[0] == "active" else "dead"
    since = time.strftime("%a %Y-%m-%d %H:%M:%S UTC", time.gmtime(context.wall() - context.now()))
    ago = f" since {since}; {int(context.now() // 60)}min ago" if state[0] == "active" else ""
    dot = "○" if state[0] != "active" and ubuntu >= 22 else "●"
    preset = "preset" if ubuntu >= 24 else "vendor preset"
    place = "/lib" if name in ("ssh", "docker") else "/etc"
    wide = " " * (5 if ubuntu >= 20 else 3)
    return (
        f"{dot} {name}.service - {_ABOUT[name]}\n"
        f"{wide}Loaded: loaded ({place}/systemd/system/{name}.service; {state[1]}; {preset}: enabled)\n"
        f"{wide}Active: {state[0]} ({ends}){ago}"
    )
