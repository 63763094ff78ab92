"""Memory is counted before a build, and want of it is said with what would free some."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engines.onboard.failure import Failed
from engines.onboard.memory import LIBRARIES_BYTES, SMALL_WORKSPACE_BYTES, check

MIB = 1 << 20


def request(workspace_mib: int = 512) -> dict[str, Any]:
    need = {"weight_bytes": 100 * MIB, "tensor_bytes": 50 * MIB}
    return {"precision": "fp32", "need": need, "options": {"workspace_bytes": workspace_mib * MIB}}


def meminfo(tmp_path: Path, mib: int) -> str:
    path = tmp_path / "meminfo"
    path.write_text(f"MemTotal:        4051048 kB\nMemFree:          200000 kB\nMemAvailable:    {mib * 1024} kB\n")
    return str(path)


NEEDED_MIB = LIBRARIES_BYTES // MIB + 300


def test_what_fits_is_built_as_asked_for(tmp_path: Path) -> None:
    assert check(request(), meminfo(tmp_path, NEEDED_MIB + 512)) == (512 * MIB, [])


def test_where_memory_is_short_the_workspace_shrinks_once_and_that_is_said(tmp_path: Path) -> None:
    workspace_bytes, (note,) = check(request(), meminfo(tmp_path, NEEDED_MIB + 511))
    assert workspace_bytes == SMALL_WORKSPACE_BYTES
    assert "64 MiB instead of 512 MiB" in note


def test_a_workspace_never_grows(tmp_path: Path) -> None:
    with pytest.raises(Failed):
        check(request(16), meminfo(tmp_path, NEEDED_MIB + 15))


def test_without_room_for_the_small_one_it_fails_and_says_what_would_free_some(tmp_path: Path) -> None:
    with pytest.raises(Failed) as caught:
        check(request(), meminfo(tmp_path, NEEDED_MIB + 63))
    assert caught.value.kind == "out_of_memory"
    assert f"{NEEDED_MIB + 64} MiB" in caught.value.what
    assert "multi-user.target" in caught.value.hint


def test_a_system_that_does_not_tell_is_trusted(tmp_path: Path) -> None:
    assert check(request(), str(tmp_path / "absent")) == (512 * MIB, [])


def test_an_fp16_engine_is_built_from_weights_in_fp32(tmp_path: Path) -> None:
    path = meminfo(tmp_path, NEEDED_MIB + 512)
    assert check({**request(), "precision": "fp16"}, path)[1]
    assert not check({**request(), "precision": "fp16"}, meminfo(tmp_path, NEEDED_MIB + 512 + 200))[1]
