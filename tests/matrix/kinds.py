"""The boards of the matrix: that of `tests.matrix.rows`, and one of another generation with what differs there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.matrix.expected import Row
from tests.matrix.rig import BOARD, MODE
from tests.matrix.rows import ROWS


@dataclass(frozen=True)
class Board:
    """A board by what follows ``sim:``, a power mode that it is not in, and what is expected of it."""

    name: str
    mode: str
    rows: Sequence[Row]


_ON_NANO: Mapping[str, Row] = {
    row.fault: row
    for row in (
        # It counts no events and has no alarm: only the clocks tell.
        Row(
            "over-current@",
            "0",
            ("8 INVALID throttled, clocks-not-as-asked",),
            ("0",),
            ("8 INVALID throttled, clocks-not-as-asked",),
        ),
        # The lock of its memory reads back what was set; the rate that it runs at is another file.
        Row("emc-clamp@", "0", ("8 INVALID emc-clamped",), ("0",), ("8 INVALID emc-clamped",)),
        # Its sensors show so few digits that a steady load may look like this without a fault.
        Row("rail-freeze@", "0", ("8 INVALID rail-frozen",), ("0",), ("0 DEGRADED stale-samples", "0 DEGRADED")),
        Row("rail-stale@", "0", ("0 VALID",), ("0",), ("0 VALID",), once=True, also=(8,)),
    )
}

_NANO = tuple(
    _ON_NANO.get(row.fault, row) for row in ROWS if not row.name.startswith("tegrastats-")
)  # of which tegrastats shows rails to root only

BOARDS = (Board(BOARD, MODE, ROWS), Board("nano", "5W", _NANO))
