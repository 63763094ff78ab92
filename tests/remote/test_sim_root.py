"""The root of its own that a twin has: its users and programs, and that nothing gets out of it."""

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

from tests.remote import sim_root
from tests.remote.sim_root import CPU, PROJECT, Shell, held, missing


@pytest.fixture(scope="module")
def nx() -> Iterator[Shell]:
    """An Orin NX whose time stands while nobody waits for its programs."""
    yield from sim_root.shell("orin-nx@r36.4")


@pytest.fixture(scope="module")
def tx1() -> Iterator[Shell]:
    """A TX1 in the state of the white paper, in real time."""
    yield from sim_root.shell("tx1@r23.1,speed=1")


def test_two_shells_see_one_board(tx1: Shell) -> None:
    assert tx1.run(f"echo 0 > {CPU}/cpu3/online; echo hello > /tmp/left").returncode == 0
    assert tx1.run(f"cat {CPU}/cpu3/online /tmp/left", "nvidia").stdout == "0\nhello\n"
    assert tx1.run(f"echo 1 > {CPU}/cpu3/online").returncode == 0


def test_who_one_is_and_where(tx1: Shell) -> None:
    line = "id -un; id -u; echo $HOME; hostname; cat /etc/nv_tegra_release; tr '\\0' '\\n' < /proc/device-tree/model"
    for user, uid, home in (("root", "0", "/root"), ("nvidia", "1000", "/home/nvidia")):
        ran = tx1.run(line, user).stdout.splitlines()
        assert ran[:4] == [user, uid, home, "tegra-ubuntu"]
        assert ran[4].startswith("# R23 (release)")
        assert ran[5] == "jetson_tx1"


@pytest.mark.parametrize("line", ["exit 7", "sudo sh -c 'exit 7'", "sudo -n -u nvidia sh -c 'exit 7'"])
@pytest.mark.parametrize("user", ["root", "nvidia"])
def test_an_exit_code_arrives(tx1: Shell, user: str, line: str) -> None:
    assert tx1.run(line, user).returncode == 7


def test_sudo_makes_root_and_keeps_stdin_and_folder(tx1: Shell) -> None:
    ran = tx1.run(
        f"cd /tmp; echo 1 | sudo tee {CPU}/cpu3/online; sudo id -u; sudo pwd; sudo A=b sh -c 'echo $A'", "nvidia"
    )
    assert ran.stdout.splitlines() == ["1", "0", "/tmp", "b"]


def test_a_question_of_a_program_is_answered_by_its_stdin_of_which_it_takes_one_line(nx: Shell) -> None:
    store = "cd /tmp; jetson_clocks --store kept > /dev/null"
    assert nx.run(f"{store}; echo n | jetson_clocks --store kept > /dev/null").returncode == 1
    asked = nx.run(f"{store}; printf 'y\\nrest\\n' | {{ jetson_clocks --store kept; cat; }}").stdout.splitlines()
    assert [asked[0], asked[-2:]] == [
        "File kept already exists. Can I overwrite it? Y/N:",
        ["Storing system configuration in kept", "rest"],
    ]
    assert nx.run("cd /tmp; mkfifo open; timeout -s INT 0.5 jetson_clocks --store kept <> open").returncode == 124


def test_sudo_asks_for_a_password_where_a_fault_says_so() -> None:
    for board in sim_root.shell("orin-nx@r36.4,fault=sudo-asks@0"):
        ran = board.run("sudo id -u", "nvidia")
        assert (ran.returncode, ran.stdout, ran.stderr) == (1, "", "sudo: a password is required\n")
        assert board.run("sudo id -u").stdout == "0\n"


def test_the_boards_programs_are_on_path_and_where_boards_have_them(tx1: Shell, nx: Shell) -> None:
    assert nx.run("nvpmodel -q && test -x /usr/sbin/nvpmodel && test -x /usr/bin/jetson_clocks").returncode == 0
    assert tx1.run("test -x ~ubuntu/tegrastats && command -v tegrastats jetson_clocks").returncode == 0
    assert "tegrastats" in tx1.run("~nvidia/tegrastats --help").stdout


