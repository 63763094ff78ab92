"""The twin as a file system: what tools find in its files, and which errors they meet."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from remote.errors import UsageError
from remote.sim.mount import mounted
from tests.remote import sim_root
from tests.remote.sim_root import CPU, EMC, FORUM, GOVERNOR, PROJECT, Shell, held, live, missing


@pytest.fixture(scope="module")
def nx() -> Iterator[Shell]:
    """An Orin NX whose time stands while nobody waits for its programs."""
    yield from sim_root.shell("orin-nx@r36.4")


@pytest.fixture(scope="module")
def tx1() -> Iterator[Shell]:
    """A TX1 in the state of the white paper, in real time."""
    yield from sim_root.shell("tx1@r23.1,speed=1")


READ_ALL = """
import json, os
found = {}
for top in TOPS:
    for folder, _, names in os.walk(top, followlinks=False):
        for name in names:
            path = os.path.join(folder, name)
            try:
                found[path] = open(path, newline="").read()
            except OSError as error:
                found[path] = error.errno
print(json.dumps(found))
"""


def test_every_node_says_in_the_file_system_what_the_kernel_says(nx: Shell) -> None:
    found = nx.python(READ_ALL.replace("TOPS", repr(["/sys"])))

    def texts() -> dict[str, object]:
        answers: dict[str, object] = {}
        tree = nx.board.machine.kernel.tree
        for path in tree.paths():
            if path.startswith("/sys/") and tree.exists(path, True):
                try:
                    answers[path] = tree.read(path, True)
                except OSError as error:
                    answers[path] = error.errno
        return answers

    expected = nx.board.call(texts)
    assert len(expected) > 100
    assert found == expected


def test_links_lead_where_the_board_has_them(nx: Shell) -> None:
    links = nx.board.call(lambda: dict(nx.board.machine.kernel.tree.links))
    script = f"import json, os; print(json.dumps({{p: os.path.realpath(p) for p in {sorted(links)!r}}}))"
    assert links
    assert nx.python(script) == links


ATTEMPT = """
import errno, json, os
def attempt(path, text):
    try:
        fd = os.open(path, os.O_WRONLY | os.O_TRUNC)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)
    except OSError as error:
        return errno.errorcode[error.errno]
    return ""
print(json.dumps([attempt(*pair) for pair in PAIRS]))
"""


@pytest.mark.parametrize(
    ("user", "path", "text", "answer"),
    [
        ("root", GOVERNOR, "schedutil\n", ""),
        ("root", GOVERNOR, "nonsense\n", "EINVAL"),
        ("root", f"{CPU}/cpu0/cpufreq/scaling_cur_freq", "1\n", "EACCES"),
        ("root", f"{CPU}/cpu77/online", "1\n", "ENOENT"),
        ("root", "/proc/meminfo", "1\n", "EACCES"),
        ("nvidia", GOVERNOR, "schedutil\n", "EACCES"),
        ("nvidia", EMC, "1\n", "EACCES"),
    ],
)
def test_a_write_meets_the_answer_of_a_kernel(nx: Shell, user: str, path: str, text: str, answer: str) -> None:
    assert nx.python(ATTEMPT.replace("PAIRS", repr([(path, text)])), user) == [answer]


def test_an_errno_of_the_driver_arrives_as_it_is(nx: Shell) -> None:
    for name in ("EBUSY", "ENODEV", "EAGAIN", "EPERM", "EIO"):
        nx.board.call(partial(nx.board.machine.refuse, GOVERNOR, name))
        assert nx.python(ATTEMPT.replace("PAIRS", repr([(GOVERNOR, "schedutil\n")]))) == [name]
    nx.board.call(partial(nx.board.machine.refuse, GOVERNOR, ""))


def test_nobody_makes_moves_or_removes_kernel_files(nx: Shell) -> None:
    ran = nx.run(f"touch /sys/new; mkdir /sys/new; rm -f {GOVERNOR}; rmdir /sys/class; test -e {GOVERNOR}")
    assert ran.returncode == 0
    assert ran.stderr.count("Permission denied") == 1
    assert ran.stderr.count("Operation not permitted") == 3


def test_a_file_that_is_truncated_keeps_its_setting(nx: Shell) -> None:
    before = nx.text(GOVERNOR)
    assert nx.run(f": > {GOVERNOR}").returncode == 0
    assert nx.text(GOVERNOR) == before


def test_a_file_that_is_read_in_pieces_shows_one_moment_and_from_its_start_another(nx: Shell) -> None:
    script = f"""
import json, os
path = {GOVERNOR!r}
def put(text):
    with open(path, "w") as file:
        file.write(text)
