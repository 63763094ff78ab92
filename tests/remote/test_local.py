"""What only several processes on one machine can get wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from remote.errors import HostError, LeaseHeld
from remote.transport import Transport
from remote.types import Apply, Blob, Job, Sampling, Step, Undo
from tests.contract.backends import Backend

if os.name != "posix":
    pytest.skip("local boards are POSIX machines", allow_module_level=True)

from remote.local import connect
from tests.contract.backends import local

FOUND, LOWER, LOWEST = 1_734_000_000, 1_036_800_000, 518_400_000
HOLDER = """
import sys
from pathlib import Path
from remote.local import connect
from remote.types import Apply, Step
board = connect(Path(sys.argv[1]) / "cache", str(Path(sys.argv[1]) / "tree"))
board.write(Apply((Step("cpu0.max", 1036800000, None, ""),), "holder", lease=True))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def backend(tmp_path: Path) -> Backend:
    return local(tmp_path)


def lease(hz: int, owner: str) -> Apply:
    return Apply((Step("cpu0.max", hz, None, ""),), owner, lease=True)


def rate(board: Transport) -> object:
    settings = board.read(settings=True).settings
    assert settings is not None
    return settings.knobs["cpu0.max"].value


def test_a_job_that_closes_its_outputs_and_goes_on_is_still_held_to_its_time(backend: Backend) -> None:
    script = "import os, time; os.close(1); os.close(2); time.sleep(60)"
    with backend.connect() as board:
        done = board.run(Job(argv=(sys.executable, "-c", script), timeout_s=0.3))
        assert done.reason == "timeout"
        assert done.ended_s - done.started_s < 5
        assert board.run(Job(argv=("echo", "next"))).text() == "next\n"


def test_looking_at_a_held_board_does_not_end_the_lease(backend: Backend) -> None:
    with backend.connect() as holder:
        holder.write(lease(LOWER, "holder"))
        with backend.connect() as visitor:
            assert rate(visitor) == LOWER
        assert rate(holder) == LOWER


def test_of_two_that_found_the_board_free_only_the_first_gets_it(backend: Backend) -> None:
    with backend.connect() as first, backend.connect() as second:
        held = first.write(lease(LOWER, "first")).lease
        for change in (lease(LOWEST, "second"), Undo(), Undo(lease=held)):
            with pytest.raises(LeaseHeld, match="first"):
                second.write(change)
        assert rate(first) == LOWER
        first.write(Undo(lease=held))
        second.write(lease(LOWEST, "second"))
    with backend.connect() as later:
        assert rate(later) == FOUND


def test_two_that_apply_one_after_the_other_share_one_memory(backend: Backend) -> None:
    with backend.connect() as first, backend.connect() as second:
        first.write(Apply((Step("cpu0.max", LOWER, None, ""),), "first"))
        second.write(Apply((Step("cpu0.max", LOWEST, None, ""),), "second"))
        first.write(Undo())
        assert rate(first) == FOUND


def test_what_ends_the_tool_and_its_group_leaves_alive_what_puts_the_clocks_back(tmp_path: Path) -> None:
    backend = local(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        cwd=Path(__file__).resolve().parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        os.killpg(holder.pid, signal.SIGTERM)
        holder.communicate(timeout=20)  # until the on-board programs too have closed stderr
    with backend.connect() as board:
        assert board.found.knobs["cpu0.max"].value == FOUND
        assert board.journal.notes == ()


def test_a_job_that_is_abandoned_in_full_flow_does_not_keep_the_connection_open(backend: Backend) -> None:
    board = backend.connect()
    stream = board.stream(Job(argv=("yes",)))
    next(stream)
    board.close()
    del stream  # it tries to end its job, which is over


def test_a_wrong_request_is_an_answer_and_not_the_end_of_the_program(backend: Backend) -> None:
    with backend.connect() as board:
        with pytest.raises(HostError, match="no number"):
            board.run(Job(duration_s=0.1, sampling=Sampling(rails=("VIN",), rate_hz=0.0)))
        assert board.run(Job(argv=("echo", "x"))).text() == "x\n"


def test_the_programs_are_written_anew_when_they_are_not_what_they_must_be(tmp_path: Path, backend: Backend) -> None:
    with backend.connect():
        (zipped,) = (tmp_path / "cache").glob("*.zip")
    zipped.write_bytes(b"something else")
    with backend.connect() as board:
        assert board.facts.board == "generic-linux"


def test_a_cache_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HostError, match=r"file/cache"):
        connect(tmp_path / "file" / "cache")


def test_a_file_changed_in_place_after_it_was_put_is_not_taken_for_what_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "board"))
    model = tmp_path / "model.onnx"
    model.write_bytes(b"old")
    with connect(tmp_path / "cache") as board:
        board.put(Blob("model.onnx", path=model))  # shares the file, as both are on one machine
        model.write_bytes(b"new")
        assert Path(board.put(Blob("model.onnx", b"old"))).read_bytes() == b"old"


def test_a_fixed_speed_is_remembered_before_the_limits_cut_it_off(backend: Backend) -> None:
    folder = "/sys/devices/system/cpu/cpu0/cpufreq"
    backend.outside(f"{folder}/scaling_governor", "userspace\n")
    backend.outside(f"{folder}/scaling_setspeed", "1734000\n")
    with backend.connect() as board:
        board.write(Apply((Step("cpu0.max", LOWER, None, ""),), "me"))
        backend.outside(f"{folder}/scaling_setspeed", "1036800\n")  # as a kernel does
        board.write(Undo(force=True))
        settings = board.read(settings=True).settings
        assert settings is not None
        assert settings.knobs["cpu0.setspeed"].value == FOUND


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"boot":"boot-1"}',
        '{"boot":"boot-1","layers":7}',
        '{"boot":"boot-1","layers":[{"kind":"lease"}]}',
        '{"boot":"boot-1","layers":[{"kind":"lease","owner":"x","since":1,"holder":7,"until":null,"entries":[]}]}',
        '{"boot":"boot-1","layers":[{"kind":"apply","owner":"x","since":1,"holder":"","until":null,"entries":[{}]}]}',
    ],
)
def test_a_damaged_journal_is_dropped_and_said_and_the_board_is_usable(
    tmp_path: Path, backend: Backend, text: str
) -> None:
    folder = tmp_path / "tree/run/edgeperf"
    folder.mkdir(parents=True)
    (folder / "journal.json").write_text(text)
    with backend.connect() as board:
        assert board.journal.notes == ("a damaged journal was dropped",)
        board.write(Apply((Step("cpu0.max", LOWER, None, ""),), "me"))
        board.write(Undo())
        assert rate(board) == FOUND
