"""The on-board program of root: sets the knobs of its own table, remembers what it found, puts it back.

It takes knob ids with typed values, never paths or commands.
"""

import contextlib

from remote.onboard import probe
from remote.onboard.facts import facts
from remote.onboard.journal import FOLDER, LOCK, ROOT, Journal
from remote.onboard.program import Fault, Program, bounded
from remote.onboard.rails import rails
from remote.onboard.settings import Settings

MYPY = False
if MYPY:  # the typing module is newer than the oldest Python of the boards
    from typing import Any, Iterator  # novm

    from remote.onboard.sampler import Samplers  # noqa: F401 - type comments name it
    from remote.onboard.system import System

_KEEP_S = 1.0
_LONGEST_S = 366 * 86400.0


def _owner(name: "object") -> str:
    """Returns a holder's name as others may be shown it. Raises ValueError for what is no short line of text."""
    if not isinstance(name, str) or not name.isprintable() or len(name) > 200:
        raise ValueError("%r is no name of a holder" % (name,))
    return name


class Clockd(Program):
    """See the module. With ``guard`` another program watches over this one, and puts back what it leaves."""

    name = "clockd"

    def __init__(
        self,
        system: "System",
        boards: "dict[str, dict[str, Any]]",
        build: str,
        beat_s: float = 0.0,
        silence_s: float = 0.0,
        grace_s: float = 0.0,
        guard: bool = False,
    ) -> None:
        Program.__init__(self, system, boards, build, beat_s, silence_s, grace_s)
        self.settings = Settings(system, self.spec["knobs"])
        self.rails = rails(system, self.spec["rails"])
        self.readings = probe.channels(system, self.spec["readings"])
        self._samplers = None  # type: Samplers | None
        self._guard = guard
        self._leased = False
        self._look_s = None  # type: float | None
        self.notes = []  # type: list[str]
        self.put_back_due()

    def verbs(self) -> "dict[str, object]":
        return {
            "settings": lambda request: self.settings.describe(),
            "write": self._write,
            "undo": self._undo,
            "break": self._break,
            "sample": self._sample,
            "collect": self._collect,
        }

    def hello(self) -> "dict[str, Any]":
        with self._journal() as journal:
            layers = {layer["kind"]: layer for layer in journal.layers}
            told = {kind: self._told(layer) for kind, layer in layers.items()}
            notes = self.notes + journal.notes
        return {
            "facts": facts(self.system, self.texts, self.spec),
            "root": self.system.is_root(),
            "journal": dict(told, notes=notes),
            "rails": self.rails,
            "readings": self.readings,
            "settings": self.settings.describe(),
        }

    def _told(self, layer: "dict[str, Any]") -> "dict[str, Any]":
        left_s = None if layer["until"] is None else max(0.0, layer["until"] - self.system.now())
        knobs = [entry["knob"] for entry in layer["entries"] if entry["was"] is not None]
        return {"owner": layer["owner"], "since_wall_s": layer["since"], "knobs": knobs, "left_s": left_s}

    def door(self) -> str:
        return FOLDER + "/clockd.sock"

    def worth_keeping(self) -> bool:
        return self._leased

    def deadline(self) -> "float | None":
        due = [self._samplers.deadline() if self._samplers else None, self._look_s]
        known = [moment for moment in due if moment is not None]
        return min(known) if known else None

    def on_time(self) -> None:
        if self._samplers is not None:
            self._samplers.tick()
        if self._look_s is not None and self.system.now() >= self._look_s:
            self.put_back_due()
            self._keep_guard()

    def on_close(self) -> None:
        """The host is gone for good, so the lease ends."""
        if self._leased:
            self._end("lease", False)

    # The journal

    @contextlib.contextmanager
    def _journal(self) -> "Iterator[Journal]":
        """Gives the journal as it is on the board now; nobody else uses it meanwhile. Without root it stays empty."""
        with contextlib.ExitStack() as stack:
            try:
                self.system.make_folder(FOLDER)
                stack.enter_context(self.system.lock(LOCK))
            except OSError:
                pass  # whoever cannot lock it cannot write it either, and is told so when it comes to that
            yield Journal(self.system, self.texts["/proc/sys/kernel/random/boot_id"])

    def put_back_due(self) -> bool:
        """Puts back what has run out or whose holder has died. Says whether anything is left to watch over."""
        with self._journal() as journal:
            self.notes += journal.clear()
            for layer in journal.due():
                if layer["holder"] == self.system.identity() and layer["kind"] == "lease":
                    self._leased = False
                rows = self.settings.put_back(layer, False)
                done = sum(1 for row in rows if row["result"] == "restored")
                ended = "ran out" if self.system.alive(layer["holder"]) else "was left behind"
                self.notes.append("what %s had set %s; %d settings were put back" % (layer["owner"], ended, done))
                journal.drop(layer)
            watched = [layer for layer in journal.layers if layer["kind"] == "lease" or layer["until"] is not None]
        self._look_s = self.system.now() + _KEEP_S if watched else None
        return bool(watched)

    def _keep_guard(self) -> None:
        """Starts the guard where one is needed and none runs."""
        if self._guard and self._look_s is not None and not self.system.guarded():
            self.system.start_guard()

    # Writing and putting back

    def _write(self, request: "dict[str, Any]") -> "dict[str, Any]":
        kind = "lease" if request["lease"] else "apply"
        owner, ttl_s = _owner(request["owner"]), bounded(request.get("ttl_s") or 0.0, 0.0, _LONGEST_S)
        steps = [self.settings.check(step) for step in request["steps"]]
        with self._journal() as journal:
            self._refuse_others(journal)
            self._refuse_below_lease(kind)
            layer = journal.open_layer(kind, owner, ttl_s)
            earlier = self.settings.remember(layer, steps)
            journal.save(earlier)
            self._leased = self._leased or kind == "lease"
            self._look_s = self.system.now() + _KEEP_S if self._leased or layer["until"] is not None else self._look_s
            self._keep_guard()
            before = self.settings.values(layer)
            outcomes = [self.settings.apply(step, request.get("reboot") is True) for step in steps]
            self.settings.mark(layer, before, outcomes)
            with contextlib.suppress(Fault):  # what was saved before the first write puts everything back as well
                journal.save()
        return {"outcomes": outcomes, "lease": kind if request["lease"] else ""}

    def _refuse_others(self, journal: Journal) -> None:
        lease = journal.layer("lease")
        if lease is not None and lease["holder"] != self.system.identity():
            hint = "wait for it to end, or end it: edgeperf lease break"
            raise Fault("held", "the board is held by a measurement of %s" % lease["owner"], hint)

    def _refuse_below_lease(self, kind: str) -> None:
        """Raises Fault for a change of what lies below a lease: the lease would put back what it found there."""
        if kind == "apply" and self._leased:
            raise Fault("held", "a measurement is running on the board", "wait for it to end")

    def _undo(self, request: "dict[str, Any]") -> "dict[str, Any]":
        kind = "lease" if request["lease"] else "apply"
        if not self.system.is_root():
            raise Fault("board", "only root knows what was applied to this board, and can put it back", ROOT)
        with self._journal() as journal:
            self._refuse_others(journal)
        self._refuse_below_lease(kind)
        return {"outcomes": self._end(kind, bool(request["force"])), "lease": ""}

    def _break(self, request: "dict[str, Any]") -> "dict[str, Any]":
        """Ends a lease whoever holds it."""
        return {"outcomes": self._end("lease", True), "lease": ""}

    def _end(self, kind: str, force: bool) -> "list[dict[str, Any]]":
        with self._journal() as journal:
            layer = journal.layer(kind)
            rows = self.settings.put_back(layer, force) if layer is not None else []
            if layer is not None:
                journal.drop(layer)
        if kind == "lease":
            self._leased = False
        return rows

    # Sampling

    def _sample(self, request: "dict[str, Any]") -> "dict[str, Any]":
        from remote.onboard.sampler import Samplers  # most connections only set clocks

        self._collect({})  # of a host that went away meanwhile
        self._samplers = Samplers(self.system, self.rails, self.readings, request["sampling"])
        return {}

    def _collect(self, request: "dict[str, Any]") -> "dict[str, Any]":
        series = self._samplers.end() if self._samplers else []
        self._samplers = None
        return {"series": series}
