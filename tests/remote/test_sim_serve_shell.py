"""Commands and shells on a twin over SSH. What is run here is this machine's own ``sh``, in place of the twin's."""

from __future__ import annotations

import asyncio
import io
import shutil
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncssh
import fabric
import pytest
from hypothesis import given
from hypothesis import strategies as st

from remote import hosts
from remote.hosts import Twin
from remote.sim.live import LiveBoard
from remote.sim.serve import Served, config_lines, identities, public_keys, serving, sftp_program
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


@pytest.mark.parametrize("options", [(), ("-tt",)])
def test_what_writes_without_end_ends_when_nobody_reads_it(served: Served, options: tuple[str, ...]) -> None:
    command = ["ssh", "-F", str(Path.home() / ".ssh/config"), *options, served.name, "yes"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as client:
        assert client.stdout
        assert client.stdout.read(1) == b"y"
        client.stdout.close()  # as `head -1` does
        ended = within(10.0, lambda: client.poll() is not None)
        client.kill()
        assert ended


def test_what_is_copied_there_is_what_a_shell_finds(served: Served, tmp_path: Path) -> None:
    data = bytes(range(256)) * 3000
    (tmp_path / "here").mkdir()
    (tmp_path / "here/model.bin").write_bytes(data)
    there = tmp_path / "there"
    config = ("-F", str(Path.home() / ".ssh/config"))
    subprocess.run(["scp", "-qr", *config, str(tmp_path / "here"), f"{served.name}:{there}"], check=True, timeout=20)
    assert ssh(served, f"wc -c < {there}/model.bin").stdout.strip() == str(len(data))
    subprocess.run(["scp", "-qr", *config, f"{served.name}:{there}", str(tmp_path / "back")], check=True, timeout=20)
    assert (tmp_path / "back/model.bin").read_bytes() == data


def test_sftp_does_its_usual_commands_where_shells_run(served: Served, tmp_path: Path) -> None:
    with fabric.Connection(served.name) as connection:
        files = connection.sftp()
        files.mkdir(f"{tmp_path}/folder")
        with files.open(f"{tmp_path}/folder/a", "w") as file:
            file.write("text")
        with files.open(f"{tmp_path}/folder/a", "a") as file:
            file.write(" and more")
        with files.open(f"{tmp_path}/folder/a") as file:
            file.seek(5)
            assert file.read() == b"and more"
        files.chmod(f"{tmp_path}/folder/a", 0o640)
        files.utime(f"{tmp_path}/folder/a", (1000.0, 2000.0))
        found = files.stat(f"{tmp_path}/folder/a")
        assert (found.st_size, stat.S_IMODE(found.st_mode or 0), found.st_mtime) == (13, 0o640, 2000)
        files.symlink("a", f"{tmp_path}/folder/link")
        assert files.readlink(f"{tmp_path}/folder/link") == "a"
        assert stat.S_ISLNK(files.lstat(f"{tmp_path}/folder/link").st_mode or 0)
        with pytest.raises(OSError, match="exists"):
            files.rename(f"{tmp_path}/folder/a", f"{tmp_path}/folder/link")
        files.posix_rename(f"{tmp_path}/folder/a", f"{tmp_path}/folder/link")
        files.truncate(f"{tmp_path}/folder/link", 4)
        assert [(one.filename, one.st_size) for one in files.listdir_attr(f"{tmp_path}/folder")] == [("link", 4)]
        assert files.normalize(f"{tmp_path}/folder/../folder") == f"{tmp_path}/folder"
        with pytest.raises(FileNotFoundError):
            files.open(f"{tmp_path}/nothing")
        with pytest.raises(OSError, match="not empty"):
            files.rmdir(f"{tmp_path}/folder")
        files.remove(f"{tmp_path}/folder/link")
        files.rmdir(f"{tmp_path}/folder")
    assert not (tmp_path / "folder").exists()


CHANGE = {3, 9, 10, 13, 14, 15, 18, 20, 200}  # packets that could change files of this machine


@given(st.sampled_from(sorted(set(range(40)) - CHANGE)), st.binary(max_size=60))
def test_no_packet_of_a_client_ends_the_program_that_serves_files(kind: int, data: bytes) -> None:
    packet, answer = bytes([kind]) + b"\0\0\0\1" + data, io.BytesIO()
    sftp_program.serve(io.BytesIO(struct.pack(">I", len(packet)) + packet), answer)
    assert answer.getvalue()[:4] == struct.pack(">I", len(answer.getvalue()) - 4)


def test_nothing_is_forwarded_and_that_is_said(served: Served) -> None:
    ran = ssh(served, options=("-W", f"127.0.0.1:{served.port}"))
    assert ran.returncode == 255
    assert "administratively prohibited: a simulated board forwards nothing" in ran.stderr


def test_edgeperf_reaches_the_same_board_as_before(served: Served) -> None:
    assert edgeperf("maxperf", "--host", served.name).code == 0
