"""Toolchains tensorrt and trtexec on the simulated boards: equal protocols, equal figures."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from engines.emit.onnx import skeleton
from engines.models import load
from engines.simulated.programs import programs
from engines.spec import Protocol
from engines.trtexec.flags import build_argv, run_argv
from engines.trtexec.summary import Build, Summary, read_build, read_run
from engines.trtexec.version import from_text
from remote import boards
from remote.sim.machine import Machine
from remote.sim.system import TwinSystem
from tests.engines.board import asked
from tests.remote.sim_board import hold

USER = "nvidia"
CACHE = f"/home/{USER}/edgeperf"
BOARDS = (("orin-nx", "r36.4"), ("nano", "r32.7"), ("xavier-nx", "r35"), ("agx-thor", "r38.4"))


@dataclass(frozen=True)
class Said:
    """A line, when it came, and how much energy had been used by then."""

    t_s: float
    energy_j: float
    text: str


@dataclass(frozen=True)
class Found:
    images_per_s: float
    watts: float
    latency_s: float


class Bench:
    """A simulated board on which both toolchains measure one network, with clocks that are held or float."""

    def __init__(
        self,
        board: str,
        release: str,
        *,
        batch: int = 64,
        name: str = "alexnet",
        seed: int = 0,
        floats: bool = False,
    ) -> None:
        spec = boards.load(board)
        self.machine = Machine(board, spec.release(release), spec.twin, seed=seed, programs=programs())
        if not floats:
            hold(self.machine)
        self.machine.files.make_folder(CACHE, USER)
        self._name, self._batch = name, batch
        text = skeleton(load(name, batch).network, batch, "fp32", 0)
        self.machine.files.save(f"{CACHE}/model.json", text.encode(), USER)

    def run(self, *argv: str, stdin: str = "") -> tuple[list[Said], int]:
        """Runs a program to its end."""
        process, system = self.machine.spawn(argv, {}, stdin, USER), TwinSystem(self.machine, USER)
        said = list(self._lines(process, system))
        return said, process.exit_code() or 0

    def _lines(self, process: Any, system: TwinSystem) -> Iterator[Said]:
        while self.machine.wait(system, [process.stdout], None):
            data = process.stdout.read()
            if not data:
                return
            self.machine.settle()
            now_s, energy_j = self.machine.now_s, self.machine.silicon.energy_j["TOTAL"]
            yield from (Said(now_s, energy_j, text) for text in data.decode().splitlines())

    def ask(self, action: str, toolchain: str, protocol: Mapping[str, Any], **changes: Any) -> list[Said]:
        """Asks the runner."""
        changes = {"cache": CACHE, "skeleton": f"{CACHE}/model.json", **changes}
        asking = asked(action, toolchain, self._name, self._batch, protocol=protocol, **changes)
        return self.run("/usr/bin/python3", f"{CACHE}/runner.zip", stdin=asking)[0]

    def tensorrt(self, **protocol: Any) -> Found:
        """Returns what toolchain tensorrt finds."""
        self.ask("build", "tensorrt", protocol)
        said = self.ask("bench", "tensorrt", protocol)
        events = {json.loads(one.text)["event"]: (one, json.loads(one.text)) for one in said}
        (start, _), (stop, told) = events["start"], events["stop"]
        latencies = sorted(events["latencies"][1]["seconds"])
        wall_s = stop.t_s - start.t_s
        per_s = self._batch * told["iterations"] / wall_s
        return Found(per_s, (stop.energy_j - start.energy_j) / wall_s, latencies[len(latencies) // 2])

    def trtexec(self, drop: str = "", **changes: Any) -> Found:
        """Returns what toolchain trtexec finds; the option ``drop`` is left out of its commands."""
        protocol = Protocol(**changes)
        said = self.ask("prepare", "trtexec", changes)
        paths = next(event for event in (json.loads(one.text) for one in said) if event["event"] == "prepared")
        version, tool = from_text(paths["version"]), paths["trtexec"]
        build = build_argv(version, tool, paths["onnx"], paths["part"], "fp16", protocol, timing=paths["timing"])
        said, code = self.run(*(word for word in build if not drop or not word.startswith(drop)))
        assert isinstance(read_build([(one.t_s, one.text) for one in said], code), Build)
        self.ask("seal", "trtexec", changes, built={"seconds": 1.0, "workspace_bytes": 0, "notes": [], "why": ""})
        times: dict[str, Any] = {"warmup_s": 2.0, "duration_s": 10.0, "iterations": None, "min_iterations": 10}
        run = run_argv(version, tool, paths["plan"], protocol, times=paths["times"], **times)
        said, code = self.run(*(word for word in run if not drop or not word.startswith(drop)))
        found = read_run([(one.t_s, one.text) for one in said], code)
        assert isinstance(found, Summary), found
        start, stop = (next(one for one in said if words in one.text) for words in ("Starting inf", "Timing trace"))
        watts = (stop.energy_j - start.energy_j) / (stop.t_s - start.t_s)
        assert found.latency is not None
        return Found(found.images_per_s(self._batch), watts, found.latency.median_s)


@pytest.mark.parametrize("seed", [0, 7])
@pytest.mark.parametrize(("board", "release"), BOARDS)
def test_equal_protocols_give_equal_figures(board: str, release: str, seed: int) -> None:
    one, other = Bench(board, release, seed=seed).tensorrt(), Bench(board, release, seed=seed).trtexec()
    assert other.images_per_s == pytest.approx(one.images_per_s, rel=0.01)
    assert other.watts == pytest.approx(one.watts, rel=0.01)
    assert other.latency_s == pytest.approx(one.latency_s, rel=0.01)


@pytest.mark.parametrize(
    "protocol", [{"transfers": True}, {"spin": True}, {"cuda_graph": True}, {"ahead": 0}, {"workspace_bytes": 16 << 20}]
)
@pytest.mark.parametrize(("board", "release"), [("orin-nx", "r36.4"), ("nano", "r32.7")])
def test_any_other_protocol_is_followed_by_both(board: str, release: str, protocol: dict[str, Any]) -> None:
    one, other = (Bench(board, release, name="googlenet", batch=2) for _ in range(2))
    ours, theirs = one.tensorrt(**protocol), other.trtexec(**protocol)
    assert theirs.images_per_s == pytest.approx(ours.images_per_s, rel=0.01)
    assert theirs.watts == pytest.approx(ours.watts, rel=0.01)


@pytest.mark.parametrize(
    ("option", "protocol", "figure"),
    [
        ("--noDataTransfers", {}, "latency_s"),
        ("--useSpinWait", {"spin": True}, "watts"),
        ("--useCudaGraph", {"cuda_graph": True}, "images_per_s"),
        ("--workspace", {}, "images_per_s"),
    ],
)
def test_a_dropped_option_is_seen(option: str, protocol: dict[str, Any], figure: str) -> None:
    one, other = (Bench("nano", "r32.7", name="googlenet", batch=2) for _ in range(2))
    right, wrong = getattr(one.trtexec(**protocol), figure), getattr(other.trtexec(option, **protocol), figure)
    assert abs(wrong / right - 1) > 0.008, (right, wrong)


def test_kept_engines_outlive_the_machine() -> None:
    one, other = Bench("nano", "r32.7"), Bench("nano", "r32.7")
    one.ask("build", "tensorrt", {})
    other.machine.restore(one.machine.save())
    built = next(json.loads(said.text) for said in other.ask("build", "tensorrt", {}) if '"built"' in said.text)
    assert (built["cached"], built["engine_bytes"]) == (True, 121930448)
    folder = f"{CACHE}/engines/"
    used_s = [other.machine.files.changed_s(path, USER) for path in other.machine.files.match(folder + "*.json", USER)]
    assert used_s == [pytest.approx(other.machine.wall_s, abs=5.0)]
