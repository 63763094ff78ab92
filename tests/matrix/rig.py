"""Runs one command on a board that something befalls, and looks at what is left of the board afterwards."""

from __future__ import annotations

import gc
import json
import re
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

from remote import boards, hosts
from remote.hosts import Twin
from remote.sim import state
from remote.sim.faults import FAULTS
from remote.sim.machine import Machine
from remote.sim.system import TwinSystem
from tests.cli.command import Ran, edgeperf

BOARD, MODE = "orin-nx", "25W"
"""The board of the matrix, and a power mode that it is not in."""

COMMANDS = ("maxperf", "bench", "rails", "exec")
SLACK_S = 90.0
"""How much longer than without a fault a command may take on the board: the grace of a lost line and what follows."""

_GOVERNOR = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
_QUIET_S = 30.0
_EARLY_S = 0.5
_HANGS_S = 120
_PLAIN = ("applied", "unchanged", "absent")


@dataclass(frozen=True)
class Left:
    """What a command left of a board: the settings, its clock, the names of programs that still run.

    ``energy_j`` is what truly went through each rail since the board was made, ``files`` how many ordinary ones there
    are.
    """

    settings: Mapping[str, str]
    now_s: float
    running: tuple[str, ...]
    energy_j: Mapping[str, float]
    files: int


@dataclass(frozen=True)
class Said:
    """What a command on a board with faults said, and the result that it kept, if any."""

    command: str
    ran: Ran
    saved: Mapping[str, Any] | None

    @cached_property
    def verdict(self) -> str:
        """Returns the state of the verdict, "" where there is none."""
        return str(self.saved["verdict"]["state"]) if self.saved else ""

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        """Returns the reasons of the verdict; of maxperf the results that are not plain, of rails what it warns of."""
        if self.saved:
            return tuple(dict.fromkeys(reason["code"] for reason in self.saved["verdict"]["reasons"]))
        if self.command == "maxperf" and self.ran.out:
            return tuple(dict.fromkeys(row["result"] for row in self.ran.data()["rows"] if row["result"] not in _PLAIN))
        if self.command == "rails":
            return tuple(word for word, shape in _OF_RAILS.items() if re.search(shape, self.ran.err))
        return ()


@dataclass(frozen=True)
class Done(Said):
    """A command with what it left of the board."""

    left: Left


_OF_RAILS = {"no-total": "no total", "unread": "rows? had no total|without a total", "below-zero": "below zero"}


@dataclass(frozen=True, eq=False)
class Kind:
    """A kind of board in the state in which commands find it: networks built, and settings that are nobody's default.

    ``name`` is what follows ``sim:``, ``mode`` a power mode that it is not in. ``found`` are the settings,
    ``after_reboot`` those that a restart leaves.
    """

    name: str
    mode: str
    folder: Path
    found: dict[str, str]
    after_reboot: dict[str, str]
    _known: dict[tuple[tuple[str, ...], bool], Usual] = field(default_factory=dict)

    @classmethod
    def made(cls, name: str, mode: str, folder: Path) -> Kind:
        """Returns such a board; its files are in ``folder``."""
        (folder / "mode.toml").write_text(_PROFILE.format(mode=mode), "utf-8")
        cold, warm = folder / "cold.json", folder / "warm.json"
        for path in (cold, warm):
            with _machine(name, path) as machine:
                machine.write(_GOVERNOR, "conservative", "root")
        for words in ([], ["--fp16"]):
            assert edgeperf("bench", "alexnet", "--host", f"sim:{name},state={warm}", *words).code == 0
        with _machine(name, warm) as machine:
            found = machine.kernel.tree.settable()
        made = cls(name, mode, folder, found, {})
        made.fresh()
        after = made.run(["status"], ["reboot@0"]).left.settings
        return replace(made, after_reboot=dict(after))

    def fresh(self, *, cold: bool = False) -> None:
        """Puts the board back to how commands find it; a ``cold`` one has no engine yet."""
        shutil.copy(self.folder / ("cold.json" if cold else "warm.json"), self.folder / "cell.json")

    def run(self, words: Sequence[str], faults: Sequence[str] = ()) -> Done:
        """Runs a command line on the board as it is now.

        ``{named}`` in it is a power mode, ``{mode}`` a profile with that one.
        """
        given = [word.format(named=self.mode, mode=self.folder / "mode.toml") for word in words]
        return run_on(f"sim:{self.name},state={self.folder / 'cell.json'}", given, faults)

    def usual(self, words: Sequence[str], cold: bool = False) -> Usual:
        """Returns how a command line goes without faults."""
        return self._usual(tuple(words), cold)

    def _usual(self, words: tuple[str, ...], cold: bool) -> Usual:
        if (words, cold) in self._known:
            return self._known[words, cold]
        self.fresh(cold=cold)
        opened_s = self.run(["status"]).left.now_s
        done = self.run(words)
        assert done.ran.code == 0, done.ran.err
        assert set(done.remarks) <= {"stale-samples"}
        self._known[words, cold] = Usual(_middle_s(done, opened_s), done.left.now_s)
        return self._known[words, cold]


