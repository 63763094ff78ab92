"""Who asks the kernel and not a file, in a board's own root, is told of the board: the system call uname."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from remote.sim.mount import rooted
from tests.remote import sim_root, test_sim_root
from tests.remote.sim_root import PROJECT, Shell, missing
from tests.remote.sim_uname import unanswered

if unanswered():
    pytest.skip(unanswered(), allow_module_level=True)

ORIN = ["Linux", "tegra-ubuntu", "5.15.148-tegra", "#1 SMP PREEMPT", "aarch64"]
ASK = "python3 -c 'import json, os; print(json.dumps(os.uname()))'"
for_all = test_sim_root.for_all


@pytest.fixture(scope="module")
def nx() -> Iterator[Shell]:
    yield from sim_root.shell("orin-nx@r36.4")


@pytest.mark.parametrize("user", ["root", "nvidia"])
def test_the_kernel_says_what_the_board_s_uname_says(nx: Shell, user: str) -> None:
    asked = nx.python("import json, os; print(json.dumps(os.uname()))", user)
    assert asked == ORIN
    printed = [nx.run(f"uname {letter}", user).stdout.strip() for letter in ("-s", "-n", "-r", "-v", "-m")]
    assert printed == asked


def test_so_it_is_for_another_user_and_on_a_board_with_an_old_kernel() -> None:
    for tx1 in sim_root.shell("tx1@r23.1"):
        for line in (ASK, f"sudo {ASK}", f"sudo -u nvidia {ASK}"):
            assert '"3.10.67-gcdddc52"' in tx1.run(line, "nvidia").stdout


@pytest.mark.skipif(not shutil.which("lscpu"), reason="needs lscpu")
def test_what_goes_by_it_takes_this_for_a_board(nx: Shell) -> None:
    assert nx.run("lscpu").stdout.split()[:2] == ["Architecture:", "aarch64"]
    script = "import json, platform, sysconfig; print(json.dumps([platform.machine(), sysconfig.get_platform()]))"
    assert nx.python(script) == ["aarch64", "linux-aarch64"]


def test_programs_and_their_libraries_are_found_as_before(nx: Shell) -> None:
    if shutil.which("ldd"):
        assert "libc.so" in nx.run("ldd /bin/ls").stdout
    script = "import ctypes.util, json, ssl; print(json.dumps(ctypes.util.find_library('c')))"
    assert nx.python(script).startswith("libc.so")


def test_threads_and_children_of_children_are_told_too(nx: Shell) -> None:
    script = """
import concurrent.futures, json, os, subprocess
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    found = set(pool.map(lambda _: os.uname().machine, range(200)))
words = ["sh", "-c", "sh -c \\"python3 -c 'import os; print(os.uname().machine)'\\""]
found.add(subprocess.run(words, capture_output=True, text=True).stdout.strip())
print(json.dumps(sorted(found)))
"""
    assert nx.python(script) == ["aarch64"]


def test_signals_delay_it_only(nx: Shell) -> None:
    script = """
import json, os, signal
caught = []
signal.signal(signal.SIGALRM, lambda *_: caught.append(os.uname().machine))
signal.siginterrupt(signal.SIGALRM, False)
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
while len(caught) < 50:
    assert os.uname().machine == "aarch64"
signal.setitimer(signal.ITIMER_REAL, 0)
print(json.dumps(sorted(set(caught))))
"""
    assert nx.python(script) == ["aarch64"]


def test_an_address_without_memory_is_refused_as_ever(nx: Shell) -> None:
    script = """
import ctypes, json
libc = ctypes.CDLL(None, use_errno=True)
def refused(address):
    return libc.uname(ctypes.c_void_p(address)) == -1 and ctypes.get_errno()
print(json.dumps([refused(address) for address in (0, 8, 1 << 46, 1 << 63, (1 << 64) - 1)]))
"""
    assert nx.python(script) == [errno.EFAULT] * 5


def test_the_host_name_is_that_of_whoever_asks(nx: Shell) -> None:
    script = """
