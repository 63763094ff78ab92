"""Starts one of the two programs inside the zip: ``python3 edgeperf.zip agent|clockd [--root DIR]``."""

import json
import pkgutil
import signal
import sys

from remote.onboard.agent import Agent
from remote.onboard.clockd import Clockd
from remote.onboard.system import System

MYPY = False
if MYPY:  # the typing module is newer than the oldest Python of the boards
    from typing import Any  # novm


def table() -> "dict[str, Any]":
    """Returns the boards' tables that the zip carries."""
    data = pkgutil.get_data("remote.onboard", "boards.json")
    assert data is not None
    loaded = json.loads(data.decode("utf-8"))
    assert isinstance(loaded, dict)
    return loaded


def main(argv: "list[str]") -> int:
    """Runs until the host closes the connection. Ctrl-C belongs to the host: it decides, and closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    root = argv[argv.index("--root") + 1] if "--root" in argv else ""
    data = table()
    system = System(root)
    program = {"agent": Agent, "clockd": Clockd}[argv[1]](system, data["boards"], data["build"])
    try:
        program.serve()
    except BrokenPipeError:
        return 1  # the host is gone, and with it all who could be told
    finally:
        program.on_close()  # once more, in case that it was not the host's goodbye that ended it
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
