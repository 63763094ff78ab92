"""What the on-board programs ask of the machine that they run on: files, processes, clock.

What most connections do not need is imported where it is used: a small board takes long to load it.

The twin has a class of the same shape (`remote.sim.system.TwinSystem`). Nothing here sleeps: `wait` is the only
place where time passes.
"""

import errno
import glob
import hashlib
import os
import select
import signal
import sys
import time
from contextlib import contextmanager

MYPY = False
if MYPY:  # the typing module is newer than the oldest Python of the boards
    import socket  # noqa: F401 - type comments name it
    import subprocess
    from typing import Iterator  # novm

_PATIENCE_S = 10.0
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_PIPE_BYTES = 4096  # what a pipe that has room takes without blocking


class Handle(object):
    """Something to wait on. ``fd`` is the file descriptor on a real machine."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def read(self) -> bytes:
        """Returns what is there now, b"" at the end of the stream. Call it only after `System.wait` named it."""
        return os.read(self.fd, 65536)


class Node(object):
    """A file that stays open, for one that is read again and again: each read is from its start."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1

    def read(self) -> bytes:
        """Returns up to a page of it. Raises OSError as the kernel does; a file that went away is then opened anew."""
        if self._fd < 0:
            self._fd = os.open(self._path, os.O_RDONLY)
        try:
            return os.pread(self._fd, 4096, 0)
        except OSError as error:
            if error.errno != errno.EAGAIN:
                self.close()
            raise

    def close(self) -> None:
        """Closes it; the next `read` opens it again."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Family(object):
    """Processes and all that they started, as far as it stayed in their sessions; and this program."""

    def __init__(self, members: "list[Process]") -> None:
        self._members = members
        self._others = set()  # type: set[str]
        self._least_s = 0.0

    def cpu_s(self) -> float:
        """Returns the CPU seconds that they took, also those of children that have ended. Raises OSError."""
        leaders = {member.pid for member in self._members}
        tick_s = 1.0 / os.sysconf("SC_CLK_TCK")
        total_s = sum(os.times()[:2])
        there = {name for name in os.listdir("/proc") if name.isdigit()} if leaders else set()
        self._others &= there
        for number in there - self._others:  # each other one is asked only once
            fields = _stat(number)
            if len(fields) > 14 and int(fields[3]) in leaders:
                total_s += sum(map(int, fields[11:15])) * tick_s
            else:
                self._others.add(number)
        self._least_s = max(self._least_s, total_s)  # what an orphan took is lost with it
        return self._least_s


class Process(object):
    """A started child with its two output handles. ``pid`` is its number and its session's."""

    def __init__(self, popen: "subprocess.Popen[bytes]") -> None:
        self._popen = popen
        self.pid = popen.pid
        assert popen.stdout is not None
        assert popen.stderr is not None
        self.stdout = Handle(popen.stdout.fileno())
        self.stderr = Handle(popen.stderr.fileno())

    def exit_code(self) -> "int | None":
        """Returns the code, -N for signal N, or None while it runs. Ask it once both outputs have ended."""
        code = self._popen.poll()
        for pipe in (self._popen.stdout, self._popen.stderr):
            if pipe is not None and code is not None:
                pipe.close()
        return code

    def interrupt(self) -> None:
        """Asks the process, and what it started, to end as Ctrl-C would."""
        self._signal(signal.SIGINT)

    def kill(self) -> None:
        """Kills the process and what it started."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self._popen.pid, number)
        except OSError as error:
            if error.errno != errno.ESRCH:
                raise


def _die_with_parent() -> None:
    """Has the kernel kill this process when its parent dies, whatever of. Only Linux can."""
    try:
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    except (ImportError, OSError, AttributeError):
        pass


def _stat(number: str) -> "list[str]":
    """Returns what proc(5) says of a process from its state on, [] if there is none."""
    try:
        with open("/proc/%d/stat" % int(number), "rb") as file:
            return file.read().rpartition(b")")[2].decode("ascii").split()
    except (OSError, ValueError):
        return []


def _state(number: str) -> "tuple[str, str]":
    """Returns the state of a process and when it started in ticks since boot, ("", "") if there is none."""
    fields = _stat(number)
    return (fields[0], fields[19]) if len(fields) > 19 else ("", "")


def _as_a_child() -> None:
    """Prepares a process for the program that it will be: it hears Ctrl-C, which this one ignores, and ends with it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _die_with_parent()


