"""Starts a program of the simulated board, or a command as another user. Runs in the board's own root, by itself.

It asks the simulated board through a socket, passes on what that answers, and tells it about signals.
"""

from __future__ import annotations

import getopt
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Sequence
from typing import NamedTuple

SOCKET = "/.edgeperf/socket"
_USAGE = (
    "usage: sudo [-AEHknSV] [--preserve-env[=NAME,...]] [-i | -s] [-g GROUP] [-p PROMPT] [-u USER] [NAME=VALUE ...] "
    "[--] [COMMAND [ARGUMENT ...]]\n"
)
_LETTERS = {
    "askpass": "A", "preserve-env": "E", "set-home": "H", "login": "i", "reset-timestamp": "k", "remove-timestamp": "K",
    "list": "l", "non-interactive": "n", "preserve-groups": "P", "stdin": "S", "shell": "s", "validate": "v",
    "version": "V",
}  # fmt: skip
_VALUED = {"user": "u", "group": "g", "prompt": "p"}
_ACCOUNTS = {"root": "root", "nvidia": "nvidia", "ubuntu": "nvidia", "#0": "root", "#1000": "nvidia"}
"""The board's users, and whose rights they have; there is none but root and nvidia."""
_RESET = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "PWD", "OLDPWD", "SHLVL", "_")
"""Variables that `sudo -E` leaves as the new user has them."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Wish(NamedTuple):
    """What is to be run, and for whom. ``login`` says that it starts in that user's home."""

    user: str
    command: list[str]
    env: dict[str, str]
    login: bool


class Refused(Exception):
    """Its text goes to stderr, and the exit code is 1."""


def _account(user: str, unknown: str) -> tuple[str, dict[str, str]]:
    """Returns whose rights a user has, and the variables that differ from that one's. Raises Refused."""
    if user not in _ACCOUNTS:
        raise Refused(unknown)
    other = {"HOME": "/home/ubuntu", "USER": user, "LOGNAME": user} if user == "ubuntu" else {}
    return _ACCOUNTS[user], other


def _options(words: Sequence[str]) -> tuple[str, dict[str, str], list[str]]:
    """Returns sudo's options, as letters and as {letter: value}, and the rest. Raises Refused."""
    rest, letters, values = list(words), "", {"E": ""}
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        name, equals, value = word[2:].partition("=")
        if not word.startswith("--"):
            short = word[1:]
        elif name in _VALUED:
            short = _VALUED[name] + value
        elif name in _LETTERS and (not equals or name == "preserve-env"):
            values["E"] += f",{value}" if equals else ""
            short = "" if equals else _LETTERS[name]
        else:
            raise Refused(_USAGE)
        for n, letter in enumerate(short):
            if letter in _VALUED.values():
                if not short[n + 1 :] and not rest:
                    raise Refused(_USAGE)
                values[letter] = short[n + 1 :] or rest.pop(0)
                break
            if letter not in _LETTERS.values():
                raise Refused(_USAGE)
            letters += letter
    return letters, values, rest


def sudo(words: Sequence[str]) -> Wish | str:
    """Returns what a command line of sudo asks for, or what it says itself. Raises Refused."""
    letters, values, rest = _options(words)
    caller, uid = ("root", 0) if os.getuid() == 0 else ("nvidia", os.getuid())
    if "V" in letters:
        return "Sudo version 1.8.21p2\n"  # documented: that of Ubuntu 18.04
    user, env = _account(values.get("u", "root"), f"sudo: unknown user: {values.get('u')}\n")
    if "l" in letters and not rest:
        return f"User {caller} may run the following commands on {os.uname().nodename}:\n    (ALL : ALL) ALL\n"
    if set(letters) & set("kK") and not rest and not set(letters) & set("isv"):
        return ""
    kept = [name for name in os.environ if name not in _RESET] if "E" in letters else values["E"].split(",")
    env.update({name: os.environ[name] for name in kept if name in os.environ})
    while rest and "=" in rest[0].partition("/")[0]:
        name, _, value = rest.pop(0).partition("=")
        env[name] = value
    if "v" in letters:
        rest = ["true"]
    if set(letters) & set("is"):
        rest = ["/bin/sh", "-c", 'exec "$@"', "sh", *rest] if rest else [_shell(), *(["-l"] if "i" in letters else [])]
    if not rest:
        raise Refused(_USAGE)
    place = _which(rest[0])
    if not place:
        raise Refused(f"sudo: {rest[0]}: command not found\n")
    if "l" in letters:
        return f"{' '.join([place, *rest[1:]])}\n"
    told = {"USER": caller, "UID": str(uid), "GID": str(uid), "COMMAND": " ".join([place, *rest[1:]])}
    return Wish(user, rest, env | {f"SUDO_{name}": value for name, value in told.items()}, "i" in letters)


def su(words: Sequence[str]) -> Wish:
    """Returns what a command line of su asks for. Raises Refused: nobody has a password, and root needs none."""
    try:
        long = ["login", "command=", "shell=", "preserve-environment"]
        options, names = getopt.gnu_getopt(list(words), "lmpc:s:", long)
    except getopt.GetoptError as error:
        raise Refused(f"su: {error}\nusage: su [-] [-c COMMAND] [-s SHELL] [USER [ARGUMENT ...]]\n") from error
    given = dict(options)
    login = names[:1] == ["-"] or bool({"-l", "--login"} & set(given))
    names = names[1:] if names[:1] == ["-"] else names
    called = names[0] if names else "root"
    user, env = _account(called, f"su: user {called} does not exist\n")
    if os.getuid() != 0:
        raise Refused("su: Authentication failure\n")
    if not login:
        env = {name: value for name, value in os.environ.items() if name not in _RESET} | env
    command = given.get("-c", given.get("--command"))
    shell = given.get("-s") or given.get("--shell") or _shell()
    start = [shell, *(["-l"] if login else []), *(["-c", command] if command is not None else [])]
    return Wish(user, start + names[1:], env, login)


def _shell() -> str:
    return "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"


def _which(name: str) -> str:
    """Returns where a program is, "" if nowhere."""
    if "/" in name:
        return name
    places = (f"{folder}/{name}" for folder in os.environ.get("PATH", os.defpath).split(":"))
    return next((place for place in places if os.access(place, os.X_OK) and not os.path.isdir(place)), "")


def other_user(wish: Wish) -> int:
    """Runs a command for another user, or becomes it if that one is root already; returns the exit code."""
    folder = "" if wish.login else os.getcwd()
    if wish.user == "root" and os.getuid() == 0:
        os.chdir(folder or "/root")
        os.execvpe(wish.command[0], wish.command, {**os.environ, **wish.env})
    if wish.login and wish.env.get("HOME"):
        folder = wish.env["HOME"]
    command = (
        ["env", *(f"{name}={value}" for name, value in wish.env.items()), *wish.command] if wish.env else wish.command
    )
    return ask({"command": command, "user": wish.user, "folder": folder}, (0, 1, 2))


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
    if name not in ("su", "sudo"):
        return ask({"argv": [name, *words], "env": dict(os.environ), "folder": os.getcwd()}, ())
    try:
        wish = sudo(words) if name == "sudo" else su(words)
    except Refused as error:
        sys.stderr.write(str(error))
        return 1
    if isinstance(wish, Wish):
        return other_user(wish)
    sys.stdout.write(wish)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1], sys.argv[2:]))
    except BrokenPipeError:
        os._exit(128 + signal.SIGPIPE)
    except OSError as error:
        sys.stderr.write(f"{sys.argv[1]}: {error.strerror}\n")
        sys.exit(127)
