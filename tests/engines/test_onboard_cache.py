"""An engine is found only where it is the very one asked for, whole and unharmed; whatever happens in between."""

from __future__ import annotations

import errno
import json
import os
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.onboard import kept
from engines.onboard.cache import LEFTOVER_S, Cache, Disk, differences
from engines.onboard.failure import Failed
from engines.onboard.key import engine_key
from engines.onboard.loop import Interrupt
from engines.spec import EngineSpec

FACTS = {"tensorrt": "8.2.1.8", "l4t": "r32.7", "gpu": "nano sm_53", "active_sms": "1", "power_mode": "MAXN"}
BUILT = {"seconds": 60.0, "workspace_bytes": 512 << 20, "versions": {"tensorrt": "8.2.1.8"}, "notes": []}


def content(batch: int = 64, facts: dict[str, str] | None = None, **changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {"digest": "d1", "seed": 0, "flags": ("workspace=536870912",), **changes}
    return EngineSpec("alexnet", "fp16", batch, "tensorrt", **fields).content({**FACTS, **(facts or {})})


class Clocked(Disk):
    """The disk with a clock that is set by hand."""

    time_s = 1e9

    def now_s(self) -> float:
        return self.time_s

    def touch(self, path: str) -> None:
        os.utime(path, (self.time_s, self.time_s))


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(Clocked(), str(tmp_path))


class Broken(Clocked):
    """A disk on which nothing can be changed."""

    def __init__(self, number: int) -> None:
        self.number = number

    def touch(self, path: str) -> None:
        raise OSError(self.number, os.strerror(self.number), path)

    def make_folder(self, path: str) -> None:
        raise OSError(self.number, os.strerror(self.number), path)


def build(cache: Cache, wanted: dict[str, Any], plan: bytes = b"plan", name: str = "alexnet") -> str:
    part = cache.part(engine_key(wanted))
    Path(part).write_bytes(plan)
    cache.keep(wanted, name, part, BUILT)
    return part


def test_an_engine_on_a_disk_that_takes_no_changes_is_still_found(tmp_path: Path) -> None:
    build(Cache(Clocked(), str(tmp_path)), content(), b"whole")
    found = Cache(Broken(errno.EROFS), str(tmp_path)).find(content(), "alexnet")
    assert Path(found.path).read_bytes() == b"whole"


@pytest.mark.parametrize(
    ("number", "kind", "hint"),
    [
        (errno.EROFS, "engine", "dmesg"),
        (errno.ENOSPC, "engine", "engines prune"),
        (errno.EDQUOT, "engine", "engines prune"),
        (errno.EACCES, "permission", "give the folder"),
        (errno.EIO, "engine", ""),
    ],
)
def test_a_folder_that_cannot_be_used_says_what_to_do(tmp_path: Path, number: int, kind: str, hint: str) -> None:
    with pytest.raises(Failed, match="the engines in") as caught:
        Cache(Broken(number), str(tmp_path)).part("key")
    assert caught.value.kind == kind
    assert hint in caught.value.hint


def test_the_same_content_is_found_under_any_name(cache: Cache) -> None:
    build(cache, content(), b"whole")
    for name in ("alexnet", "mine"):
        found = cache.find(content(), name)
        assert (Path(found.path).read_bytes(), found.why) == (b"whole", "")
        assert found.entry["built"] == {**BUILT, "wall_s": 1e9}
    assert cache.find(json.loads(json.dumps(content())), "alexnet").path


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (content(8), "batch 8 instead of 64"),
        (content(facts={"tensorrt": "8.5.2"}), "TensorRT 8.5.2 instead of 8.2.1.8"),
        (content(facts={"power_mode": "5W"}), "power mode 5W instead of MAXN"),
        (content(facts={"power_mode": ""}), "power mode unknown instead of MAXN"),
        (content(digest="d2"), "another model's bytes"),
        (content(seed=7), "seed 7 instead of 0"),
        (
            content(flags=("workspace=16777216", "tf32")),
            "tf32, workspace 16 MiB instead of 512 MiB",
        ),
        (content(flags=()), "no workspace 512 MiB"),
        (content(flags=("workspace=536870912", "container=trt:8")), "container trt:8"),
    ],
)
def test_what_differs_from_the_kept_engine_is_said(cache: Cache, other: dict[str, Any], why: str) -> None:
    build(cache, other)
    found = cache.find(content(), "alexnet")
    assert (found.path, found.why) == ("", f"the kept engine has {why}")
    assert cache.find(other, "alexnet").path


