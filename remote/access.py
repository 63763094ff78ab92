"""How boards of a command are reached: what the user allowed, and how to ask for a password."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from remote.channel import Progress, Pulse

PASSWORD_VARIABLE = "EDGEPERF_SUDO_PASSWORD"
"""The environment variable with the sudo password. No program that is started on this machine inherits it."""


@dataclass(frozen=True)
class Access:
    """What holds for every connection of a command. Passwords are never shown, stored or put on a command line.

    ``ask`` shows a question and returns a password, "" for none; ``confirm`` asks whether a new host key is right.
    Without them nobody can be asked. ``clocks_only``: no job is expected, so the program that runs jobs is started only
    once it is needed. ``resume`` picks up what a lost connection has left running. ``progress`` is told
    how much of a file is there while it is put. ``ssh_config`` is read in place of the user's and the system's.
    """

    connect_s: float = 10.0
    pulse: Pulse = field(default_factory=Pulse)
    accept_new_host_key: bool = False
    clocks_only: bool = False
    resume: bool = False
    sudo_password: str = field(default="", repr=False)
    ask: Callable[[str], str] | None = field(default=None, repr=False)
    confirm: Callable[[str], bool] | None = field(default=None, repr=False)
    progress: Progress | None = None
    ssh_config: str | None = None


DEFAULT = Access()
"""Nobody is asked, and only what is known already is trusted."""
