"""The on-board program of root: sets the knobs of its own table, remembers what it found, puts it back.

It takes knob ids with typed values, never paths or commands.
"""

import errno
import os

from remote.onboard import probe
from remote.onboard.journal import Journal
from remote.onboard.program import Fault, Program
from remote.onboard.sampler import Samplers

MYPY = False
if MYPY:  # the typing module is newer than the oldest Python of the boards
    from typing import Any  # novm

    from remote.onboard.system import System


class Clockd(Program):
    """See the module."""

    name = "clockd"

    def __init__(self, system: "System", boards: "dict[str, dict[str, Any]]", build: str) -> None:
        Program.__init__(self, system, boards, build)
        self.knobs, self.absent = probe.knobs(system, self.spec["knobs"])
        self.rails = probe.channels(system, self.spec["rails"])
        self.readings = probe.channels(system, self.spec["readings"])
        self._samplers = None  # type: Samplers | None
        self._journal = Journal(system, self.texts["/proc/sys/kernel/random/boot_id"])
        if self._dead_lease() is not None:
            with self._journal.alone():
                self._put_back_dead_lease()

    def verbs(self) -> "dict[str, object]":
        return {
            "settings": self._settings,
            "write": self._write,
            "undo": self._undo,
            "sample": self._sample,
            "collect": self._collect,
        }

    def hello(self) -> "dict[str, Any]":
        layer = self._journal.layer("apply")
        journal = {"notes": self._journal.notes}
        if layer is not None:
            knobs = [entry["knob"] for entry in layer["entries"] if entry["was"] is not None]
            journal.update({"owner": layer["owner"], "since_wall_s": layer["since"], "knobs": knobs})
        return {
            "root": self.system.is_root(),
            "journal": journal,
            "rails": self.rails,
            "readings": self.readings,
            "settings": self._settings({}),
        }

    def deadline(self) -> "float | None":
        return self._samplers.deadline() if self._samplers else None

    def on_time(self) -> None:
        if self._samplers is not None:
            self._samplers.tick()

    def on_close(self) -> None:
        """The link is gone, so the lease ends, if it is this program's own."""
        if self._owns(self._journal.layer("lease")):
            with self._journal.alone():
                self._put_back("lease", False)

    def _owns(self, lease: "dict[str, Any] | None") -> bool:
        return lease is not None and lease["pid"] == self.system.pid()

    def _dead_lease(self) -> "dict[str, Any] | None":
        lease = self._journal.layer("lease")
        return lease if lease is not None and not self.system.alive(lease["pid"]) else None

    def _put_back_dead_lease(self) -> None:
        lease = self._dead_lease()
        if lease is not None:
            rows = self._put_back("lease", False)
            done = sum(1 for row in rows if row["result"] == "restored")
            self._journal.notes.append(
                "a measurement of %s had died; its %d settings were put back" % (lease["owner"], done)
            )

    # Reading

    def _text(self, knob: "dict[str, Any]") -> str:
        return str(self.system.read(knob["readback"]))

    def _value(self, knob: "dict[str, Any]") -> "int | str | None":
        try:
            return probe.parse(knob, self._text(knob))
        except (OSError, ValueError, IndexError):
            return None

    def _is_idle(self, knob: "dict[str, Any]") -> bool:
        """Says whether the driver itself says that a setting does not apply now (``<unsupported>``)."""
        return probe.text_of(self.system, knob["readback"]).startswith("<")

    def _settings(self, request: "dict[str, Any]") -> "dict[str, Any]":
        return {"knobs": [self._describe(knob) for knob in self.knobs.values()], "absent": self.absent}

    def _describe(self, knob: "dict[str, Any]") -> "dict[str, Any]":
        record = {"id": knob["id"], "path": knob["path"], "kind": knob["kind"], "value": None, "text": ""}
        try:
            text = self._text(knob)
            record["text"] = text.strip()
            record["value"] = probe.parse(knob, text)
        except OSError as error:
            record["error"] = errno.errorcode.get(error.errno or 0, "EIO")
        except (ValueError, IndexError):
            record["error"] = "EINVAL"
        if knob["choices"]:
            record["choices"] = probe.choices(knob, probe.text_of(self.system, knob["choices"]))
        for limit in ("low", "high"):
            text = probe.text_of(self.system, knob[limit]) if knob[limit] else ""
            if text.isdigit():
                record[limit] = int(text) * int(knob.get("scale") or 1)
        return record

    # Writing

    def _write(self, request: "dict[str, Any]") -> "dict[str, Any]":
        steps = [self._checked(step) for step in request["steps"]]
        kind = "lease" if request["lease"] else "apply"
        with self._journal.alone():
            self._must_be_free()
            layer = self._journal.open_layer(kind, str(request["owner"]))
            self._remember(layer, steps)
            before = self._values(layer)
            outcomes = [self._apply(step) for step in steps]
            self._mark(layer, before, {step["id"] for step in steps})
            self._journal.save()
        return {"outcomes": outcomes, "lease": kind if request["lease"] else ""}

    def _must_be_free(self) -> None:
        """Raises Fault while another program holds the board."""
        self._put_back_dead_lease()
        lease = self._journal.layer("lease")
        if lease is not None and not self._owns(lease):
            raise Fault("held", "the board is held by %s" % lease["owner"], "wait for that measurement to end")

    def _values(self, layer: "dict[str, Any]") -> "dict[str, int | str | None]":
        names = [entry["knob"] for entry in layer["entries"] if entry["knob"] in self.knobs]
        return {name: self._value(self.knobs[name]) for name in names}

    def _mark(self, layer: "dict[str, Any]", before: "dict[str, int | str | None]", asked: "set[str]") -> None:
        """Notes what this write made of the knobs: of those it asked for, and of those that it moved with them."""
        for name, now in self._values(layer).items():
            for entry in layer["entries"]:
                if entry["knob"] == name and (name in asked or entry["set"] is None or now != before[name]):
                    entry["set"] = now

    def _checked(self, step: "dict[str, Any]") -> "dict[str, Any]":
        """Looks a step up in the table. Raises Fault for a value that is not of the knob's type."""
        knob = self.knobs.get(step["knob"])
        try:
            text = probe.format_value(knob, step["value"]) if knob is not None else ""
        except ValueError as error:
            raise Fault("usage", str(error), "nothing was changed") from error
        return {"id": str(step["knob"]), "knob": knob, "value": step["value"], "text": text}

    def _remember(self, layer: "dict[str, Any]", steps: "list[dict[str, Any]]") -> None:
        """Journals the values found, and before each those that its write makes the kernel forget."""
        known = {entry["knob"] for entry in layer["entries"]}
        for step in steps:
            if step["knob"] is None or self._value(step["knob"]) == step["value"]:
                continue
            for name in step["knob"]["saves"] + [step["id"]]:
                was = self._value(self.knobs[name]) if name in self.knobs else None
                if name not in known:  # with None: it had no value then, so it gets none back
                    known.add(name)
                    layer["entries"].append({"knob": name, "was": was, "set": None})
        self._journal.save()

    def _apply(self, step: "dict[str, Any]") -> "dict[str, Any]":
        knob = step["knob"]
        if knob is None:
            return {
                "knob": step["id"],
                "was": None,
                "now": None,
                "result": "absent",
                "why": "this board has no such setting",
            }
        was = self._value(knob)
        if was is None and not self._is_idle(knob):
            why = "it cannot be read, so it could not be put back"
            return {"knob": step["id"], "was": None, "now": None, "result": "refused", "why": why}
        why = "" if was == step["value"] else self._set(knob, step["text"])
        now = self._value(knob)
        if now == step["value"]:
            result = "unchanged" if was == now else "applied"
        elif why:
            result = "refused"
        elif knob["kind"] in ("hz", "int") and now is not None:
            result = "clamped"
            why = "the driver made it %s" % now
        else:
            result, why = "refused", "it was ignored: reads back %r" % now
        return {"knob": step["id"], "was": was, "now": now, "result": result, "why": why}

    def _set(self, knob: "dict[str, Any]", text: str) -> str:
        """Writes a node; returns "" or why the kernel refused."""
        try:
            self.system.write(knob["path"], text)
        except OSError as error:
            name = errno.errorcode.get(error.errno or 0, "EIO")
            return "%s: %s" % (name, os.strerror(error.errno or errno.EIO))
        return ""

    # Putting back

    def _undo(self, request: "dict[str, Any]") -> "dict[str, Any]":
        kind = "lease" if request["lease"] else "apply"
        with self._journal.alone():
            self._must_be_free()
            if kind == "apply" and self._journal.layer("lease") is not None:
                raise Fault("held", "a measurement is running on the board", "wait for it to end")
            return {"outcomes": self._put_back(kind, bool(request["force"])), "lease": ""}

    def _put_back(self, kind: str, force: bool) -> "list[dict[str, Any]]":
        """Undoes a layer in reverse order. What was not put back is remembered on, so that it can be.

        What the kernel refuses because another knob is not back yet (a minimum over the present maximum) is tried
        again after the others. Whether someone else changed a knob is judged before the first write, because
        putting one back may move another.
        """
        layer = self._journal.layer(kind)
        if layer is None:
            return []
        rows = []
        todo = []
        for entry in reversed(layer["entries"]):
            if entry["was"] is None:
                continue
            knob = self.knobs.get(entry["knob"])
            now = self._value(knob) if knob is not None else None
            row = {"knob": entry["knob"], "was": now, "now": now, "result": "unchanged", "why": ""}
            rows.append(row)
            if knob is None:
                row.update(result="refused", why="the setting is gone")
            elif not force and entry["set"] is not None and now not in (entry["set"], entry["was"], None):
                row.update(result="left", why="someone set it to %s since" % now)
            else:
                todo.append((entry, knob, row))
        wrong = todo
        for _ in todo:
            for item in wrong:
                self._back(*item)
            wrong = [item for item in todo if self._value(item[1]) != item[0]["was"]]
            if not wrong:
                break
        # What someone else changed is theirs, but `restore --force` may still be asked for; a lease is over.
        open_ends = ("refused", "left") if kind == "apply" else ("refused",)
        stuck = [row["knob"] for row in rows if row["result"] in open_ends]
        layer["entries"] = [entry for entry in layer["entries"] if entry["knob"] in stuck]
        if not layer["entries"]:
            self._journal.layers.remove(layer)
        self._journal.save()
        return rows

    def _back(self, entry: "dict[str, Any]", knob: "dict[str, Any]", row: "dict[str, Any]") -> None:
        why = ""
        if self._value(knob) != entry["was"]:
            why = self._set(knob, probe.format_value(knob, entry["was"]))
        row["now"] = self._value(knob)
        if row["now"] == entry["was"]:
            row.update(result="unchanged" if row["was"] == entry["was"] else "restored", why="")
        else:
            row.update(result="refused", why=why or "it reads back %s in place of %s" % (row["now"], entry["was"]))

    # Sampling

    def _sample(self, request: "dict[str, Any]") -> "dict[str, Any]":
        self._samplers = Samplers(self.system, self.rails, self.readings, request["sampling"])
        return {}

    def _collect(self, request: "dict[str, Any]") -> "dict[str, Any]":
        series = self._samplers.series() if self._samplers else []
        self._samplers = None
        return {"series": series}