def test_a_program_of_the_board_is_its_user(nx: Shell) -> None:
    assert nx.run("tegrastats --interval 100 | head -n 1").stdout.count("EMC_FREQ") == 1
    assert nx.run("tegrastats --interval 100 | head -n 1", "nvidia").stdout.count("EMC_FREQ") == 0


def test_time_stands_while_nobody_waits_and_sleep_lets_it_pass(nx: Shell) -> None:
    before_s = nx.board.machine.now_s
    assert nx.run("cat /proc/uptime; sleep 300; cat /proc/uptime").returncode == 0
    assert nx.board.machine.now_s == pytest.approx(before_s + 300)
    assert len(nx.run("tegrastats --interval 1000 | head -n 3").stdout.splitlines()) == 3
    assert nx.board.machine.now_s <= before_s + 300 + 6


def test_ctrl_c_reaches_a_program_of_the_board(tx1: Shell) -> None:
    ran = tx1.run("timeout -s INT 0.5 tegrastats --interval 100 | tail -n 1")
    assert ran.stdout.startswith("RAM ")


def test_a_program_whose_reader_has_gone_ends_on_the_board(nx: Shell) -> None:
    nx.run("tegrastats | head -n 1")
    until_s = time.monotonic() + 10.0
    while nx.board.call(lambda: [one for one in nx.board.machine.processes("tegrastats") if one.due_s is not None]):
        assert time.monotonic() < until_s


def test_a_program_of_the_board_has_the_files_of_whoever_starts_it(nx: Shell) -> None:
    line = "cd; tegrastats --logfile log & until grep -qs RAM ~/log; do :; done; kill $!; stat -c %U ~/log"
    for user in ("root", "nvidia"):
        assert nx.run(line, user).stdout == f"{user}\n"
    assert "Permission denied" in nx.run("tegrastats --logfile ~root/log", "nvidia").stderr
    assert "Read-only" in nx.run("tegrastats --logfile /usr/log").stderr


def test_a_name_that_leads_to_no_ordinary_file_is_refused(nx: Shell) -> None:
    line = "mkfifo /tmp/pipe; ln -s /dev/full /tmp/full; for n in pipe full .; do tegrastats --logfile /tmp/$n; done"
    assert len(nx.run(line).stderr.splitlines()) == 3


def test_what_is_asked_through_the_socket_is_not_believed(nx: Shell) -> None:
    script = """
import json, socket
def say(data):
    with socket.socket(socket.AF_UNIX) as line:
        line.connect("/.edgeperf/socket")
        line.settimeout(10)
        line.sendall(data)
        line.shutdown(socket.SHUT_WR)
        return line.recv(100).decode()
bad = [b"", b"\\n", b"{}\\n", b"[]\\n", b"\\xff\\n", b'{"argv": [], "env": {}, "folder": "/"}\\n', b'{"argv": 1}\\n',
       b'{"command": ["true"], "user": "root", "folder": "/"}\\n', b'{"command": 5, "user": "root", "folder": "/"}\\n']
print(json.dumps([say(data) for data in bad]))
"""
    assert set(nx.python(script, "nvidia")) == {""}
    assert nx.run("nvpmodel -q").returncode == 0


# What keeps it in


def test_root_in_there_is_nobody_out_here(tx1: Shell) -> None:
    process = subprocess.Popen(tx1.root.command("exec sleep 30", "root"))
    try:
        inside = _child(process.pid)
        status = Path(f"/proc/{inside}/status").read_text()
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert os.geteuid() != 0 or all(int(uid) > 65536 for uid in fields["Uid"].split())
        assert fields["NoNewPrivs"] == "1"
        assert int(fields["CapBnd"], 16) == int(fields["CapEff"], 16)
        assert not int(fields["CapEff"], 16) & (1 << 21 | 1 << 19 | 1 << 16 | 1 << 27 | 1 << 12)
    finally:
        process.kill()
        process.wait()


