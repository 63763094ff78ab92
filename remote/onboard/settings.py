"""The settings of a board: what they are, how they are set and put back."""

import errno
import os

from remote.onboard import powermode, probe
from remote.onboard.program import Fault

MYPY = False
if MYPY:  # the typing module is newer than the oldest Python of the boards
    from typing import Any  # novm

    from remote.onboard.system import System


_DORMANT = "its cores are off"


class Settings(object):
    """The knobs of the board's table that were found, by id; ``absent`` are the ids of the others."""

    def __init__(self, system: "System", rows: "list[dict[str, Any]]") -> None:
        self._system = system
        self.knobs, self.absent = probe.knobs(system, rows)
        self._mode = next((knob for knob in self.knobs.values() if knob.get("by")), None)
        self._modes = powermode.PowerModes(system, self._mode["path"] if self._mode else "")

    def describe(self) -> "dict[str, Any]":
        """Returns all settings as the host is told them."""
        records = [self._describe(knob) for knob in self.knobs.values()]
        mode = next((record["value"] for record in records if self._mode and record["id"] == self._mode["id"]), None)
        if mode in self._modes.by_name:
            caps = powermode.caps(self._modes.paths, self._modes.by_name[mode])
            for record in records:
                _cap(record, caps.get(record["id"].partition(".")[0]), str(mode))
        return {"knobs": records, "absent": self.absent}

    def check(self, step: "dict[str, Any]") -> "dict[str, Any]":
        """Looks a step up in the table. Raises Fault for a value that is not of the knob's type."""
        knob = self.knobs.get(step["knob"])
        try:
            text = probe.format_value(knob, step["value"]) if knob is not None else ""
        except ValueError as error:
            raise Fault("usage", str(error), "nothing was changed") from error
        return {"id": str(step["knob"]), "knob": knob, "value": step["value"], "text": text}

    def remember(self, layer: "dict[str, Any]", steps: "list[dict[str, Any]]") -> "list[dict[str, Any]]":
        """Journals the values found, and before each those that its write makes the kernel forget.

        Returns the entries of an earlier write that this one is about to change.
        """
        known = {entry["knob"]: entry for entry in layer["entries"]}
        earlier = []
        for step in steps:
            if step["knob"] is None or self._value(step["knob"]) == step["value"]:
                continue
            for name in step["knob"]["saves"] + [step["id"]]:
                was = self._setting(self.knobs[name]) if name in self.knobs else None
                if name in known:
                    earlier.append(known[name])
                else:  # with None: it had no value then, so it gets none back
                    known[name] = {"knob": name, "was": was, "set": None}
                    layer["entries"].append(known[name])
        return [entry for entry in earlier if entry["set"] is not None]

    def apply(self, step: "dict[str, Any]", reboot: bool = False) -> "dict[str, Any]":
        """Sets a knob and says what became of it, read back. With ``reboot`` a power mode may reboot the board."""
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
        if self._dormant(knob):
            return {"knob": step["id"], "was": was, "now": was, "result": "absent", "why": _DORMANT}
        if was is None and not self._silent(knob):
            why = "it cannot be read, so it could not be put back"
            return {"knob": step["id"], "was": None, "now": None, "result": "refused", "why": why}
        result, why = ("", "") if was == step["value"] else self._set(knob, step["text"], reboot)
        now = self._value(knob)
        if now == step["value"]:
            result, why = "unchanged" if was == now else "applied", ""
        elif result:
            pass
        elif knob["kind"] in ("hz", "int") and now is not None and not (now == was and self._has_room(knob, now)):
            result = "clamped"
            why = "the driver made it %s" % now
        else:
            result, why = "refused", "it was ignored: reads back %r" % now
        return {"knob": step["id"], "was": was, "now": now, "result": result, "why": why}

    def _has_room(self, knob: "dict[str, Any]", now: "int | str") -> bool:
        """Says whether a limit that did not move was not stopped by the other one, so that its write was ignored."""
        clock, _, limit = knob["id"].rpartition(".")
        other = self.knobs.get(clock + {"min": ".max", "max": ".min"}.get(limit, ""))
        return other is not None and self._value(other) != now

    def values(self, layer: "dict[str, Any]") -> "dict[str, int | str | None]":
        """Returns what the settings of a layer are now."""
        names = [entry["knob"] for entry in layer["entries"] if entry["knob"] in self.knobs]
        return {name: self._value(self.knobs[name]) for name in names}

    def mark(
        self, layer: "dict[str, Any]", before: "dict[str, int | str | None]", outcomes: "list[dict[str, Any]]"
    ) -> None:
        """Notes what a write made of the knobs: of those it asked for, and of those that it moved with them.

        What waits for a reboot is not there yet: its entry stays that of an unfinished write.
        """
        results = {row["knob"]: row["result"] for row in outcomes}
        for name, now in self.values(layer).items():
            for entry in layer["entries"]:
                moved = name in results or entry["set"] is None or now != before[name]
                if entry["knob"] == name and moved and results.get(name) != "needs-reboot":
                    entry["set"] = now

    def put_back(self, layer: "dict[str, Any]", force: bool) -> "list[dict[str, Any]]":
        """Undoes a layer in reverse order; what could not be put back stays in it.

        What the kernel refuses because another knob is not back yet (a minimum over the present maximum) is tried
        again after the others. Whether someone else changed a knob is judged before the first write, because
        putting one back may move another.
        """
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
        for item in todo:
            if item[1]["alive"]:  # while its cores are still on, which what follows may change
                self._back(*item)
        wrong = todo
        for _ in todo:
            for item in wrong:
                self._back(*item)
            wrong = [item for item in todo if not self._dormant(item[1]) and self._value(item[1]) != item[0]["was"]]
            if not wrong:
                break
        # What someone else changed is theirs, but `restore --force` may still be asked for; a lease is over.
        open_ends = ("refused", "needs-reboot") + (("left",) if layer["kind"] == "apply" else ())
        stuck = [row["knob"] for row in rows if row["result"] in open_ends]
        layer["entries"] = [entry for entry in layer["entries"] if entry["knob"] in stuck]
        return rows

    def _back(self, entry: "dict[str, Any]", knob: "dict[str, Any]", row: "dict[str, Any]") -> None:
        result, why = "", ""
        if self._dormant(knob):
            if row["result"] != "restored" and row["was"] not in (entry["was"], None):
                row.update(result="left", why=_DORMANT)
            return
        if self._value(knob) != entry["was"]:
            try:
                result, why = self._set(knob, probe.format_value(knob, entry["was"]))
            except ValueError as error:  # an earlier version remembered it in another form
                result, why = "refused", str(error)
        row["now"] = self._value(knob)
        if row["now"] == entry["was"]:
            row.update(result="unchanged" if row["was"] == entry["was"] else "restored", why="")
        else:
            row.update(
                result=result or "refused", why=why or "it reads back %s in place of %s" % (row["now"], entry["was"])
            )

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
        if self._dormant(knob):
            record["error"] = "EBUSY"
        if not self._holds(knob):
            record.update(value=None, text="")
        if knob is self._mode:
            record["choices"] = self._modes.names
        elif knob["choices"]:
            record["choices"] = probe.choices(knob, probe.text_of(self._system, knob["choices"]))
        for limit in ("low", "high"):
            text = probe.text_of(self._system, knob[limit]) if knob[limit] else ""
            if text.isdigit():
                record[limit] = int(text) * int(knob.get("scale") or 1)
        text = probe.text_of(self._system, knob["cap"]) if knob["cap"] else ""
        _cap(record, int(text) if text.isdigit() else None, "the power mode")
        return record

    def _text(self, knob: "dict[str, Any]") -> str:
        return self._modes.current() if knob is self._mode else str(self._system.read(knob["readback"]))

    def _holds(self, knob: "dict[str, Any]") -> bool:
        """Says whether a rate is in force as set; if not, what its node reads is where the driver is just now."""
        lock = self.knobs.get(str(knob.get("holds") or ""))
        return lock is None or self._value(lock) == 1

    def _dormant(self, knob: "dict[str, Any]") -> bool:
        """Says whether the cores of a setting are all off: the kernel keeps it, and takes no other."""
        path = knob["alive"]
        return bool(path) and self._system.exists(path) and not probe.text_of(self._system, path)

    def _silent(self, knob: "dict[str, Any]") -> bool:
        """Says whether the driver itself says that a setting does not apply now (``<unsupported>``)."""
        return probe.text_of(self._system, knob["readback"]).startswith("<")

    def _setting(self, knob: "dict[str, Any]") -> "int | str | None":
        return self._value(knob) if self._holds(knob) else None

    def _value(self, knob: "dict[str, Any]") -> "int | str | None":
        try:
            return probe.parse(knob, self._text(knob))
        except (OSError, ValueError, IndexError):
            return None

    def _set(self, knob: "dict[str, Any]", text: str, reboot: bool = False) -> "tuple[str, str]":
        """Sets a knob; returns ("", ""), or why it could not be as a result and words."""
        if knob is self._mode:
            return self._modes.choose(text, reboot)
        try:
            self._system.write(knob["path"], text)
        except OSError as error:
            name = errno.errorcode.get(error.errno or 0, "EIO")
            return "refused", "%s: %s" % (name, os.strerror(error.errno or errno.EIO))
        return "", ""


def _cap(record: "dict[str, Any]", cap_hz: "int | None", who: str) -> None:
    """Lowers what a rate may be at most to the cap of a power mode.

    nvpmodel takes it to the nearest operating point, as tools showed on such boards: 2000 MHz of a TX2's CPU are 2035.2
    there, 918 of a Nano's 921.6, 640 of its GPU 614.4, 1200 of a Xavier's CPU 1190.4.
    """
    if not cap_hz or record["kind"] != "hz" or record["id"] == "emc.cap":
        return
    if record["id"].startswith(("gpu.", "cpu")) and record.get("choices"):
        cap_hz = min(record["choices"], key=lambda hz: abs(hz - cap_hz))
    highest = max([record["high"]] if record.get("high") else record.get("choices") or [cap_hz + 1])
    if cap_hz < highest:
        record.update(high=cap_hz, capped_by=who)
