"""Engines kept on the board: KEY.plan with a side-car KEY.json that says what is in it and how to tell damage.

A side-car holds ``format``, ``key``, ``name``, ``content`` (what the key is made of), ``plan_bytes``, ``plan_sha256``
and ``built`` (``seconds``, ``workspace_bytes``, ``versions``, ``wall_s``, ``notes``). Its time of change is when the
engine was last used. A plan is good only if its side-car says so, so a crash between two steps costs a build at most.
"""

import errno
import hashlib
import json
import os
import re
import time
from contextlib import contextmanager, suppress
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from engines.onboard.failure import Failed
from engines.onboard.key import engine_key

FORMAT = 1
LEFTOVER_S = 86400.0
"""Files of a build that did not end are in nobody's use after this time."""

_HINTS = {
    errno.ENOSPC: "make room: edgeperf engines prune",
    errno.EDQUOT: "make room: edgeperf engines prune",
    errno.EROFS: "its disk takes no changes any more: see `dmesg` on the board, and restart it",
}

NONE_KEPT = "no engine of it was kept"

_NAME = re.compile(r"([0-9a-f]{32})\.(.+)")
_WORDS = (
    ("batch", "batch"),
    ("precision", "precision"),
    ("toolchain", "toolchain"),
    ("tensorrt", "TensorRT"),
    ("l4t", "L4T"),
    ("gpu", "GPU"),
    ("active_sms", "multiprocessors"),
    ("power_mode", "power mode"),
)


class Disk(object):
    """The files of this machine; whoever has others derives from it. All methods raise OSError as `os` does."""

    def names(self, folder: str) -> List[str]:
        """Returns the names in a folder, sorted; none where it does not exist."""
        try:
            return sorted(os.listdir(folder))
        except FileNotFoundError:
            return []

    def size(self, path: str) -> int:
        """Returns a file's length in bytes."""
        return os.path.getsize(path)

    def digest(self, path: str) -> str:
        """Returns a file's SHA-256 in hex, read piece by piece."""
        digest = hashlib.sha256()
        with open(path, "rb") as file:
            for chunk in iter(lambda: file.read(1 << 20), b""):
                digest.update(chunk)
        return digest.hexdigest()

    def load(self, path: str) -> bytes:
        """Returns a small file's bytes."""
        with open(path, "rb") as file:
            return file.read()

    def save(self, path: str, data: bytes) -> None:
        """Writes a small file that only its owner may read."""
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(data)

    def rename(self, source: str, target: str) -> None:
        """Moves a file within its folder at once, over one that is there."""
        os.replace(source, target)

    def remove(self, path: str) -> None:
        """Removes a file; one that is not there is fine."""
        with suppress(FileNotFoundError):
            os.remove(path)

    def used_s(self, path: str) -> float:
        """Returns when a file was last changed or touched, in seconds since 1970."""
        return os.path.getmtime(path)

    def touch(self, path: str) -> None:
        """Sets a file's time of change to now."""
        os.utime(path)

    def make_folder(self, path: str) -> None:
        """Makes a folder that only its owner may enter; one that is there is fine. Its parent must exist."""
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            return
        self.adopt(path)

    def adopt(self, path: str) -> None:
        """As root, so in a container: gives a file to the owner of its folder, who else could not remove it."""
        if os.getuid() == 0:
            owner = os.stat(os.path.dirname(path))
            os.chown(path, owner.st_uid, owner.st_gid)

    def now_s(self) -> float:
        """Returns seconds since 1970."""
        return time.time()


class Found(NamedTuple):
    """A kept engine: ``path`` of its plan and side-car ``entry``; or ``path`` "" and ``why`` there is none."""

    path: str
    why: str
    entry: Dict[str, Any]


