"""`edgeperf sim serve`: a twin over SSH is the same board as the one in process, and lets in nobody else."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import get_args

import pytest

from remote import hosts, start
from remote.errors import HostError
from remote.hosts import Twin
from remote.sim.serve import Served, config_lines, identities, public_keys, serving
from remote.sim.serve.program import order_of
from tests.cli.command import edgeperf, nodes
from tests.ssh import twins

OPENSSH = pytest.mark.skipif(shutil.which("ssh") is None, reason="needs OpenSSH's client")
POSIX = pytest.mark.skipif(os.name != "posix", reason="signals")


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


@OPENSSH
def test_an_ordinary_ssh_is_told_that_only_edgeperf_is_served(served: Served) -> None:
    lines = Path.home() / ".ssh/config"
    for words in (["uname", "-a"], []):
        ran = subprocess.run(
            ["ssh", "-F", lines, "-T", served.name, *words], input="", capture_output=True, text=True, timeout=30,
            check=False,
        )  # fmt: skip
        assert ran.returncode == 127, ran.stderr
        assert (" ".join(words) or "a shell") in ran.stderr


@pytest.mark.parametrize(
    ("fault", "code"), [("link-stall@1s:1500ms", 0), ("link-stall@1s:20500ms", 3), ("reboot@1s", 3)]
)
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


@contextmanager
def serving_command(*words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Runs ``edgeperf sim serve`` as a process of its own, its lines in the user's SSH config; yields both."""
    code = f"import sys; from edgeperf import cli; sys.exit(cli.run({['sim', 'serve', *words, '--port', '0']!r}))"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            lines = ""
            while not lines.endswith("known_hosts\n"):
                said = process.stdout.readline()
                assert said, lines
                lines += said
            (Path.home() / ".ssh/config").write_text(lines)
            yield process, lines
        finally:
            process.kill()


@POSIX
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)])
def test_the_command_prints_its_lines_and_ends_by_a_signal_with_its_state_kept(
    number: signal.Signals, tmp_path: Path
) -> None:
    twins.welcome(Path.home())
    state = tmp_path / "twin.json"
    with serving_command("nano", "--state", str(state)) as (process, lines):
        assert edgeperf("maxperf", "--host", "sim-nano").code == 0
        set_there = nodes("sim-nano")
        process.send_signal(number)
        assert process.wait(30) == 0
    assert nodes(f"sim:nano,state={state}") == set_there
    assert re.search(r"^Host sim-nano\n    HostName 127.0.0.1\n    Port \d+\n    User nvidia$", lines, re.MULTILINE)


@POSIX
def test_a_server_that_is_killed_loses_nothing_that_a_command_has_set(tmp_path: Path) -> None:
    twins.welcome(Path.home())
    state = tmp_path / "twin.json"
    with serving_command("nano", "--state", str(state)) as (process, _):
        assert edgeperf("maxperf", "--host", "sim-nano").code == 0
        set_there = nodes("sim-nano")  # its line ends after that of the command before was saved
        process.kill()
        process.wait()
    assert nodes(f"sim:nano,state={state}") == set_there


def test_boards_of_a_rack_keep_a_state_each(tmp_path: Path) -> None:
    from edgeperf.sim_serve import _rack

    rack = _rack("nano,seed=3", None, 2, tmp_path / "rack.json", False)
    assert [twin.state for twin in rack] == [str(tmp_path / "rack-1.json"), str(tmp_path / "rack-2.json")]
    assert [twin.seed for twin in rack] == [3, 4]
    assert [twin.state for twin in _rack("nano", None, 1, tmp_path / "one.json", False)] == [str(tmp_path / "one.json")]
    assert edgeperf("sim", "serve", f"nano,state={tmp_path / 'a'}", "--state", str(tmp_path / "b")).code == 2


def test_the_board_may_be_named_as_a_host_is() -> None:
    from edgeperf.sim_serve import _rack

    assert _rack("sim:nano,seed=3", None, 1, None, False) == _rack("nano,seed=3", None, 1, None, False)


def test_what_cannot_be_listened_on_is_told_with_what_helps(tmp_path: Path) -> None:
    twins.welcome(Path.home())
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        ran = edgeperf("sim", "serve", "tx1", "--port", port)
        assert (ran.code, f"127.0.0.1:{port} cannot be listened on: Address already in use" in ran.err) == (3, True)
        assert "--port" in ran.err
    ran = edgeperf("sim", "serve", "tx1", "--port", "0", "--address", "192.0.2.1")  # of documentation: nobody's
    assert (ran.code, "--address" in ran.err, "--port" in ran.err) == (3, True, False)
    ran = edgeperf("sim", "serve", "tx1", "--port", "65535", "--count", "2")
    assert (ran.code, "there is no such port" in ran.err) == (3, True)


