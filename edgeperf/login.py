"""How boards over SSH are logged in to: what the environment says, and the user's answers on the terminal.

EDGEPERF_SUDO_PASSWORD, EDGEPERF_CONNECT (time limit, 10s), and for the heartbeat of a connection EDGEPERF_BEAT (2s),
EDGEPERF_SILENCE (10s) and EDGEPERF_GRACE (60s).
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping

from edgeperf.ui import Ui
from edgeperf.units import parse_seconds
from remote.access import PASSWORD_VARIABLE, Access
from remote.channel import Pulse

_TERMINAL = threading.Lock()


def access(
    *,
    accept_new_host_key: bool = False,
    meet: bool = False,
    clocks_only: bool = False,
    resume: bool = False,
    environment: Mapping[str, str] = os.environ,
) -> Access:
    """Returns what holds for the connections of a command. ``meet``: the user may be asked about a new host key.

    Raises UsageError for a time in the environment that is none.
    """
    asking = sys.stdin is not None and sys.stdin.isatty()
    return Access(
        connect_s=parse_seconds(environment.get("EDGEPERF_CONNECT", "10s")),
        pulse=Pulse(
            parse_seconds(environment.get("EDGEPERF_BEAT", "2s")),
            parse_seconds(environment.get("EDGEPERF_SILENCE", "10s")),
            parse_seconds(environment.get("EDGEPERF_GRACE", "60s")),
        ),
        accept_new_host_key=accept_new_host_key,
        clocks_only=clocks_only,
        resume=resume,
        sudo_password=environment.get(PASSWORD_VARIABLE, ""),
        ask=_password if asking else None,
        confirm=_confirm if asking and meet else None,
        progress=Ui().progress if sys.stderr.isatty() else None,
    )


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
