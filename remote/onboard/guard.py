"""The guard: a program of root that outlives `clockd` and the connection, and puts back what both left.

It knows nothing of hosts: it looks at the journal once a second and ends when there is nothing left to watch over.
"""

from remote.onboard.clockd import Clockd

MYPY = False
if MYPY:  # the typing module is newer than the oldest Python of the boards
    from typing import Any  # novm

    from remote.onboard.system import System

_LOOK_S = 0.5


def guard(system: "System", boards: "dict[str, dict[str, Any]]", build: str) -> None:
    """Returns once no lease and nothing with an end is in force any more."""
    keeper = Clockd(system, boards, build)
    while keeper.put_back_due():
        system.wait([], system.now() + _LOOK_S)
