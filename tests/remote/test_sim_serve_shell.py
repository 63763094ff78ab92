"""Commands and shells on a twin over SSH. What is run here is this machine's own ``sh``, in place of the twin's."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncssh
import pytest

from remote import hosts
from remote.hosts import Twin
from remote.sim.live import LiveBoard
from remote.sim.serve import Served, config_lines, identities, public_keys, serving
from tests.cli.command import edgeperf
from tests.remote.test_sim_live import within
from tests.ssh import twins

pytestmark = pytest.mark.skipif(
    sys.platform == "win32" or shutil.which("ssh") is None, reason="needs OpenSSH's client and a POSIX shell"
)


class Here:
    """Runs commands on this machine; tells the user by an argument."""

    def command(self, line: str | None, user: str) -> tuple[str, ...]:
        return ("sh", "-c", line, user) if line is not None else ("sh",)


@contextmanager
def here(board: LiveBoard) -> Iterator[Here]:
    yield Here()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    twins.welcome(Path.home())
    twin = hosts.parse("sim:nano")
    assert isinstance(twin, Twin)
    with serving([twin], {}, public_keys(None), tmp_path, address="127.0.0.1", port=0, rooted=here) as (one,):
        (Path.home() / ".ssh/config").write_text(config_lines([one], tmp_path, identities(None)))
        yield one


def ssh(served: Served, *words: str, options: tuple[str, ...] = (), text: str = "") -> subprocess.CompletedProcess[str]:
    command = ["ssh", "-F", str(Path.home() / ".ssh/config"), *options, served.name, *words]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=20, check=False)


def test_a_command_has_its_three_streams_and_its_exit_code(served: Served) -> None:
    ran = ssh(served, "cat; echo wrong >&2; exit 7", text="hello\n")
    assert (ran.stdout, ran.stderr, ran.returncode) == ("hello\n", "wrong\n", 7)


def test_a_script_on_stdin_runs_in_a_login_shell_too(served: Served) -> None:
    assert ssh(served, "sh -e", text="echo a\nfalse\necho b\n").stdout == "a\n"
    ran = ssh(served, text="echo a\nexit 3\n", options=("-T",))
    assert (ran.stdout, ran.returncode) == ("a\n", 3)


def test_the_login_name_says_as_whom(served: Served) -> None:
    assert ssh(served, "echo $0").stdout == "nvidia\n"
    assert ssh(served, "echo $0", options=("-l", "root")).stdout == "root\n"
    assert ssh(served, "true", options=("-l", "somebody")).returncode == 255


def test_big_output_arrives_whole_and_a_slow_reader_holds_it_back(served: Served) -> None:
    assert len(ssh(served, "head -c 5000000 /dev/zero").stdout) == 5_000_000


def test_a_terminal_has_its_size_its_signals_and_its_end(served: Served) -> None:
    for _ in range(8):  # each time all that is said arrives, however soon the end comes after it
        ran = ssh(served, "test -t 0 && test -t 1 && echo $TERM; exit 5", options=("-tt",))
        assert ran.returncode == 5
        assert ran.stdout.strip()
    script = "trap 'echo caught; exit 6' INT; echo ready; while :; do read line; done"
    command = ["ssh", "-F", str(Path.home() / ".ssh/config"), "-tt", served.name, script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout
        assert client.stdout.readline().strip() == "ready"
        assert "caught" in client.communicate("\x03", timeout=20)[0]
    assert client.returncode == 6
    assert "x" in ssh(served, "cat", options=("-tt",), text="x\n").stdout  # ends: Ctrl-D follows the last byte


def test_the_size_of_a_terminal_follows_the_clients(served: Served) -> None:
    async def sizes() -> str:
        key = str(Path.home() / ".ssh/id_ed25519")
        async with asyncssh.connect(
            served.address, served.port, username="nvidia", client_keys=[key], known_hosts=None, config=None
        ) as connection:
            line = "trap 'stty size; exit' WINCH; stty size; while :; do read x; done"
            process = await connection.create_process(line, term_type="xterm", term_size=(80, 24))
            first = await process.stdout.readline()
            process.change_terminal_size(132, 43)
            return str(first) + str(await process.stdout.readline())

    assert asyncio.run(sizes()).split() == ["24", "80", "43", "132"]


def test_several_run_at_once(served: Served) -> None:
    command = ["ssh", "-F", str(Path.home() / ".ssh/config"), served.name, "read line; echo $line"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    started = [subprocess.Popen(command, **pipes) for _ in range(4)]  # type: ignore[call-overload]
    said = [process.communicate(f"{number}\n", timeout=20)[0] for number, process in enumerate(started)]
    assert said == ["0\n", "1\n", "2\n", "3\n"]


def test_the_environment_is_not_the_clients(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "of this machine")
    ran = ssh(served, "env", options=("-o", "SetEnv=THEIRS=1"))
    seen = dict(line.split("=", 1) for line in ran.stdout.splitlines() if "=" in line)
    assert seen
    assert not {"THEIRS", "SECRET", "HOME"} & set(seen)


def test_a_client_that_goes_away_ends_what_it_has_started(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "ended"
    line = f"trap 'echo > {file}; exit' HUP; echo ready; while :; do read x || :; done"
    command = ["ssh", "-F", str(Path.home() / ".ssh/config"), served.name, line]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as client:
        assert client.stdout
        assert client.stdout.readline() == "ready\n"
        client.kill()
    assert within(5.0, file.exists)


def test_edgeperf_reaches_the_same_board_as_before(served: Served) -> None:
    assert edgeperf("maxperf", "--host", served.name).code == 0
