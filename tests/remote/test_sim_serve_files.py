"""A twin's files over SFTP and scp: those of the board, with its permissions, and none of this machine."""

from __future__ import annotations

import inspect
import io
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import asyncssh
import fabric
import paramiko
import pytest

from remote.sim.files import home
from remote.sim.serve import Served
from remote.sim.serve.sftp import Sftp
from tests.ssh import twins

HOME, PRIVATE = home("nvidia"), f"{home('root')}/private"
CPU = "/sys/devices/system/cpu"
GOVERNOR = f"{CPU}/cpu0/cpufreq/scaling_governor"
OPENSSH = pytest.mark.skipif(shutil.which("sftp") is None, reason="needs OpenSSH's clients")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with twins.served("sim:tx1@r23.1", tmp_path / "server") as one:
        yield one


@pytest.fixture
def user(served: Served) -> Iterator[paramiko.SFTPClient]:
    with fabric.Connection(served.name) as connection:
        yield connection.sftp()


@pytest.fixture
def root(served: Served) -> Iterator[paramiko.SFTPClient]:
    with fabric.Connection(served.name, user="root") as connection:
        yield connection.sftp()


def openssh(*words: str, text: str = "") -> subprocess.CompletedProcess[str]:
    tool, *rest = words
    command = [tool, "-F", str(Path.home() / ".ssh/config"), *rest]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=30, check=False)


def test_put_and_get_of_fabric_carry_every_byte(served: Served, tmp_path: Path) -> None:
    data = bytes(range(256)) * 1500
    with fabric.Connection(served.name) as connection:
        connection.put(io.BytesIO(data), "model.bin")
        back = io.BytesIO()
        connection.get(f"{HOME}/model.bin", back)
    assert back.getvalue() == data
    machine = served.board.machine
    assert served.board.call(lambda: machine.load(f"{HOME}/model.bin", "root")) == data


@OPENSSH
@pytest.mark.parametrize("how", [[], ["-O"]])
def test_scp_of_openssh_copies_there_and_back(how: list[str], served: Served, tmp_path: Path) -> None:
    data = bytes(range(256)) * 1500
    (tmp_path / "there").write_bytes(data)
    assert openssh("scp", *how, str(tmp_path / "there"), f"{served.name}:x").returncode == 0
    assert openssh("scp", *how, f"{served.name}:x", str(tmp_path / "back")).returncode == 0
    assert (tmp_path / "back").read_bytes() == data
    assert openssh("scp", *how, f"{served.name}:nowhere", str(tmp_path / "back")).returncode != 0


@OPENSSH
def test_sftp_of_openssh_does_its_usual_commands(served: Served, tmp_path: Path) -> None:
    (tmp_path / "local").write_text("text")
    lines = f"""mkdir d
put -p {tmp_path}/local d/a
rename d/a d/b
rename d e
ls -l e
get e/b {tmp_path}/back
get {CPU}/online {tmp_path}/online
rm e/b
rmdir e
df
"""
    ran = openssh("sftp", "-b", "-", served.name, text=lines)
    assert ran.returncode == 0, ran.stderr
    assert "nvidia" in ran.stdout
    assert (tmp_path / "back").read_text() == "text"
    assert (tmp_path / "online").read_text() == "0-3\n"
    assert served.board.call(lambda: served.board.machine.files.names("/home/nvidia", "root")) == []


def test_a_kernel_file_takes_one_write_and_answers_as_the_kernel_does(root: paramiko.SFTPClient) -> None:
    with root.open(GOVERNOR, "w") as node:
        node.write(b"userspace\n")
    with root.open(GOVERNOR) as node:
        assert node.read() == b"userspace\n"
        assert node.stat().st_size == 4096
    with root.open(GOVERNOR, "w") as node, pytest.raises(OSError, match="Invalid argument"):
        node.write(b"bogus\n")
    with pytest.raises(PermissionError):
        root.open(f"{CPU}/present", "w")
    with pytest.raises(OSError, match="denied"):
        root.remove(GOVERNOR)


def test_permissions_are_those_of_who_logs_in(user: paramiko.SFTPClient, root: paramiko.SFTPClient) -> None:
    with root.open(PRIVATE, "w") as file:
        file.write(b"x")
    with pytest.raises(PermissionError):
        user.open(PRIVATE)
    with pytest.raises(PermissionError):
        user.listdir("/root")
    with pytest.raises(PermissionError):
        user.open(GOVERNOR, "w")
    with pytest.raises(PermissionError):
        user.open("/etc/new", "w")
    with pytest.raises(FileNotFoundError):
        user.open("/nowhere")
    with pytest.raises(OSError, match="No such"):
        user.mkdir("/nowhere/folder")
    assert user.stat("/home/nvidia").st_uid == 1000


def test_folders_show_the_kernels_files_and_the_ordinary_ones(user: paramiko.SFTPClient) -> None:
    assert {"sys", "proc", "home", "tmp", "etc"} <= set(user.listdir("/"))
    assert {"cpu0", "online"} <= set(user.listdir(CPU))
    assert user.getcwd() is None
    assert user.normalize(".") == "/home/nvidia"
    assert user.normalize("../../sys/./x/..") == "/sys"
    with user.open("a", "w") as file:
        file.write(b"1234")
    with user.open("a", "a") as file:
        file.write(b"56")
    with user.open("a", "r+") as file:
        file.seek(1)
        file.write(b"x")
    user.truncate("a", 5)
    user.utime("a", (1_000_000_000, 1_000_000_000))
    assert (user.stat("a").st_size, user.stat("a").st_mtime) == (5, 1_000_000_000)
    with user.open("a") as file:
        assert file.read() == b"1x345"
    with pytest.raises(OSError, match="exists"):
        user.open("a", "x")
    user.mkdir("d")
    user.posix_rename("a", "d/a")
    with pytest.raises(OSError, match="not empty"):
        user.rmdir("d")


def test_a_full_disk_is_told_at_the_write(served: Served, user: paramiko.SFTPClient) -> None:
    served.board.call(lambda: served.board.machine.files.fill(1000))
    with user.open("a", "w") as file, pytest.raises(OSError, match="space"):
        file.write(bytes(2000))
    assert served.board.call(lambda: served.board.machine.files.size(f"{HOME}/a", "root")) == 0


def test_nothing_of_this_machine_is_reached(user: paramiko.SFTPClient, tmp_path: Path) -> None:
    (tmp_path / "here").write_text("x")
    with pytest.raises(FileNotFoundError):
        user.open(str(tmp_path / "here"))
    with pytest.raises(OSError, match=r"cannot do|unsupported"):
        user.symlink("here", "there")


def test_each_thing_that_the_library_would_do_on_this_machine_is_done_on_the_board_or_refused() -> None:
    about_names = {"convert_attrs", "format_longname", "reverse_map_path"}
    refused = {"open56", "symlink", "link", "lock", "unlock"}  # by `map_path`, or by the library itself
    known = {name for name, _ in inspect.getmembers(asyncssh.SFTPServer, inspect.isfunction) if name[0] != "_"}
    assert known - about_names - refused <= set(vars(Sftp))
    for name in refused - {"lock", "unlock"}:
        assert "map_path" in inspect.getsource(getattr(asyncssh.SFTPServer, name))
