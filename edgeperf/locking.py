"""Holding a board's clocks for a measurement: by a profile, or floating with the reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

from clockprofiles.plan import ClockPlan
from clockprofiles.profile import load as load_profile
from clockprofiles.profile import override
from edgeperf import figures
from edgeperf.clocks import held, plan_for
from edgeperf.left import Locked
from remote.board import Board
from remote.errors import BoardError

UNSET = ("refused", "needs-reboot")


class Wish(Protocol):
    """What a measurement asks of the clocks. ``profile`` None: maxperf where clocks can be locked, else as found."""

    @property
    def profile(self) -> str | None:
        """The clock profile."""

    @property
    def clocks(self) -> Mapping[str, str]:
        """Other rates, by cpu, gpu and emc."""

    @property
    def require_lock(self) -> bool:
        """Whether floating clocks are an error."""


def choose_clocks(wish: Wish, board: Board) -> ClockPlan | Locked:
    """Returns the plan by which the clocks are held, or why they float. Raises BoardError for a lock not to be had."""
    facts = board.transport.facts
    name = wish.profile
    why = ""
    if name is None and board.spec.name == "generic-linux" and not wish.clocks:
        why = "they are left as found on this kind of machine; --profile maxperf locks them"
    elif name is None and not facts.root:
        why = f"{facts.user} may not set them on this board"
    if why and wish.require_lock:
        raise BoardError(f"the clocks cannot be locked: {why}", "leave out --require-lock, or name a --profile")
    if why:
        return Locked(floating=why)
    return plan_for(board, override(load_profile(name or "maxperf"), wish.clocks))


@contextmanager
def locked_for(wish: Wish, board: Board) -> Iterator[Locked]:
    """Holds the clocks for the length of a ``with``, as far as they can be; yields how."""
    chosen = choose_clocks(wish, board)
    if isinstance(chosen, Locked):
        yield chosen
        return
    with held(board, chosen) as (made, outcomes):
        planned = (*(row.knob for row in outcomes), *(step.knob for step in made.kept))
        yield _check_lock(wish, board, Locked(made.profile.name, made.asked, planned, made.notes, outcomes))


def _check_lock(wish: Wish, board: Board, locked: Locked) -> Locked:
    refused = {row.knob: f"{row.knob}: {row.why}" for row in locked.outcomes if row.result in UNSET}
    if refused and wish.require_lock:
        raise BoardError(f"the clocks cannot be locked: {'; '.join(refused.values())}", "see `edgeperf doctor`")
    refused.pop("nvpmodel.mode", None)  # clocks can be locked in any mode
    if refused:
        return replace(locked, floating=f"the board refused {'; '.join(refused.values())}")
    free = _free(locked, board) if locked.profile else []
    if free and wish.require_lock:
        raise BoardError(f"the clocks cannot be locked: {', '.join(free)}", "see `edgeperf doctor`")
    if free:
        return replace(locked, floating=f"profile and machine leave {', '.join(free)} free")
    return locked


def mode_missing(locked: Locked) -> str:
    """Returns why the power mode is not the one asked for, "" where it is."""
    return "".join(row.why for row in locked.outcomes if row.knob == "nvpmodel.mode" and row.result in UNSET)


def _free(locked: Locked, board: Board) -> list[str]:
    """Returns the clocks that nothing holds; those of a GPU or a memory only where they can be set at all."""
    settable = {"cpu", *(knob.partition(".")[0] for knob in board.transport.found.knobs)}
    return [name for name in figures.CLOCKS if name in settable and getattr(locked.asked, f"{name}_hz") is None]
