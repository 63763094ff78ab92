"""Takes a host that lost its line to the program that is still there for it: copies bytes to its door and back."""

import json
import socket

MYPY = False
if MYPY:  # the typing module is newer than the oldest Python of the boards
    from remote.onboard.system import System


def relay(system: "System", door: str) -> int:
    """Copies until either side ends. Tells the host in a message of its own when nobody is behind the door."""
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        line.connect(system.path(door))
    except OSError:
        what = "nothing is running here that could be picked up"
        answer = {"id": 0, "kind": "error", "error": "board", "what": what, "hint": "see `edgeperf results list`"}
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
