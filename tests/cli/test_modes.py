"""`--mode`: a power mode by its name, then the clocks as it allows them; and a reboot only where it is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from clockprofiles import profile as profiles
from edgeperf import clocks
from remote import boards, hosts
from remote.board import Board
from remote.errors import LinkLost
from remote.sim.link import TwinTransport
from remote.transport import Transport
from remote.types import Apply, Undo, Written
from tests.cli.command import bench, edgeperf, nodes


def state(board: str, folder: Path) -> str:
    return f"sim:{board},state={folder / 'twin.json'}"


def rows(*words: str) -> dict[str, dict[str, Any]]:
    ran = edgeperf("maxperf", "--json", *words)
    assert ran.code == 0, ran.err
    return {row["knob"]: row for row in ran.data()["rows"]}


def test_clocks_are_planned_anew_after_the_mode_and_all_is_put_back(tmp_path: Path) -> None:
    host = state("xavier-nx", tmp_path)
    before = nodes(host)
    there = rows("--host", host, "--mode", "MODE_20W_6CORE")
    assert there["nvpmodel.mode"]["result"] == "applied"
    assert there["emc.rate"]["now"] == 1_866_000_000  # more than the mode found would have allowed
    assert there["cpu4.max"]["now"] == 1_420_800_000  # of cores that were off
    assert edgeperf("restore", "--host", host).code == 0
    assert nodes(host) == before


def test_a_mode_twice_changes_nothing_the_second_time(tmp_path: Path) -> None:
    host = state("xavier-nx", tmp_path)
    rows("--host", host, "--mode", "MODE_10W_4CORE")
    assert {row["result"] for row in rows("--host", host, "--mode", "MODE_10W_4CORE").values()} == {"unchanged"}
    assert edgeperf("maxperf", "--host", host, "--mode", "MODE_10W_4CORE", "--dry-run", "--exit-code").code == 0


def test_a_dry_run_shows_the_mode_and_sets_none(tmp_path: Path) -> None:
    host = state("xavier-nx", tmp_path)
    words = ("--host", host, "--mode", "MODE_20W_6CORE", "--dry-run")
    assert rows(*words)["nvpmodel.mode"]["result"] == "planned"
    assert edgeperf("maxperf", *words, "--exit-code").code == 7


def test_a_mode_that_takes_a_reboot_is_named_and_the_rest_is_applied() -> None:
    ran = edgeperf("maxperf", "--host", "sim:agx-orin", "--mode", "MAXN", "--json")
    assert ran.code == 0
    results = {row["knob"]: row["result"] for row in ran.data()["rows"]}
    assert (results["nvpmodel.mode"], results["gpu.min"]) == ("needs-reboot", "applied")
    assert any("--reboot" in note for note in ran.data()["notes"])


def test_a_twin_refuses_to_reboot_and_says_why(tmp_path: Path) -> None:
    host = state("agx-orin", tmp_path)
    ran = edgeperf("maxperf", "--host", host, "--mode", "MAXN", "--reboot")
    assert ran.code == 4
    assert "does not reboot" in ran.out
    assert edgeperf("restore", "--host", host).code == 0


class Rebooting:
    """A board that answers no more once it is told to set a mode."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.written: list[Apply | Undo] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.transport, name)

    def write(self, change: Apply | Undo) -> Written:
        self.written.append(change)
        raise LinkLost("the connection ended")


@pytest.mark.parametrize("allowed", [True, False])
def test_a_board_that_reboots_as_allowed_is_not_waited_for(allowed: bool) -> None:
    host = hosts.parse("sim:agx-orin")
    assert isinstance(host, hosts.Twin)
    with TwinTransport(host, {}) as transport:
        gone = Rebooting(transport)
        board = Board(host, boards.load("agx-orin"), cast(Transport, gone))
        made = clocks.plan_for(board, clocks.in_mode(board, profiles.load("maxperf"), "MAXN"))
        if not allowed:
            with pytest.raises(LinkLost):
                clocks.apply(board, made)
            return
        done = clocks.apply(board, made, reboot=True)
    (row,) = done.rows
    assert (row.knob, row.result, "rebooting" in row.why) == ("nvpmodel.mode", "needs-reboot", True)
    assert "does not wait" in done.notes[-1]
    assert len(gone.written) == 1


def test_a_mode_that_takes_no_reboot_is_set_where_one_is_allowed(tmp_path: Path) -> None:
    there = rows("--host", state("agx-orin", tmp_path), "--mode", "MODE_30W", "--reboot")
    assert {row["result"] for row in there.values()} <= {"applied", "unchanged"}


@pytest.mark.parametrize(
    ("board", "words", "hint"),
    [
        ("agx-orin", ("--mode", "maxn"), "did you mean MAXN? it has MAXN, MODE_15W, MODE_30W, MODE_50W"),
        ("agx-orin", ("--mode", "; reboot"), "it has MAXN"),
        ("tx1", ("--mode", "MAXN"), "leave out --mode"),
        ("agx-orin", ("--mode", "MAXN", "--reboot", "--for", "30m"), "one of them"),
    ],
)
def test_a_mode_that_cannot_be_is_a_usage_error_with_what_can(board: str, words: tuple[str, ...], hint: str) -> None:
    ran = edgeperf("maxperf", "--host", f"sim:{board}", *words)
    assert (ran.code, hint in ran.err) == (2, True), ran.err


def profile(folder: Path, mode: str) -> str:
    path = folder / "mode.toml"
    path.write_text(f'inherits = "maxperf"\n[nvpmodel]\nmode = "{mode}"\n', "utf-8")
    return str(path)


def test_a_measurement_runs_in_the_mode_of_its_profile_and_puts_it_back(tmp_path: Path) -> None:
    host = state("xavier-nx", tmp_path)
    before = nodes(host)
    record = bench("--host", host, "--profile", profile(tmp_path, "MODE_20W_6CORE"), "--duration", "2")
    assert record["clocks"]["effective"]["emc_hz"] == pytest.approx(1_866_000_000, rel=1e-3)
    assert record["clocks"]["asked"]["gpu_hz"] == 1_109_250_000
    assert record["verdict"]["state"] == "VALID", record["verdict"]
    assert nodes(host) == before


def test_a_measurement_that_lacks_its_mode_says_so(tmp_path: Path) -> None:
    words = ("--host", "sim:agx-orin", "--profile", profile(tmp_path, "MAXN"), "--duration", "2")
    record = bench(*words)
    (reason,) = (reason for reason in record["verdict"]["reasons"] if reason["code"] == "mode-not-as-asked")
    assert reason["severity"] == "DEGRADED"
    assert "reboot" in reason["text"]
    ran = edgeperf("bench", "alexnet", *words, "--require-lock")
    assert (ran.code, "nvpmodel.mode" in ran.err) == (4, True)
