"""Takes a host that lost its line to the program that is still there for it: copies bytes to its door and back."""

import json
import socket

MYPY = False
if MYPY:  # the typing module is newer than the oldest Python of the boards
    from remote.onboard.system import System


_PATIENCE_S = 3.0
_LOOK_S = 0.1


def _knock(system: "System", place: str) -> "socket.socket | None":
    """Returns the line to whoever is behind a door, None for nobody. The board may notice a cut after the host does."""
    until_s = system.now() + _PATIENCE_S
    while True:
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            line.connect(place)
            return line
        except OSError:
            line.close()
        if system.now() >= until_s:
            return None
        system.wait([], system.now() + _LOOK_S)


def relay(system: "System", door: str) -> int:
    """Copies until either side ends. Tells the host in a message of its own when nobody is behind the door."""
    line = _knock(system, system.path(door))
    if line is None:
        what = "nothing is running here that could be picked up"
        hint = "the board may miss a line only some seconds after it was cut: try again, or `edgeperf results list`"
        answer = {"id": 0, "kind": "error", "error": "board", "what": what, "hint": hint}
        system.send(json.dumps(answer).encode("utf-8") + b"\n")
        return 1
    inside = type(system.input)(line.fileno())
    while True:
        for handle in system.wait([system.input, inside], None):
            data = handle.read()
            if not data:
                return 0
            if handle is inside:
                system.send(data)
            else:
                line.sendall(data)
