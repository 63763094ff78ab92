"""A real OpenSSH server on loopback with keys, accounts and sudo rules of its own.

It runs in a mount namespace where files of its own lie over ``/etc/passwd`` and the like, so the machine's accounts are
neither used nor changed.
"""

from __future__ import annotations

import atexit
import functools
import os
import random
import shutil
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from remote.hosts import Ssh

PASSWORD = "correct horse"
_HASH = "$6$edgeperf$Elm1BPT90mrRkGsKGcJCAppC09As7oHKJyU0ZPuO2u2R0hTxOzQx3Ol.Ow9MAWHOwxK4lW85dHpRFKg4lLbZZ1"
USERS = {"keeper": 64001, "free": 64002, "plain": 64003}
"""``keeper`` may use sudo with a password, ``free`` without one, ``plain`` not at all."""

_SUDOERS = """Defaults env_reset, !lecture, passwd_tries=2
root ALL=(ALL:ALL) ALL
keeper ALL=(ALL:ALL) ALL
Defaults:free use_pty
free ALL=(ALL:ALL) NOPASSWD: ALL
@includedir /etc/sudoers.d
"""
_CONFIG = """Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/hostkey
PidFile none
AuthorizedKeysFile {folder}/key.pub .ssh/authorized_keys
PermitRootLogin yes
PasswordAuthentication yes
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
MaxStartups 200
MaxSessions 20
StrictModes no
"""
_ENTER = """set -e
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/sshd
for name in passwd shadow group sudoers sudoers.d; do
  test -e /etc/$name || continue
  mount --bind $1/etc/$name /etc/$name
done
mount --bind $1/local /usr/local/lib
exec $2 -D -e -f $1/sshd_config
"""


@dataclass(frozen=True)
class Sshd:
    """A running server. ``folder`` can be read by all of its users; their homes are in ``folder/home``."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes]

    def host(self, user: str, tree: str = "") -> Ssh:
        """Returns the host of a user of this server, all paths below ``tree`` when given."""
        text = f"{user}@127.0.0.1:{self.port}"
        return Ssh("127.0.0.1", user, self.port, root=tree, text=text)

    def home(self, user: str) -> Path:
        """Returns the home folder of a user."""
        return self.folder / "home" / user

    def welcome(self, home: Path) -> None:
        """Gives the client whose home this is a key that the server takes, and the server's host key."""
        (home / ".ssh").mkdir(mode=0o700, parents=True, exist_ok=True)
        shutil.copy(self.folder / "key", home / ".ssh/id_ed25519")
        kind, key, *_ = (self.folder / "hostkey.pub").read_text().split()
        (home / ".ssh/known_hosts").write_text(f"[127.0.0.1]:{self.port} {kind} {key}\n")

    def tree(self, user: str) -> Path:
        """Returns a new folder for a board's file system, in which the user has a home."""
        tree = Path(tempfile.mkdtemp(dir=self.folder))
        tree.chmod(0o755)
        place = tree / str(self.home(user)).lstrip("/")
        place.mkdir(parents=True)
        os.chown(place, USERS.get(user, 0), USERS.get(user, 0))
        return tree


@functools.cache
def _missing() -> str:
    """Returns what this machine lacks for the server, "" for nothing. Installs it on a CI machine."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "the tests' sshd needs root, for a mount namespace with accounts of its own"
    lacking = [name for name in ("sshd", "sudo", "unshare") if not _find(name)]
    if lacking and os.environ.get("CI") == "true" and shutil.which("apt-get"):
        for words in (["update"], ["install", "-y", "openssh-server", "sudo", "util-linux"]):
            subprocess.run(["apt-get", "-qq", *words], check=True, capture_output=True)
        lacking = [name for name in lacking if not _find(name)]
    if lacking:
        return f"not installed: {', '.join(lacking)}"
    tried = subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False)
    return "mount namespaces are not allowed here" if tried.returncode else ""


def _find(name: str) -> str | None:
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def server() -> Sshd:
    """Returns the server of this test run, started when first asked for; skips the test where that is not possible."""
    if _missing():
        pytest.skip(_missing())
    return _server()


@functools.cache
def _server() -> Sshd:
    started = start()
    atexit.register(stop, started)
    return started


def start() -> Sshd:
    """Starts a server."""
    folder = Path(tempfile.mkdtemp(prefix="edgeperf-sshd-"))
    folder.chmod(0o755)
    _accounts(folder)
    for name in ("hostkey", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    (folder / "key.pub").chmod(0o644)
    while True:
        # Below the ports that the kernel gives to whoever asks for any: one of those may be gone before sshd has it.
        port = random.randrange(20_000, 32_000)
        made = Sshd(folder, port, _run(folder, port))
        if _answers(made):
            return made


def again(sshd: Sshd) -> Sshd:
    """Starts a stopped server anew, on the same port with the same files."""
    made = replace(sshd, process=_run(sshd.folder, sshd.port))
    assert _answers(made), "its port was taken meanwhile"
    return made


def stop(sshd: Sshd) -> None:
    """Ends a server and removes its files."""
    sshd.process.terminate()
    sshd.process.wait()
    shutil.rmtree(sshd.folder, ignore_errors=True)


def _run(folder: Path, port: int) -> subprocess.Popen[bytes]:
    (folder / "sshd_config").write_text(_CONFIG.format(port=port, folder=folder))
    enter = ["unshare", "-m", "--propagation", "private", "sh", "-c", _ENTER, "sh", str(folder), str(_find("sshd"))]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(enter, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def _answers(sshd: Sshd) -> bool:
    """Returns True once the server answers, False if another program has its port."""
    until_s = time.monotonic() + 60
    while time.monotonic() < until_s:
        if sshd.process.poll() is not None:
            if "Address already in use" in (sshd.folder / "log").read_text():
                return False
            break
        try:
            with socket.create_connection(("127.0.0.1", sshd.port), 1) as line:
                if line.recv(3) == b"SSH" and sshd.process.poll() is None:
                    return True
        except OSError:
            time.sleep(0.02)
    raise RuntimeError((sshd.folder / "log").read_text())


def _accounts(folder: Path) -> None:
    etc = folder / "etc"
    (etc / "sudoers.d").mkdir(parents=True, mode=0o755)
    (folder / "local").mkdir(mode=0o755)
    (folder / "home").mkdir(mode=0o755)
    people = {"root": 0, **USERS}
    for user, uid in people.items():
        home = folder / "home" / user
        home.mkdir(mode=0o755)
        os.chown(home, uid, uid)
    passwd = [f"{user}:x:{uid}:{uid}::{folder}/home/{user}:/bin/sh" for user, uid in people.items()]
    passwd += ["sshd:x:64000:64000::/run/sshd:/usr/sbin/nologin", "nobody:x:65534:65534::/:/usr/sbin/nologin"]
    shadow = [
        f"{line.split(':')[0]}:{_HASH if line.split(':')[0] in people else '*'}:19000:0:99999:7:::" for line in passwd
    ]
    group = [f"{user}:x:{uid}:" for user, uid in people.items()] + ["sshd:x:64000:", "nogroup:x:65534:"]
    for name, lines, mode in (("passwd", passwd, 0o644), ("shadow", shadow, 0o600), ("group", group, 0o644)):
        (etc / name).write_text("\n".join(lines) + "\n")
        (etc / name).chmod(mode)
    (etc / "sudoers").write_text(_SUDOERS)
    (etc / "sudoers").chmod(0o440)
