"""Power modes: the board's nvpmodel.conf, made from the twin's table; what a mode writes; which one is set.

The program `nvpmodel` (remote/sim/nvpmodel.py) reads the file and writes the nodes, as on a board. Rates that are no
operating points go down for CPUs and up for the GPU. 0 and -1 mean no limit.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from remote.sim.kernel.cpu import CPU
from remote.sim.kernel.devfreq import nearest
from remote.sim.kernel.node import Node, Part, Tree, fail, fixed, whole

CONF = "/etc/nvpmodel.conf"
STATUS = "/var/lib/nvpmodel/status"
_LINE = re.compile(r"<\s*(PARAM|POWER_MODEL|PM_CONFIG)\s+(.*?)\s*>")
_MASKS = "TPC_POWER_GATING"


@dataclass(frozen=True)
class Param:
    """A group of settings: ``paths`` by argument; CLOCKs are whole numbers, FILEs any text."""

    kind: str
    paths: Mapping[str, str]


@dataclass(frozen=True)
class Mode:
    """One power mode: what it gives each (param, argument), in order."""

    number: int
    name: str
    values: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True)
class Conf:
    """The content of an nvpmodel.conf."""

    params: Mapping[str, Param]
    modes: Mapping[int, Mode]
    default: int


def parse(text: str) -> Conf:
    """Returns what a conf says. Raises ValueError or KeyError for one that is not complete."""
    params: dict[str, tuple[str, dict[str, str]]] = {}
    modes: dict[int, tuple[str, list[tuple[str, str, str]]]] = {}
    default = 0
    name, mode = "", -1
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        head = _LINE.match(line)
        if head:
            pairs = dict(word.split("=", 1) for word in head[2].split())
            name, mode = "", -1
            if head[1] == "PARAM":
                name = pairs["NAME"]
                params[name] = (pairs["TYPE"], {})
            elif head[1] == "POWER_MODEL":
                mode = int(pairs["ID"])
                modes[mode] = (pairs["NAME"], [])
            else:
                default = int(pairs["DEFAULT"])
        elif name and len(words) == 2:
            params[name][1][words[0]] = words[1]
        elif mode >= 0 and len(words) == 3:
            modes[mode][1].append((words[0], words[1], words[2]))
    return Conf(
        {key: Param(kind, paths) for key, (kind, paths) in params.items()},
        {number: Mode(number, title, tuple(values)) for number, (title, values) in modes.items()},
        default,
    )


def settings(conf: Conf, mode: Mode, read: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    """Yields the (path, text) that a mode writes, masks of processors first. ``read`` gives a node's text."""
    rows = sorted(mode.values, key=lambda row: row[0] != _MASKS)
    for index, (name, argument, value) in enumerate(rows):
        param = conf.params[name]
        path = param.paths[argument]
        if param.kind != "CLOCK":
            yield path, value
            continue
        text = _rounded(name, value, param.paths, read)
        if argument == "MIN_FREQ" and int(text) > int(read(param.paths["MAX_FREQ"])):
            # A minimum over the maximum would be refused, so the maximum goes first.
            most = next(v for n, a, v in rows[index:] if (n, a) == (name, "MAX_FREQ"))
            yield param.paths["MAX_FREQ"], _rounded(name, most, param.paths, read)
        yield path, text


def _rounded(name: str, value: str, paths: Mapping[str, str], read: Callable[[str], str]) -> str:
    if "FREQ_TABLE" not in paths:
        return value
    table = sorted(int(word) for word in read(paths["FREQ_TABLE"]).split())
    if int(value) < 0:
        return str(table[-1])
    return str(nearest(table, int(value)))


def mask_of(conf: Conf, mode: Mode) -> tuple[str, int] | None:
    """Returns the path and value of the mode's mask of gated processors, None where it sets none."""
    for name, argument, value in mode.values:
        if name == _MASKS:
            return conf.params[name].paths[argument], int(value)
    return None


class PowerMode(Part):
    """Which mode is set, as the tool keeps it on disk, and the conf."""

    keeps = ("number",)

    def __init__(self, twin: Mapping[str, Any], name: str) -> None:
        self.text = conf_text(twin)
        modes = {str(row["name"]): int(row["id"]) for row in twin["nvpmodel"]["modes"]}
        self.number = modes.get(name, int(twin["nvpmodel"]["default"]))
        self._names = {number: title for title, number in modes.items()}

    @property
    def name(self) -> str:
        """The name of the mode that is set."""
        return self._names[self.number]

    def _set(self, text: str) -> None:
        number = whole(text.strip().removeprefix("pmode:"))
        self.number = number if number in self._names else fail(errno.EINVAL)

    def nodes(self) -> dict[str, Node]:
        """Returns the conf and the tool's own file."""
        return {CONF: fixed(self.text), STATUS: Node(lambda: f"pmode:{self.number:04d}\n", self._set)}

    def boot(self, tree: Tree) -> None:
        """Does what the service does at boot: sets the mode."""
        conf = parse(self.text)
        for path, text in settings(conf, conf.modes[self.number], lambda path: tree.read(path, True)):
            tree.write(path, text, True)


