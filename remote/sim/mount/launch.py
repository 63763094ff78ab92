"""Starts a program of the simulated board, or a command as another user. Runs in the board's own root, by itself.

It asks the simulated board through a socket, passes on what that answers, and tells it about signals.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
from collections.abc import Sequence

SOCKET = "/.edgeperf/socket"
_USAGE = "usage: sudo [-EHSn] [-i | -s] [-u USER] [NAME=VALUE ...] [--] [COMMAND [ARGUMENT ...]]\n"
_FLAGS = {"-n", "-E", "-H", "-S", "--non-interactive", "--preserve-env", "--set-home", "--stdin"}
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def sudo(words: Sequence[str]) -> tuple[str, list[str]]:
    """Returns the user and the command of a command line of sudo. Raises ValueError."""
    rest, user, shell = list(words), "root", False
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if word == "--":
            break
        if word in ("-u", "--user") and rest:
            user = rest.pop(0)
        elif word in ("-v", "-k", "-K"):
            rest = [*rest, "true"]
        elif word in ("-i", "-s"):
            shell = True
        elif word not in _FLAGS and set(word[1:]) - set("nEHS"):
            raise ValueError(word)
    settings = []
    while rest and "=" in rest[0].partition("/")[0]:
        settings.append(rest.pop(0))
    if shell:
        rest = ["/bin/sh", "-c", 'exec "$@"', "sh", *rest] if rest else ["/bin/sh"]
    if not rest or user not in ("root", "nvidia"):
        raise ValueError(user)
    return user, ["env", *settings, *rest] if settings else rest


def typed(line: socket.socket) -> str | None:
    """Returns a line of stdin, and no more of it, "" at its end; None when the board has something to say first."""
    text = b""
    while not text.endswith(b"\n"):
        ready, _, _ = select.select([0, line.fileno()], [], [])
        if line.fileno() in ready:
            return None
        piece = os.read(0, 1)
        if not piece:
            break
        text += piece
    return text.decode("utf-8", "replace")


def ask(message: dict[str, object], fds: Sequence[int]) -> int:
    """Asks the board for something; returns the exit code that it tells."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(SOCKET)
        got: list[int] = []

        def passed(number: int, _: object) -> None:
            got.append(number)
            line.sendall(json.dumps({"signal": number}).encode() + b"\n")

        for number in _SIGNALS:
            signal.signal(number, passed)
        socket.send_fds(line, [json.dumps(message).encode() + b"\n"], list(fds))
        for answer in line.makefile("rb"):
            told = json.loads(answer)
            data = memoryview(told.get("text", "").encode())
            while data:
                data = data[os.write(told["to"], data) :]
            if "code" in told:
                if got and told["code"] == 128 + signal.SIGINT:  # it died of it, and so does this
                    signal.signal(got[0], signal.SIG_DFL)
                    os.kill(os.getpid(), got[0])
                return int(told["code"])
            done = {"typed": typed(line)} if "asks" in told else {"taken": 1}
            if done != {"typed": None}:
                line.sendall(json.dumps(done).encode() + b"\n")
    return 255


def main(name: str, words: Sequence[str]) -> int:
    """Runs the program called ``name``; returns its exit code."""
    os.environ.pop("LD_LIBRARY_PATH", None)  # it was for the interpreter of this
    if name != "sudo":
        return ask({"argv": [name, *words], "env": dict(os.environ), "folder": os.getcwd()}, ())
    try:
        user, command = sudo(words)
    except ValueError:
        sys.stderr.write(_USAGE)
        return 1
    if user == "root" and os.getuid() == 0:
        os.execvp(command[0], command)
    return ask({"command": command, "user": user, "folder": os.getcwd()}, (0, 1, 2))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1], sys.argv[2:]))
    except BrokenPipeError:
        os._exit(128 + signal.SIGPIPE)
    except OSError as error:
        sys.stderr.write(f"{sys.argv[1]}: {error.strerror}\n")
        sys.exit(127)
