"""When the faults of a simulated board happen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import Any

from remote.sim.faults import parse
from remote.sim.faults.fault import Fault, Victim
from remote.sim.kernel.node import Tree
from remote.sim.process import Program


class Schedule:
    """The faults of one machine, which it lets happen as its time passes. Their times are moved by ``base_s``."""

    def __init__(self, board: Victim, texts: Sequence[str], base_s: float) -> None:
        self._board = board
        self._faults = [parse(text) for text in texts]
        self._edges: list[tuple[float, Callable[[Victim], None]]] = []
        self.move(base_s)

    def move(self, by_s: float) -> None:
        """Moves everything that is still to come, for a board whose clock was set."""
        for fault in self._faults:
            fault.start_s += by_s
            fault.stop_s += by_s
        self._edges = sorted(self._all(), key=lambda edge: edge[0])

    def alter(self, twin: dict[str, Any]) -> None:
        """Changes the board's table as the faults do that are there from the start to the end."""
        for fault in self._faults:
            fault.alter(twin)

    def _all(self) -> Iterator[tuple[float, Callable[[Victim], None]]]:
        for fault in self._faults:
            yield fault.start_s, fault.begin
            if fault.stop_s < inf:
                yield fault.stop_s, fault.end

    @property
    def due_s(self) -> float:
        """When the next fault begins or ends, inf for never."""
        return self._edges[0][0] if self._edges else inf

    def act(self, now_s: float) -> None:
        """Lets happen what is due."""
        while self.due_s <= now_s:
            _, happen = self._edges.pop(0)
            happen(self._board)

    def boot(self, now_s: float) -> None:
        """Lets those befall a board that has restarted which a restart does not end."""
        for fault in self._faults:
            if fault.lasts and fault.is_on(now_s):
                fault.begin(self._board)

    def spoil(self, tree: Tree, sensors: Sequence[str], now: Callable[[], float]) -> None:
        """Puts the faults between the kernel's files and whoever reads or writes them; adds files of their own."""
        monitors = set(sensors)
        others = [path for path in tree.paths() if path not in monitors]
        for fault in self._faults:
            tree.add({path: fault.sensor(path, node, now) for path, node in tree.nodes(sensors).items()})
            if type(fault).node is not Fault.node:  # most touch no other file, and there are thousands
                tree.add({path: fault.node(path, node, now) for path, node in tree.nodes(others).items()})
            tree.add(fault.files(now))

    def program(self, name: str, program: Program, now: Callable[[], float]) -> Program:
        """Returns a program that is about to be started as the faults make it."""
        for fault in self._faults:
            program = fault.program(name, program, now)
        return program
