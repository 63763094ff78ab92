"""Starts one of the programs inside the zip: ``python3 edgeperf.zip agent|clockd|guard|relay [--OPTION VALUE]...``.

Only what that program needs is loaded: a small board takes a tenth of a second to compile the rest.
"""

import json
import signal
import sys
import zipimport

from remote.onboard.system import System

MYPY = False
if MYPY:  # the typing module is newer than the oldest Python of the boards
    from typing import Any  # novm

    from remote.onboard.program import Program


def table(archive: str) -> "dict[str, Any]":
    """Returns the boards' tables that the zip carries."""
    data = zipimport.zipimporter(archive).get_data("remote/onboard/boards.json")
    loaded = json.loads(data.decode("utf-8"))
    assert isinstance(loaded, dict)
    return loaded


def _made(name: str, system: "System", data: "dict[str, Any]", asked: "dict[str, str]") -> "Program":
    beat_s, silence_s, grace_s = (float(asked.get(option, 0)) for option in ("--beat", "--silence", "--grace"))
    if name == "agent":
        from remote.onboard.agent import Agent

        return Agent(system, data["boards"], data["build"], beat_s, silence_s, grace_s)
    from remote.onboard.clockd import Clockd

    watched = asked.get("--guard") == "yes"
    return Clockd(system, data["boards"], data["build"], beat_s, silence_s, grace_s, watched)


def main(argv: "list[str]") -> int:
    """Runs until the host closes the connection. Ctrl-C belongs to the host: it decides, and closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asked = {name: argv[index + 3] for index, name in enumerate(argv[2:]) if name.startswith("--")}
    if argv[1] in ("install", "uninstall"):
        from remote.onboard import install  # needed once in a board's life

        return install.run(argv[1], argv[0])
    system = System(asked.get("--root", ""))
    if argv[1] == "relay":
        from remote.onboard.journal import FOLDER
        from remote.onboard.relay import relay

        doors = {"agent": system.cache() + "/agent.sock", "clockd": FOLDER + "/clockd.sock"}
        return relay(system, doors[asked["--to"]])
    data = table(argv[0])
    if argv[1] == "guard":
        from remote.onboard.guard import guard

        guard(system, data["boards"], data["build"])
        return 0
    program = _made(argv[1], system, data, asked)
    try:
        program.serve()
    except BrokenPipeError:
        return 1  # the host is gone, and with it all who could be told
    finally:
        program.on_close()  # once more, in case that it was not the host's goodbye that ended it
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
