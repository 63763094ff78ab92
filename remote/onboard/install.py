"""Puts `clockd` where only root can change it, with a sudo rule for exactly that file; takes both away again."""

import json
import os
import pwd
import re
import subprocess
import zipfile

from remote.onboard.loader import check

FOLDER = "/usr/local/lib/edgeperf"
PROGRAM = FOLDER + "/clockd"
MARKS = FOLDER + "/for"
RULES = "/etc/sudoers.d"

_RULE = "%s ALL=(root) NOPASSWD: " + PROGRAM + "\n"
_MAIN = "import sys\nfrom remote.onboard.rooted import main\nsys.exit(main(sys.argv))\n"
_VISUDO = "/usr/sbin/visudo"


def run(order: str, zipped: str) -> int:
    """Does ``install`` or ``uninstall`` for the user who called sudo, and tells the host what became of it."""
    try:
        uid = int(os.environ.get("SUDO_UID") or 0)
        if uid == 0:
            raise ValueError("root needs no sudo rule: log in as the user who shall set the clocks")
        if order == "install":
            _install(uid, zipped)
        else:
            _uninstall(uid)
    except (OSError, ValueError, KeyError) as error:
        _tell({"kind": "error", "error": "board", "what": "%s failed: %s" % (order, error), "hint": ""})
        return 1
    _tell({"kind": "end"})
    return 0


def _tell(message: "dict[str, str]") -> None:
    os.write(1, json.dumps(dict(message, id=0)).encode("utf-8") + b"\n")


def _install(uid: int, zipped: str) -> None:
    name = pwd.getpwuid(uid).pw_name
    if not re.match(r"[A-Za-z_][A-Za-z0-9_.-]*\Z", name):
        raise ValueError("the user name %r cannot be put into a sudo rule" % name)
    folder = ""
    for part in MARKS.strip("/").split("/"):
        folder += "/" + part
        if not os.path.lexists(folder):
            os.mkdir(folder)
            os.chmod(folder, 0o755)
        check(folder)
    _put(PROGRAM, _program(zipped), 0o755)
    part = "%s/edgeperf-%d.part" % (RULES, uid)  # sudo skips names with a dot
    _put(part, (_RULE % name).encode("ascii"), 0o440)
    if os.path.exists(_VISUDO) and subprocess.call([_VISUDO, "-qcf", part]) != 0:
        os.unlink(part)
        raise ValueError("visudo refuses the rule")
    os.rename(part, "%s/edgeperf-%d" % (RULES, uid))
    _put("%s/%d" % (MARKS, uid), b"", 0o644)


def _uninstall(uid: int) -> None:
    for path in ("%s/%d" % (MARKS, uid), "%s/edgeperf-%d" % (RULES, uid)):
        if os.path.lexists(path):
            os.unlink(path)
    if os.path.isdir(MARKS) and not os.listdir(MARKS):
        os.unlink(PROGRAM)
        os.rmdir(MARKS)
        os.rmdir(FOLDER)


def _program(zipped: str) -> bytes:
    """Returns the zip that this runs from, made a program of its own with the entry of `remote.onboard.rooted`."""
    part = PROGRAM + ".zip"
    with zipfile.ZipFile(zipped) as source, zipfile.ZipFile(part, "w") as target:
        for name in source.namelist():
            target.writestr(name, _MAIN if name == "__main__.py" else source.read(name))
    with open(part, "rb") as file:
        content = file.read()
    os.unlink(part)
    return b"#!/usr/bin/python3 -IS\n" + content


def _put(path: str, content: bytes, mode: int) -> None:
    """Replaces a file of root at once."""
    part = path + ".new"
    if os.path.lexists(part):
        os.unlink(part)
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    os.chmod(part, mode)
    os.rename(part, path)