@dataclass(frozen=True)
class Usual:
    """A command without faults: a moment early in what it measures, since the board was opened.

    ``ended_s`` is the board's clock at its end.
    """

    middle_s: float
    ended_s: float


def _middle_s(done: Done, opened_s: float) -> float:
    if done.saved is None:
        return (done.left.now_s - opened_s) / 2
    measured = done.saved["raw"]["measured"]
    if done.command == "exec":
        return float(measured["done"]["started_s"]) - opened_s + _EARLY_S
    return float(measured["runs"][0]["run"]["start_s"]) - opened_s + _EARLY_S


def words_of(command: str, more: Sequence[str] = ()) -> list[str]:
    """Returns the command line of one of `COMMANDS`, with ``more`` words."""
    words, rest = _WORDS[command]
    return [command, *words, *more, *rest]


_WORDS = {
    "maxperf": (["--json"], []),
    "bench": (["alexnet", "--duration", "6s", "--json", "--quiet"], []),
    "rails": (["--duration", "4s", "--jsonl"], []),
    "exec": (["--json", "--quiet"], ["--", "sleep", "6"]),
}

_PROFILE = """summary = "maxperf in another power mode"
inherits = "maxperf"
[nvpmodel]
mode = "{mode}"
"""


def run_on(host: str, words: Sequence[str], faults: Sequence[str] = ()) -> Done:
    """Runs a command line on a host string with ``state=``; ``--`` and what follows it stay last."""
    command = words[0]
    cut = words.index("--") if "--" in words else len(words)
    given = [word for fault in faults for word in ("--fault", fault)]
    path = Path(host.partition("state=")[2].partition(",")[0])
    out = path.with_name("result.json")
    out.unlink(missing_ok=True)
    keep = ["--out", str(out)] if command in ("bench", "exec") else []
    with _watched() as running, _no_hang():
        ran = edgeperf(*words[:cut], "--host", host, *keep, *given, *words[cut:])
    saved = json.loads(out.read_text()) if out.exists() else None
    return Done(command, ran, saved, left_of(host.removeprefix("sim:").partition(",")[0], path, running))


def left_of(name: str, path: Path, running: Sequence[str] = ()) -> Left:
    """Returns what there is of the board of a state file."""
    kept = json.loads(path.read_text("utf-8"))["machine"]
    now_s, energy_j, files = kept["now_s"], kept["silicon"]["energy_j"], kept["files"]["files"]
    with _machine(name, path, keep=False) as machine:
        if machine.kernel.quiet is not None:  # which parks idle cores and wakes them as time passes
            machine.wait(TwinSystem(machine, "root"), [], now_s + _QUIET_S)
        return Left(machine.kernel.tree.settable(), now_s, tuple(running), energy_j, len(files))


@contextmanager
def _machine(name: str, path: Path, *, keep: bool = True) -> Iterator[Machine]:
    """Opens the board of a state file without its faults, and keeps it as it then is."""
    with TemporaryDirectory() as folder:
        if not keep:
            path = Path(shutil.copy(path, folder))
        host = hosts.parse(f"sim:{name},state={path}")
        assert isinstance(host, Twin)
        kept = state.open_machine(host, boards.load(host.board).twin, {})
        yield kept.machine
        kept.close()


@contextmanager
def _no_hang() -> Iterator[None]:
    """Ends what takes longer in real time than any command may, where there are alarms."""

    def give_up(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"it hangs: nothing for {_HANGS_S} s")

    if sys.platform == "win32":
        yield
        return
    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(_HANGS_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _watched() -> Iterator[list[str]]:
    """Gives, at its end, the names of the programs that run on machines made meanwhile, those of faults left out.

    Nobody but the command has such a machine; it is found among the objects that the collector has not looked at.
    """
    gc.collect()
    gc.disable()
    names: list[str] = []
    try:
        yield names
        made = [thing for thing in gc.get_objects(generation=0) if type(thing) is Machine]
        running = [process for machine in made for process in machine._processes if process.due_s is not None]
        names += [process.name for process in running if process.name not in _FAULTS_OWN]
    finally:
        gc.enable()


_FAULTS_OWN = {name for kind in FAULTS.values() for name in getattr(kind, "names", ())}
