"""A disk that fills up at any save of the journal: nothing is changed that is not remembered, and all is put back."""

from __future__ import annotations

import errno
import os
from typing import cast

import pytest

from clockprofiles.plan import plan
from clockprofiles.profile import load
from remote import boards, bundle
from remote.channel import ChannelTransport
from remote.errors import BoardError
from remote.onboard.agent import Agent
from remote.onboard.clockd import Clockd
from remote.onboard.program import Program
from remote.onboard.system import System
from remote.sim.link import TwinLink
from remote.sim.machine import Machine
from remote.sim.system import TwinSystem
from remote.types import Apply, Snapshot, Step, Undo

MODE = Step("nvpmodel.mode", "MODE_20W_6CORE", None, "")
SAVES = 8
"""As many as the two writes below take: each saves before and after it, the mode on the disk and all in memory."""


class Filling(TwinSystem):
    """A board of root's with room for ``saves`` more."""

    def __init__(self, machine: Machine, saves: int) -> None:
        super().__init__(machine, "root")
        self.saves = saves

    def save(self, path: str, data: bytes) -> None:
        if self.saves <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.saves -= 1
        super().save(path, data)


class Rig:
    """A simulated Xavier NX with connections that can be lost."""

    def __init__(self) -> None:
        self.machine = Machine("xavier-nx", "r35.4", boards.load("xavier-nx").twin)
        self.programs: list[Program] = []

    def open(self, saves: int) -> ChannelTransport:
        links = []
        for kind, system in ((Agent, TwinSystem(self.machine)), (Clockd, Filling(self.machine, saves))):
            program = kind(cast(System, system), boards.table(), bundle.build_id())
            self.machine.attach(program, system)
            self.programs.append(program)
            program.start()
            links.append(TwinLink(program, system))
        return ChannelTransport(links[0], links[1], bundle.build_id())

    def kill(self) -> None:
        """Ends the programs without a word."""
        for program in self.programs:
            program.closed = True


def now(board: ChannelTransport) -> Snapshot:
    found = board.read(settings=True).settings
    assert found is not None
    return found


def change(board: ChannelTransport, *, lease: bool) -> bool:
    """Changes the mode and then the clocks as far as the board lets one. Says whether it let one to the end."""
    return write(board, (MODE,), lease) and write(
        board, plan(load("maxperf"), now(board), board.facts.l4t).steps, lease
    )


def write(board: ChannelTransport, steps: tuple[Step, ...], lease: bool) -> bool:
    """Says whether the board let one set anything; if not, nothing was changed."""
    before, why = now(board), ""
    try:
        board.write(Apply(steps, "me", lease=lease))
    except BoardError as error:
        why = error.what
    assert not why or now(board) == before
    assert not why or "nothing was changed" in why
    return not why


@pytest.mark.parametrize("lease", [False, True], ids=["apply", "lease"])
@pytest.mark.parametrize("saves", range(SAVES + 1))
def test_all_is_put_back_while_the_disk_is_full(saves: int, lease: bool) -> None:
    rig = Rig()
    board = rig.open(saves)
    before = board.found
    done = change(board, lease=lease)
    assert (now(board) == before) == (saves < 2)
    assert done == (saves >= 6)
    board.write(Undo(lease="lease" if lease else ""))
    assert now(board) == before


@pytest.mark.parametrize("saves", range(SAVES + 1))
def test_what_a_killed_holder_left_is_put_back_while_the_disk_is_full(saves: int) -> None:
    rig = Rig()
    board = rig.open(saves)
    before = board.found
    change(board, lease=True)
    rig.kill()
    after = rig.open(0)
    assert after.found == before
    assert after.journal.lease is None
