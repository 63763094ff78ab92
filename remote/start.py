"""The commands that start a program on a board, as text. Pure.

They are constants but for the hash of the programs and the options; a password is never among them.
"""

from __future__ import annotations

import hashlib
import shlex
import threading
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Literal

from remote import bundle

PROMPT = "[edgeperf asks for the sudo password]"
NEED = b'{"id":0,"kind":"need"}\n'
"""What the loader says when the programs are not on the board yet."""

INSTALLED = "/usr/local/lib/edgeperf"
"""Where ``edgeperf hosts setup`` puts the root-owned program, and a mark for each user who may run it."""

_MAKING = threading.Lock()  # connections are made in parallel, and each wants the programs at once

Root = Literal["password", "silent", "none"]
"""How to become root: with a password if sudo wants one, only without one, or not at all."""

_PYTHON = "p=/usr/bin/python3; test -x $p || p=python3; "
_RUN = '$p -I -S -c "$0" "$@"'
# sudo keeps environment and working directory out; Python's -I and -S keep the user's modules out.
_AS_ROOT = """{python}u=$(id -u)
if test "$u" = 0; then exec {run}
elif test -e {installed}/for/$u; then exec sudo -n {installed}/clockd {words}
elif command -v sudo >/dev/null; then exec sudo {mode} -- {run}
else exec {run}; fi"""


def programs() -> tuple[bytes, str]:
    """Returns the zip of the on-board programs and its SHA-256 in hex."""
    with _MAKING:
        return _programs()


@cache
def _programs() -> tuple[bytes, str]:
    data = bundle.programs().data
    return data, hashlib.sha256(data).hexdigest()


def command(words: Sequence[str], root: Root = "none", *, installed: bool = False) -> str:
    """Returns the command line that starts ``words`` (a program and its options).

    With ``installed`` a copy that ``edgeperf hosts setup`` left on the board is preferred.
    """
    data, digest = programs()
    script = _PYTHON + "exec " + _RUN
    if root != "none":
        script = _AS_ROOT.format(
            python=_PYTHON,
            run=_RUN,
            installed=INSTALLED if installed else "/dev/null",
            words=shlex.join(words),
            mode="-n" if root == "silent" else f"-S -p {shlex.quote(PROMPT)}",
        )
    return "exec " + shlex.join(["sh", "-c", script, _loader(), digest, str(len(data)), *words])


@cache
def _loader() -> str:
    return resources.files("remote.onboard").joinpath("loader.py").read_text("utf-8")
