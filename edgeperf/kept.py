"""The engines that are kept on a board. A flow: a board in, records out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from edgeperf.bench import power_mode
from edgeperf.converse import converse
from edgeperf.report import place
from edgeperf.ui import table
from edgeperf.units import show_bytes
from engines.toolchains import kept
from engines.toolchains.kept import Kept, What
from remote.board import Board


@dataclass(frozen=True)
class Engines:
    """Engines on a board: those that are kept, or those just ``removed``, with the bytes that this freed."""

    schema: int
    kind: str
    simulated: bool
    host: str
    board: str
    l4t: str
    engines: tuple[Kept, ...]
    removed: bool = False
    freed_bytes: int = 0


def listed(board: Board) -> Engines:
    """Returns the engines that are kept on a board."""
    rows, _ = converse(kept.engines(board.transport.facts, power_mode(board)), board)
    return _of(board, rows)


def prune(board: Board, what: What, keys: Sequence[str]) -> Engines:
    """Removes engines and returns them."""
    (rows, freed), _ = converse(kept.prune(board.transport.facts, power_mode(board), what, keys), board)
    return _of(board, rows, True, freed)


def _of(board: Board, rows: tuple[Kept, ...], removed: bool = False, freed: int = 0) -> Engines:
    facts = board.transport.facts
    return Engines(1, "engines", facts.simulated, board.host.text, board.spec.name, facts.l4t, rows, removed, freed)


def text(found: Engines) -> str:
    """Returns a row per engine."""
    lines = [
        "engines removed" if found.removed else "engines",
        place(found.simulated, found.board, found.l4t, found.host),
        "",
    ]
    if not found.engines:
        lines.append("nothing was to be removed" if found.removed else "none is kept on this board")
        return "\n".join(lines)
    rows = [
        (
            row.key[:12],
            f"{row.name} {row.precision.upper()} batch {row.batch}".strip(),
            row.toolchain,
            row.tensorrt,
            row.power_mode,
            show_bytes(row.plan_bytes),
            _day(row.used_s),
            row.state,
        )
        for row in found.engines
    ]
    heads = ["key", "engine", "toolchain", "TensorRT", "mode", "size", "last used", "state"]
    lines.append(table(heads, rows, right=(5,)))
    if found.removed:
        lines.append(f"{show_bytes(found.freed_bytes)} freed")
    return "\n".join(lines)


def _day(wall_s: float) -> str:
    return datetime.fromtimestamp(wall_s, timezone.utc).strftime("%Y-%m-%d %H:%M") if wall_s > 0 else ""
