"""Examines a board and this installation: what is there, what is missing, and what to do about it."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edgeperf import doctor_texts
from edgeperf.clocks import held_by
from edgeperf.doctor_texts import Finding, Texts
from edgeperf.power import choose_total
from edgeperf.units import show_bytes
from remote import boards
from remote.board import Board
from remote.hosts import Replay, Ssh
from remote.types import Knob

PACKAGES = ("edgeperf", "clockprofiles", "engines", "remote")
_LITTLE_BYTES = 2 * 10**9  # an engine with its model takes several hundred MB


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
    here_s = time.time()
    texts = board.transport.read(doctor_texts.PATHS).texts
    findings = (
        *_reached(board, here_s),
        *_machine(board, texts),
        *doctor_texts.software(texts, facts.simulated),
        *_knobs(board),
        *_holders(board),
        *doctor_texts.others(texts),
        *doctor_texts.throttling(texts),
        *_power(board),
        *doctor_texts.voltage(texts),
        _installation(),
    )
    return Examination(1, "doctor", facts.simulated, board.host.text, board.spec.name, facts.l4t, findings)


def _reached(board: Board, here_s: float) -> Iterator[Finding]:
    facts = board.transport.facts
    if isinstance(board.host, Ssh):
        yield Finding("reached", "ok", f"over SSH as {facts.user}; its host key is known")
    # A twin's calendar is as invented as its board, and that of a recording stands still.
    if not (facts.simulated or isinstance(board.host, Replay)):
        yield doctor_texts.clock(facts.wall_s, here_s)


def _machine(board: Board, texts: Texts) -> Iterator[Finding]:
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
    yield doctor_texts.memory(texts, facts.memory_bytes)
    yield _disk(facts.cache, facts.cache_free_bytes)
    yield Finding("python", "ok", facts.python)
    if facts.root:
        yield Finding("root", "ok", "settings can be written")
    else:
        advice = "log in as root, or run edgeperf as root on this machine; without it clocks float"
        if isinstance(board.host, Ssh):
            advice = f"edgeperf hosts setup {board.host.text}; without it clocks float"
        yield Finding("root", "problem", f"{facts.user} may not write settings", advice)


def _disk(folder: str, free_bytes: int) -> Finding:
    found = f"{show_bytes(free_bytes)} free for {folder}"
    if free_bytes >= _LITTLE_BYTES:
        return Finding("disk", "ok", found)
    return Finding("disk", "note", found, "models and engines are kept there, several hundred MB each: free some space")


def _knobs(board: Board) -> Iterator[Finding]:
    found = board.transport.found
    wrong = [knob for knob in found.knobs.values() if knob.error]
    asleep = [knob.id for knob in wrong if knob.error == "EBUSY"]
    yield Finding("settings", "ok" if found.knobs else "note", f"{len(found.knobs)} found")
    if found.absent:
        yield Finding("settings absent", "ok", ", ".join(found.absent))
    if asleep:
        yield Finding("settings asleep", "ok", f"{', '.join(asleep)}: their cores are off")
    for knob in wrong:
        if knob.error != "EBUSY":
            advice = "is the programs' user allowed to read it?"
            yield Finding(knob.id, "problem", f"unreadable: {knob.error} at {knob.path}", advice)
    if "nvpmodel.mode" in found.knobs:
        yield _mode(found.knobs["nvpmodel.mode"])


def _mode(knob: Knob) -> Finding:
    if knob.value is None:
        return Finding("power mode", "note", "it cannot be told", "telling it takes root on some releases")
    others = [str(name) for name in knob.choices if name != knob.value]
    return Finding("power mode", "ok", f"{knob.value}; others: {', '.join(others)}" if others else str(knob.value))


def _holders(board: Board) -> Iterator[Finding]:
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
