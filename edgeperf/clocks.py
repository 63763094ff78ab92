"""Applying a profile to a board, putting it back, and what the settings are now."""

from __future__ import annotations

import getpass
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from clockprofiles.plan import ClockPlan, drift, plan
from clockprofiles.profile import Profile
from edgeperf.units import show_hz
from remote import boards
from remote.board import Board
from remote.types import Apply, Held, Knob, Outcome, Snapshot, Step, Undo, Value


@dataclass(frozen=True)
class Row:
    """A knob in a table for people and in JSON. ``result`` is a `remote.types.Result`, or ``planned`` in a dry run."""

    knob: str
    was: Value | None
    now: Value | None
    result: str
    why: str


@dataclass(frozen=True)
class Changes:
    """What a command did to a board's settings, or would do. ``refused`` says whether the exit code is 4."""

    schema: int
    kind: str
    simulated: bool
    host: str
    board: str
    l4t: str
    profile: str
    rows: tuple[Row, ...]
    absent: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def refused(self) -> bool:
        """Says whether the board refused a setting."""
        return any(row.result == "refused" for row in self.rows)

    @property
    def would_change(self) -> bool:
        """Says whether a dry run found anything to do."""
        return any(row.result == "planned" for row in self.rows)


@dataclass(frozen=True)
class Status:
    """The settings of a board: every settable node's text by path, and the same as typed values by knob."""

    schema: int
    kind: str
    simulated: bool
    host: str
    board: str
    l4t: str
    nodes: Mapping[str, str]
    knobs: Mapping[str, Value | None]
    absent: tuple[str, ...]
    profile: str
    applied_by: str
    applied_knobs: tuple[str, ...]
    leased_by: str
    drift: tuple[str, ...]
    notes: tuple[str, ...]


def owner() -> str:
    """Returns who is changing a board, for whoever finds it changed: ``me@laptop``."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as in some containers
        user = "user"
    return f"{user}@{platform.node() or 'unknown'}"


def plan_for(board: Board, profile: Profile) -> ClockPlan:
    """Returns what a profile means on a board as it was found when the connection was opened."""
    return plan(profile, board.transport.found, board.transport.facts.l4t)


def preview(board: Board, made: ClockPlan) -> Changes:
    """Returns what `apply` would do, without doing it."""
    steps = [*((s, "planned") for s in made.steps), *((s, "unchanged") for s in made.kept)]
    rows = tuple(Row(step.knob, step.was, step.value, result, step.why) for step, result in steps)
    return _changes(board, "plan", made.profile.name, rows, made.absent, made.notes)


def apply(board: Board, made: ClockPlan, ttl_s: float = 0.0) -> Changes:
    """Applies a plan; it stays until `restore`, or until ``ttl_s`` have passed if that is not 0.

    Raises BoardError when the board cannot remember what it found.
    """
    mode = _write(board, made.mode, ttl_s)
    if mode:
        found = board.transport.read(settings=True).settings
        made = plan(made.profile, found or board.transport.found, board.transport.facts.l4t)
    done = {outcome.knob for outcome in mode}
    steps = tuple(step for step in made.steps if step.knob not in done)
    kept = [Row(s.knob, s.was, s.value, "unchanged", s.why) for s in made.kept if s.knob not in done]
    written = (*mode, *_write(board, steps, ttl_s))
    rows = (*_rows(written, made.steps), *kept)
    missing = tuple(outcome.knob for outcome in written if outcome.result == "absent")
    return _changes(board, "apply", made.profile.name, rows, (*made.absent, *missing), made.notes)


def _write(board: Board, steps: Sequence[Step], ttl_s: float) -> tuple[Outcome, ...]:
    return board.transport.write(Apply(tuple(steps), owner(), ttl_s=ttl_s)).outcomes if steps else ()


def restore(board: Board, *, force: bool = False) -> Changes:
    """Puts back what was found before the first `apply`; leaves and names what someone else changed since."""
    outcomes = board.transport.write(Undo(force=force)).outcomes
    notes = () if outcomes else ("nothing to put back: no settings of edgeperf's are in force",)
    return changes(board, "restore", "", outcomes, notes)


def changes(board: Board, kind: str, profile: str, outcomes: Sequence[Outcome], notes: Sequence[str]) -> Changes:
    """Returns the record of an undo: ``outcomes`` as the board gave them."""
    return _changes(board, kind, profile, _rows(outcomes, ()), (), notes)


def status(board: Board, profile: Profile | None) -> Status:
    """Returns the settings; with ``profile`` also which knobs are not as it asks."""
    transport = board.transport
    snapshot = transport.found
    drifted = drift(profile, snapshot, transport.facts.l4t).rows if profile else ()
    return Status(
        schema=1,
        kind="status",
        simulated=transport.facts.simulated,
        host=board.host.text,
        board=board.spec.name,
        l4t=transport.facts.l4t,
        nodes=snapshot.nodes(),
        knobs={name: knob.value for name, knob in snapshot.knobs.items()},
        absent=snapshot.absent,
        profile=profile.name if profile else "",
        applied_by=held_by(transport.journal.apply),
        applied_knobs=transport.journal.apply.knobs if transport.journal.apply else (),
        leased_by=held_by(transport.journal.lease),
        drift=tuple(f"{row.knob} is {show(row.knob, row.now)}, asked {show(row.knob, row.asked)}" for row in drifted),
        notes=(*transport.journal.notes, *boards.doubts(board.spec, transport.facts.l4t)),
    )


def held_by(held: Held | None) -> str:
    """Returns ``me@laptop since 2026-11-20T14:00:00+00:00``, "" for nobody."""
    if held is None:
        return ""
    since = datetime.fromtimestamp(held.since_wall_s, timezone.utc).isoformat(timespec="seconds")
    left = f", {held.left_s:.0f} s to go" if held.left_s is not None else ""
    return f"{held.owner} since {since}{left}"


def show(knob: str, value: Value | None) -> str:
    """Returns a knob's value for people."""
    if value is None:
        return "-"
    rate = knob.rpartition(".")[2] in ("min", "max", "rate", "setspeed")
    return show_hz(value) if rate and isinstance(value, int) else str(value)


def groups(snapshot: Snapshot) -> dict[str, list[Knob]]:
    """Returns the knobs by what they set: cpu, cpuquiet, gpu, emc ..."""
    found: dict[str, list[Knob]] = {}
    for knob in snapshot.knobs.values():
        found.setdefault(knob.id.partition(".")[0].rstrip("0123456789"), []).append(knob)
    return found


def _rows(outcomes: Sequence[Outcome], steps: Sequence[Step]) -> tuple[Row, ...]:
    why = {step.knob: step.why for step in steps}
    return tuple(Row(o.knob, o.was, o.now, o.result, o.why or why.get(o.knob, "")) for o in outcomes)


def _changes(
    board: Board, kind: str, profile: str, rows: Sequence[Row], absent: Sequence[str], notes: Sequence[str]
) -> Changes:
    facts = board.transport.facts
    everything = (*board.transport.journal.notes, *boards.doubts(board.spec, facts.l4t), *notes)
    return Changes(
        1,
        kind,
        facts.simulated,
        board.host.text,
        board.spec.name,
        facts.l4t,
        profile,
        tuple(rows),
        tuple(absent),
        everything,
    )
