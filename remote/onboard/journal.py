"""What was found before the first write, kept on the board: root-only, in memory-backed /run, tied to this boot.

Layers nest: ``apply`` at the bottom, a measurement's lease on top of it. An entry is
``{"knob", "was", "set"}``; ``set`` is None until the write was read back, so that a crash in between is seen.
"""

import json
from contextlib import contextmanager

from remote.onboard.program import Fault

MYPY = False
if MYPY:  # the typing module is newer than the oldest Python of the boards
    from typing import Any, Iterator  # novm

    from remote.onboard.system import System

FOLDER = "/run/edgeperf"
PATH = FOLDER + "/journal.json"
LOCK = FOLDER + "/lock"

_LAYER = {"kind", "owner", "since", "pid", "entries"}
_ENTRY = {"knob", "was", "set"}


class Journal(object):
    """The layers, saved at each change. ``notes`` say what was dropped when it was opened, and why."""

    def __init__(self, system: "System", boot_id: str) -> None:
        self._system = system
        self._boot_id = boot_id
        self._load()

    @contextmanager
    def alone(self) -> "Iterator[None]":
        """Keeps other programs from changing settings, and takes up what they have remembered since.

        Raises Fault where nothing can be remembered: then nothing may be changed.
        """
        try:
            self._system.make_folder(FOLDER)
            with self._system.lock(LOCK):
                self._load()
                yield
        except OSError as error:
            raise _unable(error) from error

    def _load(self) -> None:
        self.notes = []  # type: list[str]
        self.layers = []  # type: list[dict[str, Any]]
        if not self._system.exists(PATH):
            return
        try:
            saved = json.loads(self._system.load(PATH).decode("utf-8"))
            if saved["boot"] == self._boot_id:
                self.layers = _checked(saved["layers"])
            else:
                self.notes.append("a journal of an earlier boot was dropped: a reboot puts the clocks back by itself")
        except OSError as error:
            self.notes.append("the journal could not be read: %s" % error.strerror)
        except (ValueError, KeyError, TypeError):
            self.notes.append("a damaged journal was dropped")

    def layer(self, kind: str) -> "dict[str, Any] | None":
        """Returns the layer of a kind, ``apply`` or ``lease``."""
        for layer in self.layers:
            if layer["kind"] == kind:
                return layer
        return None

    def open_layer(self, kind: str, owner: str) -> "dict[str, Any]":
        """Returns the layer of a kind, made if there is none: a second `apply` goes on with the first one's."""
        layer = self.layer(kind)
        if layer is None:
            system = self._system
            layer = {"kind": kind, "owner": owner, "since": system.wall(), "pid": system.pid(), "entries": []}
            self.layers.append(layer)
        return layer

    def save(self) -> None:
        """Writes the layers that hold something. Call it `alone`. Raises Fault when that is impossible."""
        kept = [layer for layer in self.layers if layer["entries"]]
        try:
            if not kept:
                if self._system.exists(PATH):
                    self._system.remove(PATH)
                return
            text = json.dumps({"boot": self._boot_id, "layers": kept}, sort_keys=True)
            self._system.save(PATH, text.encode("utf-8"))
        except OSError as error:
            raise _unable(error) from error


def _checked(layers: "list[dict[str, Any]]") -> "list[dict[str, Any]]":
    """Returns the layers of a file. Raises ValueError or TypeError when another program, or version, wrote them."""
    for layer in layers:
        if set(layer) != _LAYER or any(set(entry) != _ENTRY for entry in layer["entries"]):
            raise ValueError("not a layer")
    return layers


def _unable(error: OSError) -> Fault:
    return Fault(
        "board",
        "the state found could not be remembered in %s: %s; nothing was changed" % (PATH, error.strerror),
        "clocks need root: log in as root, or run edgeperf as root on this machine",
    )
