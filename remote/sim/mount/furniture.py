"""What lies in a twin's own root beside its kernel files: this machine's programs, the board's, and a few texts."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from remote.sim.live import LiveBoard
from remote.sim.mount import namespaces

FOLDER = "/.edgeperf"
_OVER, _BELOW = f"{FOLDER}/over", f"{FOLDER}/usr"
_TOP = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ETC = ("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "terminfo")
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_BOARDS_OWN = {"arch", "docker", "systemctl", "uname"}
"""Programs of the board that go before this machine's own of that name."""
_HOSTNAME = "tegra-ubuntu"  # what the board's `uname` says
_HOMES = ("/home/nvidia", "/home/ubuntu")
_APT = tuple(f"/etc/apt/{name}.d" for name in ("apt.conf", "preferences", "sources.list"))
"""What apt complains of where it is not there."""
_PLACES = {"nvpmodel": ("sbin",), "trtexec": ("bin", "src/tensorrt/bin")}


def furniture(board: LiveBoard, binds: Iterable[tuple[Path, str]], *, single: bool) -> dict[str, Any]:
    """Returns what `namespaces.make` needs to know. ``binds`` are more (folder here, place there), read-only.

    ``single`` says that only one user can be had.
    """
    paths, names = board.call(lambda: (board.machine.kernel.tree.paths(), board.machine.program_names()))
    trees = {_BELOW: "/usr"} | {place: str(folder) for folder, place in binds}
    links = {"/dev/fd": "/proc/self/fd", "/dev/ptmx": "pts/ptmx", "/etc/mtab": "/proc/self/mounts", "/var/run": "/run"}
    links |= {f"/dev/{name}": f"/proc/self/fd/{n}" for n, name in enumerate(("stdin", "stdout", "stderr"))}
    for name in _TOP:
        if os.path.islink(f"/{name}"):
            links[f"/{name}"] = os.readlink(f"/{name}")
        elif os.path.isdir(f"/{name}"):
            trees[f"/{name}"] = f"/{name}"
    trees |= {f"/etc/{name}": f"/etc/{name}" for name in _ETC if os.path.exists(f"/etc/{name}")}
    python = _python(trees)
    files = _texts() | _programs(names, python, board)
    twins = [path for path in paths if not path.startswith(("/sys/", "/proc/"))]
    return {
        "single": single,
        "hostname": _HOSTNAME,
        "trees": trees,
        "devices": _DEVICES,
        "folders": {
            **dict.fromkeys(("/tmp", "/var/tmp", "/dev/shm"), 0o1777),
            **dict.fromkeys((*_HOMES, *_APT, "/dev/pts", "/run", "/mnt", _OVER), 0o755),
            "/root": 0o700,
        },
        "files": {path: text for path, text in files.items() if path not in twins},
        "users_own": _HOMES,
        "links": links | {path: namespaces.FUSE + path for path in twins},
        "over": _OVER,
        "below": _BELOW,
    }


def _python(trees: dict[str, str]) -> str:
    """Returns how this interpreter is started in there; adds where it lies to ``trees`` where that is not /usr."""
    program = os.path.realpath(sys.executable)
    if program.startswith("/usr/"):
        return program
    place = f"{FOLDER}/python"
    trees[place] = os.path.realpath(sys.base_prefix)
    inside = program.replace(trees[place], place, 1)
    shared = sysconfig.get_config_var("Py_ENABLE_SHARED")
    return f"env LD_LIBRARY_PATH={place}/lib {inside}" if shared else inside


def _programs(names: Sequence[str], python: str, board: LiveBoard) -> dict[str, tuple[str, int]]:
    """Returns the files by which the board's programs are started, {path: (text, mode)}."""

    def launcher(name: str) -> tuple[str, int]:
        return f'#!/bin/sh\nexec {python} -ESs {FOLDER}/launch.py {name} "$@"\n', 0o755

    there = set(os.listdir("/usr/bin")) - _BOARDS_OWN
    wanted = [name for name in names if "." not in name and name not in there] + ["sudo"]
    if not board.real:
        wanted.append("sleep")  # so that nobody waits
    files = {f"{_OVER}/{place}/{name}": launcher(name) for name in wanted for place in _PLACES.get(name, ("bin",))}
    if "python3" not in there:
        files[f"{_OVER}/bin/python3"] = f'#!/bin/sh\nexec {python} "$@"\n', 0o755
    scripts = [name for name in names if name.startswith("jetson_") and name.endswith(".sh")]
    for script in scripts:  # before L4T r32 these lay in the users' homes
        files |= {f"{home}/{name}": launcher(name) for home in _HOMES for name in ("tegrastats", script)}
        files[f"{_OVER}/bin/jetson_clocks"] = launcher(script)
    files[f"{FOLDER}/launch.py"] = Path(__file__).with_name("launch.py").read_text("utf-8"), 0o644
    return files


def _texts() -> dict[str, tuple[str, int]]:
    """Returns the small files of /etc."""
    texts = {
        "passwd": "root:x:0:0:root:/root:/bin/bash\nnvidia:x:1000:1000:nvidia:/home/nvidia:/bin/bash\n"
        "ubuntu:x:1001:1001:ubuntu:/home/ubuntu:/bin/bash\n"
        "nobody:x:65534:65534:nobody:/:/bin/false\n",
        "group": "root:x:0:\nsudo:x:27:nvidia\nvideo:x:44:nvidia\nnvidia:x:1000:\nubuntu:x:1001:\nnogroup:x:65534:\n",
        "apt/sources.list": "",
        "hostname": f"{_HOSTNAME}\n",
        "hosts": f"127.0.0.1 localhost\n127.0.1.1 {_HOSTNAME}\n",
        "profile": "[ -z \"$BASH\" ] || PS1='\\u@\\h:\\w\\$ '\n",
    }
    return {f"/etc/{file}": (text, 0o644) for file, text in texts.items()}
