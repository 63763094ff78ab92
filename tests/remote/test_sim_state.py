"""A twin that outlives a command."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remote import boards
from remote.errors import HostError, UsageError
from remote.hosts import Twin
from remote.sim.state import Kept, open_machine
from remote.sim.system import TwinSystem
from tests.remote.sim_board import CPU, RELEASES, Shell


def _open(path: Path, release: str = "r23.1") -> Kept:
    return open_machine(Twin("tx1", release, state=str(path)), boards.load("tx1").twin, {})


@given(
    release=st.sampled_from(RELEASES),
    writes=st.lists(st.tuples(st.integers(0, 10_000), st.sampled_from(["0", "1", "204000", "614400000", "userspace"]))),
    pause_s=st.sampled_from([0.0, 0.7, 30.0]),
)
def test_every_settable_node_survives(release: str, writes: list[tuple[int, str]], pause_s: float) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "board.json"
        kept = _open(path, release)
        board = Shell(kept.machine)
        for choice, text in writes:
            nodes = sorted(kept.machine.kernel.tree.settable())
            board.refusal(nodes[choice % len(nodes)], text)
        board.sleep(pause_s)
        before = kept.machine.kernel.tree.settable()
        boot_id, now_s = board.get("/proc/sys/kernel/random/boot_id"), kept.machine.now_s
        kept.close()
        again = _open(path, release)
        assert again.machine.kernel.tree.settable() == before
        assert Shell(again.machine).get("/proc/sys/kernel/random/boot_id") == boot_id
        assert again.machine.now_s == now_s
        again.close()


def test_files_heat_and_process_numbers_survive(tmp_path: Path) -> None:
    source = tmp_path / "model"
    source.write_bytes(b"weights")
    kept = _open(tmp_path / "b.json")
    root = TwinSystem(kept.machine, "root")
    root.make_folder("/run/edgeperf")
    root.save("/run/edgeperf/journal", b"\x00\xff")
    root.link(str(source), "/tmp/model")
    root.wait([], kept.machine.now_s + 100)
    heat = root.read("/sys/class/thermal/thermal_zone1/temp")
    energy_j = kept.machine.energy_j("VDD_IN")
    kept.close()
    again = _open(tmp_path / "b.json")
    other = TwinSystem(again.machine, "root")
    assert (other.load("/run/edgeperf/journal"), other.load("/tmp/model")) == (b"\x00\xff", b"weights")
    assert other.read("/sys/class/thermal/thermal_zone1/temp") == heat
    assert again.machine.energy_j("VDD_IN") == energy_j
    assert other.identity() != root.identity()
    assert not other.alive(root.identity())
    again.close()


def test_cores_that_were_about_to_be_parked_are_parked_in_time(tmp_path: Path) -> None:
    kept = _open(tmp_path / "b.json")
    Shell(kept.machine).put(f"{CPU}/cpuquiet/tegra_cpuquiet/min_cpus", 3)
    Shell(kept.machine).sleep(0.4)
    kept.close()
    again = _open(tmp_path / "b.json")
    board = Shell(again.machine)
    board.sleep(0.05)
    assert board.get(f"{CPU}/online") == "0-3"
    board.sleep(0.06)
    assert board.get(f"{CPU}/online") == "0-2"
    again.close()


def test_a_file_in_use_is_a_host_error_until_it_is_closed(tmp_path: Path) -> None:
    kept = _open(tmp_path / "b.json")
    with pytest.raises(HostError, match="in use"):
        _open(tmp_path / "b.json")
    kept.close()
    _open(tmp_path / "b.json").close()


def test_a_file_of_another_release_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    _open(path, "r23.1").close()
    before = path.read_bytes()
    with pytest.raises(UsageError, match=r"tx1@r23\.1"):
        _open(path, "r32.7")
    assert path.read_bytes() == before
    _open(path, "r23.1").close()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"schema": 1, "board": "tx1", "release": "r23.1", "machine": {}}', "\xff"]
)
def test_a_file_that_is_no_state_is_a_usage_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "b.json"
    path.write_text(text, "latin-1")
    with pytest.raises(UsageError, match=r"b\.json"):
        _open(path)


def test_a_folder_that_does_not_exist_is_a_host_error(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="No such file"):
        _open(tmp_path / "no" / "b.json")


def test_without_a_file_nothing_is_kept() -> None:
    kept = open_machine(Twin("tx1", "r24.2"), boards.load("tx1").twin, {})
    kept.close()
    assert kept.machine.now_s == 120.0