def test_the_nearest_engine_of_the_model_is_compared(cache: Cache) -> None:
    assert cache.find(content(), "alexnet").why == "no engine of it was kept"
    build(cache, content(8, {"tensorrt": "8.5.2"}))
    build(cache, content(8))
    build(cache, content(digest="g"), name="googlenet")
    assert cache.find(content(), "alexnet").why == "the kept engine has batch 8 instead of 64"
    assert cache.find(content(), "mine").why == "no engine of it was kept"


def test_contents_of_any_age_are_compared() -> None:
    assert differences({}, content())
    assert differences(content(), content()) == []


@pytest.mark.parametrize(
    ("end", "damage", "why"),
    [
        ("plan", b"Plan", "the kept plan is damaged (its hash differs)"),
        ("plan", b"pla", "the kept plan is damaged (its size differs)"),
        ("plan", None, "the kept plan is gone"),
        ("json", b"", "its side-car is damaged"),
        ("json", b"[]", "its side-car is damaged"),
        ("json", b"\xff", "its side-car is damaged"),
        ("json", b"[" * 100000, "its side-car is damaged"),
        ("json", b'{"format": 2}', "its side-car is damaged"),
        ("json", None, "no engine of it was kept"),
    ],
)
def test_a_damaged_engine_is_removed_with_its_reason(cache: Cache, end: str, damage: bytes | None, why: str) -> None:
    build(cache, content())
    path = Path(cache.find(content(), "alexnet").path).with_suffix("." + end)
    path.unlink() if damage is None else path.write_bytes(damage)
    assert cache.find(content(), "alexnet")[:2] == ("", why)
    assert cache.find(content(), "alexnet")[:2] == ("", "no engine of it was kept")
    build(cache, content())
    assert cache.find(content(), "alexnet").path


