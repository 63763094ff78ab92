"""Simulated boards for tests of your own, as a pytest fixture: ``pytest_plugins = ["edgeperf.testing"]``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from remote.board import Board


class JetsonBoard(Protocol):
    """Opens simulated boards: the type of the fixture."""

    def __call__(self, board: str, *, faults: Sequence[str] = ()) -> Board:
        """Returns ``BOARD[@RELEASE][,KEY=VALUE...]``, open until the test ends; it can also build and run engines.

        ``faults`` are as ``NAME@START[:FOR[:ARGUMENT]]``. Raises UsageError for what there is not.
        """


@pytest.fixture
def jetson_board(tmp_path: Path) -> Iterator[JetsonBoard]:
    """Gives simulated boards in this process, as many as wanted: ``jetson_board("orin-nx@r36.4", faults=[...])``."""
    from edgeperf.faults import broken
    from engines.simulated.programs import programs
    from remote.board import open_board
    from remote.hosts import parse

    with ExitStack() as boards:

        def opened(board: str, *, faults: Sequence[str] = ()) -> Board:
            host = broken(parse(f"sim:{board.removeprefix('sim:')}"), faults)
            return boards.enter_context(open_board(host, programs(), tmp_path))

        yield opened
