"""The user's boards by name: ``hosts.toml``. Text in, record out, and back.

[nano]
address = "me@192.168.55.1"
board = "nano"
serial = "1422919082257"

[groups]
desk = ["nano", "tx1"]
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

from remote.errors import UsageError
from remote.hosts import Host, parse, ssh

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_TAKEN = ("groups", "local", "sim")


@dataclass(frozen=True)
class Entry:
    """A board as remembered: how to reach it, what it was, and the serial number of the module that was there.

    ``tree`` is a folder on it that stands for its file system (for tests).
    """

    address: str
    board: str = ""
    serial: str = ""
    tree: str = ""


@dataclass(frozen=True)
class Inventory:
    """Boards by name, and groups of names."""

    hosts: Mapping[str, Entry] = field(default_factory=dict)
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def find(self, text: str) -> tuple[Host, ...]:
        """Returns the hosts that a name, a group or a host string means. Raises UsageError."""
        if text in self.groups:
            return tuple(self._host(name) for name in self.groups[text])
        return (self._host(text),) if text in self.hosts else (parse(text),)

    def add(self, name: str, entry: Entry, groups: tuple[str, ...] = ()) -> Inventory:
        """Returns the inventory with one more board, or another one of that name. Raises UsageError."""
        for word in (name, *groups):
            if not _NAME.fullmatch(word) or word in _TAKEN:
                raise UsageError(
                    f"{word!r} cannot be the name of a board or group", "letters, digits, dots, dashes: nano-1"
                )
        if name in self.groups or set(groups) & {*self.hosts, name}:
            raise UsageError(f"{name!r}: a board and a group cannot have the same name")
        members = {group: tuple(dict.fromkeys((*self.groups.get(group, ()), name))) for group in groups}
        return Inventory({**self.hosts, name: entry}, {**self.groups, **members})

    def remove(self, name: str) -> Inventory:
        """Returns the inventory without a board or without a group. Raises UsageError for a name that is not in it."""
        if name in self.groups:
            return replace(self, groups={group: names for group, names in self.groups.items() if group != name})
        if name not in self.hosts:
            raise UsageError(f"there is no board {name!r}", "see: edgeperf hosts list")
        groups = {group: tuple(n for n in names if n != name) for group, names in self.groups.items()}
        hosts = {known: entry for known, entry in self.hosts.items() if known != name}
        return Inventory(hosts, {group: names for group, names in groups.items() if names})

    def to_toml(self) -> str:
        """Returns the text of the file."""
        blocks = [
            "# Kept by `edgeperf hosts add` and `edgeperf hosts remove`; it may be edited, comments are not kept.\n"
        ]
        for name, entry in self.hosts.items():
            known = {key: value for key, value in asdict(entry).items() if value}
            blocks.append("\n".join([f"[{_key(name)}]", *(f"{key} = {_quoted(known[key])}" for key in known), ""]))
        if self.groups:
            rows = [f"{_key(group)} = [{', '.join(map(_quoted, names))}]" for group, names in self.groups.items()]
            blocks.append("\n".join(["[groups]", *rows, ""]))
        return "\n".join(blocks)

    def _host(self, name: str) -> Host:
        entry = self.hosts.get(name)
        if entry is None:
            raise UsageError(f"a group names {name!r}, which is not there", "see: edgeperf hosts list")
        if entry.address.startswith("sim:") or entry.address == "local":
            return replace(parse(entry.address), text=name)
        return replace(ssh(entry.address), serial=entry.serial, root=entry.tree, text=name)


def from_toml(text: str, file: str) -> Inventory:
    """Returns what the file's text says. Raises UsageError that names ``file`` and what is wrong in it."""
    try:
        data = tomllib.loads(text)
    except ValueError as error:
        raise UsageError(f"{file}: {error}", "correct it, or move it away and add the boards again") from error
    groups = data.pop("groups", {})
    if not isinstance(groups, dict) or not all(_words(names) for names in groups.values()):
        raise UsageError(f"{file}: groups are lists of names", 'for example: desk = ["nano", "tx1"]')
    return Inventory(
        {name: _entry(name, table, file) for name, table in data.items()},
        {name: tuple(names) for name, names in groups.items()},
    )


def _entry(name: str, table: object, file: str) -> Entry:
    known = ("address", "board", "serial", "tree")
    if not isinstance(table, dict) or not _words(list(table.values())) or not table.get("address"):
        raise UsageError(f"{file}: [{name}] needs an address", 'for example: address = "me@192.168.55.1"')
    strange = sorted(set(table) - set(known))
    if strange:
        raise UsageError(f"{file}: [{name}] has the unknown key {strange[0]!r}", f"keys: {', '.join(known)}")
    return Entry(**table)


def _words(values: object) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _quoted(text: str) -> str:
    """Returns a TOML string; JSON's escapes are TOML's too, but for the one character that JSON leaves as it is."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _quoted(name)
