"""Days in the life of some boards: commands at random, most of them with faults, and what has to hold after each."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from remote import boards
from remote.sim.choice import table_for
from remote.sim.faults import FAULTS
from tests.matrix.rig import Done, Left, left_of, run_on
from tests.matrix.rows import ROWS

BOARDS = (
    *("tx1@r23.1", "tx1@r28.2", "tx1@r32.7", "nano", "tx2", "xavier-nx@r35.4", "agx-xavier@r32.7"),
    *("orin-nano", "orin-nx@r35.4", "orin-nx@r36.4", "agx-orin", "agx-thor"),
)
_FAST = ("xavier", "orin", "thor")
"""Boards of which a minute is as many batches as of others a quarter of an hour."""

_OLD = ("r23", "r24", "r28")
_WATTS = ("rail-", "sampler-", "tegrastats-", "undervoltage", "link-", "reboot", "clock-step")
"""What the faults begin with that may change samples, or how many there are."""

_KEEPS = ("write-", "nvpmodel-")
"""What the faults begin with that keep settings from being put back."""

_CODES: dict[tuple[str, str], set[int]] = {}
for _row in ROWS:
    for _command in ("maxperf", "bench", "rails", "exec"):
        _CODES.setdefault((_row.name, _command), {0}).update(_row.also, (cell.code for cell in _row.cells(_command)))

_MOST_OFF = 0.25
"""By which share joules without an interval may differ from the true ones: at rest much is the offset of sensors."""

_CERTAIN = 2.0
"""Of intervals at 95 % in many commands some do not hold the true value; one of twice the width always does."""


@dataclass(frozen=True)
class Asked:
    """A command line, the faults that befall it, and how long it is to measure."""

    board: str
    words: tuple[str, ...]
    faults: tuple[str, ...]
    measures_s: float

    @property
    def command(self) -> str:
        """Returns the command's name."""
        return self.words[0]

    @property
    def sound(self) -> bool:
        """Says whether nothing befalls what is sampled."""
        return not any(fault.startswith(_WATTS) for fault in self.faults)

    def codes(self) -> set[int]:
        """Returns the exit codes that it may end with: those of each fault, whenever that begins."""
        return {0}.union(*(_CODES[fault.partition("@")[0], self.command] for fault in self.faults))


