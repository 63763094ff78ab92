"""A day in the life of some boards: after each command all is as it was, and nothing grows; whole in `make soak`."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields
from math import inf
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import SOAK
from tests.matrix.day import Days

DAY_S = 24 * 3600.0
_BOUND_S = 600.0
_LOOKS = 30
_MOST_GROWTH_BYTES = 24 << 20
_MOST_OBJECTS = 1.02


def live(days: Days, until_s: float, commands: float = inf) -> None:
    while days.simulated_s < until_s and days.commands < commands:
        asked = days.ask()
        try:
            days.live(asked)
        except AssertionError as error:
            told = f"seed {days.seed}, command {days.commands}: {asked}"
            raise AssertionError(f"{told}\n{error}") from error


@dataclass(frozen=True)
class Held:
    """What this process holds: memory and objects, open files, threads; 0 for what is not told here."""

    memory_bytes: int
    objects: int
    files: int
    threads: int


def held() -> Held:
    gc.collect()
    objects, threads = len(gc.get_objects()), threading.active_count()
    if not sys.platform.startswith("linux"):
        return Held(0, objects, 0, threads)
    with suppress(AttributeError):  # glibc keeps what the lists of a long run took, up to some 30 MB
        ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Held(pages * os.sysconf("SC_PAGE_SIZE"), objects, len(os.listdir("/proc/self/fd")), threads)


def least(days: Days, until_s: float) -> Held:
    """Returns the least that is held after some of the commands from now on: the most is up to the latest result."""
    found = []
    for _ in range(_LOOKS):
        live(days, until_s, days.commands + 1)
        found.append(held())
    return Held(*(min(getattr(one, field.name) for one in found) for field in fields(Held)))


def test_some_minutes_leave_every_board_as_it_was(tmp_path: Path) -> None:
    days = Days(tmp_path, seed=6, longest_s=20.0)
    live(days, inf, commands=20)
    assert days.simulated_s > 200.0


@settings(max_examples=300 if SOAK else 8)
@given(seed=st.integers(0, 2**32))
def test_two_faults_at_once_leave_a_board_as_it_was(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    live(Days(tmp_path_factory.mktemp("pair"), seed, longest_s=10.0, how_many=(2,)), inf, commands=1)


@pytest.mark.soak
def test_a_day_leaves_every_board_as_it_was_and_nothing_grows(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    began_s = time.monotonic()
    days = Days(tmp_path, seed=2026, longest_s=900.0)
    live(days, DAY_S / 4)  # by then every board has its engines, and everything is loaded
    first = least(days, DAY_S)
    live(days, DAY_S)
    last = least(days, inf)
    assert last.memory_bytes - first.memory_bytes < _MOST_GROWTH_BYTES
    assert last.objects < _MOST_OBJECTS * first.objects
    assert (last.files, last.threads) == (first.files, first.threads)
    assert time.monotonic() - began_s < _BOUND_S
    record_property("trials", days.commands)
    print(f"{days.commands} commands in {days.simulated_s / 3600:.1f} h ended with {days.ended}")