def _child(pid: int) -> int:
    """Returns the only child of a process, as soon as it runs its command."""
    until_s = time.monotonic() + 10.0
    while time.monotonic() < until_s:
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            if Path(f"/proc/{child}/comm").read_text() == "sleep\n":
                return int(child)
    raise AssertionError(f"{pid} has started nothing")


def test_of_this_machine_there_are_only_programs(tx1: Shell, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    secret.chmod(0o644)
    here = [str(secret), str(PROJECT), "/var/lib/dpkg/info", "/run/systemd", "/var/run/docker.sock", "/boot"]
    here.append("/etc/shadow")
    script = f"import json, os; print(json.dumps([p for p in {here!r} if os.path.lexists(p)]))"
    assert tx1.python(script) == []
    mounts = [line.split()[1] for line in tx1.run("cat /proc/self/mounts").stdout.splitlines()]
    own = ("/.twin", "/.proc", "/.edgeperf/", "/dev/", "/etc/", "/lib", "/bin", "/sbin", "/usr", "/sys", "/proc")
    assert [mount for mount in mounts if mount != "/" and not mount.startswith(own)] == []
    mine = tx1.run(
        "find / -xdev -path /.edgeperf/python -prune -o -path /dev -prune -o -type f -print"
    ).stdout.splitlines()
    assert not [path for path in mine if not path.startswith(("/.edgeperf/", "/etc/", "/home/", "/tmp/", "/root/"))]


def test_nothing_of_this_machine_can_be_written_or_unmounted(tx1: Shell) -> None:
    places = "/usr /bin /etc/alternatives /.edgeperf/usr"
    ran = tx1.run(
        f"for place in {places}; do touch $place/new && echo $place; done; mount -o remount,rw /usr && echo rw"
    )
    assert ran.stdout == ""
    for line in (
        "umount /sys",
        "mount -t tmpfs x /mnt",
        "mknod /tmp/m c 1 1",
        "cat /proc/1/environ",
        "chroot /usr true",
    ):
        assert tx1.run(line).returncode != 0, line


def test_nothing_can_be_typed_into_a_terminal(tx1: Shell) -> None:
    if os.uname().machine not in ("x86_64", "aarch64"):
        pytest.skip("the filter is for other instruction sets")
    script = """
import fcntl, os, pty, termios
ours, theirs = pty.openpty()
fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
try:
    fcntl.ioctl(theirs, termios.TIOCSTI, b"x")
except OSError as error:
    print(error.errno)
"""
    assert tx1.run("setsid python3 -", stdin=script).stdout == f"{errno.EPERM}\n"


def test_a_restart_of_the_board_ends_its_programs_and_forgets_its_settings(tx1: Shell) -> None:
    line = f"echo 0 > {CPU}/cpuquiet/tegra_cpuquiet/enable; tegrastats --interval 100"
    with subprocess.Popen(tx1.root.command(line, "root"), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("RAM ")
        tx1.board.call(tx1.board.machine.restart)
        assert process.wait(20) == 128 + signal.SIGKILL
    assert tx1.run(f"cat {CPU}/cpuquiet/tegra_cpuquiet/enable").stdout == "1\n"


def test_processes_and_network_are_their_own(tx1: Shell) -> None:
    ran = tx1.run(
        f"test -e /proc/{os.getpid()} && echo seen; kill -0 {os.getpid()} && echo reached; cut -d: -f1 /proc/net/dev"
    )
    assert "seen" not in ran.stdout
    assert "reached" not in ran.stdout
    assert ran.stdout.split()[-1] == "lo"
    assert "1" in tx1.run("ls /proc").stdout.split()
    assert tx1.run("sh -c 'cat /proc/$$/comm; cat /proc/self/comm'").stdout == "sh\ncat\n"


def test_nvidia_is_not_root_for_its_files_either(tx1: Shell) -> None:
    if os.geteuid() != 0:
        pytest.skip("without root there is one user, whose files are all of them")
    assert tx1.run("touch ~root/x; ls ~root; echo >> /etc/passwd; kill -9 1", "nvidia").stderr.count("denied") == 3


def _gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    except OSError:
        return True


def test_nothing_is_left_when_edgeperf_is_killed() -> None:
    with held() as process:
        assert process.stdout is not None
        first = int(process.stdout.readline())
        space = os.readlink(f"/proc/{first}/ns/pid")
        process.kill()
    until_s = time.monotonic() + 10.0
    while not _gone(first):
        assert time.monotonic() < until_s
    left = [entry.name for entry in os.scandir("/proc") if entry.name.isdigit() and _space(entry.name) == space]
    assert all(_gone(int(pid)) for pid in left)


def _space(pid: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return ""


AS_ANOTHER = """
mknod fuse c 10 229
chmod 666 fuse
mount --bind fuse /dev/fuse
exec setpriv --reuid 65534 --regid 65534 --clear-groups -- "$@"
"""
ONE_USER = """
import subprocess, sys
from remote import hosts
from remote.sim.live import LiveBoard
from remote.sim.mount import rooted
board = LiveBoard(hosts.parse("sim:orin-nx@r36.4"), {})
with rooted(board) as root:
    for user in ("root", "nvidia"):
        line = "id -u; cat /sys/kernel/debug/bpmp/debug/clk/emc/rate; sudo id -u; nvpmodel -q >/dev/null; echo $?"
        print(",".join(subprocess.run(root.command(line, user), capture_output=True, text=True).stdout.split()))
board.close()
"""


@pytest.fixture
def for_all() -> Iterator[Path]:
    """A folder that every user may read, with what the twin consists of."""
    folder = Path(tempfile.mkdtemp())
    try:
        shutil.copytree(PROJECT / "remote", folder / "remote", copy_function=shutil.copyfile)
        folder.chmod(0o755)
        yield folder
    finally:
        shutil.rmtree(folder)


def test_an_ordinary_user_gets_the_same_root_and_another_name_for_nvidia(for_all: Path) -> None:
    if missing():
        pytest.skip(missing())
    if os.geteuid() != 0:
        pytest.skip("this run is an ordinary user's already")
    own = f"python3.{sys.version_info[1]}"
    python = next(
        (found for found in (sys.executable, f"/usr/bin/{own}", f"/usr/local/bin/{own}") if _for_all(found)), ""
    )
    if not python:
        pytest.skip("no interpreter of this version that every user may start")
    places = ":".join([str(for_all), *(place for place in sys.path if place.endswith("-packages"))])
    words = [
        "unshare",
        "-m",
        "sh",
        "-ec",
        AS_ANOTHER,
        "sh",
        "env",
        "-i",
        f"PYTHONPATH={places}",
        f"PATH={os.environ['PATH']}",
        python,
        "-Bc",
        ONE_USER,
    ]
    ran = subprocess.run(words, capture_output=True, text=True, cwd=for_all, check=False)
    assert ran.stderr == ""
    root, nvidia = (line.split(",") for line in ran.stdout.splitlines())
    assert (root[0], root[2:]) == ("0", ["0", "0"])
    assert int(root[1]) > 0
    assert nvidia == ["1000", "0", "255"]  # the rate is missing: only root may read it


def _for_all(program: str) -> bool:
    """Says whether every user may start a program."""
    if not os.path.exists(program):
        return False
    path = Path(os.path.realpath(program))
    return all(folder.stat().st_mode & 0o001 for folder in path.parents) and bool(path.stat().st_mode & 0o001)