def conf_text(twin: Mapping[str, Any]) -> str:
    """Returns the conf of a board, from the table ``nvpmodel`` of its twin."""
    table: Mapping[str, Any] = twin["nvpmodel"]
    lines = [f"# Power modes of {twin['model']}", ""]
    for name, kind, paths in _params(twin):
        lines += [f"< PARAM TYPE={kind} NAME={name} >", *(f"{key} {path}" for key, path in paths.items()), ""]
    for mode in table["modes"]:
        lines += [f"< POWER_MODEL ID={mode['id']} NAME={mode['name']} >", *_values(twin, mode), ""]
    return "\n".join([*lines, f"< PM_CONFIG DEFAULT={table['default']} >", ""])


def _params(twin: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, str]]]:
    gpu, devfreq = twin["gpu_device"]["folders"][-1], twin["devfreq"]["folders"][0]
    yield "CPU_ONLINE", "FILE", {f"CORE_{n}": f"{CPU}/cpu{n}/online" for n in range(twin["cores"])}
    if "processors" in twin["gpu_device"]:
        yield _MASKS, "FILE", {"TPC_PG_MASK": f"{gpu}/tpc_pg_mask"}
    yield "GPU_POWER_CONTROL_ENABLE", "FILE", {"GPU_PWR_CNTL_EN": f"{gpu}/power/control"}
    for name, first in _cpus(twin).items():
        folder = f"{CPU}/cpu{first}/cpufreq"
        files = {"FREQ_TABLE": "available_frequencies", "MAX_FREQ": "max_freq", "MIN_FREQ": "min_freq"}
        yield name, "CLOCK", {key: f"{folder}/scaling_{file}" for key, file in files.items()}
    files = {"FREQ_TABLE": "available_frequencies", "MAX_FREQ": "max_freq", "MIN_FREQ": "min_freq"}
    yield "GPU", "CLOCK", {key: f"{devfreq}/{file}" for key, file in files.items()}
    yield "GPU_POWER_CONTROL_DISABLE", "FILE", {"GPU_PWR_CNTL_DIS": f"{gpu}/power/control"}
    if "emc_cap" in twin:
        yield "EMC", "CLOCK", {"MAX_FREQ": twin["emc_cap"]}


def _cpus(twin: Mapping[str, Any]) -> dict[str, int]:
    """Returns the CPU params: per cluster up to R35, per core from R36 on; with the core whose files they write."""
    names: str | list[str] = twin["nvpmodel"]["cpu_params"]
    if isinstance(names, str):
        return {f"{names}_{n}": n for n in range(twin["cores"])}
    policies = twin.get("policies", [list(range(twin["cores"]))])
    return {name: policy[0] for name, policy in zip(names, policies, strict=True)}


def _values(twin: Mapping[str, Any], mode: Mapping[str, Any]) -> Iterator[str]:
    """Yields the lines of a mode. Clusters without a core that is on get none: their files refuse."""
    on: list[int] = mode.get("cores", list(range(twin["cores"])))
    policies = twin.get("policies", [list(range(twin["cores"]))])
    yield from (f"CPU_ONLINE CORE_{n} {int(n in on)}" for n in range(twin["cores"]))
    if "processors" in twin["gpu_device"]:
        yield f"{_MASKS} TPC_PG_MASK {mode.get('mask', 0)}"
    yield "GPU_POWER_CONTROL_ENABLE GPU_PWR_CNTL_EN on"
    per_core = isinstance(twin["nvpmodel"]["cpu_params"], str)
    for name, first in _cpus(twin).items():
        members = [first] if per_core else next(policy for policy in policies if first in policy)
        if set(on) & set(members):
            yield f"{name} MIN_FREQ {twin['nvpmodel'].get('cpu_min', 0)}"
            most = mode.get("cpu", -1)
            yield f"{name} MAX_FREQ {most[name] if isinstance(most, dict) else most}"
    yield "GPU MIN_FREQ 0"
    yield f"GPU MAX_FREQ {mode.get('gpu', -1)}"
    yield "GPU_POWER_CONTROL_DISABLE GPU_PWR_CNTL_DIS auto"
    if "emc_cap" in twin:
        yield f"EMC MAX_FREQ {mode.get('emc', twin['nvpmodel'].get('no_cap', 0))}"
