"""What was found before the first write, kept on the board: root-only, in memory-backed /run, tied to this boot.

A power mode outlives a reboot, so it is kept on disk as well.

Layers nest: ``apply`` at the bottom, a measurement's lease on top of it. An entry is
``{"knob", "was", "set"}``; ``set`` is None until the write was read back, so that a crash in between is seen.
"""

import contextlib
import errno
import json

from remote.onboard.program import Fault

MYPY = False
if MYPY:  # the typing module is newer than the oldest Python of the boards
    from typing import Any  # novm

    from remote.onboard.system import System

FOLDER = "/run/edgeperf"
PATH = FOLDER + "/journal.json"
LOCK = FOLDER + "/lock"
KEPT_FOLDER = "/var/lib/edgeperf"
KEPT = KEPT_FOLDER + "/journal.json"
_OUTLIVES = ("nvpmodel.mode",)
ROOT = "clocks need root: log in as root, run edgeperf as root on this machine, or see `edgeperf hosts setup`"
_ROOM = "make room there: `df -h %s %s` on the board shows what is full" % (FOLDER, KEPT_FOLDER)
_HINTS = {
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
    errno.EROFS: "its disk takes no changes any more, as after an error: see `dmesg` on the board, and restart it",
}


_LAYER = {"kind", "owner", "since", "holder", "until", "entries"}
_ENTRY = {"knob", "was", "set"}


def _checked(layers: "list[dict[str, Any]]") -> "list[dict[str, Any]]":
    """Returns the layers of a file. Raises ValueError or TypeError when another program, or version, wrote them."""
    for layer in layers:
        if set(layer) != _LAYER or not isinstance(layer["holder"], str):
            raise ValueError("not a layer")
        if any(set(entry) != _ENTRY for entry in layer["entries"]):
            raise ValueError("not an entry")
    return layers


class Journal(object):
    """The layers, saved at each change. ``notes`` say what was dropped when it was opened, and why."""

    def __init__(self, system: "System", boot_id: str) -> None:
        self._system = system
        self._boot_id = boot_id
        self.notes = []  # type: list[str]
        self._stale = ""
        self.layers = []  # type: list[dict[str, Any]]
        saved, kept = self._load(PATH), self._load(KEPT)
        self._kept = kept is not None
        if saved is not None and saved["boot"] == boot_id:
            self.layers = saved["layers"]
            return
        if saved is not None:
            self._stale = "a journal of an earlier boot was dropped: a reboot puts the clocks back by itself"
            self.notes.append(self._stale)
        if kept is None or (kept["boot"] == boot_id and not system.exists(PATH)):
            return  # what is left of this boot was put back, on a disk that took no more changes
        for layer in kept["layers"]:
            # Its holder and its end belong to the earlier boot: a lease is over, what was applied stays.
            self.layers.append(dict(layer, holder="", until=None))
            self.notes.append("the power mode that %s had set outlived a reboot" % layer["owner"])

    def _load(self, path: str) -> "dict[str, Any] | None":
        if not self._system.exists(path):
            return None
        try:
            saved = json.loads(self._system.load(path).decode("utf-8"))
            return {"boot": saved["boot"], "layers": _checked(saved["layers"])}
        except OSError as error:
            self.notes.append("the journal could not be read: %s" % error.strerror)
        except (ValueError, KeyError, TypeError):
            self.notes.append("a damaged journal was dropped")
        return None

    def clear(self) -> "list[str]":
        """Removes a journal of an earlier boot, which is of no use any more. Returns a note if it did."""
        note, self._stale = self._stale, ""
        if not note:
            return []
        try:
            self._system.remove(PATH)
        except OSError:  # not ours to remove
            return []
        self.notes.remove(note)
        return [note]

    def layer(self, kind: str) -> "dict[str, Any] | None":
        """Returns the layer of a kind, ``apply`` or ``lease``."""
        for layer in self.layers:
            if layer["kind"] == kind:
                return layer
        return None

    def open_layer(self, kind: str, owner: str, ttl_s: float) -> "dict[str, Any]":
        """Returns the layer of a kind, made if there is none: a second `apply` goes on with the first one's.

        With ``ttl_s`` the layer is put back when that time is over, counted from now.
        """
        system = self._system
        layer = self.layer(kind)
        if layer is None:
            layer = {"kind": kind, "owner": owner, "since": system.wall(), "entries": []}
            self.layers.append(layer)
        layer["holder"] = system.identity()
        layer["until"] = system.now() + ttl_s if ttl_s else None
        return layer

    def due(self) -> "list[dict[str, Any]]":
        """Returns the layers to put back, top first: their time is over, or the program that held a lease has died."""
        system = self._system
        return [
            layer
            for layer in reversed(self.layers)
            if (layer["until"] is not None and system.now() >= layer["until"])
            or (layer["kind"] == "lease" and not system.alive(layer["holder"]))
        ]

    def drop(self, layer: "dict[str, Any]") -> None:
        """Forgets a layer that was put back, unless something of it is still to be, and saves."""
        if not layer["entries"]:
            self.layers.remove(layer)
        elif layer["kind"] == "lease":
            # What could not be put back is nobody's measurement any more; `restore` may try again.
            below = self.layer("apply")
            if below is None:
                layer["kind"], layer["until"] = "apply", None
            else:
                known = [entry["knob"] for entry in below["entries"]]
                below["entries"] += [entry for entry in layer["entries"] if entry["knob"] not in known]
                self.layers.remove(layer)
        for folder, path, layers in self._places():
            with contextlib.suppress(OSError):  # it is found again, and putting back what is back changes nothing
                self._keep(folder, path, layers)

    def save(self, unfinished: "list[dict[str, Any]] | tuple[()]" = ()) -> None:
        """Writes the layers, some entries as of a write that is not over. Raises Fault when that is impossible.

        Then nothing may be changed.
        """
        known = [(entry, entry["set"]) for entry in unfinished]
        try:
            for entry in unfinished:
                entry["set"] = None
            for folder, path, layers in self._places():
                self._keep(folder, path, layers)
        except OSError as error:
            if not self._kept:
                with contextlib.suppress(OSError):
                    self._system.remove(KEPT)  # or it looks as if a mode had outlived a reboot
            raise Fault(
                "board",
                "the state found could not be remembered in %s: %s; nothing was changed" % (PATH, error.strerror),
                _HINTS.get(error.errno or 0, ROOT),
            ) from error
        finally:
            for entry, value in known:
                entry["set"] = value

    def _places(self) -> "list[tuple[str, str, list[dict[str, Any]]]]":
        """Returns what to save where: the layers that hold something; a lease also holds the board."""
        kept = [layer for layer in self.layers if layer["entries"] or layer["kind"] == "lease"]
        lasting = []
        for layer in kept:
            entries = [entry for entry in layer["entries"] if entry["knob"] in _OUTLIVES]
            if entries:
                lasting.append(dict(layer, entries=entries))
        return [(KEPT_FOLDER, KEPT, lasting), (FOLDER, PATH, kept)]

    def _keep(self, folder: str, path: str, layers: "list[dict[str, Any]]") -> None:
        """Saves layers, or removes the file where there are none. Raises OSError."""
        if layers:
            self._system.make_folder(folder)
            text = json.dumps({"boot": self._boot_id, "layers": layers}, sort_keys=True)
            self._system.save(path, text.encode("utf-8"))
        elif self._system.exists(path):
            self._system.remove(path)