put("performance")
fd = os.open(path, os.O_RDONLY)
first = os.read(fd, 4)
put("schedutil")
rest = os.read(fd, 100)
os.lseek(fd, 0, 0)
again = os.read(fd, 100)
print(json.dumps([(first + rest).decode(), again.decode()]))
"""
    assert nx.python(script) == ["performance\n", "schedutil\n"]


def test_modes_and_owners_are_those_of_a_board(nx: Shell) -> None:
    ran = nx.run(f"stat -c '%a %u %g %s' {GOVERNOR} {CPU}/online /sys/kernel/debug /proc/meminfo")
    assert ran.stdout.splitlines() == ["644 0 0 4096", "444 0 0 4096", "700 0 0 0", "444 0 0 0"]


def test_debugfs_is_shut_for_whoever_is_not_root(nx: Shell) -> None:
    assert nx.run(f"cat {EMC}").returncode == 0
    ran = nx.run(f"cat {EMC}; ls /sys/kernel/debug", "nvidia")
    assert ran.stdout == ""
    assert ran.stderr.count("Permission denied") == 2


def test_a_core_that_is_switched_off_takes_its_files_along(tx1: Shell) -> None:
    ran = tx1.run(f"cd {CPU}; echo 0 > cpu3/online; ls cpu3; cat online; echo 1 > cpu3/online; ls cpu3")
    off, on = ran.stdout.split("0-2\n")
    assert "cpufreq" not in off
    assert "cpufreq" in on


def test_the_steps_of_the_forum_run_as_a_plain_script(tx1: Shell) -> None:
    ran = tx1.run("sh -e", stdin=FORUM)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert [tx1.text(f"{CPU}/cpu{n}/cpufreq/scaling_governor") for n in range(4)] == ["userspace\n"] * 4
    assert tx1.text(f"{CPU}/cpu3/cpufreq/scaling_min_freq") == tx1.text(f"{CPU}/cpu3/cpufreq/scaling_max_freq")
    assert tx1.text("/sys/kernel/debug/clock/gbus/rate") == "844800000\n"
    assert tx1.text("/sys/kernel/debug/clock/emc/rate") == tx1.text("/sys/kernel/debug/clock/emc/max")


def test_many_readers_and_tree_walkers_at_once_come_to_an_end(tx1: Shell) -> None:
    walkers = [
        "find -L /sys -type f",
        "grep -rs . /sys",
        "ls -lR /sys",
        "python3 -c 'import os; list(os.walk(\"/sys\"))'",
    ]
    with ThreadPoolExecutor(len(walkers)) as pool:
        ran = list(pool.map(tx1.run, walkers))
    assert all(len(one.stdout.splitlines()) > 100 for one in ran[:3])
    assert ran[3].returncode == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_no_mount_is_left_behind(tmp_path: Path, number: int) -> None:
    folder = tmp_path / "board"
    folder.mkdir()
    with held(str(folder)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert (folder / "etc/nv_tegra_release").read_text().startswith("# R32")
        assert (folder / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").read_text() == "schedutil\n"
        process.send_signal(number)
    until_s = time.monotonic() + 10.0
    while os.path.ismount(folder) or str(folder) in Path("/proc/self/mounts").read_text():
        assert time.monotonic() < until_s
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    if missing():
        pytest.skip(missing())
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    board = live("tx1")
    try:
        for name, what in (("full", "not empty"), ("none", "no such folder"), ("full/file", "Not a directory")):
            with pytest.raises(UsageError, match=what), mounted(board, tmp_path / name):
                pass
    finally:
        board.close()


def test_a_mounted_board_is_set_by_whoever_mounts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if missing():
        pytest.skip(missing())
    monkeypatch.chdir(tmp_path.parent)
    board = live("orin-nx@r36.4")
    try:
        with mounted(board, tmp_path) as there:
            node = Path(f"{tmp_path}{GOVERNOR}")
            node.write_text("performance")
            assert board.call(lambda: board.machine.read(GOVERNOR, "root")) == "performance\n"
            with pytest.raises(OSError, match="Invalid argument") as caught:
                node.write_text("nonsense")
            assert caught.value.errno == errno.EINVAL
            assert there(0.0)
            assert Path.cwd() == tmp_path.parent  # libfuse likes to go elsewhere
            assert (tmp_path / "sys/class/hwmon").is_dir()
        assert not os.path.ismount(tmp_path)
    finally:
        board.close()


def test_without_libfuse_it_says_what_to_install_and_what_works() -> None:
    script = """
from remote import hosts
from remote.errors import HostError
from remote.sim.live import LiveBoard
from remote.sim.mount import rooted
board = LiveBoard(hosts.parse("sim:tx1"), {})
try:
    with rooted(board):
        pass
except HostError as error:
    print(error)
"""
    env = {**os.environ, "PYTHONPATH": str(PROJECT), "FUSE_LIBRARY_PATH": "/nowhere/libfuse3.so"}
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=env, check=False)
    assert "apt install fuse3" in ran.stdout
    assert "--host sim:BOARD" in ran.stdout