import ctypes, json, os, socket
if ctypes.CDLL(None).unshare(0x10000000 | 0x4000000) == 0:
    socket.sethostname("another")
print(json.dumps([socket.gethostname(), os.uname().nodename, os.uname().machine]))
"""
    own, told, machine = nx.python(script, "nvidia")
    assert (told, machine) == (own, "aarch64")
    assert nx.run("hostname").stdout == "tegra-ubuntu\n"


def test_who_outlives_its_shell_is_still_told(nx: Shell) -> None:
    script = "open('/tmp/go').read(); import os; open('/tmp/said', 'w').write(os.uname().machine)"
    assert nx.run(f'mkfifo /tmp/go; setsid python3 -c "{script}" > /dev/null 2>&1 &').returncode == 0
    assert nx.run("echo > /tmp/go; until test -s /tmp/said; do :; done; cat /tmp/said").stdout == "aarch64"


def test_who_is_killed_while_it_asks_leaves_nothing_behind(nx: Shell) -> None:
    script = """
import json, os, subprocess
for _ in range(10):
    words = ["python3", "-c", "import os; print(flush=True)\\nwhile True: os.uname()"]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        process.kill()
print(json.dumps(os.uname().machine))
"""
    assert nx.python(script) == "aarch64"


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user cannot look")
def test_a_command_that_has_ended_leaves_nothing_open_in_the_first_process(nx: Shell) -> None:
    def opened() -> int:
        return len(os.listdir(f"/proc/{nx.root.pid}/fd"))

    nx.run("true")
    before = opened()
    for _ in range(5):
        nx.run("true")
    until_s = time.monotonic() + 10.0
    while opened() > before:
        assert time.monotonic() < until_s


def test_what_is_sent_to_the_first_process_is_not_believed(nx: Shell) -> None:
    script = """
import json, os, socket
def say(*fds):
    line = socket.socket(socket.AF_UNIX)
    line.connect("/.edgeperf/uname")
    line.recv(1)
    if fds:
        socket.send_fds(line, [b"junk"], list(fds))
    return line
kept = [say(), say(0), say(os.open("/dev/null", os.O_RDONLY), os.pipe()[0]), say(socket.socketpair()[0].fileno())]
say().close()
print(json.dumps(os.uname().machine))
"""
    assert nx.python(script) == "aarch64"
    assert "aarch64" in nx.run(ASK).stdout
    if os.geteuid() == 0:
        assert "PermissionError" in nx.run("python3 -", "nvidia", script).stderr


# Where it cannot be


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("lscpu"), reason="needs another user's file and lscpu")
def test_a_program_that_nobody_may_read_is_told_of_this_machine() -> None:
    if missing():
        pytest.skip(missing())
    folder = Path(tempfile.mkdtemp())
    board = sim_root.live("orin-nx@r36.4")
    try:
        folder.chmod(0o755)
        shutil.copy(str(shutil.which("lscpu")), folder / "lscpu")
        (folder / "lscpu").chmod(0o711)
        with rooted(board, [(folder, "/opt/bound")]) as root:
            assert Shell(board, root).run("/opt/bound/lscpu").stdout.split()[1] == os.uname().machine
    finally:
        board.close()
        shutil.rmtree(folder)


IMPOSTOR = """
import os, socket, sys
os.unlink("/.edgeperf/uname")
if sys.argv[1:] == ["another"]:
    one = socket.socket(socket.AF_UNIX)
    one.bind("/.edgeperf/uname")
    one.listen()
    os.fork() and os._exit(0)
    while True:
        line = one.accept()[0]
        line.send(b".")
