"""Every fault on every command: what the command says, what it keeps, and the board as it was found."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pytest

from remote.sim.faults import FAULTS
from tests.matrix.expected import FOLLOWING, INCIDENTAL, Cell, Row
from tests.matrix.kinds import BOARDS, Board
from tests.matrix.rig import COMMANDS, SLACK_S, Done, Kind, Said, words_of
from tests.matrix.rows import ROWS

_HOLDS = ("VALID", "DEGRADED")


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Board], Kind]]:
    """Makes a kind of board when it is first asked for."""
    made: dict[str, Kind] = {}

    def of(board: Board) -> Kind:
        if board.name not in made:
            made[board.name] = Kind.made(board.name, board.mode, tmp_path_factory.mktemp(board.name))
        return made[board.name]

    gc.freeze()  # what is there already need not be looked through after each command
    yield of
    gc.unfreeze()


@dataclass(frozen=True)
class Try:
    """One fault with one command on one board; ``moment`` is 0 from the start, 1 in the middle."""

    board: Board
    row: Row
    command: str
    moment: int

    def __str__(self) -> str:
        return f"{self.board.name}-{self.row.fault}-{self.command}-{('start', 'middle')[self.moment]}"


def tries() -> Iterator[Try]:
    for board in BOARDS:
        for row in board.rows:
            for command in COMMANDS:
                for moment in range(len(row.cells(command))):
                    yield Try(board, row, command, moment)


def test_every_fault_that_there_is_has_a_row() -> None:
    assert {row.name for row in ROWS} == set(FAULTS)


@pytest.mark.parametrize("one", list(tries()), ids=str)
def test_each_command_does_what_is_right_about_each_fault(kinds: Callable[[Board], Kind], one: Try) -> None:
    kind, row, command, moment = kinds(one.board), one.row, one.command, one.moment
    words = words_of(command, row.words.get(command, ()))
    usual = kind.usual(words, row.cold)
    kind.fresh(cold=row.cold)
    done = kind.run(words, [row.at(usual.middle_s if moment else 0.0)])
    check(done, row.cells(command)[moment])
    keeps_what_it_had(done, moment)
    assert done.left.now_s <= usual.ended_s + max(SLACK_S, row.slack_s)
    assert done.left.running == ()
    if command == "maxperf" or done.ran.code == 4:
        done = kind.run(["restore"])
        assert done.ran.code == 0, done.ran.err
    assert changed(kind.found, done.left.settings) == {} or rebooted(kind, row, done)


def check(done: Said, cell: Cell) -> None:
    """The exit code, the verdict with its reasons, and what is said."""
    ran = done.ran
    assert ran.code == cell.code, ran.err
    assert done.verdict == cell.verdict
    missing, more = set(cell.remarks) - set(done.remarks), set(done.remarks) - set(cell.remarks)
    assert not missing, done.remarks
    assert more <= set(FOLLOWING if cell.verdict == "INVALID" else INCIDENTAL), done.remarks
    assert "Traceback" not in ran.out + ran.err
    if cell.code in (3, 4, 5) and not (cell.code == 4 and ran.out):
        *_, what, hint = ran.err.splitlines()
        assert what.startswith("error: ")
        assert hint.startswith("  ")
        assert cell.said in what


def keeps_what_it_had(done: Done, moment: int) -> None:
    """Samples of before a fault are in the file, the rows of before it were printed, and figures are not made up."""
    if done.command == "rails" and moment == 1:
        assert done.ran.out.splitlines()
    if done.command in ("bench", "exec") and moment == 1:
        assert done.saved is not None
        measured = done.saved["raw"]["measured"]
        idle = (measured["runs"][0] if done.command == "bench" else measured)["idle"]
        assert all(len(row["values"]) > 1 for row in idle)
        if done.verdict in _HOLDS or done.ran.code == 8:
            assert done.saved["rail_samples_w"]
    if done.command == "bench" and done.verdict in _HOLDS:
        assert done.saved is not None
        assert done.saved["samples_s"]
        assert done.saved["throughput_per_s"]["value"] > 0


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, tuple[str | None, str | None]]:
    """Returns the settings that differ, with what they were and are."""
    names = {**before, **after}
    return {path: (before.get(path), after.get(path)) for path in names if before.get(path) != after.get(path)}


def rebooted(kind: Kind, row: Row, done: Done) -> bool:
    """Says whether a board has the settings that a restart leaves, after a fault that restarts it."""
    return row.name == "reboot" and changed(kind.after_reboot, done.left.settings) == {}
