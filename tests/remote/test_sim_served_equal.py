"""A board behind the SSH server gives the very results that it gives in process, digit for digit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from engines.simulated.programs import programs
from remote import hosts, ssh
from remote.access import DEFAULT
from remote.hosts import Twin
from remote.sim.link import TwinTransport
from remote.transport import Transport
from remote.types import Apply, Blob, Job, Sampling, Step, Undo
from tests.cli.command import bench, edgeperf
from tests.ssh import twins

BOARDS = ["tx1@r23.1", "orin-nx@r36.4"]
INHERENT = {"created", "host"}
"""Fields of a record that must differ: when it was made, and the name under which the board was asked."""


@contextmanager
def both(board: str, folder: Path) -> Iterator[tuple[Transport, Transport]]:
    twin = hosts.parse(f"sim:{board}")
    assert isinstance(twin, Twin)
    with (
        TwinTransport(twin, programs()) as here,
        twins.served(f"sim:{board}", folder, programs()) as served,
        ssh.connect(hosts.ssh(served.name), DEFAULT) as there,
    ):
        yield here, there


def told(board: Transport) -> list[Any]:
    """Returns all that a board answers to each of the five verbs."""
    knobs = board.found.knobs
    rails, readings = tuple(board.rails), tuple(board.readings)
    asked = Sampling(rails, 50.0, readings, 5.0, seed=3)
    steps = (Step("cpu0.governor", "performance", None, ""), Step("cpu0.online", 1, None, ""))
    known = tuple(step for step in steps if step.knob in knobs)
    answers: list[Any] = [board.facts, board.found, board.journal, board.rails, board.readings]
    answers.append(board.read(["/etc/nv_tegra_release", "/nowhere", *board.found.nodes()], settings=True))
    answers.append(board.write(Apply(known, "someone", lease=True)))
    answers.append(board.run(Job(duration_s=2.0, sampling=asked)))
    answers.append(board.run(Job(("tegrastats", "--interval", "500"), duration_s=3.0, sampling=asked)))
    answers.append(board.put(Blob("model.bin", bytes(range(256)) * 10_000)))
    answers.append(board.run(Job(("cat",), stdin="text\n")))
    answers.append(board.write(Undo(lease="lease")))
    answers.append(board.read(settings=True))
    return answers


@pytest.mark.parametrize("board", BOARDS)
def test_each_verb_answers_the_same(board: str, tmp_path: Path) -> None:
    with both(board, tmp_path / "server") as (here, there):
        for ours, theirs in zip(told(here), told(there), strict=True):
            assert ours == theirs


@pytest.mark.parametrize("board", BOARDS)
def test_a_whole_bench_is_the_same(board: str, tmp_path: Path) -> None:
    words = ["--duration", "2s", "--fp16", "--seed", "5"]
    here = bench(*words, "--host", f"sim:{board}")
    with twins.served(f"sim:{board}", tmp_path / "server", programs()) as served:
        there = bench(*words, "--host", served.name)
    assert {key for key in here if here[key] != there[key]} <= INHERENT


@pytest.mark.parametrize("fault", ["throttle@4s", "link-stall@30s:4200ms"])
def test_a_bench_with_a_fault_comes_to_the_same_verdict(fault: str, tmp_path: Path) -> None:
    words = ["bench", "alexnet", "--duration", "5s", "--json", "--quiet"]
    here = edgeperf(*words, "--host", f"sim:nano,fault={fault}")
    with twins.served(f"sim:nano,fault={fault}", tmp_path / "server", programs()) as served:
        there = edgeperf(*words, "--host", served.name)
    assert here.code == there.code
    reasons = [[reason["code"] for reason in ran.data()["verdict"]["reasons"]] for ran in (here, there)]
    assert reasons[0] == reasons[1] != []
