"""What lies in a twin's own root beside its kernel files: this machine's programs, the board's, and a few texts."""

from __future__ import annotations

import os
import platform
import sys
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from remote.sim import cuda_tools
from remote.sim.live import LiveBoard
from remote.sim.mount import namespaces

FOLDER = "/.edgeperf"
_OVER, _BELOW = f"{FOLDER}/over", f"{FOLDER}/usr"
_TOP = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ETC = ("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "terminfo")
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_BOARDS_OWN = {"arch", "docker", "lscpu", "nproc", "nvcc", "nvidia-smi", "service", "systemctl", "uname"}
"""Programs of the board that go before this machine's own of that name."""
_HIDDEN = {"bin2c", "compute-sanitizer", "cuda-gdb", "cudafe++", "cuobjdump", "fatbinary", "ncu", "nsys", "nvcc"}
_HIDDEN |= {
    "nvdisasm",
    "nvidia-debugdump",
    "nvidia-settings",
    "nvidia-smi",
    "nvlink",
    "nvprof",
    "nvprune",
    "ptxas",
    "systemctl",
}
"""Programs of this machine that a board has nowhere on PATH, if at all."""
_NOWHERE = f"{FOLDER}/nowhere"  # a link to it is not found
_HOSTNAME = "tegra-ubuntu"  # what the board's `uname` says
_HOMES = ("/home/nvidia", "/home/ubuntu")
_APT = tuple(f"/etc/apt/{name}.d" for name in ("apt.conf", "preferences", "sources.list"))
"""What apt complains of where it is not there."""
_PLACES = dict.fromkeys(("nvidia-smi", "nvpmodel", "service"), ("sbin",)) | {"trtexec": ("bin", "src/tensorrt/bin")}
_ON_PATH = ("local/sbin", "local/bin", "sbin", "bin")
_DPKG = f"{_BELOW}/bin/dpkg"
_DPKG_TEXTS = {
    "dpkg": f'#!/bin/sh\n[ "$*" != --print-architecture ] || exec echo arm64\nexec {_DPKG} "$@"\n',
    "dpkg-query": f"""#!/bin/sh
said=$({_DPKG}-query "$@"; echo ":$?")
printf %s "${{said%:*}}" | sed 's/:arm64\\( *\\) /\\1       /; s/:arm64//g'
exit "${{said##*:}}"
""",
}
"""What makes this machine's dpkg take the board's packages for its own, where it is one for another processor."""


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
    cuda_links, cuda_files = _cuda(board.machine.twin, python)
    files |= cuda_files
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
        "links": links | cuda_links | _in_the_way(files) | {path: namespaces.FUSE + path for path in twins},
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


def _launcher(name: str, python: str) -> tuple[str, int]:
    """Returns text and mode of the file that starts a program of the board."""
    return f'#!/bin/sh\nexec {python} -ESs {FOLDER}/launch.py {name} "$@"\n', 0o755


def _programs(names: Sequence[str], python: str, board: LiveBoard) -> dict[str, tuple[str, int]]:
    """Returns the files by which the board's programs are started, {path: (text, mode)}."""
    there = set(os.listdir("/usr/bin")) - _BOARDS_OWN
    wanted = [name for name in names if "." not in name and name not in there and name != "nvcc"] + ["sudo", "su"]
    if not board.real:
        wanted.append("sleep")  # so that nobody waits
    files = {
        f"{_OVER}/{place}/{name}": _launcher(name, python) for name in wanted for place in _PLACES.get(name, ("bin",))
    }
    if "python3" not in there:
        files[f"{_OVER}/bin/python3"] = f'#!/bin/sh\nexec {python} "$@"\n', 0o755
    scripts = [name for name in names if name.startswith("jetson_") and name.endswith(".sh")]
    for script in scripts:  # before L4T r32 these lay in the users' homes
        files |= {f"{home}/{name}": _launcher(name, python) for home in _HOMES for name in ("tegrastats", script)}
        files[f"{_OVER}/bin/jetson_clocks"] = _launcher(script, python)
    if platform.machine() != "aarch64" and os.path.exists("/usr/bin/dpkg"):
        files |= {f"{_OVER}/bin/{name}": (text, 0o755) for name, text in _DPKG_TEXTS.items()}
        files["/etc/apt/apt.conf.d/00board"] = 'APT::Architecture "arm64";\nAPT::Architectures { "arm64"; };\n', 0o644
    files[f"{FOLDER}/launch.py"] = Path(__file__).with_name("launch.py").read_text("utf-8"), 0o644
    return files


def _cuda(twin: Mapping[str, Any], python: str) -> tuple[dict[str, str], dict[str, tuple[str, int]]]:
    """Returns the links and files of the board's CUDA. This machine's own folders, if any, lead to it, or nowhere."""
    name = cuda_tools.cuda_folder(twin)
    ours = [path.name for path in Path("/usr/local").glob("cuda*")]
    links = {f"{_OVER}/local/{other}": name or _NOWHERE for other in ours}
    if not name:
        return links, {}
    links[f"{_OVER}/local/cuda"] = name
    place = f"{_OVER}/local/{name}"
    if name in ours:  # else what lies in there would be seen as well
        links[place] = place = f"{FOLDER}/{name}"
    file, text = cuda_tools.version_file(twin)
    return links, {f"{place}/{file}": (text, 0o644), f"{place}/bin/nvcc": _launcher("nvcc", python)}


def _in_the_way(files: Iterable[str]) -> dict[str, str]:
    """Returns links over this machine's programs that would be found instead of the board's, or that it has not."""
    places = {}
    for path in files:
        folder, _, name = path.rpartition("/")
        if folder in (f"{_OVER}/bin", f"{_OVER}/sbin"):
            places[name] = f"/usr{path.removeprefix(_OVER)}"
    links = {}
    for name in {*places, *_HIDDEN} - {"python3"}:
        for folder in _ON_PATH:
            path = f"{_OVER}/{folder}/{name}"
            if path not in files and os.path.lexists(f"/usr/{folder}/{name}"):
                links[path] = places.get(name, _NOWHERE)
    return links


def _texts() -> dict[str, tuple[str, int]]:
    """Returns the small files of /etc."""
    shell = namespaces.SHELL
    texts = {
        "passwd": f"root:x:0:0:root:/root:{shell}\nnvidia:x:1000:1000:nvidia:/home/nvidia:{shell}\n"
        f"ubuntu:x:1001:1001:ubuntu:/home/ubuntu:{shell}\n"
        "nobody:x:65534:65534:nobody:/:/bin/false\n",
        "group": "root:x:0:\nsudo:x:27:nvidia\nvideo:x:44:nvidia\nnvidia:x:1000:\nubuntu:x:1001:\nnogroup:x:65534:\n",
        "apt/sources.list": "",
        "hostname": f"{_HOSTNAME}\n",
        "hosts": f"127.0.0.1 localhost\n127.0.1.1 {_HOSTNAME}\n",
        "profile": "[ -z \"$BASH\" ] || PS1='\\u@\\h:\\w\\$ '\n",
    }
    return {f"/etc/{file}": (text, 0o644) for file, text in texts.items()}