@dataclass
class Days:
    """Boards in ``folder``, which have lived for ``simulated_s`` together. The same seed gives the same life.

    A command measures for ``longest_s`` at most, and is befallen by one of ``how_many`` faults.
    """

    folder: Path
    seed: int
    longest_s: float
    how_many: Sequence[int] = (0, 1, 1, 2)
    simulated_s: float = 0.0
    commands: int = 0
    ended: dict[int, int] = field(default_factory=dict)
    _left: dict[str, Left] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def ask(self) -> Asked:
        """Returns what is done next."""
        choose = self._random.choice
        board = choose(BOARDS)
        fast = any(name in board for name in _FAST)
        span_s = min(self.longest_s, choose((2.0, 5.0, 20.0, 60.0) if fast else (20.0, 60.0, 300.0, 900.0)))
        span = ("--duration", f"{span_s:g}s")
        old = any(release in board for release in _OLD)
        commands: Sequence[tuple[str, ...]] = (
            *[self._bench(old, span)] * 4,
            ("rails", *span, "--jsonl"),
            ("exec", "--json", "--quiet", "--", "sleep", f"{span_s:g}"),
            ("maxperf", "--json", *self._mode(board)),
        )
        words = choose(commands)
        names = self._random.sample(sorted(FAULTS), choose(self.how_many))
        latest_s = span_s + (30.0 if words[0] == "bench" else 4.0)
        faults = [f"{name}@{self._random.uniform(0, latest_s):.2f}" for name in names]
        spans = [choose(("", "", f":{self._random.uniform(0.5, 20.0):.2f}")) for _ in names]
        return Asked(board, words, tuple(map("".join, zip(faults, spans, strict=True))), span_s)

    def _bench(self, old: bool, span: Sequence[str]) -> tuple[str, ...]:
        choose = self._random.choice
        chain = choose(("caffe",) if old else ("tensorrt", "tensorrt", "trtexec"))
        more = (choose(("--fp16", "--fp32")), "--batch", choose(("1", "2", "8")), "--toolchain", chain)
        return "bench", choose(("alexnet", "googlenet")), *span, *more, "--json", "--quiet"

    def _mode(self, board: str) -> tuple[str, ...]:
        """Returns no power mode, or one; where it takes a reboot it is left alone."""
        name, _, release = board.partition("@")
        spec = boards.load(name)
        modes = table_for(spec.twin, spec.release(release)).get("nvpmodel", {}).get("modes", ())
        chosen = self._random.choice(["", *(mode["name"] for mode in modes)])
        return ("--mode", chosen) if chosen else ()

    def live(self, asked: Asked) -> Done:
        """Runs a command, and sees that the board is as it was; raises AssertionError where it is not."""
        path = self.folder / f"{asked.board}.json"
        host = f"sim:{asked.board},state={path}"
        if asked.board not in self._left:
            assert run_on(host, ["status"]).ran.code == 0
            self._left[asked.board] = left_of(asked.board, path)
        before = self._left[asked.board]
        done = run_on(host, asked.words, asked.faults)
        self.commands += 1
        self.ended[done.ran.code] = self.ended.get(done.ran.code, 0) + 1
        self.simulated_s += done.left.now_s - before.now_s
        assert done.ran.code in asked.codes(), (done.ran.code, done.remarks, done.ran.err)
        assert "Traceback" not in done.ran.out + done.ran.err
        assert done.left.running == ()
        left = done.left
        # Whose line is lost cannot be told what the board could not put back by itself either.
        untold = done.ran.code == 3 and any(fault.startswith(_KEEPS) for fault in asked.faults)
        if asked.command == "maxperf" or "not put back" in done.ran.err or untold:
            again = run_on(host, ["restore"])
            assert again.ran.code == 0, again.ran.err
            left = again.left
        if any(fault.startswith("no-fp16") for fault in asked.faults):  # the engine stays as TensorRT made it
            left = run_on(host, ["engines", "prune", "--all"]).left
        assert left.settings == before.settings
        self._left[asked.board] = left
        if done.ran.code == 0 and asked.sound:
            _lost_nothing(asked, done, before)
        return done


def _lost_nothing(asked: Asked, done: Done, before: Left) -> None:
    """Every sample is there, in order, and what they add up to is what the board took."""
    if asked.command == "rails":
        rows = [json.loads(line) for line in done.ran.out.splitlines()]
        _whole([row["t_s"] for row in rows], 1.0, asked.measures_s)
        if rows[-1]["energy_j"] is not None:
            _true(rows[-1]["energy_j"], _MOST_OFF, rows[-1]["rails_w"], asked, done, before)
    if done.saved is None:
        return
    for row in done.saved["rail_samples_w"].values():
        _whole(row["t_s"], done.saved["sampling"]["asked_hz"], _window_s(asked.command, done.saved))
    if asked.command == "exec" and done.saved["energy_j"]:
        joules, power = done.saved["energy_j"], done.saved["power_w"]
        low_j, high_j = joules["absolute95"]
        found_j = joules["value"] + 3.0 * power["idle_total"]
        _true(found_j, _CERTAIN * (high_j - low_j) / joules["value"], power["rails"], asked, done, before)


def _true(found_j: float, most_off: float, rails: Mapping[str, Any], asked: Asked, done: Done, before: Left) -> None:
    """What was measured of a whole command is what went through the rails of the total, but for a share."""
    totals = boards.load(asked.board.partition("@")[0]).totals
    total = next(total for total in totals if set(total.rails) <= set(rails))
    true_j = sum(done.left.energy_j[rail] - before.energy_j.get(rail, 0.0) for rail in total.rails)
    assert abs(found_j - true_j) <= most_off * true_j, (found_j, true_j)


def _window_s(command: str, record: Mapping[str, Any]) -> float:
    measured = record["raw"]["measured"]
    run = measured["done"] if command == "exec" else measured["runs"][0]["run"]
    return float(run["ended_s"] - run["started_s"] if command == "exec" else run["stop_s"] - run["start_s"])


def _whole(times_s: Sequence[float], rate_hz: float, window_s: float) -> None:
    assert all(a < b for a, b in pairwise(times_s))
    assert len(times_s) >= 0.97 * rate_hz * window_s - 2
