"""Sent as text and run first: finds the programs under their hash, or takes them from the host, and runs them.

Whoever it runs as keeps a copy of their own, so root never runs what another user could have written.
"""

import hashlib
import json
import os
import pwd
import stat
import sys


def refuse(what: str, hint: str) -> None:
    """Tells the host why nothing was run, and ends."""
    tell({"kind": "error", "error": "protocol", "what": what, "hint": hint})
    sys.exit(1)


def tell(message: "dict[str, object]") -> None:
    """Sends one message."""
    os.write(1, json.dumps(dict(message, id=0)).encode("utf-8") + b"\n")


def check(path: str) -> None:
    """Refuses a path that somebody else could change: a link, a foreign owner, or writable by others."""
    found = os.lstat(path)
    sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
    if stat.S_ISLNK(found.st_mode):
        refuse(path + " is a symbolic link: it could lead to programs of somebody else", "remove it on the board")
    if found.st_uid not in (0, os.geteuid()):
        refuse(path + " belongs to somebody else", "it must belong to user %d" % os.geteuid())
    if found.st_mode & 0o022 and not sticky:
        refuse(path + " can be written by others", "on the board: chmod go-w " + path)


def folder() -> str:
    """Returns the cache folder of whoever runs this, made when it is missing."""
    home = os.path.realpath(pwd.getpwuid(os.geteuid()).pw_dir)
    parts = home.split("/")
    for depth in range(1, len(parts) + 1):
        check("/".join(parts[:depth]) or "/")
    path = home
    for name in (".cache", "edgeperf"):
        path = os.path.join(path, name)
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            check(path)
    os.chmod(path, 0o700)
    return path


def kept(path: str) -> bytes:
    """Returns the content of the copy that is there, read once."""
    try:
        check(path)
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def take(size: int) -> bytes:
    """Returns the bytes that the host sends when asked."""
    os.write(1, b'{"id":0,"kind":"need"}\n')
    taken = b""
    while len(taken) < size:
        piece = os.read(0, size - len(taken))
        if not piece:
            sys.exit(1)
        taken += piece
    return taken


def keep(path: str, content: bytes) -> None:
    """Puts a copy in place at once."""
    part = "%s.%d" % (path, os.getpid())
    if os.path.lexists(part):  # of a start that was cut off, by a process that had this number then
        os.unlink(part)
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:
        file.write(content)
    os.rename(part, path)


def find(digest: str, size: int) -> str:
    """Returns the path of the programs with this hash."""
    path = os.path.join(folder(), "onboard-%s.zip" % digest)
    if hashlib.sha256(kept(path)).hexdigest() != digest:
        content = take(size)
        if hashlib.sha256(content).hexdigest() != digest:
            refuse("the programs arrived damaged", "try again")
        keep(path, content)
    return path


if __name__ == "__main__":
    try:
        sys.argv = [find(sys.argv[1], int(sys.argv[2]))] + sys.argv[3:]
    except OSError as error:
        refuse("the programs could not be kept on the board: %s" % error, "is its disk full or read-only?")
    sys.path.insert(0, sys.argv[0])
    from remote.onboard.main import main

    sys.exit(main(sys.argv))