class Cache(object):
    """The engines in ``folder``/engines. All methods raise Failed where the folder cannot be used.

    ``folder`` is the user's own and exists.
    """

    def __init__(self, files: Disk, folder: str) -> None:
        self.files = files
        self.folder = folder.rstrip("/") + "/engines"

    def find(self, content: Dict[str, Any], name: str) -> Found:
        """Returns the engine made of ``content``, whole and unharmed, and notes its use. Removes a damaged one.

        ``name`` is the model's: where nothing is found, ``why`` names what differs from the nearest kept one of it.
        """
        key = engine_key(content)
        with self.usable():
            entry, damage = self.check(key)
            if entry:
                with suppress(OSError):  # a disk that takes no changes can still be read
                    self.files.touch(self._path(key, "json"))
                return Found(self._path(key, "plan"), "", entry)
            if damage:
                self.remove(key)
            return Found("", damage or self._nearest(content, name), {})

    def check(self, key: str) -> Tuple[Dict[str, Any], str]:
        """Returns the side-car of a good engine and ""; or {} and its damage, "" where nothing of it is there."""
        entry, damage = self.side_car(key)
        if not entry:
            return {}, damage
        plan = self._path(key, "plan")
        try:
            if self.files.size(plan) != entry["plan_bytes"]:
                return {}, "the kept plan is damaged (its size differs)"
            if self.files.digest(plan) != entry["plan_sha256"]:
                return {}, "the kept plan is damaged (its hash differs)"
        except FileNotFoundError:
            return {}, "the kept plan is gone"
        return entry, ""

    def side_car(self, key: str) -> Tuple[Dict[str, Any], str]:
        """Returns what `check` does without looking at the plan."""
        try:
            entry = json.loads(self.files.load(self._path(key, "json")).decode("utf-8"))
            good = entry["format"] == FORMAT and engine_key(entry["content"]) == key
            good = good and isinstance(entry["name"], str) and isinstance(entry["built"], dict)
            good = good and isinstance(entry["plan_bytes"], int) and isinstance(entry["plan_sha256"], str)
        except FileNotFoundError:
            return {}, ""
        except (ValueError, KeyError, TypeError, RecursionError):
            good = False
        return (entry, "") if good else ({}, "its side-car is damaged")

    def part(self, key: str) -> str:
        """Returns where to build the plan of ``key``, in a folder that exists."""
        return self._new(key + ".part")

    def variant(self, key: str, number: int) -> str:
        """Returns where to build one of several plans of ``key``."""
        return self._new("%s.v%d.plan" % (key, number))

    def remove_variants(self, key: str) -> None:
        """Removes what is left of several plans of ``key``."""
        for name in self.files.names(self.folder):
            if name.startswith(key + ".v"):
                self.files.remove(self.folder + "/" + name)

    def timing_path(self, board: Dict[str, str]) -> str:
        """Returns where the timings of tactics are kept that hold on ``board`` (a content's): not in power modes."""
        facts = {name: board.get(name, "") for name in ("tensorrt", "l4t", "gpu", "active_sms")}
        return self._new("timing-%s.cache" % engine_key(facts))

    def keep(self, content: Dict[str, Any], name: str, part: str, built: Dict[str, Any]) -> Dict[str, Any]:
        """Makes the plan at ``part`` the engine of ``content``; returns its side-car. Removes old leftovers.

        Raises Failed where there is no plan.
        """
        key = engine_key(content)
        plan, side_car, draft = (self._path(key, end) for end in ("plan", "json", "json.part"))
        with self.usable():
            plan_bytes = self.files.size(part)
            if not plan_bytes:
                raise Failed("engine", "the plan that was built is empty", "build it again")
            entry = {
                "format": FORMAT,
                "key": key,
                "name": name,
                "content": content,
                "plan_bytes": plan_bytes,
                "plan_sha256": self.files.digest(part),
                "built": dict({"wall_s": self.files.now_s()}, **built),
            }
            self.files.save(draft, json.dumps(entry, sort_keys=True).encode("utf-8"))
            self.files.rename(part, plan)
            self.files.rename(draft, side_car)
            self.remove_leftovers()
            for left in self.files.names(self.folder):
                self.files.adopt(self.folder + "/" + left)
        return entry

    def remove(self, key: str) -> int:
        """Removes an engine, its side-car first. Returns the bytes freed."""
        return sum(self._drop("%s.%s" % (key, end)) for end in ("json", "plan"))

    def remove_leftovers(self, older_s: float = LEFTOVER_S) -> int:
        """Removes what a build left behind that ended before its time, that long ago. Returns the bytes freed."""
        freed = 0
        for name in self.files.names(self.folder):
            match = _NAME.match(name)
            old = self.files.now_s() - self.files.used_s(self.folder + "/" + name) >= older_s
            if old and match and match.group(2) not in ("plan", "json"):
                freed += self._drop(name)
        return freed

    def remove_timings(self) -> int:
        """Removes the timings of tactics. Returns the bytes freed."""
        return sum(self._drop(name) for name in self.files.names(self.folder) if name.startswith("timing-"))

    def kept_keys(self) -> List[str]:
        """Returns the keys of all engines, good or not."""
        matches = (_NAME.match(name) for name in self.files.names(self.folder))
        return sorted({match.group(1) for match in matches if match and match.group(2) in ("plan", "json")})

    def plan_bytes(self, key: str) -> int:
        """Returns the size of a plan as it lies there, 0 where there is none."""
        try:
            return self.files.size(self._path(key, "plan"))
        except FileNotFoundError:
            return 0

    def used_s(self, key: str) -> float:
        """Returns when an engine was last used, in seconds since 1970."""
        for end in ("json", "plan"):
            try:
                return self.files.used_s(self._path(key, end))
            except FileNotFoundError:
                continue
        return 0.0

    @contextmanager
    def usable(self) -> Iterator[None]:
        """Turns every OSError inside into Failed."""
        try:
            yield
        except OSError as error:
            what = "the engines in %s: %s" % (self.folder, error.strerror or error)
            if error.errno in (errno.EACCES, errno.EPERM):
                raise Failed("permission", what, "give the folder to the user who runs this") from error
            raise Failed("engine", what, _HINTS.get(error.errno or 0, "")) from error

    def _nearest(self, content: Dict[str, Any], name: str) -> str:
        entries = (self.side_car(key)[0] for key in self.kept_keys())
        others = [differences(entry["content"], content) for entry in entries if entry and entry["name"] == name]
        if not others:
            return NONE_KEPT
        return "the kept engine has " + ", ".join(sorted(others, key=len)[0])

    def _path(self, key: str, end: str) -> str:
        return "%s/%s.%s" % (self.folder, key, end)

    def _new(self, name: str) -> str:
        with self.usable():
            self.files.make_folder(self.folder)
        return self.folder + "/" + name

    def _drop(self, name: str) -> int:
        path = self.folder + "/" + name
        try:
            size = self.files.size(path)
        except FileNotFoundError:
            return 0
        self.files.remove(path)
        return size


