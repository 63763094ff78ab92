from __future__ import annotations

import inspect

from remote.onboard.system import Process, System
from remote.sim.processes import SimProcess
from remote.sim.system import TwinSystem


def shape(kind: type) -> dict[str, list[str]]:
    methods = inspect.getmembers(kind, inspect.isfunction)
    return {name: list(inspect.signature(function).parameters) for name, function in methods if name[0] != "_"}


def test_the_twin_answers_to_all_that_the_on_board_programs_ask_of_a_machine() -> None:
    twin = shape(TwinSystem)
    assert {name: twin.get(name) for name in shape(System)} == shape(System)


def test_a_simulated_process_has_what_a_real_one_has() -> None:
    twin = shape(SimProcess)
    assert {name: twin.get(name) for name in shape(Process)} == shape(Process)
