"""Damaged lines: none of them crashes the parser, none makes it see a rail that is not there."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from itertools import pairwise

from edgeperf.tegrastats import parse
from remote.errors import BoardError
from tests.conftest import SOAK
from tests.edgeperf.test_tegrastats_layouts import LAYOUTS

TRIALS = 1_000_000 if SOAK else 10_000
LINES = [layout.line for layout in LAYOUTS.values()]
JUNK = "RAM/@%[](),. 0123456789mWMBkCoffCPUGPUVDD_IN-\t\x00\u00e9"
POWER = re.compile(r"-?\d+/-?\d+|-?\d+mW/-?\d+mW(?:/-?\d+mW)?", re.ASCII)


def _characters(line: str, draw: random.Random) -> str:
    """Deletes, inserts and replaces a few characters."""
    for _ in range(draw.randint(1, 6)):
        at = draw.randrange(len(line) + 1)
        line = line[:at] + draw.choice(("", draw.choice(JUNK))) + line[at + draw.randint(0, 1) :]
    return line


def _words(line: str, draw: random.Random) -> str:
    """Drops, doubles and swaps a few words."""
    words = line.split(" ")
    for _ in range(draw.randint(1, 4)):
        one, other = draw.randrange(len(words)), draw.randrange(len(words))
        words[one], words[other] = draw.choice(((words[other], words[one]), ("", words[other]), (words[other],) * 2))
    return " ".join(words)


def _cut(line: str, draw: random.Random) -> str:
    """Goes over into another line in the middle, as a log does that two programs write."""
    other = draw.choice(LINES)
    return line[: draw.randrange(len(line) + 1)] + other[draw.randrange(len(other) + 1) :]


DAMAGES: tuple[Callable[[str, random.Random], str], ...] = (_characters, _words, _cut)


def test_no_damaged_line_crashes_or_has_a_rail_invented(record_property: Callable[[str, object], None]) -> None:
    draw = random.Random(21)
    for _ in range(TRIALS):
        line = draw.choice(DAMAGES)(draw.choice(LINES), draw)
        try:
            read = parse(line)
        except BoardError:
            continue
        words = line.split()
        there = [name for name, value in pairwise(words) if POWER.fullmatch(value)]
        for rail in read.rails:  # a name and its power stand side by side, as whole words, and in this order
            assert rail.name in there, line
            there = there[there.index(rail.name) + 1 :]
    record_property("trials", TRIALS)


def test_whole_words_in_another_order_give_no_rail_with_a_name_of_another_token() -> None:
    draw = random.Random(39)
    for _ in range(TRIALS // 10):
        layout = draw.choice(list(LAYOUTS.values()))
        words = layout.line.split()
        draw.shuffle(words)
        try:
            read = parse(" ".join(words))
        except BoardError:
            continue
        strange = {"RAM", "SWAP", "IRAM", "EMC_FREQ", "EMC", "GR3D", "GR3D_FREQ", "APE", "MTS", "EDP", "off", "limit"}
        assert not strange & {rail.name for rail in read.rails}, words
