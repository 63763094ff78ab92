"""Applying a profile to a board, putting it back, and what the settings are now."""

from __future__ import annotations

import difflib
import getpass
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from clockprofiles.plan import ClockPlan, drift, plan
from clockprofiles.profile import Profile
from edgeperf.units import show_hz
from remote import boards
from remote.board import Board, leased
from remote.errors import BoardError, LinkLost, UsageError
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


def apply(board: Board, made: ClockPlan, ttl_s: float = 0.0, *, reboot: bool = False) -> Changes:
    """Applies a plan; it stays until `restore`, or until ``ttl_s`` have passed if that is not 0.

    With ``reboot`` the board may reboot where the power mode takes one; then the rest is left, as a reboot would lose
    it. Raises BoardError when the board cannot remember what it found.
    """
    mode = _set_mode(board, made.mode, ttl_s, reboot)
    waits = any(outcome.result == "needs-reboot" for outcome in mode)
    if waits and reboot:
        again = f"edgeperf apply {made.profile.name} --host {board.host.text}"
        note = f"edgeperf does not wait for the reboot, which ends what is set for one boot only; afterwards: {again}"
        return _changes(board, "apply", made.profile.name, _rows(mode, made.steps), (), (note,))
    rest = after_mode(board, made) if mode else made
    written = _write(board, rest.steps, ttl_s)
    kept = [Row(s.knob, s.was, s.value, "unchanged", s.why) for s in rest.kept]
    rows = (*_rows(mode, made.steps), *_rows(written, rest.steps), *kept)
    missing = tuple(outcome.knob for outcome in written if outcome.result == "absent")
    hint = ("the power mode takes a reboot: with --reboot the board does it",) if waits else ()
    return _changes(board, "apply", made.profile.name, rows, (*rest.absent, *missing), (*hint, *rest.notes))


def _set_mode(board: Board, steps: Sequence[Step], ttl_s: float, reboot: bool) -> tuple[Outcome, ...]:
    try:
        return _write(board, steps, ttl_s, reboot)
    except LinkLost:
        if not reboot:
            raise
        return tuple(Outcome(s.knob, s.was, None, "needs-reboot", "it does not answer: it is rebooting") for s in steps)


def _write(board: Board, steps: Sequence[Step], ttl_s: float, reboot: bool = False) -> tuple[Outcome, ...]:
    if not steps:
        return ()
    with _why_not_root(board):
        return board.transport.write(Apply(tuple(steps), owner(), ttl_s=ttl_s, reboot=reboot)).outcomes


@contextmanager
def _why_not_root(board: Board) -> Iterator[None]:
    """Adds to a BoardError why the connection has no root, where it has none: sudo has said so when it was made."""
    try:
        yield
    except BoardError as error:
        for note in board.transport.journal.notes:
            if note.startswith("not root: "):
                raise type(error)(f"{error.what} ({note})", error.hint) from error
        raise


def after_mode(board: Board, made: ClockPlan) -> ClockPlan:
    """Returns the rest of a plan, made anew from what a change of power mode has left."""
    found = board.transport.read(settings=True).settings or board.transport.found
    return plan(replace(made.profile, nvpmodel_mode=None), found, board.transport.facts.l4t)


@contextmanager
def held(board: Board, made: ClockPlan) -> Iterator[tuple[ClockPlan, tuple[Outcome, ...]]]:
    """Holds the settings of a plan for the length of a ``with``; yields the plan as it was carried out, and a row each.

    Raises as `remote.board.leased`.
    """
    with leased(board, made.mode or made.steps, owner()) as outcomes:
        if made.mode:
            made = after_mode(board, made)
            more = board.transport.write(Apply(made.steps, owner(), lease=True))  # the same lease, put back as one
            outcomes = (*outcomes, *more.outcomes)
        yield made, outcomes


def in_mode(board: Board, profile: Profile, mode: str) -> Profile:
    """Returns the profile with another power mode. Raises UsageError with those that the board has."""
    knob = board.transport.found.knobs.get("nvpmodel.mode")
    names = ", ".join(map(str, knob.choices)) if knob is not None else ""
    if knob is None or not names:
        raise UsageError(f"{board.host.text} has no power modes", "leave out --mode")
    if mode not in knob.choices:
        near = difflib.get_close_matches(mode.upper(), [str(name) for name in knob.choices], 1)
        guess = f"did you mean {near[0]}? " if near else ""
        raise UsageError(f"{board.host.text} has no power mode {mode!r}", f"{guess}it has {names}")
    if knob.error:
        raise BoardError(
            f"{board.host.text}: the power mode in force cannot be told ({knob.error}), so none is set",
            "see `edgeperf doctor`",
        )
    return replace(profile, nvpmodel_mode=mode)


def restore(board: Board, *, force: bool = False) -> Changes:
    """Puts back what was found before the first `apply`; leaves and names what someone else changed since."""
    with _why_not_root(board):
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
