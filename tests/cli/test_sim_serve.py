"""`edgeperf sim serve`: a twin over SSH is the same board as the one in process, and lets in nobody else."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from remote import hosts, start
from remote.hosts import Twin
from remote.sim.serve import Served, config_lines, program_of, public_keys, serving
from tests.cli.command import edgeperf, nodes
from tests.ssh import twins


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with twins.served("sim:tx1@r23.1", tmp_path / "server") as one:
        yield one


def test_maxperf_over_ssh_sets_every_node_as_in_process(served: Served, tmp_path: Path) -> None:
    here = f"sim:tx1@r23.1,state={tmp_path / 'twin.json'}"
    rows = []
    for host in (here, served.name):
        ran = edgeperf("maxperf", "--host", host, "--json")
        assert ran.code == 0, ran.err
        rows.append(ran.data()["rows"])
    assert rows[0] == rows[1]
    assert nodes(here) == nodes(served.name)
    assert edgeperf("restore", "--host", served.name).code == 0
    assert "SIMULATED tx1" in edgeperf("status", "--host", served.name).out


def test_several_hosts_in_a_row_meet_the_same_board(served: Served) -> None:
    assert edgeperf("exec", "--host", served.name, "--", "echo", "one two").out.startswith("one two")
    assert edgeperf("rails", "--host", served.name, "--duration", "1s").code == 0


def test_only_the_users_own_key_opens_it_under_a_host_key_that_is_private(served: Served, tmp_path: Path) -> None:
    if os.name == "posix":
        assert (tmp_path / "server/host_key").stat().st_mode & 0o777 == 0o600
    twins.welcome(Path.home())  # another pair of keys in place of the one that the server knows
    ran = edgeperf("status", "--host", served.name)
    assert ran.code == 3
    assert "does not let this user in" in ran.err


def test_the_host_key_stays_the_same_from_start_to_start(tmp_path: Path) -> None:
    keys = []
    for _ in range(2):
        with twins.served("sim:nano", tmp_path / "server"):
            keys.append((tmp_path / "server/known_hosts").read_text())
    assert keys[0] == keys[1]


@pytest.mark.skipif(shutil.which("ssh") is None, reason="needs OpenSSH's client")
def test_an_ordinary_ssh_is_told_that_only_edgeperf_is_served(served: Served) -> None:
    lines = Path.home() / ".ssh/config"
    lines.write_text(lines.read_text() + f"    IdentityFile {Path.home() / '.ssh/id_ed25519'}\n")
    for words in (["uname", "-a"], []):
        ran = subprocess.run(
            ["ssh", "-F", lines, "-T", served.name, *words], input="", capture_output=True, text=True, timeout=30,
            check=False,
        )  # fmt: skip
        assert ran.returncode == 127, ran.stderr
        assert (" ".join(words) or "a shell") in ran.stderr


@pytest.mark.parametrize(("fault", "code"), [("link-stall@1s:3s", 0), ("link-stall@1s:30s", 3), ("reboot@1s", 3)])
def test_a_line_that_breaks_ends_the_command_and_one_that_stalls_does_not(
    fault: str, code: int, tmp_path: Path
) -> None:
    with twins.served(f"sim:nano,fault={fault}", tmp_path / "server") as one:
        assert edgeperf("exec", "--host", one.name, "--", "sleep", "2").code == code
        assert 0 in [edgeperf("status", "--host", one.name).code for _ in range(4)]  # 10 s pass in each that is lost


def test_without_a_public_key_nothing_is_served(tmp_path: Path) -> None:
    ran = edgeperf("sim", "serve", "tx1")
    assert ran.code == 2
    assert "--authorized-keys" in ran.err
    assert edgeperf("sim", "serve", "tx1", "--authorized-keys", str(tmp_path / "none")).code == 2


def test_boards_of_a_rack_are_each_their_own(tmp_path: Path) -> None:
    twins.welcome(Path.home())
    twin = hosts.parse("sim:nano")
    assert isinstance(twin, Twin)
    with serving([twin, twin], {}, public_keys(None), tmp_path, address="127.0.0.1", port=0) as rack:
        (Path.home() / ".ssh/config").write_text(config_lines(rack, tmp_path))
        first, second = (one.name for one in rack)
        before = nodes(second)
        assert edgeperf("maxperf", "--host", first).code == 0
        assert nodes(second) == before != nodes(first)
        taken = edgeperf("sim", "serve", "tx1", "--port", str(rack[0].port))
    assert taken.code == 3
    assert "--port" in taken.err


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_prints_its_lines_and_ends_by_a_signal_with_its_state_kept(
    number: signal.Signals, tmp_path: Path
) -> None:
    twins.welcome(Path.home())
    state = tmp_path / "twin.json"
    words = ["sim", "serve", f"nano,state={state}", "--port", "0"]
    code = f"import sys; from edgeperf import cli; sys.exit(cli.run({words!r}))"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout
    try:
        lines = ""
        while "UserKnownHostsFile" not in lines:
            lines += process.stdout.readline()
        (Path.home() / ".ssh/config").write_text(lines)
        assert edgeperf("maxperf", "--host", "sim-nano").code == 0
        set_there = nodes("sim-nano")
    finally:
        process.send_signal(number)
    process.stdout.close()
    assert process.wait(30) == 0
    assert nodes(f"sim:nano,state={state}") == set_there
    assert re.search(r"^Host sim-nano\n    HostName 127.0.0.1\n    Port \d+\n    User nvidia$", lines, re.MULTILINE)


def test_a_command_of_another_version_is_no_program_of_this_one() -> None:
    digest = start.programs()[1]
    for root in get_args(start.Root):
        line = start.command(["clockd", "--beat", "2"], root, installed=True)
        assert program_of(line) == ("clockd", "nvidia" if root == "none" else "root")
        assert program_of(line.replace(digest, "0" * 64)) == ("", "")
        assert program_of(line + " && reboot") == ("", "")
    assert program_of("'") == ("", "")
