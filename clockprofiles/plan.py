"""A profile and the state of a board in, ordered steps out; and what has drifted from a profile since."""

from __future__ import annotations

from dataclasses import dataclass

from clockprofiles.order import in_order
from clockprofiles.profile import Profile
from clockprofiles.targets import Asked, targets
from remote.types import Snapshot, Step, Value


@dataclass(frozen=True)
class ClockPlan:
    """What a profile means on one board.

    ``steps`` are the writes in their order, ``kept`` the knobs that already are as asked, ``absent`` those that the
    board lacks or that cannot have what is asked; ``notes`` say what differs from the letter of the profile.
    """

    profile: Profile
    steps: tuple[Step, ...]
    kept: tuple[Step, ...]
    absent: tuple[str, ...]
    notes: tuple[str, ...]
    asked: Asked

    @property
    def mode(self) -> tuple[Step, ...]:
        """The change of power mode, if there is one. It rewrites cores and limits: afterwards plan the rest anew."""
        return tuple(step for step in self.steps if step.knob == "nvpmodel.mode")


@dataclass(frozen=True)
class Drifted:
    """A knob that is not as asked. ``now`` is None when it is gone or cannot be read."""

    knob: str
    asked: Value
    now: Value | None


@dataclass(frozen=True)
class Drift:
    """The knobs that are not as asked; empty when all are."""

    rows: tuple[Drifted, ...]


def plan(profile: Profile, snapshot: Snapshot, l4t: str) -> ClockPlan:
    """Returns the steps that bring a board, found as ``snapshot`` under an L4T release, to a profile."""
    goal = targets(profile, snapshot)
    found = {name: knob.value for name, knob in snapshot.knobs.items()}
    all_steps = [Step(name, target.value, found[name], target.why) for name, target in goal.wanted.items()]
    # A power mode rewrites limits and cores: after a change of it nothing counts as already there.
    mode_changes = any(step.knob == "nvpmodel.mode" and step.value != step.was for step in all_steps)
    kept = [step for step in all_steps if step.value == step.was and (step.knob == "nvpmodel.mode" or not mode_changes)]
    return ClockPlan(
        profile=profile,
        steps=in_order([step for step in all_steps if step not in kept], found, l4t),
        kept=in_order(kept, found, l4t),
        absent=tuple(goal.absent),
        notes=tuple(goal.notes),
        asked=Asked(goal.asked.get("cpu"), goal.asked.get("gpu"), goal.asked.get("emc")),
    )


def drift(asked: Profile | ClockPlan, snapshot: Snapshot, l4t: str) -> Drift:
    """Returns what now differs from a profile, or from a plan as it was made."""
    made = plan(asked, snapshot, l4t) if isinstance(asked, Profile) else asked
    now = {name: knob.value for name, knob in snapshot.knobs.items()}
    steps = (*made.kept, *made.steps)
    return Drift(tuple(Drifted(s.knob, s.value, now.get(s.knob)) for s in steps if now.get(s.knob) != s.value))
