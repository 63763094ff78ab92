"""A simulated board whose clocks float, beside one whose clocks are held: slower, thriftier, less steady."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass

import pytest

from tests.engines.test_simulated_agreement import Bench


@dataclass(frozen=True)
class Ran:
    per_s: float
    watts: float
    batches_s: list[float]


def ran(seed: int, locked: bool) -> Ran:
    """Returns what ten seconds of GoogLeNet, an image at a time, are like."""
    bench = Bench("nano", "r32.7", batch=1, name="googlenet", seed=seed, floats=not locked)
    bench.ask("build", "tensorrt", {})
    said = bench.ask("bench", "tensorrt", {})
    events = [(one, json.loads(one.text)) for one in said]
    start, stop = (next(one for one, event in events if event["event"] == name) for name in ("start", "stop"))
    seconds = [s for _, event in events if event["event"] == "latencies" for s in event["seconds"]]
    wall_s = stop.t_s - start.t_s
    return Ran(len(seconds) / wall_s, (stop.energy_j - start.energy_j) / wall_s, seconds)


def spread(values: list[float]) -> float:
    return statistics.pstdev(values) / statistics.mean(values)


def test_floating_clocks_are_slower_thriftier_and_less_steady_from_batch_to_batch_and_run_to_run() -> None:
    held, floating = ([ran(seed, locked) for seed in range(4)] for locked in (True, False))
    per_s, watts = (
        [statistics.mean(getattr(run, name) for run in runs) for runs in (held, floating)]
        for name in ("per_s", "watts")
    )
    assert per_s[1] < 0.97 * per_s[0]
    assert watts[1] < 0.97 * watts[0]
    assert spread([run.per_s for run in floating]) > spread([run.per_s for run in held])
    assert spread(floating[0].batches_s) > 3 * spread(held[0].batches_s)


@pytest.mark.parametrize("locked", [True, False])
def test_the_same_seed_gives_the_same_run(locked: bool) -> None:
    assert ran(5, locked) == ran(5, locked)