class System(object):
    """The real machine. With ``root`` every absolute path is taken below that folder."""

    simulated = False
    twin = ""

    def __init__(self, root: str = "", input_fd: int = 0, output_fd: int = 1) -> None:
        self.root = root.rstrip("/")
        self.input = Handle(input_fd)
        self._output_fd = output_fd
        self._door = None  # type: socket.socket | None
        self._line = None  # type: socket.socket | None
        self._guard = None  # type: subprocess.Popen[bytes] | None

    def send(self, data: bytes) -> None:
        """Writes to the host. Raises OSError when it is gone or has taken nothing for a while."""
        while data:
            if not select.select([], [self._output_fd], [], _PATIENCE_S)[1]:
                raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
            data = data[os.write(self._output_fd, data[:_PIPE_BYTES]) :]

    def listen(self, path: str) -> Handle:
        """Opens a socket that only this user can reach, replacing one that is there. Raises OSError."""
        import socket

        self.remove(path)
        self.make_folder(os.path.dirname(path))
        self._door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._door.bind(self.path(path))
        self._door.listen(1)
        return Handle(self._door.fileno())

    def accept(self, handle: Handle) -> None:
        """Makes whoever is at the socket the host: its line is read and written from now on."""
        assert self._door is not None
        self._line, _ = self._door.accept()
        self._door.close()
        self.input = Handle(self._line.fileno())
        self._output_fd = self._line.fileno()

    def guarded(self) -> bool:
        """Says whether a guard runs that this program has started."""
        return self._guard is not None and self._guard.poll() is None

    def start_guard(self) -> None:
        """Starts the guard, which outlives this program and its line (`remote.onboard.guard`)."""
        import subprocess

        start = [sys.executable, "-I", "-S", sys.argv[0], "guard"]
        with open(os.devnull, "r+b") as nothing:
            self._guard = subprocess.Popen(
                start + (["--root", self.root] if self.root else []),
                stdin=nothing,
                stdout=nothing,
                stderr=nothing,
                start_new_session=True,
            )

    def now(self) -> float:
        """Returns the monotonic clock in seconds."""
        return time.monotonic()

    def wall(self) -> float:
        """Returns seconds since 1970."""
        return time.time()

    def path(self, path: str) -> str:
        """Returns where ``path`` really lies."""
        return self.root + path if self.root and path.startswith("/") else path

    def read(self, path: str) -> str:
        """Returns a file's text. Raises OSError as the kernel does."""
        fd = os.open(self.path(path), os.O_RDONLY)  # a file object asks the kernel thrice as much, of each of hundreds
        try:
            return b"".join(iter(lambda: os.read(fd, 65536), b"")).decode("utf-8", "replace")
        finally:
            os.close(fd)

    def open(self, path: str) -> Node:
        """Returns a file that will be read again and again. It need not be there yet."""
        return Node(self.path(path))

    def family(self, members: "list[Process]") -> Family:
        """Returns processes that are counted together with this program; ``members`` may still grow."""
        return Family(members)

    def write(self, path: str, text: str) -> None:
        """Writes a node in one write call. Raises OSError as the kernel does; never creates a file."""
        fd = os.open(self.path(path), os.O_WRONLY | os.O_TRUNC)
        try:
            os.write(fd, text.encode("utf-8"))
        finally:
            os.close(fd)

    def glob(self, pattern: str) -> "list[str]":
        """Returns the existing paths that match, sorted."""
        found = sorted(glob.glob(self.path(pattern)))
        return [path[len(self.root) :] for path in found]

    def exists(self, path: str) -> bool:
        """Says whether a file or folder is there."""
        return os.path.exists(self.path(path))

    def size(self, path: str) -> int:
        """Returns a file's length in bytes. Raises OSError."""
        return os.path.getsize(self.path(path))

    def digest(self, path: str) -> str:
        """Returns a file's SHA-256 in hex. Raises OSError."""
        digest = hashlib.sha256()
        with open(self.path(path), "rb") as file:
            for chunk in iter(lambda: file.read(1 << 20), b""):
                digest.update(chunk)
        return digest.hexdigest()

    def load(self, path: str) -> bytes:
        """Returns a file's bytes. Raises OSError."""
        with open(self.path(path), "rb") as file:
            return file.read()

    def append(self, path: str, data: bytes) -> None:
        """Adds to a file of the user's own; creates it with mode 0600."""
        fd = os.open(self.path(path), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(fd, "ab") as file:
            file.write(data)

    def save(self, path: str, data: bytes) -> None:
        """Replaces a private file (mode 0600) at once: a reader sees the old or the new one. Raises OSError."""
        import tempfile

        place = self.path(path)
        fd, part = tempfile.mkstemp(dir=os.path.dirname(place))
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.rename(part, place)
        except BaseException:
            os.unlink(part)
            raise

    @contextmanager
    def lock(self, path: str) -> "Iterator[None]":
        """Has ``path`` locked for the length of a ``with``; waits until no other program has. Raises OSError."""
        import fcntl  # POSIX only, whereas the twin imports this module on any host

        with open(self.path(path), "ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def rename(self, old: str, new: str) -> None:
        """Moves a file, replacing one that is there."""
        os.rename(self.path(old), self.path(new))

    def link(self, source: str, path: str) -> None:
        """Makes ``path`` the same file as ``source``, a path of this machine outside of ``root``. Raises OSError."""
        os.link(source, self.path(path))

    def remove(self, path: str) -> None:
        """Removes a file; it may be gone already."""
        try:
            os.unlink(self.path(path))
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise

    def make_folder(self, path: str) -> None:
        """Makes a private folder (mode 0700) and those above it."""
        os.makedirs(self.path(path), 0o700, exist_ok=True)

    def spawn(self, argv: "list[str]", env: "dict[str, str]", stdin: str) -> Process:
        """Starts a program in a process group of its own, ``stdin`` as its whole input. Raises OSError."""
        import subprocess
        import tempfile

        with tempfile.TemporaryFile() as source:
            source.write(stdin.encode("utf-8"))
            source.seek(0)
            merged = dict(os.environ)
            merged.update(env)
            return Process(
                subprocess.Popen(
                    argv,
                    stdin=source,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=merged,
                    start_new_session=True,
                    preexec_fn=_as_a_child,
                )
            )

    def wait(self, handles: "list[Handle]", until_s: "float | None") -> "list[Handle]":
        """Returns the handles that can be read, or none when the monotonic clock reaches ``until_s``."""
        rest = None if until_s is None else max(0.0, until_s - self.now())
        by_fd = {handle.fd: handle for handle in handles}
        ready, _, _ = select.select(list(by_fd), [], [], rest)
        return [by_fd[fd] for fd in ready]

    def is_root(self) -> bool:
        """Says whether this program may write settings; below a ``root`` of its own anybody may."""
        return bool(self.root) or os.geteuid() == 0

    def user(self) -> str:
        """Returns the login name, or the number where it has none."""
        import getpass

        try:
            return getpass.getuser()
        except (KeyError, OSError):
            return str(os.geteuid())

    def cache(self) -> str:
        """Returns the user's cache folder for edgeperf."""
        return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "edgeperf")

    def free_bytes(self, path: str) -> int:
        """Returns how much a user may still store at ``path``, or where it will be made; 0 where that is not told."""
        place = self.path(path)
        while not os.path.exists(place) and os.path.dirname(place) != place:
            place = os.path.dirname(place)
        try:
            found = os.statvfs(place)
        except OSError:
            return 0
        return found.f_bavail * found.f_frsize

    def identity(self) -> str:
        """Returns what names this program for as long as the machine is up: its number, and when it started."""
        return "%d@%s" % (os.getpid(), _state(str(os.getpid()))[1])

    def alive(self, identity: str) -> bool:
        """Says whether a program runs; one that has ended and that nobody has asked yet does not.

        Numbers are given again: a process that has this one but started at another time is another one.
        """
        number, _, started = identity.partition("@")
        state, since = _state(number)
        return state not in ("", "Z", "X") and since == started

    def python(self) -> str:
        """Returns the interpreter that runs this program."""
        return sys.executable
