"""One command on many boards."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgeperf import cli
from edgeperf.hosts import save
from remote.inventory import Entry, Inventory
from tests.ssh import sshd
from tests.ssh.conftest import board
from tests.ssh.sshd import Sshd

LAB = ("lab",)
CPU0 = "sys/devices/system/cpu/cpu0"


@pytest.fixture
def fleet(server: Sshd, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Path]]:
    """Ten boards of a group, the folders of eight by name: two do not answer, one refuses to be set."""
    monkeypatch.setenv("EDGEPERF_CONNECT", "2s")
    known, trees = Inventory(), {}
    for number in range(7):
        host, trees[f"good{number}"] = board(server, "root")
        known = known.add(f"good{number}", Entry(host.text, tree=host.root), LAB)
    host, tree = board(server, "plain")
    for path in (tree, *tree.rglob("*")):
        if path.name != "scaling_governor":
            os.chown(path, sshd.USERS["plain"], sshd.USERS["plain"])
    known = known.add("stubborn", Entry(host.text, tree=host.root), LAB)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        known = known.add("off", Entry(f"root@127.0.0.1:{closed.getsockname()[1]}"), LAB)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        save(known.add("frozen", Entry(f"root@127.0.0.1:{silent.getsockname()[1]}"), LAB))
        yield trees


def test_of_ten_boards_each_has_a_row_and_the_worst_one_counts(
    fleet: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    began = time.monotonic()
    code = cli.run(["maxperf", "--host", "lab", "--json"])
    assert time.monotonic() - began < 30  # it waits for none longer than its limit, though for as long as they work
    rows = {row["host"]: row for row in json.loads(capsys.readouterr().out)["hosts"]}
    assert code == 4
    assert len(rows) == 10
    assert [name for name, row in rows.items() if row["exit_code"] == 0] == list(fleet)
    assert "refuses" in rows["off"]["error"]
    assert rows["frozen"]["exit_code"] == rows["off"]["exit_code"] == 3
    refused = [row["knob"] for row in rows["stubborn"]["report"]["rows"] if row["result"] == "refused"]
    assert refused == ["cpu0.governor"]
    for tree in fleet.values():
        assert (tree / CPU0 / "cpufreq/scaling_governor").read_text().strip() == "performance"


def test_the_rows_for_people_name_board_result_and_cause(
    fleet: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["maxperf", "--host", "lab"]) == 4
    lines = capsys.readouterr().out.splitlines()
    row = {line.split()[0]: line for line in lines if line.split()}
    assert "applied" in row["good0"]
    assert "cpu0.governor refused" in row["stubborn"]
    assert "failed" in row["frozen"]
    assert cli.run(["restore", "--host", "good0", "--host", "good1"]) == 0


def test_a_host_named_twice_is_reached_once(fleet: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["maxperf", "--host", "good0", "--host", "good0", "--host", "good1", "--json"]) == 0
    assert [row["host"] for row in json.loads(capsys.readouterr().out)["hosts"]] == ["good0", "good1"]


def test_a_group_can_be_looked_at_but_not_measured_at_once(
    fleet: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["status", "--host", "lab"]) == 3
    assert "good6" in capsys.readouterr().out
    assert cli.run(["bench", "alexnet", "--host", "lab"]) == 2
