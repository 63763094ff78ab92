"""`maxperf`, `apply` and `restore`: a board ends up as it was found, whatever happened in between."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clockprofiles import profile
from clockprofiles.plan import plan
from remote import hosts
from remote.sim.link import TwinTransport
from remote.sim.system import TwinSystem
from remote.types import Apply, Knob, Snapshot, Undo
from tests.cli.command import RELEASES, bench, edgeperf, nodes

CPU = "/sys/devices/system/cpu"
CLOCK = "/sys/kernel/debug/clock"


@pytest.fixture(params=RELEASES)
def host(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sim:tx1@{request.param},state={tmp_path / 'twin.json'}"


@contextmanager
def twin(text: str) -> Iterator[TwinTransport]:
    host = hosts.parse(text)
    assert isinstance(host, hosts.Twin)
    board = TwinTransport(host, {})
    try:
        yield board
    finally:
        board.close()


def found(board: TwinTransport) -> Snapshot:
    settings = board.read(settings=True).settings
    assert settings is not None
    return settings


def test_restore_puts_back_every_node_that_maxperf_changed(host: str) -> None:
    before = nodes(host)
    assert edgeperf("maxperf", "--host", host).code == 0
    assert nodes(host) != before
    assert edgeperf("restore", "--host", host).code == 0
    assert nodes(host) == before


def test_maxperf_twice_changes_nothing_the_second_time(host: str) -> None:
    edgeperf("maxperf", "--host", host)
    before = nodes(host)
    ran = edgeperf("maxperf", "--host", host, "--json")
    assert ran.code == 0
    assert {row["result"] for row in ran.data()["rows"]} == {"unchanged"}
    assert nodes(host) == before


def test_a_dry_run_tells_by_its_exit_code_whether_it_would_change_something(host: str) -> None:
    before = nodes(host)
    asked = ("maxperf", "--host", host, "--dry-run", "--exit-code")
    assert edgeperf(*asked).code == 7
    assert nodes(host) == before
    edgeperf("maxperf", "--host", host)
    assert edgeperf(*asked).code == 0


def test_a_dry_run_shows_the_steps_that_are_then_made(host: str) -> None:
    planned = edgeperf("maxperf", "--host", host, "--dry-run", "--json").data()["rows"]
    made = edgeperf("maxperf", "--host", host, "--json").data()["rows"]
    assert [(row["knob"], row["now"]) for row in planned] == [(row["knob"], row["now"]) for row in made]


def test_after_maxperf_nothing_has_drifted_from_it(host: str) -> None:
    edgeperf("maxperf", "--host", host)
    assert edgeperf("status", "--host", host, "--profile", "maxperf", "--json").data()["drift"] == []


def test_restore_after_several_profiles_goes_back_to_before_the_first(host: str) -> None:
    before = nodes(host)
    for name in ("maxperf", "efficient", "whitepaper-690", "stock", "maxperf"):
        assert edgeperf("apply", name, "--host", host).code == 0
    assert edgeperf("restore", "--host", host).code == 0
    assert nodes(host) == before
    assert edgeperf("restore", "--host", host, "--json").data()["rows"] == []


def test_a_bench_leaves_the_clocks_as_it_found_them(host: str) -> None:
    before = nodes(host)
    bench("--host", host, "--profile", "efficient")
    assert nodes(host) == before


def test_a_bench_nests_inside_its_users_own_maxperf(host: str) -> None:
    before = nodes(host)
    edgeperf("maxperf", "--host", host)
    locked = nodes(host)
    bench("--host", host, "--profile", "efficient")
    assert nodes(host) == locked
    edgeperf("restore", "--host", host)
    assert nodes(host) == before


def test_a_bench_that_fails_leaves_the_clocks_as_it_found_them(tmp_path: Path) -> None:
    host = f"sim:tx1@r23.1,state={tmp_path / 'twin.json'}"
    before = nodes(host)
    assert edgeperf("bench", "googlenet", "--batch", "128", "--host", host).code == 5
    assert nodes(host) == before


def test_a_refused_setting_is_named_and_exits_4_and_the_others_are_made() -> None:
    with twin("sim:tx1@r23.1") as board:
        board.machine.refuse(f"{CLOCK}/override.emc/state", "EIO")
        made = plan(profile.load("maxperf"), found(board), board.facts.l4t)
        rows = {row.knob: row for row in board.write(Apply(made.steps, "me")).outcomes}
    assert rows["emc.override"].result == "refused"
    assert "EIO" in rows["emc.override"].why
    assert rows["gpu.override"].result == "applied"


def test_what_could_not_be_put_back_is_named_and_put_back_by_the_next_restore() -> None:
    with twin("sim:tx1@r23.1") as board:
        before = board.machine.kernel.tree.settable()
        made = plan(profile.load("maxperf"), found(board), board.facts.l4t)
        board.write(Apply(made.steps, "me"))
        board.machine.refuse(f"{CLOCK}/override.emc/state", "EIO")
        rows = {row.knob: row for row in board.write(Undo()).outcomes}
        assert [name for name, row in rows.items() if row.result == "refused"] == ["emc.override"]
        assert "EIO" in rows["emc.override"].why
        board.machine.refuse(f"{CLOCK}/override.emc/state", "")
        assert [row.knob for row in board.write(Undo()).outcomes] == ["emc.override"]
        assert board.machine.kernel.tree.settable() == before


def test_a_measurement_that_died_is_put_back_by_the_next_command_which_says_so(host: str) -> None:
    before = nodes(host)
    edgeperf("maxperf", "--host", host)
    locked = nodes(host)
    file = Path(host.partition("state=")[2])
    with twin(host) as board:
        made = plan(profile.load("efficient"), found(board), board.facts.l4t)
        board.write(Apply(made.steps, "me@here", lease=True))
        at_its_death = {**json.loads(file.read_text()), "machine": board.machine.save()}
    file.write_text(json.dumps(at_its_death))
    status = edgeperf("status", "--host", host, "--json").data()
    assert status["nodes"] == locked
    assert any("me@here" in note for note in status["notes"])
    edgeperf("restore", "--host", host)
    assert nodes(host) == before


def raw(knob: Knob, number: int) -> str:
    """Returns some text that a user might write into a knob's node."""
    if knob.kind == "bool":
        return str(number % 2)
    if knob.kind == "text":
        return str(knob.choices[number % len(knob.choices)]) if knob.choices else knob.text
    if not knob.choices:
        return str(number % 256)
    hz = int(knob.choices[number % len(knob.choices)])
    kilo = isinstance(knob.value, int) and knob.text.isdigit() and int(knob.text) * 1000 == knob.value
    return str(hz // 1000 if kilo else hz)


def disturb(board: TwinTransport, writes: Sequence[tuple[int, int]]) -> None:
    """Makes writes as someone at the board's prompt does; the kernel refuses what it refuses."""
    root = TwinSystem(board.machine, "root")
    knobs = list(board.found.knobs.values())
    for index, number in writes:
        knob = knobs[index % len(knobs)]
        with suppress(OSError):
            root.write(knob.path, raw(knob, number) + "\n")


INDEX = st.integers(0, 999)


@given(
    release=st.sampled_from(RELEASES),
    prior=st.lists(st.tuples(INDEX, INDEX), max_size=15),
    refused=st.lists(st.tuples(INDEX, st.sampled_from(["EIO", "EINVAL", "EBUSY", "EAGAIN"])), max_size=4),
    profiles=st.lists(st.sampled_from(profile.names()), min_size=1, max_size=3),
    lease=st.booleans(),
)
def test_any_prior_state_comes_back_exactly_though_writes_are_refused_on_the_way(
    release: str,
    prior: list[tuple[int, int]],
    refused: list[tuple[int, str]],
    profiles: list[str],
    lease: bool,
) -> None:
    with twin(f"sim:tx1@{release}") as board:
        tree = board.machine.kernel.tree
        disturb(board, prior)
        before = tree.settable()
        knobs = list(board.found.knobs.values())
        for index, why in refused:
            board.machine.refuse(knobs[index % len(knobs)].path, why)
        for name in profiles:
            made = plan(profile.load(name), found(board), board.facts.l4t)
            written = board.write(Apply(made.steps, "me", lease=lease))
        for index, _ in refused:
            board.machine.refuse(knobs[index % len(knobs)].path, "")
        rows = board.write(Undo(lease=written.lease)).outcomes
        assert {row.result for row in rows} <= {"restored", "unchanged"}
        assert tree.settable() == before


@given(release=st.sampled_from(RELEASES), prior=st.lists(st.tuples(INDEX, INDEX), max_size=15))
def test_maxperf_ends_in_one_state_from_any_prior_state_and_a_second_plan_is_empty(
    release: str, prior: list[tuple[int, int]]
) -> None:
    with twin(f"sim:tx1@{release}") as board:
        disturb(board, prior)
        made = plan(profile.load("maxperf"), found(board), board.facts.l4t)
        assert {row.result for row in board.write(Apply(made.steps, "me")).outcomes} <= {"applied", "unchanged"}
        again = plan(profile.load("maxperf"), found(board), board.facts.l4t)
        assert again.steps == ()
        assert again.asked == made.asked


def clock_nodes(system: TwinSystem) -> dict[str, str]:
    patterns = (
        f"{CPU}/cpu*/online",
        f"{CPU}/cpu*/cpufreq/*",
        f"{CPU}/cpuquiet/*",
        f"{CPU}/cpuquiet/tegra_cpuquiet/*",
        *(f"{CLOCK}/{clock}/*" for clock in ("override.gbus", "override.emc", "gbus", "emc")),
    )
    paths = [path for pattern in patterns for path in system.glob(pattern)]
    texts = {}
    for path in paths:
        with suppress(IsADirectoryError):
            texts[path] = system.read(path)
    return texts


def test_on_r23_maxperf_ends_where_the_forums_sequence_ends() -> None:
    with twin("sim:tx1@r23.1") as board:
        forum = TwinSystem(board.machine, "root")
        for core in range(4):
            folder = f"{CPU}/cpu{core}/cpufreq"
            forum.write(f"{folder}/scaling_governor", "userspace\n")
            forum.write(f"{folder}/scaling_min_freq", forum.read(f"{folder}/scaling_max_freq"))
        forum.write(f"{CPU}/cpuquiet/tegra_cpuquiet/enable", "0\n")
        forum.write(f"{CPU}/cpuquiet/current_governor", "runnable\n")
        forum.write(f"{CLOCK}/override.gbus/rate", forum.read(f"{CLOCK}/gbus/max"))
        forum.write(f"{CLOCK}/override.gbus/state", "1\n")
        forum.write(f"{CLOCK}/override.emc/state", "1\n")
        forum.write(f"{CLOCK}/override.emc/rate", forum.read(f"{CLOCK}/emc/max"))
        wanted = clock_nodes(forum)
    with twin("sim:tx1@r23.1") as board:
        made = plan(profile.load("maxperf"), found(board), board.facts.l4t)
        board.write(Apply(made.steps, "me"))
        assert clock_nodes(TwinSystem(board.machine, "root")) == wanted
    assert len(wanted) > 50
