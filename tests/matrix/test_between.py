"""What goes wrong between what is measured: runs that are over are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.matrix.rig import Done, left_of, run_on

HOST = "sim:orin-nx"
TWICE = ("bench", "alexnet", "--duration", "3s", "--repeat", "2", "--json", "--quiet")


@pytest.fixture(scope="module")
def windows(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """When each of two runs begins and ends, in seconds since the board was opened."""
    done = run_on(f"{HOST},state={tmp_path_factory.mktemp('clean') / 'board.json'}", TWICE)
    assert done.saved is not None
    runs = [run["run"] for run in done.saved["raw"]["measured"]["runs"]]
    return [moment - 120.0 for run in runs for moment in (run["start_s"], run["stop_s"])]


def broken(folder: Path, stop_s: float, after_s: float) -> tuple[Done, str]:
    """Runs a bench of two runs whose line is lost a while after a run; returns it, and the settings that it changed.

    The line is slow by then, so that what follows a run takes some time.
    """
    faults = [f"link-slow@{stop_s - 0.05:.3f}::0.5", f"link-reset@{stop_s + after_s:.3f}"]
    path = folder / "board.json"
    host = f"{HOST},state={path}"
    assert run_on(host, ["status"]).ran.code == 0
    before = left_of("orin-nx", path).settings
    done = run_on(host, TWICE, faults)
    after = done.left.settings
    return done, ", ".join(path for path in {**before, **after} if before.get(path) != after.get(path))


def test_a_line_that_is_lost_between_two_runs_leaves_the_first(windows: list[float], tmp_path: Path) -> None:
    done, changed = broken(tmp_path, windows[1], 1.7)
    assert done.ran.code == 3
    assert done.saved is not None
    assert [run["verdict"]["state"] for run in done.saved["repeats"]] == ["VALID"]
    assert done.remarks == ("interrupted",)
    assert done.saved["samples_s"]
    assert changed == ""


def test_a_line_that_is_lost_when_all_is_measured_costs_no_result(windows: list[float], tmp_path: Path) -> None:
    for number, after_s in enumerate((1.2, 2.2)):
        folder = tmp_path / str(number)
        folder.mkdir()
        done, changed = broken(folder, windows[3], after_s)
        assert done.ran.code == 3
        assert done.saved is not None
        assert [run["verdict"]["state"] for run in done.saved["repeats"]] == ["VALID", "VALID"]
        assert changed == ""
