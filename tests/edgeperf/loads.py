"""Loads of known energy on simulated boards, and what is measured of them."""

from __future__ import annotations

import random
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgeperf.power import Power, choose_total, measure
from remote import boards, hosts
from remote.boards import Total
from remote.sim import state
from remote.sim.link import TwinTransport
from remote.sim.machine import Machine
from remote.sim.physics import Activity
from remote.sim.process import Action, Busy, Context
from remote.types import Job, Rail, Sampling, Series
from tests.remote.sim_board import steady

Span = tuple[float, Activity]
"""Seconds, and what is done in them."""

NO_ERRORS = {"gain": 0.0, "offset_v": 0.0, "shunt": 0.0}


@dataclass(frozen=True)
class Ran:
    """What was sampled of a load, its window, and the true mean of the total's rails in it."""

    series: tuple[Series, ...]
    rails: dict[str, Rail]
    total: Total
    start_s: float
    stop_s: float
    true_w: float

    def power(self, *, steady: bool = False) -> Power:
        found = measure(self.series, self.total, self.start_s, self.stop_s, self.rails, steady=steady)
        assert isinstance(found, Power)
        return found

    def error(self, *, steady: bool = False) -> float:
        """Returns by what share the measured watts differ from the true ones."""
        return self.power(steady=steady).total.value / self.true_w - 1


def run(
    board: str,
    spans: Sequence[Span],
    *,
    before: Sequence[Span] = (),
    rate_hz: float = 20.0,
    seed: int = 0,
    perfect: bool = False,
    throttle_c: float | None = None,
) -> Ran:
    """Returns what was sampled of ``spans`` on a simulated board, after the load ``before``.

    ``perfect`` sensors have steps, but no errors; the load then does not fluctuate either. Above ``throttle_c`` the
    board throttles, instead of where it does otherwise.
    """
    truth = _Truth()

    def load(context: Context) -> Generator[Action, None, int]:
        for seconds, activity in before:
            yield Busy(seconds, activity)
        truth.mark(machine)
        for seconds, activity in spans:
            yield Busy(seconds, activity)
        truth.mark(machine)
        return 0

    host = hosts.parse(f"sim:{board},seed={seed}")
    assert isinstance(host, hosts.Twin)
    spec = boards.load(host.board)
    machine = Machine(
        host.board, host.release, _table(spec.twin, perfect, throttle_c), seed=seed, programs={"load": load}
    )
    transport = TwinTransport(host, {}, state.Fleeting(machine))
    rails = dict(transport.rails)
    sampling = Sampling(tuple(rails), rate_hz, seed=seed)
    series = transport.run(Job(("load",), sampling=sampling)).series
    transport.close()
    total = choose_total(spec.totals, rails)
    assert total is not None
    (start_s, before_j), (stop_s, after_j) = truth.marks
    joules = sum(after_j[name] - before_j[name] for name in total.rails)
    return Ran(series, rails, total, start_s, stop_s, joules / (stop_s - start_s))


class _Truth:
    def __init__(self) -> None:
        self.marks: list[tuple[float, dict[str, float]]] = []

    def mark(self, machine: Machine) -> None:
        machine.settle()
        self.marks.append((machine.now_s, dict(machine.silicon.energy_j)))


def _table(twin: Mapping[str, Any], perfect: bool, throttle_c: float | None) -> dict[str, Any]:
    table = dict(steady(twin))
    if perfect:
        chips = [{**chip, "errors": NO_ERRORS} for chip in twin["ina"]["chip"]]
        table["ina"] = {**twin["ina"], "chip": chips, "noise": 0.0}
    if throttle_c is not None:
        table["throttle"] = {**twin["throttle"], "celsius": throttle_c}
    return table


def drawn(seed: int) -> Activity:
    """Returns a load that depends on the seed: from almost nothing to a busy GPU with a CPU core or two."""
    draw = random.Random(f"load {seed}").random
    return Activity(
        gpu_load=draw(), flops_per_s=3e11 * draw(), bytes_per_s=1e10 * draw(), precision="fp16", cpu_load=2 * draw()
    )