"""


@pytest.mark.parametrize("words", ["", "another"])
def test_where_root_in_there_has_put_something_in_its_place_commands_start_without(words: str) -> None:
    for nx in sim_root.shell("orin-nx@r36.4"):
        assert nx.run(f"python3 - {words} > /dev/null 2>&1", stdin=IMPOSTOR).returncode == 0
        assert os.uname().release in nx.run(ASK).stdout


def test_where_the_first_process_does_not_answer_commands_start_without() -> None:
    for nx in sim_root.shell("orin-nx@r36.4"):
        os.kill(nx.root.pid, signal.SIGSTOP)
        try:
            assert os.uname().release in nx.run(ASK).stdout
        finally:
            os.kill(nx.root.pid, signal.SIGCONT)
        assert "aarch64" in nx.run(ASK).stdout


REFUSING = """
import ctypes, os, struct, subprocess, sys
from remote import hosts
from remote.sim.live import LiveBoard
from remote.sim.mount import rooted
call = {"x86_64": 317, "aarch64": 277}[os.uname().machine]
flag, error = int(sys.argv[1]), int(sys.argv[2])
# Of linux/filter.h: the call; if it is seccomp, its second argument; if the flag is in that, an error.
steps = [(0x20, 0, 0, 0), (0x15, 0, 3, call), (0x20, 0, 0, 24), (0x45, 0, 1, flag)]
steps += [(6, 0, 0, 0x50000 | error), (6, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(38, 1, 0, 0, 0)
assert libc.prctl(22, 2, struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code)), 0, 0) == 0
board = LiveBoard(hosts.parse("sim:orin-nx@r36.4"), {})
with rooted(board) as root:
    line = "python3 -c 'import os; print(os.uname().release)'; uname -r"
    for user in ("root", "nvidia"):
        print(subprocess.run(root.command(line, user), capture_output=True, text=True).stdout)
board.close()
"""


@pytest.mark.parametrize(
    ("flag", "error", "release"),
    [
        pytest.param(8, errno.EBUSY, os.uname().release, id="in a container that has one already"),
        pytest.param(32, errno.EINVAL, "5.15.148-tegra", id="before Linux 5.19"),
    ],
)
def test_where_the_kernel_refuses_a_listener_everything_else_is_as_ever(flag: int, error: int, release: str) -> None:
    if missing():
        pytest.skip(missing())
    ran = subprocess.run(
        [sys.executable, "-c", REFUSING, str(flag), str(error)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
    )
    assert (ran.stderr, ran.stdout.split()) == ("", [release, "5.15.148-tegra"] * 2)


ONE_USER = """
import subprocess
from remote import hosts
from remote.sim.live import LiveBoard
from remote.sim.mount import rooted
board = LiveBoard(hosts.parse("sim:orin-nx@r36.4"), {})
with rooted(board) as root:
    line = "python3 -c 'import os; print(os.uname().release)'"
    for user in ("root", "nvidia"):
        ran = subprocess.run(root.command(f"{line}; sudo {line}", user), capture_output=True, text=True)
        print(ran.stdout + ran.stderr)
board.close()
"""


def test_an_ordinary_user_s_root_is_told_too(for_all: Path) -> None:
    if missing():
        pytest.skip(missing())
    if os.geteuid() != 0:
        pytest.skip("this run is an ordinary user's already")
    own = f"/usr/bin/python3.{sys.version_info[1]}"
    python = next((found for found in (sys.executable, own) if test_sim_root._for_all(found)), "")
    if not python:
        pytest.skip("no interpreter of this version that every user may start")
    places = ":".join([str(for_all), *(place for place in sys.path if place.endswith("-packages"))])
    words = ["unshare", "-m", "sh", "-ec", test_sim_root.AS_ANOTHER, "sh", "env", "-i", f"PYTHONPATH={places}"]
    words += [f"PATH={os.environ['PATH']}", python, "-Bc", ONE_USER]
    ran = subprocess.run(words, capture_output=True, text=True, cwd=for_all, timeout=60, check=False)
    assert (ran.stderr, ran.stdout.split()) == ("", ["5.15.148-tegra"] * 4)
