"""The boards that the contract suite runs on. A backend can be opened again and is then the same board."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from remote.transport import Transport
from tests.ssh import sshd

CPUFREQ = {
    "scaling_governor": "ondemand",
    "scaling_available_governors": "performance userspace ondemand",
    "scaling_min_freq": "102000",
    "scaling_max_freq": "1734000",
    "scaling_available_frequencies": "102000 518400 1036800 1734000",
    "cpuinfo_min_freq": "102000",
    "cpuinfo_max_freq": "1734000",
    "scaling_setspeed": "<unsupported>",
    "related_cpus": "0 1",
}


@dataclass(frozen=True)
class Backend:
    """``connect`` opens the board, ``outside`` changes a node behind its back, ``close`` ends what was started."""

    name: str
    connect: Callable[[], Transport]
    outside: Callable[[str, str], None]
    close: Callable[[], None] = lambda: None


def tree(root: Path) -> None:
    """Makes a folder the file system of a small board."""
    cpu = root / "sys/devices/system/cpu"
    for number in (0, 1):
        (cpu / f"cpu{number}").mkdir(parents=True)
        (cpu / f"cpu{number}/online").write_text("1\n")
    (cpu / "present").write_text("0-1\n")
    (cpu / "cpu0/cpufreq").mkdir()
    for name, text in CPUFREQ.items():
        (cpu / "cpu0/cpufreq" / name).write_text(f"{text}\n")
    hwmon = root / "sys/class/hwmon/hwmon3"
    hwmon.mkdir(parents=True)
    (hwmon / "power1_input").write_text("2500000\n")
    (hwmon / "power1_label").write_text("VIN\n")
    (root / "proc/sys/kernel/random").mkdir(parents=True)
    (root / "proc/stat").write_text("cpu  4500 0 500 90000 100 0 5 0 0 0\n")
    (root / "proc/sys/kernel/random/boot_id").write_text("boot-1\n")


def local(folder: Path) -> Backend:
    """Child processes on a tree of files."""
    from remote.local import connect

    root = folder / "tree"
    tree(root)
    return Backend("local", lambda: connect(folder / "cache", str(root)), lambda path, text: _put(root, path, text))


def _put(root: Path, path: str, text: str) -> None:
    (root / path.lstrip("/")).write_text(text)


def over_ssh(user: str) -> Callable[[Path], Backend]:
    """The same tree behind a real sshd."""

    def make(folder: Path) -> Backend:
        from remote import ssh
        from remote.access import Access

        server = sshd.server()
        server.welcome(Path.home())
        root = server.tree(user)
        tree(root)
        host = server.host(user, str(root))
        access = Access(sudo_password=sshd.PASSWORD)
        return Backend(f"ssh-{user}", lambda: ssh.connect(host, access), lambda path, text: _put(root, path, text))

    return make


def twin(folder: Path) -> Backend:
    """The twin in process, its state kept in a file so that it can be opened again."""
    from remote import hosts
    from remote.sim.link import TwinTransport

    host = hosts.parse(f"sim:tx1@r23.1,state={folder / 'twin.json'}")
    assert isinstance(host, hosts.Twin)
    opened: list[TwinTransport] = []

    def connect() -> Transport:
        opened.append(TwinTransport(host, {}))
        return opened[-1]

    def outside(path: str, text: str) -> None:
        from remote.sim.system import TwinSystem

        TwinSystem(opened[-1].machine, "root").write(path, text)

    return Backend("twin", connect, outside)


def twin_over_ssh(folder: Path) -> Backend:
    """The twin behind its own SSH server, reached like any board."""
    from remote import hosts, ssh
    from remote.access import DEFAULT
    from remote.sim.system import TwinSystem
    from tests.ssh import twins

    stack = ExitStack()
    served = stack.enter_context(twins.served("sim:tx1@r23.1", folder / "server"))
    machine = served.board.machine
    return Backend(
        "twin-ssh",
        lambda: ssh.connect(hosts.ssh(served.name), DEFAULT),
        lambda path, text: served.board.call(lambda: TwinSystem(machine, "root").write(path, text)),
        stack.close,
    )


BACKENDS: dict[str, Callable[[Path], Backend]] = {"twin": twin, "twin-ssh": twin_over_ssh}
if os.name == "posix":
    BACKENDS["local"] = local
    BACKENDS["ssh-root"] = over_ssh("root")
    BACKENDS["ssh-sudo"] = over_ssh("free")
    BACKENDS["ssh-sudo-password"] = over_ssh("keeper")