def differences(kept: Dict[str, Any], wanted: Dict[str, Any]) -> List[str]:
    """Returns what tells the content of a kept engine from the wanted one, in words: "batch 64 instead of 8"."""
    old, new = (dict(content, **content.get("board", {})) for content in (kept, wanted))
    found = ["another model's bytes"] if old.get("digest") != new.get("digest") else []
    for name, word in _WORDS:
        if old.get(name) != new.get(name):
            found.append("%s %s instead of %s" % (word, old.get(name) or "unknown", new.get(name) or "unknown"))
    if old.get("weights") != new.get("weights"):
        seeds = [side.get("weights", ["", "unknown"])[-1] for side in (old, new)]
        other = "seed %s instead of %s" % (seeds[0], seeds[1])
        found.append(other if seeds[0] != seeds[1] else "weights made in another way")
    flags = [dict(flag.partition("=")[::2] for flag in side.get("flags", [])) for side in (old, new)]
    for name in sorted(set(flags[0]) | set(flags[1])):
        if flags[0].get(name) != flags[1].get(name):
            found.append(_difference(name, flags[0].get(name), flags[1].get(name)))
    return found


def _difference(flag: str, old: Optional[str], new: Optional[str]) -> str:
    """Returns how a flag differs; None: it is not there, "": it has no value."""
    values = [value if value is None or flag != "workspace" else _mib(value) for value in (old, new)]
    if values[0] is None:
        return ("no %s %s" % (flag, values[1])).rstrip()
    words = ("%s %s" % (flag, values[0])).rstrip()
    return words if values[1] is None else "%s instead of %s" % (words, values[1])


def _mib(text: str) -> str:
    return "%d MiB" % (int(text) >> 20) if text.isdigit() else text