def test_a_host_key_that_cannot_be_kept_or_read_is_told(tmp_path: Path) -> None:
    twins.welcome(Path.home())
    (tmp_path / "file").touch()
    for folder, hint in ((tmp_path / "file/folder", "XDG_CACHE_HOME"), (tmp_path, "remove that file")):
        (tmp_path / "host_key").write_text("rubbish")
        with pytest.raises(HostError) as told, twins.served("sim:tx1", folder):
            pass
        assert hint in told.value.hint


@pytest.mark.parametrize("address", ["0.0.0.0", "192.168.1.1", "::", "board.example"])
def test_a_shell_is_for_this_machine_alone(address: str) -> None:
    ran = edgeperf("sim", "serve", "tx1", "--shell", "--address", address)
    assert ran.code == 2
    assert "--address" in ran.err


@OPENSSH
@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "localhost"])
def test_the_lines_work_as_they_are_for_each_board_of_a_rack(address: str, tmp_path: Path) -> None:
    if address == "::1" and not _has_ipv6():
        pytest.skip("this machine has no IPv6")
    twins.welcome(Path.home())
    twin, config = hosts.parse("sim:nano"), Path.home() / ".ssh/config"
    assert isinstance(twin, Twin)
    with serving([twin, twin], {}, public_keys(None), tmp_path, address=address, port=0) as rack:
        config.write_text(config_lines(rack, tmp_path, identities(None)))
        for name in ("sim-nano-1", "sim-nano-2"):
            assert edgeperf("status", "--host", name).code == 0
            command = ["ssh", "-F", str(config), "-T", name, "true"]
            ran = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
            assert "only starts the programs" in ran.stderr


def _has_ipv6() -> bool:
    with suppress(OSError), socket.create_server(("::1", 0), family=socket.AF_INET6):
        return True
    return False


@OPENSSH
def test_with_a_shell_the_forum_s_script_runs_over_an_ordinary_ssh(tmp_path: Path) -> None:
    twins.welcome(Path.home())
    pytest.importorskip("mfusepy", reason="needs the extra sim")
    mount = pytest.importorskip("remote.sim.mount", reason="needs Linux")
    twin = hosts.parse("sim:tx1@r23.1")
    assert isinstance(twin, Twin)
    with ExitStack() as stack:
        try:
            server = serving([twin], {}, public_keys(None), tmp_path, address="127.0.0.1", port=0, rooted=mount.rooted)
            (one,) = stack.enter_context(server)
        except HostError as error:
            pytest.skip(f"this machine gives no root of its own: {error.what}")
        config = Path.home() / ".ssh/config"
        config.write_text(config_lines([one], tmp_path, identities(None)))

        script = (Path(__file__).parents[1] / "scripts/forum.sh").read_text()
        command = ["ssh", "-F", str(config), "-l", "root", one.name, "sh -e"]
        ran = subprocess.run(command, input=script, capture_output=True, text=True, timeout=30, check=False)
        assert (ran.returncode, ran.stdout) == (0, "691200000\n"), ran.stderr
        rows = edgeperf("maxperf", "--host", one.name, "--dry-run", "--json").data()["rows"]
        assert [row["knob"] for row in rows if row["result"] != "unchanged"] == ["gpu.rate"]

        governor = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
        (tmp_path / "copied.sh").write_text(f"id -un; cat {governor}; test ! -e {tmp_path} && echo alone")
        (tmp_path / "wanted").write_text("ondemand")
        for file, place in (("copied.sh", f"{one.name}:"), ("wanted", f"root@{one.name}:{governor}")):
            copy = ["scp", "-q", "-F", str(config), str(tmp_path / file), place]
            subprocess.run(copy, check=True, timeout=30)
        command = ["ssh", "-F", str(config), one.name, "sh copied.sh"]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        assert ran.stdout.split() == ["nvidia", "ondemand", "alone"], ran.stderr


def test_a_command_of_another_version_is_no_program_of_this_one() -> None:
    digest = start.programs()[1]
    for root in get_args(start.Root):
        line = start.command(["clockd", "--beat", "2"], root, installed=True)
        order = order_of(line)
        assert order is not None
        assert (order.word, order.options) == ("clockd", {"--beat": "2"})
        assert order.user("nvidia") == ("nvidia" if root == "none" else "root")
        assert order_of(line.replace(digest, "0" * 64)) is None
        assert order_of(line + " && reboot") is None
    assert order_of("'") is None


@POSIX
def test_signals_that_come_while_it_ends_do_not_keep_it_from_saving(tmp_path: Path) -> None:
    twins.welcome(Path.home())
    state = tmp_path / "twin.json"
    with serving_command("nano", "--state", str(state)) as (process, _):
        for _ in range(20):  # a terminal that is closed sends two
            process.send_signal(signal.SIGHUP)
            time.sleep(0.001)
        assert process.wait(30) == 0
    assert state.exists()
