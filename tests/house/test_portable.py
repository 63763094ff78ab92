"""The host side runs where Python runs: what only POSIX has stays in a few files and in the on-board programs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.house.test_sources import ROOMS, ROOT

MODULES = {"fcntl", "grp", "pwd", "pty", "resource", "syslog", "termios", "tty"}
NAMES = {
    "os": {
        "WNOHANG", "chown", "fork", "forkpty", "geteuid", "getegid", "getgid", "getloadavg", "getpgid", "getuid",
        "initgroups", "killpg", "lchown", "major", "makedev", "minor", "mkfifo", "mknod", "openpty", "pipe2",
        "posix_spawn", "sched_getaffinity", "sched_setaffinity", "setegid", "seteuid", "setgid", "setgroups",
        "setpgid", "setsid", "setuid", "statvfs", "uname", "wait", "wait3", "wait4", "waitid", "O_CLOEXEC",
        "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK",
    },
    "signal": {"SIGALRM", "SIGCHLD", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGUSR1", "SIGUSR2", "alarm", "setitimer"},
    "socket": {"AF_UNIX", "SO_REUSEPORT", "socketpair"},
    "select": {"epoll", "poll"},
    "time": {"CLOCK_MONOTONIC", "clock_gettime", "tzset"},
}  # fmt: skip
POSIX = {
    ROOT / "remote/local.py",
    ROOT / "remote/sim/serve/shell.py",  # commands on a served twin: loaded only where there is a place for them
    ROOT / "remote/sim/serve/sftp_program.py",  # the files of that place
    *(ROOT / "remote/sim/mount").glob("*.py"),  # that place: Linux has it
}
KEYWORDS = {"preexec_fn", "pass_fds", "start_new_session"}


def everywhere(node: ast.AST) -> Iterator[ast.AST]:
    """Gives all nodes of a source but those of the other branch of `if sys.platform == "win32"`."""
    yield node
    asks = isinstance(node, ast.If) and "sys.platform" in ast.unparse(node.test)
    for child in node.body if asks and isinstance(node, ast.If) else ast.iter_child_nodes(node):
        yield from everywhere(child)


def posix_only(tree: ast.AST) -> Iterator[str]:
    """Gives what a source uses that other systems do not have."""
    for node in everywhere(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {alias.name for alias in node.names}
            yield from ([node.module] if node.module in MODULES else [])
            yield from sorted(names & NAMES.get(node.module, set()))
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.attr in NAMES.get(node.value.id, set()):
                yield f"{node.value.id}.{node.attr}"
        elif isinstance(node, ast.keyword) and node.arg in KEYWORDS:
            yield node.arg


def host_side() -> list[Path]:
    files = (file for room in ROOMS for file in (ROOT / room).rglob("*.py"))
    return [file for file in files if "onboard" not in file.parts and file not in POSIX]


def test_only_what_says_so_makes_posix_calls() -> None:
    found = {
        str(file.relative_to(ROOT)): used
        for file in host_side()
        if (used := list(posix_only(ast.parse(file.read_text("utf-8")))))
    }
    assert found == {}


def test_the_scan_sees_what_it_looks_for() -> None:
    windows = "if sys.platform == 'win32':\n    import msvcrt\nelse:\n    import termios\n"
    source = windows + "import fcntl\nimport os\nfrom os import fork\nos.getuid()\nrun(x, preexec_fn=None)\n"
    assert sorted(posix_only(ast.parse(source))) == ["fcntl", "fork", "os.getuid", "preexec_fn"]
