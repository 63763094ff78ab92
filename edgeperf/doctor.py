"""Examines a board and this installation: what is there, what is missing, and what to do about it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edgeperf.clocks import held_by
from edgeperf.power import choose_total
from edgeperf.units import show_bytes
from remote import boards
from remote.board import Board

PACKAGES = ("edgeperf", "clockprofiles", "engines", "remote")


@dataclass(frozen=True)
class Finding:
    """One thing looked at. ``mark`` is ``ok``, ``note`` or ``problem``."""

    subject: str
    mark: str
    found: str
    advice: str = ""


@dataclass(frozen=True)
class Examination:
    """All findings about one board."""

    schema: int
    kind: str
    simulated: bool
    host: str
    board: str
    l4t: str
    findings: tuple[Finding, ...]


def examine(board: Board) -> Examination:
    """Returns what was found. A board that could be examined at all is a success, whatever was found."""
    facts = board.transport.facts
    findings = (*_machine(board), *_knobs(board), *_power(board), _installation())
    return Examination(1, "doctor", facts.simulated, board.host.text, board.spec.name, facts.l4t, findings)


def _machine(board: Board) -> Iterator[Finding]:
    facts = board.transport.facts
    known = board.spec.name != "generic-linux"
    yield Finding("board", "ok" if known else "note", f"{board.spec.name}: {facts.model}")
    for doubt in boards.doubts(board.spec, facts.l4t):
        yield Finding("board", "note", doubt)
    yield Finding(
        "L4T", "ok" if facts.l4t else "note", facts.l4t or "none: not a Jetson, or /etc/nv_tegra_release is missing"
    )
    yield Finding("kernel", "ok", facts.kernel or "unknown")
    yield Finding("processor", "ok", f"{facts.cpus} cores {facts.cpu_model}".strip())
    yield Finding("memory", "ok", show_bytes(facts.memory_bytes) if facts.memory_bytes else "unknown")
    yield Finding("python", "ok", facts.python)
    if facts.root:
        yield Finding("root", "ok", "settings can be written")
    else:
        advice = "log in as root, or run edgeperf as root on this machine; without it clocks float"
        yield Finding("root", "problem", f"{facts.user} may not write settings", advice)


def _knobs(board: Board) -> Iterator[Finding]:
    found = board.transport.found
    unreadable = [knob for knob in found.knobs.values() if knob.error]
    yield Finding("settings", "ok" if found.knobs else "note", f"{len(found.knobs)} found, {len(found.absent)} absent")
    for knob in unreadable:
        yield Finding(knob.id, "problem", f"{knob.path}: {knob.error}", "is the programs' user allowed to read it?")
    journal = board.transport.journal
    if journal.apply is not None:
        undo = f"edgeperf restore --host {board.host.text}"
        count = len(journal.apply.knobs)
        yield Finding("applied", "note", f"{count} settings by {held_by(journal.apply)}", f"undo: {undo}")
    if journal.lease is not None:
        yield Finding("held", "note", f"by a measurement of {held_by(journal.lease)}")
    for note in journal.notes:
        yield Finding("journal", "note", note)


def _power(board: Board) -> Iterator[Finding]:
    rails = board.transport.rails
    total = choose_total(board.spec.totals, tuple(rails))
    if not rails:
        yield Finding(
            "rails",
            "note",
            "no power sensor was found",
            "watts need one: an INA3221 (iio, hwmon) or another hwmon power sensor",
        )
    else:
        yield Finding("rails", "ok", ", ".join(rails))
    if total is not None:
        yield Finding("watts", "ok", f"{' + '.join(total.rails)}, scope {total.scope}; leaves out {total.leaves_out}")
    elif rails:
        yield Finding("watts", "note", "which rails make up the whole is not known for this machine")
    readings = board.transport.readings
    clocks = [name for name in ("cpu.hz", "gpu.hz", "emc.hz") if name in readings]
    yield Finding(
        "clocks under load", "ok" if clocks else "note", ", ".join(clocks) or "no driver reports its current rate"
    )
    temperatures = [name.removeprefix("temp.") for name in readings if name.startswith("temp.")]
    yield Finding("temperatures", "ok" if temperatures else "note", ", ".join(temperatures) or "none")


def _installation() -> Finding:
    places = {name: _folder(name) for name in PACKAGES}
    if len(set(places.values())) == 1:
        return Finding("installation", "ok", "the four packages lie side by side")
    text = ", ".join(f"{name} in {place}" for name, place in places.items())
    return Finding(
        "installation",
        "problem",
        text,
        "another package has one of these names: install edgeperf in an environment of its own",
    )


def _folder(name: str) -> Path | None:
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).parent.parent if spec and spec.origin else None
