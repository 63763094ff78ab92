"""Finds a board's settings and readings: the first candidate path that exists wins.

Tables come from ``remote/boards/*.toml`` by way of `remote.boards.table`. Pure apart from the `System` it asks.
"""

import errno
import fnmatch
import re

MYPY = False
if MYPY:  # the typing module is newer than the oldest Python of the boards
    from typing import Any  # novm

    from remote.onboard.system import System


IDENTITY = (
    "/proc/device-tree/model",
    "/proc/device-tree/compatible",
    "/proc/device-tree/nvidia,boardids",
    "/proc/device-tree/nvidia,dtsfilename",
    "/proc/device-tree/serial-number",
    "/sys/devices/soc0/machine",
    "/sys/devices/soc0/family",
    "/etc/nv_tegra_release",
    "/etc/nv_boot_control.conf",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/random/boot_id",
    "/proc/meminfo",
    "/proc/cpuinfo",
    "/sys/devices/system/cpu/present",
    "/proc/driver/nvidia/version",
)

_ONLINE = "/sys/devices/system/cpu/cpu%s/online"
_MARK = re.compile(r"\{([nm])\}")
_MODULE = re.compile(r"p\d{4}(-\d{4})?$")


def text_of(system: "System", path: str) -> str:
    """Returns a node's text without its newline and NULs, "" where it cannot be read."""
    try:
        return system.read(path).replace("\0", " ").strip()
    except OSError:
        return ""


def expand(system: "System", pattern: str) -> "list[tuple[str, dict[str, str]]]":
    """Returns the existing paths that a pattern with ``{n}`` and ``{m}`` stands for, and the numbers."""
    if not _MARK.search(pattern):
        return [(pattern, {})] if system.exists(pattern) else []
    shape = re.compile(
        _MARK.sub(
            lambda mark: "(?P<%s>[0-9]+)" % mark.group(1), re.escape(pattern).replace("\\{", "{").replace("\\}", "}")
        )
    )
    found = []
    for path in system.glob(_MARK.sub("*", pattern)):
        match = shape.match(path)
        if match is not None and match.end() == len(path):
            found.append((path, match.groupdict()))
    return sorted(found, key=lambda item: [int(item[1][key]) for key in sorted(item[1], reverse=True)])


def fill(text: str, numbers: "dict[str, str]") -> str:
    """Puts the numbers found into another path or id."""
    return _MARK.sub(lambda mark: numbers.get(mark.group(1), mark.group(0)), text)


def _first(system: "System", candidates: "list[str]", numbers: "dict[str, str]", node: str) -> str:
    """Returns the first candidate that exists; one without a folder lies beside the node."""
    for candidate in candidates:
        path = fill(candidate, numbers)
        if not path.startswith("/"):
            path = node[: node.rindex("/") + 1] + path
        if system.exists(path):
            return path
    return ""


def _is_leader(system: "System", row: "dict[str, Any]", path: str, numbers: "dict[str, str]") -> bool:
    """Says whether a CPU stands for its policy: the first that is on, of those with nodes of their own."""
    if not row.get("leader"):
        return True
    words = text_of(system, fill(str(row["leader"]), numbers)).split()
    there = [word for word in words if system.exists(path.replace("/cpu%s/" % numbers["n"], "/cpu%s/" % word))]
    running = [word for word in there if text_of(system, _ONLINE % word) != "0"]
    return not there or (running or there)[0] == numbers["n"]


def knobs(system: "System", rows: "list[dict[str, Any]]") -> "tuple[dict[str, dict[str, Any]], list[str]]":
    """Returns the settings found, by id in the table's order, and the ids of those that this board lacks."""
    found = {}  # type: dict[str, dict[str, Any]]
    order = []  # type: list[str]
    absent = []
    for row in rows:
        before = len(order)
        if row.get("mount"):
            text_of(system, row["mount"])
        for index, candidate in enumerate(row["paths"]):
            for path, numbers in expand(system, candidate):
                if not _is_leader(system, row, path, numbers):
                    continue
                knob = dict(row)
                knob["id"] = fill(str(row["id"]), numbers)
                knob["path"] = path
                readback = row.get("readback") or []
                knob["readback"] = fill(readback[index], numbers) if readback else path
                for key in ("choices", "low", "high", "cap"):
                    knob[key] = _first(system, row.get(key) or [], numbers, path)
                knob["alive"] = fill(str(row.get("alive") or ""), numbers)
                knob["saves"] = [fill(name, numbers) for name in row.get("saves") or []]
                found[str(knob["id"])] = knob
                order.append(knob["id"])
            if len(order) > before:
                break
        if len(order) == before:
            absent.append(str(row["id"]))
    for knob in found.values():
        knob["saves"] = [name for pattern in knob["saves"] for name in fnmatch.filter(order, pattern)]
    return found, absent


