"""How boards over SSH are logged in to: what the environment says, and the user's answers on the terminal.

EDGEPERF_SUDO_PASSWORD, EDGEPERF_CONNECT (time limit, 10s), and for the heartbeat of a connection EDGEPERF_BEAT (2s),
EDGEPERF_SILENCE (10s) and EDGEPERF_GRACE (60s). EDGEPERF_SSH_CONFIG names an SSH config in place of ~/.ssh/config.
"""

from __future__ import annotations

import os
import sys
import threading
from functools import cache

from edgeperf.ui import Ui
from edgeperf.units import parse_seconds
from remote.access import PASSWORD_VARIABLE, Access
from remote.channel import Pulse
from remote.errors import UsageError

_TERMINAL = threading.Lock()
_TAKING = threading.Lock()


def access(
    *,
    accept_new_host_key: bool = False,
    meet: bool = False,
    clocks_only: bool = False,
    resume: bool = False,
) -> Access:
    """Returns what holds for the connections of a command. ``meet``: the user may be asked about a new host key.

    Raises UsageError for a time in the environment that is none, and an SSH config that is not there.
    """
    asking = sys.stdin is not None and sys.stdin.isatty()
    return Access(
        connect_s=parse_seconds(os.environ.get("EDGEPERF_CONNECT", "10s")),
        pulse=Pulse(
            parse_seconds(os.environ.get("EDGEPERF_BEAT", "2s")),
            parse_seconds(os.environ.get("EDGEPERF_SILENCE", "10s")),
            parse_seconds(os.environ.get("EDGEPERF_GRACE", "60s")),
        ),
        accept_new_host_key=accept_new_host_key,
        clocks_only=clocks_only,
        resume=resume,
        sudo_password=_sudo_password(),
        ask=_password if asking else None,
        confirm=_confirm if asking and meet else None,
        progress=Ui().progress if sys.stderr.isatty() else None,
        ssh_config=_ssh_config(),
    )


def _ssh_config() -> str | None:
    named = os.environ.get("EDGEPERF_SSH_CONFIG")
    if named and not os.path.isfile(named):
        raise UsageError(f"EDGEPERF_SSH_CONFIG={named}: there is no such file", "name an SSH config, or unset it")
    return named or None


def _sudo_password() -> str:
    """Returns the password that this process was given."""
    with _TAKING:  # connections are made in parallel
        return _taken()


@cache
def _taken() -> str:
    """Takes the password out of the environment, which a ProxyCommand or `Match exec` of the SSH config inherits."""
    return os.environ.pop(PASSWORD_VARIABLE, "")


def _password(question: str) -> str:
    from getpass import getpass

    with _TERMINAL:  # several boards may ask at once
        try:
            return getpass(question)
        except EOFError:
            return ""


def _confirm(question: str) -> bool:
    with _TERMINAL:
        return Ui().confirm(question)