@given(place=st.integers(0, 2000), value=st.integers(0, 255))
def test_a_side_car_with_one_wrong_byte_never_vouches_for_another_plan(place: int, value: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        cache = Cache(Disk(), folder)
        build(cache, content())
        side_car = next(Path(folder).rglob("*.json"))
        data = bytearray(side_car.read_bytes())
        data[place % len(data)] = value
        side_car.write_bytes(data)
        found = cache.find(content(), "alexnet")
        assert not found.path or Path(found.path).read_bytes() == b"plan"


def test_another_engines_files_under_this_key_are_not_accepted(cache: Cache) -> None:
    build(cache, content(8))
    (key,) = cache.kept_keys()
    for end in ("plan", "json"):
        os.rename(f"{cache.folder}/{key}.{end}", f"{cache.folder}/{engine_key(content())}.{end}")
    assert cache.find(content(), "alexnet")[:2] == ("", "its side-car is damaged")


class PowerCut(BaseException):
    """The board lost its power."""


class Failing(Disk):
    """A disk of a board that loses its power after ``steps`` changes, the last of them half done."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def step(self) -> None:
        self.steps -= 1
        if self.steps < 0:
            raise PowerCut

    def save(self, path: str, data: bytes) -> None:
        if not self.steps:
            super().save(path, data[: len(data) // 2])
        self.step()
        super().save(path, data)

    def rename(self, source: str, target: str) -> None:
        self.step()
        super().rename(source, target)

    def remove(self, path: str) -> None:
        self.step()
        super().remove(path)

    def touch(self, path: str) -> None:
        self.step()
        super().touch(path)


@given(
    works=st.lists(st.tuples(st.sampled_from(["keep", "find", "prune"]), st.integers(0, 1)), min_size=1, max_size=8),
    steps=st.integers(0, 20),
)
def test_a_power_cut_at_any_point_leaves_nothing_that_is_found_wrongly(
    works: list[tuple[str, int]], steps: int
) -> None:
    contents = [content(1), content(2)]
    built: list[set[bytes]] = [set(), set()]
    with tempfile.TemporaryDirectory() as folder:
        cache = Cache(Failing(steps), folder)
        try:
            for number, (work, which) in enumerate(works):
                if work == "keep":
                    plan = b"%d %d" % (which, number)
                    built[which].add(plan)
                    build(cache, contents[which], plan)
                elif work == "find":
                    cache.find(contents[which], "alexnet")
                else:
                    listed("prune", cache, what="all")
        except PowerCut:
            pass
        after = Cache(Disk(), folder)
        for which, wanted in enumerate(contents):
            found = after.find(wanted, "alexnet")
            if found.path:
                assert Path(found.path).read_bytes() in built[which]
                assert after.files.digest(found.path) == found.entry["plan_sha256"]
            build(after, wanted, b"again")
            assert Path(after.find(wanted, "alexnet").path).read_bytes() == b"again"


def test_files_are_private(cache: Cache) -> None:
    build(cache, content())
    assert os.stat(cache.folder).st_mode & 0o777 == 0o700
    assert os.stat(next(Path(cache.folder).glob("*.json"))).st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_what_root_keeps_from_a_container_belongs_to_the_folders_owner(cache: Cache, tmp_path: Path) -> None:
    os.chown(tmp_path, 1234, 1234)
    Path(cache.timing_path(FACTS)).write_bytes(b"timings")
    build(cache, content())
    assert {os.stat(path).st_uid for path in [Path(cache.folder), *Path(cache.folder).iterdir()]} == {1234}


def test_what_a_broken_build_left_goes_after_a_day(cache: Cache) -> None:
    old, young = Path(cache.part(engine_key(content(1)))), Path(cache.variant(engine_key(content(2)), 3))
    for path, age_s in ((old, LEFTOVER_S), (young, LEFTOVER_S - 1)):
        path.write_bytes(b"half")
        os.utime(path, (1e9 - age_s,) * 2)
    timing = Path(cache.timing_path(FACTS))
    timing.write_bytes(b"timings")
    os.utime(timing, (0, 0))
    build(cache, content())
    assert [path.exists() for path in (old, young, timing)] == [False, True, True]


def test_timings_hold_for_one_software_and_silicon_in_every_power_mode(cache: Cache) -> None:
    here = cache.timing_path(FACTS)
    assert cache.timing_path({**FACTS, "power_mode": "5W"}) == here
    assert all(cache.timing_path({**FACTS, name: "x"}) != here for name in ("tensorrt", "l4t", "gpu", "active_sms"))


def test_a_plan_that_is_not_there_or_empty_is_not_kept(cache: Cache) -> None:
    part = cache.part(engine_key(content()))
    for data in (None, b""):
        if data is not None:
            Path(part).write_bytes(data)
        with pytest.raises(Failed) as caught:
            cache.keep(content(), "alexnet", part, BUILT)
        assert caught.value.kind == "engine"
    assert cache.kept_keys() == []


def test_a_folder_that_may_not_be_used_is_named(tmp_path: Path) -> None:
    class Forbidden(Disk):
        def load(self, path: str) -> bytes:
            raise PermissionError(13, "Permission denied")

    with pytest.raises(Failed, match=str(tmp_path)) as caught:
        Cache(Forbidden(), str(tmp_path)).find(content(), "alexnet")
    assert caught.value.kind == "permission"


# --- listing and removing ---------------------------------------------------------------------------------------------


def listed(action: str, cache: Cache, **request: Any) -> dict[str, Any]:
    """Returns the one answer."""
    said: list[dict[str, Any]] = []

    def say(event: str, **fields: Any) -> None:
        said.append({"event": event, **fields})

    folder = str(Path(cache.folder).parent)
    quiet = cast(Interrupt, SimpleNamespace(seen=False))
    kept.answer({"action": action, "cache": folder, "content": None, **request}, quiet, say, cache.files)
    (answer,) = said
    return answer


def test_engines_are_listed_with_what_they_are_and_their_state(cache: Cache) -> None:
    assert listed("engines", cache) == {"event": "engines", "rows": []}
    build(cache, content())
    build(cache, content(8), b"plan of 8")
    Path(cache.find(content(8), "alexnet").path).write_bytes(b"PLAN of 8")
    rows = {row["batch"]: row for row in listed("engines", cache)["rows"]}
    assert rows[64]["used_s"] > 0
    assert {**rows[64], "used_s": 0} == {
        "key": engine_key(content()),
        "name": "alexnet",
        "precision": "fp16",
        "batch": 64,
        "toolchain": "tensorrt",
        "plan_bytes": 4,
        "tensorrt": "8.2.1.8",
        "power_mode": "MAXN",
        "wall_s": 1e9,
        "used_s": 0,
        "state": "ok",
    }
    assert rows[8]["state"] == "damaged: the kept plan is damaged (its hash differs)"


def test_a_plan_without_its_side_car_is_listed_and_stale(cache: Cache) -> None:
    build(cache, content())
    next(Path(cache.folder).glob("*.json")).unlink()
    (row,) = listed("engines", cache)["rows"]
    assert (row["name"], row["plan_bytes"], row["state"]) == ("", 4, "damaged: its side-car is gone")
    assert listed("prune", cache, what="stale")["bytes"] == 4


@pytest.mark.parametrize(
    ("board", "state"),
    [
        ({"gpu": "nano", "l4t": "r32.7", "power_mode": "5W"}, "ok"),
        ({"gpu": "nano sm_53", "tensorrt": "8.2.1.8"}, "ok"),
        ({"gpu": "tx1", "l4t": "r32.7"}, "other board or TensorRT: gpu nano sm_53"),
        ({"l4t": "r32.6", "tensorrt": "8.0.1"}, "other board or TensorRT: l4t r32.7, tensorrt 8.2.1.8"),
    ],
)
def test_engines_of_another_board_are_called_so(cache: Cache, board: dict[str, str], state: str) -> None:
    build(cache, content())
    (row,) = listed("engines", cache, content={"board": board})["rows"]
    assert row["state"] == state


def test_pruning_takes_what_is_stale_damaged_or_named(cache: Cache) -> None:
    for batch in (1, 2, 3, 4):
        build(cache, content(batch))
        cache.find(content(batch), "alexnet")
    Path(cache.find(content(2), "alexnet").path).write_bytes(b"none")
    old = f"{cache.folder}/{engine_key(content(3))}.json"
    os.utime(old, (1e9 - kept.STALE_S - 1,) * 2)
    size = sum(os.path.getsize(path) for b in (2, 3) for path in Path(cache.folder).glob(engine_key(content(b)) + "*"))
    gone = listed("prune", cache, what="stale")
    assert ({row["batch"] for row in gone["rows"]}, gone["bytes"]) == ({2, 3}, size)
    named = listed("prune", cache, what="named", keys=[engine_key(content(4))[:8]])
    assert [row["batch"] for row in named["rows"]] == [4]
    assert [row["batch"] for row in listed("engines", cache)["rows"]] == [1]


def test_a_key_that_is_not_kept_removes_nothing(cache: Cache) -> None:
    build(cache, content())
    for keys in ([engine_key(content()), "0123456789"], [""]):
        with pytest.raises(Failed, match="key that begins with"):
            listed("prune", cache, what="named", keys=keys)
    assert cache.find(content(), "alexnet").path


def test_pruning_all_leaves_an_empty_folder(cache: Cache) -> None:
    build(cache, content())
    for path in (cache.timing_path(FACTS), cache.variant(engine_key(content()), 1)):
        Path(path).write_bytes(b"x")
        os.utime(path, (1e9, 1e9))
    assert len(listed("prune", cache, what="all")["rows"]) == 1
    assert os.listdir(cache.folder) == []