def channels(system: "System", rows: "list[dict[str, Any]]") -> "dict[str, dict[str, Any]]":
    """Returns the readings that this program can read here, by id.

    A row with a label stands for the channels so labelled, or for all of them when its id has ``{label}`` in it.
    """
    found = {}  # type: dict[str, dict[str, Any]]
    for row in rows:
        for candidate in row["paths"]:
            matches = expand(system, candidate)
            for path, numbers in matches:
                name = text_of(system, fill(str(row["label"]), numbers)) if row.get("label") else ""
                channel = dict(row)
                channel["path"] = path
                name = name or path.strip("/").replace("/", ".")
                channel["id"] = fill(str(row["id"]), numbers).replace("{label}", name)
                labelled = "{label}" in row["id"] or not row.get("label") or name == row["id"]
                if labelled and _readable(system, path):
                    found.setdefault(str(channel["id"]), channel)
            if matches:
                break
    return found


def _readable(system: "System", path: str) -> bool:
    """Says whether a node can be read at all; a sensor that is busy now (EAGAIN) can."""
    try:
        system.read(path)
    except OSError as error:
        return error.errno == errno.EAGAIN
    return True


def identify(texts: "dict[str, str]", boards: "dict[str, dict[str, Any]]") -> str:
    """Returns the name of the board that the machine says it is, else generic-linux.

    A module's part number tells more than a name, the longer name more than the shorter; a family comes last.
    """
    said = " ".join(texts.get(path, "") for path in IDENTITY if "soc0" in path or "device-tree" in path).lower()
    found = [
        ((not boards[name].get("abstract"), bool(_MODULE.match(word)), len(word)), name)
        for name in boards
        for word in boards[name]["match"]
        if word in said
    ]
    return max(found)[1] if found else "generic-linux"


def model(texts: "dict[str, str]", board: "dict[str, Any]") -> str:
    """Returns the model that the machine says it is; where several modules say the same, which of them it is."""
    said = texts["/proc/device-tree/model"] or str(board["model"])
    variants = board.get("variants") or []
    memory_bytes = int((re.findall(r"MemTotal:\s*(\d+)", texts["/proc/meminfo"]) or ["0"])[0]) * 1024
    named = [row["model"] for row in variants if row["says"] in texts["/etc/nv_boot_control.conf"]]
    large = [row["model"] for row in variants if memory_bytes >= row["memory_bytes"]]
    return "%s (%s)" % (said, (named or large[-1:])[0]) if named or large else said


def l4t(text: str) -> str:
    """Returns "32.7.1" from the first line of /etc/nv_tegra_release, "" where it is not one."""
    match = re.search(r"R(\d+) \(release\), REVISION: ([\d.]+)", text)
    return "%s.%s" % match.groups() if match else ""


def parse(knob: "dict[str, Any]", text: str) -> "int | str | None":
    """Returns a setting's typed value, None where the driver says that it does not apply (``<unsupported>``)."""
    text = text.strip()
    if text.startswith("<"):
        return None
    if knob["kind"] == "text":
        return text
    if knob["kind"] == "bool":
        return {"Y": 1, "N": 0}.get(text) if text in ("Y", "N") else int(text)
    return int(text.split()[0], 0) * int(knob.get("scale") or 1)


def format_value(knob: "dict[str, Any]", value: "int | str") -> str:
    """Returns the text that sets a value. Raises ValueError when it is not of the knob's type."""
    if knob["kind"] == "text":
        if not isinstance(value, str) or not re.match(r"[A-Za-z0-9_.-]{1,64}\Z", value):
            raise ValueError("%s takes a word, not %r" % (knob["id"], value))
        return value
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise ValueError("%s takes a number, not %r" % (knob["id"], value))
    if knob["kind"] == "bool" and value > 1:
        raise ValueError("%s takes 0 or 1, not %r" % (knob["id"], value))
    return str(value // int(knob.get("scale") or 1))


def choices(knob: "dict[str, Any]", text: str) -> "list[int | str]":
    """Returns what a driver lists: words, or rates in hertz, ascending. T210's clock tree lists kHz and says so."""
    if knob["kind"] == "text":
        return list(text.split())
    unit = 1000 if "(kHz)" in text else int(knob.get("scale") or 1)
    return sorted({int(word) * unit for word in text.split() if word.isdigit()})
