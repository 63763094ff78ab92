"""What every `Transport` promises, whatever board is behind it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from remote.errors import EngineError, LeaseHeld, UsageError
from remote.transport import Transport
from remote.types import Apply, Blob, Ended, Job, Line, Sampling, Series, Step, Undo
from tests.contract.backends import BACKENDS, Backend

GOVERNOR = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
LOWER = 1_036_800_000


@pytest.fixture(params=sorted(BACKENDS))
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    made = BACKENDS[request.param](tmp_path)
    yield made
    made.close()


@pytest.fixture
def board(backend: Backend) -> Iterator[Transport]:
    with backend.connect() as transport:
        yield transport


def step(knob: str, value: int | str) -> Step:
    return Step(knob, value, None, "")


def value(transport: Transport, knob: str) -> int | str | None:
    settings = transport.read(settings=True).settings
    assert settings is not None
    return settings.knobs[knob].value


def rate(transport: Transport) -> int:
    """Returns an operating point of the CPU that is not its lowest or highest."""
    choices = [choice for choice in transport.found.knobs["cpu0.max"].choices if isinstance(choice, int)]
    return choices[len(choices) // 2]


def test_the_first_message_says_what_the_board_is_and_how_it_is_set(board: Transport) -> None:
    assert board.facts.boot_id
    assert board.facts.cpus >= 2
    assert board.found.knobs["cpu0.max"].value == board.found.knobs["cpu0.max"].high
    assert board.found == board.read(settings=True).settings
    assert board.journal.apply is None


def test_nodes_are_given_by_path_as_the_kernel_words_them(board: Transport) -> None:
    nodes = board.found.nodes()
    assert nodes[GOVERNOR] == board.found.knobs["cpu0.governor"].value
    public = {path: text.text.strip() for path, text in board.read(list(nodes)).texts.items() if not text.error}
    assert public
    assert {path: nodes[path] for path in public} == public


def test_a_missing_file_is_an_answer_not_a_failure(board: Transport) -> None:
    texts = board.read(["/nowhere/at/all", GOVERNOR]).texts
    assert texts["/nowhere/at/all"].error == "ENOENT"
    assert texts[GOVERNOR].text.strip() == board.found.knobs["cpu0.governor"].value


def test_a_pattern_gives_every_match(board: Transport) -> None:
    texts = board.read(["/sys/devices/system/cpu/cpu*/online"]).texts
    assert len(texts) == board.facts.cpus
    assert {text.text.strip() for text in texts.values()} == {"1"}


def test_a_write_is_read_back_and_put_back(board: Transport) -> None:
    before = board.found.nodes()
    written = board.write(Apply((step("cpu0.governor", "userspace"), step("cpu0.max", rate(board))), "me"))
    assert [outcome.result for outcome in written.outcomes] == ["applied", "applied"]
    assert value(board, "cpu0.max") == rate(board)
    undone = board.write(Undo())
    assert {outcome.result for outcome in undone.outcomes} == {"restored"}
    settings = board.read(settings=True).settings
    assert settings is not None
    assert settings.nodes() == before


def test_writing_what_is_there_already_changes_nothing_and_remembers_nothing(board: Transport) -> None:
    there = board.found.knobs["cpu0.governor"].value
    assert there is not None
    assert board.write(Apply((step("cpu0.governor", there),), "me")).outcomes[0].result == "unchanged"
    assert board.write(Undo()).outcomes == ()


def test_an_unknown_knob_is_absent(board: Transport) -> None:
    assert board.write(Apply((step("gpu.warp", 9),), "me")).outcomes[0].result == "absent"


@pytest.mark.parametrize(
    ("knob", "wrong"),
    [("cpu0.max", "fast"), ("cpu0.governor", 7), ("cpu1.online", 2), ("cpu0.governor", "a b"), ("cpu0.max", -1)],
)
def test_a_value_of_the_wrong_type_is_refused_before_anything_changes(
    board: Transport, knob: str, wrong: int | str
) -> None:
    with pytest.raises(UsageError, match=knob):
        board.write(Apply((step("cpu0.governor", "userspace"), step(knob, wrong)), "me"))
    assert value(board, "cpu0.governor") == board.found.knobs["cpu0.governor"].value


def test_a_second_apply_keeps_what_the_first_one_found(board: Transport) -> None:
    found = board.found.knobs["cpu0.max"].value
    board.write(Apply((step("cpu0.max", rate(board)),), "me"))
    lowest = board.found.knobs["cpu0.max"].choices[0]
    board.write(Apply((step("cpu0.min", lowest), step("cpu0.max", lowest)), "me"))
    board.write(Undo())
    assert value(board, "cpu0.max") == found


def test_settings_outlive_the_connection_and_so_does_the_memory_of_them(backend: Backend) -> None:
    with backend.connect() as board:
        found = board.found.knobs["cpu0.max"].value
        board.write(Apply((step("cpu0.max", rate(board)),), "me@here"))
    with backend.connect() as board:
        assert board.journal.apply is not None
        assert board.journal.apply.owner == "me@here"
        assert board.journal.apply.knobs == ("cpu0.max",)
        assert value(board, "cpu0.max") == rate(board)
        board.write(Undo())
        assert value(board, "cpu0.max") == found


def test_what_someone_else_changed_is_left_and_named_unless_forced(backend: Backend, board: Transport) -> None:
    found = board.found.knobs["cpu0.governor"].value
    board.write(Apply((step("cpu0.governor", "userspace"), step("cpu0.max", rate(board))), "me"))
    backend.outside(GOVERNOR, "ondemand" if found != "ondemand" else "performance")
    rows = {row.knob: row.result for row in board.write(Undo()).outcomes}
    assert rows["cpu0.governor"] == "left"
    assert rows["cpu0.max"] == "restored"
    forced = board.write(Undo(force=True)).outcomes
    assert [(row.knob, row.now, row.result) for row in forced] == [("cpu0.governor", found, "restored")]


def test_a_second_apply_does_not_take_what_someone_else_changed_for_its_own(backend: Backend, board: Transport) -> None:
    found = board.found.knobs["cpu0.governor"].value
    board.write(Apply((step("cpu0.governor", "userspace"),), "me"))
    backend.outside(GOVERNOR, "ondemand" if found != "ondemand" else "performance")
    board.write(Apply((step("cpu0.max", rate(board)),), "me"))
    rows = {row.knob: row.result for row in board.write(Undo()).outcomes}
    assert rows == {"cpu0.governor": "left", "cpu0.max": "restored"}


def test_force_puts_back_what_someone_else_changed(backend: Backend, board: Transport) -> None:
    found = board.found.knobs["cpu0.max"].value
    board.write(Apply((step("cpu0.max", rate(board)),), "me"))
    backend.outside(
        GOVERNOR.replace("governor", "max_freq"), str(int(board.found.knobs["cpu0.max"].choices[-2]) // 1000)
    )
    board.write(Undo(force=True))
    assert value(board, "cpu0.max") == found


def test_a_lease_ends_with_its_undo_and_nests_in_an_apply(board: Transport) -> None:
    board.write(Apply((step("cpu0.max", rate(board)),), "me"))
    lease = board.write(Apply((step("cpu0.governor", "userspace"),), "me", lease=True)).lease
    assert lease
    board.write(Undo(lease=lease))
    assert value(board, "cpu0.governor") == board.found.knobs["cpu0.governor"].value
    assert value(board, "cpu0.max") == rate(board)


def test_what_lies_below_a_lease_is_not_changed_until_it_ends(board: Transport) -> None:
    lease = board.write(Apply((step("cpu0.governor", "userspace"),), "me", lease=True)).lease
    for change in (Apply((step("cpu0.max", rate(board)),), "me"), Undo()):
        with pytest.raises(LeaseHeld):
            board.write(change)
    board.write(Undo(lease=lease))
    assert value(board, "cpu0.governor") == board.found.knobs["cpu0.governor"].value


def test_a_lease_ends_with_its_connection(backend: Backend) -> None:
    with backend.connect() as board:
        board.write(Apply((step("cpu0.max", rate(board)),), "me", lease=True))
    with backend.connect() as again:
        assert again.found.knobs["cpu0.max"].value == board.found.knobs["cpu0.max"].value


def test_a_job_tells_what_it_prints_where_and_when(board: Transport) -> None:
    done = board.run(Job(argv=("echo", "one two")))
    assert done.exit_code == 0
    assert done.text() == "one two\n"
    assert done.text("stderr") == ""
    assert done.started_s <= done.lines[0].t_s <= done.ended_s


def test_a_job_reads_what_it_is_given(board: Transport) -> None:
    assert board.run(Job(argv=("cat",), stdin="a\nb")).text() == "a\nb\n"


def test_a_failing_job_says_so_with_its_code(board: Transport) -> None:
    assert board.run(Job(argv=("false",))).exit_code == 1


def test_a_program_that_is_not_there_is_an_error_that_names_it(board: Transport) -> None:
    with pytest.raises(EngineError, match="no-such-program"):
        board.run(Job(argv=("no-such-program",)))


def test_a_job_that_lasts_too_long_is_ended(board: Transport) -> None:
    done = board.run(Job(argv=("sleep", "30"), timeout_s=0.2))
    assert done.reason == "timeout"
    assert done.ended_s - done.started_s < 5


def test_a_job_that_outlasts_its_duration_is_interrupted_as_by_ctrl_c(board: Transport) -> None:
    done = board.run(Job(argv=("sleep", "30"), duration_s=0.2))
    assert (done.reason, done.exit_code) == ("duration", -2)
    assert 0.2 <= done.ended_s - done.started_s < 3


def test_a_setting_that_cannot_be_read_is_not_written_since_it_could_not_be_put_back(backend: Backend) -> None:
    if backend.name != "local":
        pytest.skip("the twin's nodes always have a value")
    backend.outside(GOVERNOR.replace("governor", "max_freq"), "garbage")
    with backend.connect() as board:
        outcome = board.write(Apply((step("cpu0.max", LOWER),), "me")).outcomes[0]
    assert outcome.result == "refused"
    assert "put back" in outcome.why


def test_a_stream_ends_with_exactly_one_end(board: Transport) -> None:
    asked = Sampling(rails=tuple(board.rails), rate_hz=50)
    events = list(board.stream(Job(argv=("echo", "x"), sampling=asked)))
    assert [type(event) for event in events].index(Ended) == len(events) - 1
    assert isinstance(events[0], Line)


def test_a_job_that_nobody_listens_to_any_more_is_ended_and_the_next_one_runs(board: Transport) -> None:
    stream = board.stream(Job(argv=("cat", "/dev/null")))
    del stream
    events = board.stream(Job(argv=("echo", "first")))
    next(events)
    del events
    assert board.run(Job(argv=("echo", "second"))).text() == "second\n"


def test_rails_and_readings_are_sampled_at_the_asked_pace(board: Transport) -> None:
    rails = tuple(board.rails)
    done = board.run(Job(duration_s=0.5, sampling=Sampling(rails=rails, rate_hz=40, watch_hz=4)))
    series = {item.id: item for item in done.series if isinstance(item, Series)}
    assert set(series) >= set(rails)
    for rail in rails:
        times = series[rail].times_s
        assert 12 <= len(times) <= 24
        assert all(a < b for a, b in pairwise(times))
        assert done.started_s <= times[0]
        assert times[-1] <= done.ended_s
        assert all(watts is not None and 0 <= watts < 50 for watts in series[rail].values)


def test_every_board_tells_its_load_the_job_s_and_whether_its_calendar_jumped(board: Transport) -> None:
    own = ("clock.wall_offset_s", "host.cpu_s", "job.cpu_s")
    assert set(own) <= set(board.readings)
    done = board.run(Job(duration_s=0.5, sampling=Sampling(readings=own, watch_hz=20.0)))
    found = {series.id: series.values for series in done.series}
    assert sorted(found) == sorted(own)
    for name in own[1:]:
        known = [value for value in found[name] if value is not None]
        assert len(known) == len(found[name]) > 3
        assert known == sorted(known)
    offsets = [value for value in found["clock.wall_offset_s"] if value is not None]
    assert max(offsets) - min(offsets) < 0.1


def test_every_rail_comes_with_what_measures_it(board: Transport) -> None:
    assert all(rail.sensor is not None and rail.sensor.kind for rail in board.rails.values())


def test_what_a_command_beside_the_job_prints_is_kept_with_its_times_and_told_after_it(board: Transport) -> None:
    events = list(board.stream(Job(argv=("sleep", "0.3"), beside=("echo", "one two"))))
    assert [type(event) for event in events] == [Line, Ended]
    line, end = events
    assert isinstance(line, Line)
    assert isinstance(end, Ended)
    assert (line.source, line.text) == ("beside", "one two")
    assert end.started_s <= line.t_s <= end.ended_s
    done = board.run(Job(argv=("echo", "x"), beside=("sleep", "30")))
    assert done.text() == "x\n"
    assert done.ended_s - done.started_s < 5


def test_a_command_beside_the_job_that_is_not_there_is_an_error_and_no_job_runs(board: Transport) -> None:
    with pytest.raises(EngineError, match="no-such-program"):
        board.run(Job(argv=("echo", "x"), beside=("no-such-program",)))
    with pytest.raises(EngineError, match="no-such-program"):
        board.run(Job(argv=("no-such-program",), beside=("sleep", "30")))
    assert board.run(Job(duration_s=0.3, beside=("echo", "beside nothing"))).beside[0].text == "beside nothing"


def test_a_file_arrives_whole_and_lies_under_its_own_name(board: Transport) -> None:
    content = bytes(range(256)) * 9000
    path = board.put(Blob("model.bin", content))
    assert path.rpartition("/")[2] == "model.bin"
    assert board.put(Blob("model.bin", content)) == path
    assert board.put(Blob("model.bin", content + b"!")) != path


def test_a_file_of_this_machine_arrives_like_bytes_do(board: Transport, tmp_path: Path) -> None:
    file = tmp_path / "model.bin"
    file.write_bytes(b"weights" * 1000)
    assert board.put(Blob("model.bin", path=file)) == board.put(Blob("model.bin", b"weights" * 1000))
