"""Saved results: none is lost, and their names tell which is the latest."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from edgeperf import store
from remote.errors import EdgeperfError

_CREATED = "2026-11-20T13:15:00+00:00"


@pytest.fixture
def result(tmp_path: Path) -> str:
    """The text of a real result."""
    from tests.cli.command import edgeperf

    assert edgeperf("bench", "alexnet", "--out", str(tmp_path / "one.json")).code == 0
    return (tmp_path / "one.json").read_text("utf-8")


def test_the_last_result_is_the_one_saved_last_even_in_one_second(result: str, tmp_path: Path) -> None:
    folder = tmp_path / "results"
    names = ["vgg", "alexnet", *["googlenet"] * 10]
    paths = [store.add(result, folder, _CREATED, name) for name in names]
    assert paths[0].name == "20261120T131500-vgg-1.json"
    assert [saved.path for saved in store.results(folder)] == paths
    assert store.find(folder, "last").path == paths[-1]


def test_results_that_end_together_are_all_kept(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        paths = list(pool.map(lambda n: store.add(str(n), tmp_path, _CREATED, "alexnet"), range(64)))
    assert len(set(paths)) == 64
    assert [path.read_text("utf-8") for path in paths] == [f"{n}\n" for n in range(64)]


def test_what_cannot_be_saved_leaves_no_empty_result(tmp_path: Path) -> None:
    with pytest.raises(UnicodeEncodeError):
        store.add("\udc80", tmp_path, _CREATED, "alexnet")
    assert not list(tmp_path.glob("*.json"))
    (tmp_path / "file").touch()
    with pytest.raises(EdgeperfError, match="could not be saved"):
        store.add("{}", tmp_path / "file", _CREATED, "alexnet")
