"""Makes a root of its own for a simulated board, and starts commands in it. A program by itself, for Linux 5.12 on.

``namespaces.py make FD`` makes user, mount, pid, network, ipc and uts namespaces as the message at the socket FD says,
and keeps them until the other end of that socket is gone, however it went. ``namespaces.py enter PID USER FOLDER
COMMAND...`` runs a command in them, with its own stdin, stdout and stderr, and ends with the command's exit code.

What is root in there is another user out here, one without rights: of all files of this machine it sees what the
message names, none of which can be written. Only the standard library is used, as other modules would not be found.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import glob
import json
import os
import signal
import socket
import stat
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

if __name__ != "__main__":
    from remote.sim.mount import uname
else:  # a program by itself finds what lies beside it, and no edgeperf
    import uname  # type: ignore[import-not-found, no-redef]

FUSE, PROC, NEW = "/.twin", "/.proc", "/tmp"
"""Where in the new root the twin's files and the real procfs lie; over which folder the new root is put together."""
USERS = {"root": 0, "nvidia": 1000}
SHELL = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
_HOMES = {"root": "/root", "nvidia": "/home/nvidia"}
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_KEPT_VARIABLES = ("TERM", "COLORTERM", "LINES", "COLUMNS", "TZ")

# From linux/sched.h, linux/mount.h, linux/prctl.h, linux/capability.h; the system calls have these numbers everywhere.
_NEWNS, _NEWUTS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET = 0x20000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
_MOVE_MOUNT, _OPEN_TREE, _MOUNT_SETATTR = 429, 428, 442
_RDONLY, _NOSUID, _NODEV, _NOEXEC, _BIND, _REC, _PRIVATE, _DETACH = 1, 2, 4, 8, 0x1000, 0x4000, 0x40000, 2
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV = 1, 2, 4
_EMPTY_PATH, _RECURSIVE, _OPEN_TREE_CLONE, _CWD = 0x1000, 0x8000, 1, -100
_SET_PDEATHSIG, _SET_SECCOMP, _CAPBSET_DROP, _SET_NO_NEW_PRIVS = 1, 22, 24, 38
_CAPABILITIES = {0, 1, 2, 3, 4, 5, 6, 7, 10, 23}
"""What root in the shell may do: files, users, signals, low ports and niceness; no mounts, devices or tracing."""
_IOCTL = {"x86_64": (0xC000003E, 16), "aarch64": (0xC00000B7, 29)}
"""The numbers of an instruction set and of its call ioctl, from linux/audit.h and asm/unistd.h."""
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1

_libc = ctypes.CDLL(None, use_errno=True)


def _done(code: int, what: str) -> int:
    """Returns what a C function gave. Raises OSError that names ``what`` when that is -1."""
    if code < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return code


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    words = [word.encode() for word in (source, target, kind)]
    _done(_libc.mount(*words, ctypes.c_ulong(flags), options.encode()), f"mount {kind or source}")


def _tree(source: str, *, device: bool = False) -> int:
    """Returns a file or folder of this machine with all that is mounted below it, to be put elsewhere, read-only."""
    flags = _OPEN_TREE_CLONE | _RECURSIVE | os.O_CLOEXEC
    fd = _done(_libc.syscall(_OPEN_TREE, _CWD, source.encode(), flags), f"open {source}")
    if not device:
        attributes = struct.pack("QQQQ", _ATTR_RDONLY | _ATTR_NOSUID | _ATTR_NODEV, 0, 0, 0)
        _done(_libc.syscall(_MOUNT_SETATTR, fd, b"", _EMPTY_PATH | _RECURSIVE, attributes, 32), f"protect {source}")
    return fd


def _put(fd: int, target: str, *, folder: bool) -> None:
    if folder:
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT, 0o644))
    _done(_libc.syscall(_MOVE_MOUNT, fd, b"", _CWD, target.encode(), 4), f"put {target}")
    os.close(fd)


def _tell(control: socket.socket, message: object, fds: Sequence[int] = ()) -> None:
    socket.send_fds(control, [json.dumps(message).encode()], list(fds))


def make(control: socket.socket) -> None:
    """Makes the namespaces and keeps them until ``control`` has no other end."""
    wanted: dict[str, Any] = json.loads(control.recv(1 << 20))
    single, own = wanted["single"], (os.geteuid(), os.getegid())
    kinds = _NEWUSER | _NEWNS | _NEWPID | _NEWNET | _NEWIPC | _NEWUTS
    _done(_libc.unshare(kinds), "unshare")
    # Sources are opened as the user who started this: what becomes root below may not be able to reach them.
    trees = {target: (_tree(source), os.path.isdir(source)) for target, source in wanted["trees"].items()}
    devices = {name: _tree(f"/dev/{name}", device=True) for name in wanted["devices"]}
    fuse = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    if single:
        for name, text in (("setgroups", "deny"), ("uid_map", f"0 {own[0]} 1"), ("gid_map", f"0 {own[1]} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    else:
        _tell(control, {"step": "map"})
        control.recv(64)
        os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    _loopback()
    os.umask(0o022)
    _mount("", "/", "", _REC | _PRIVATE)
    _mount("tmpfs", NEW, "tmpfs", _NOSUID | _NODEV, "mode=755,size=25%")
    _furnish(wanted, trees, devices)
    os.makedirs(NEW + FUSE)
    _mount("twin", NEW + FUSE, "fuse", _NOSUID | _NODEV, f"fd={fuse},rootmode=40000,user_id=0,group_id=0,allow_other")
    _tell(control, {"step": "fuse"}, [fuse])
    os.close(fuse)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{NEW}/.edgeperf/socket")
    os.chmod(f"{NEW}/.edgeperf/socket", 0o666)
    listener.listen(64)
    told, telling = os.pipe()
    first = os.fork()
    if first:
        _tell(control, {"step": "pid", "pid": first})
        os.close(telling)
        control.close()
        os.waitpid(first, 0)
        return
    os.close(telling)
    os.read(told, 1)  # until its number was told: what it says itself comes after that
    os.close(told)
    _settle(wanted["hostname"])
    uname.answer(wanted["uname"], PROC)
    folder = os.open(PROC, os.O_RDONLY | os.O_DIRECTORY)
    _tell(control, {"step": "ready"}, [listener.fileno(), folder])
    listener.close()
    os.close(folder)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # orphans are reaped by the kernel
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with suppress(ConnectionError):  # as when edgeperf was killed
        _attend(control)


def _attend(control: socket.socket) -> None:
    """Opens, moves and removes ordinary files for the programs of the simulated board, until nobody asks any more."""
    while data := control.recv(1 << 16):
        number, what, user, *words = json.loads(data)
        fds: list[int] = []
        answer, code = None, 0
        # Rights of the user that asks; from root to another one, the kernel takes root's away with them.
        _libc.setfsgid(USERS[user])
        _libc.setfsuid(USERS[user])
        try:
            answer = _FILES[what](*words)
        except OSError as error:
            code = error.errno or errno.EIO
        except ValueError:  # a name with a null byte, or with characters that no name can have
            code = errno.EINVAL
        _libc.setfsuid(0)
        _libc.setfsgid(0)
        if what in ("load", "save") and answer is not None:
            fds, answer = [answer], None
        _tell(control, [number, code, answer], fds)


def _regular(path: str, flags: int) -> int:
    """Returns an open file, never one that blocks or does something when it is opened."""
    fd = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o644)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise OSError(errno.EISDIR if os.path.isdir(path) else errno.EINVAL, "")


def _remove(path: str) -> None:
    if os.path.lexists(path):
        os.unlink(path)


_FILES: dict[str, Callable[..., Any]] = {
    "load": lambda path: _regular(path, os.O_RDONLY),
    "save": lambda path: _regular(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    "match": lambda pattern: sorted(glob.glob(pattern))[:_MOST_NAMES],
    "size": os.path.getsize,
    "changed": os.path.getmtime,
    "touch": lambda path, seconds: os.utime(path, (seconds, seconds)),
    "rename": os.replace,
    "remove": _remove,
    "folder": lambda path: os.makedirs(path, exist_ok=True),
}
_MOST_NAMES = 1000
"""So many names fit into one answer."""


def _furnish(wanted: Mapping[str, Any], trees: Mapping[str, tuple[int, bool]], devices: Mapping[str, int]) -> None:
    """Puts together the new root but for what the twin's files and its processes add."""
    for path, mode in wanted["folders"].items():
        os.makedirs(NEW + path, exist_ok=True)
        os.chmod(NEW + path, mode)
    for name, fd in devices.items():
        _put(fd, f"{NEW}/dev/{name}", folder=False)
    _mount("devpts", NEW + "/dev/pts", "devpts", _NOSUID | _NOEXEC, "newinstance,ptmxmode=0666,mode=620")
    for path, (text, mode) in wanted["files"].items():
        os.makedirs(os.path.dirname(NEW + path), exist_ok=True)
        with open(NEW + path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(NEW + path, mode)
    for top in () if wanted["single"] else wanted["users_own"]:
        for folder, _, names in os.walk(NEW + top):
            for name in (".", *names):
                os.chown(os.path.join(folder, name), USERS["nvidia"], USERS["nvidia"])
    for path, target in wanted["links"].items():
        os.makedirs(os.path.dirname(NEW + path), exist_ok=True)
        os.symlink(target, NEW + path)
    for target, (fd, folder) in sorted(trees.items()):
        _put(fd, NEW + target, folder=folder)
    # The twin's programs lie where boards have them, over those of this machine.
    over, below = NEW + wanted["over"], NEW + wanted["below"]
    os.makedirs(NEW + "/usr")
    _mount("overlay", NEW + "/usr", "overlay", _RDONLY | _NOSUID | _NODEV, f"lowerdir={over}:{below}")


def _settle(hostname: str) -> None:
    """Moves into the new root, as the first process of the new pid namespace."""
    os.makedirs(NEW + PROC)
    _mount("proc", NEW + PROC, "proc", _NOSUID | _NODEV | _NOEXEC)
    for name in ("sys", "proc"):
        os.mkdir(f"{NEW}/{name}")
        _mount(f"{NEW}{FUSE}/{name}", f"{NEW}/{name}", "", _BIND)
    os.mkdir(NEW + "/.old")
    os.chdir(NEW)
    _done(_libc.pivot_root(b".", b".old"), "pivot_root")
    os.chdir("/")
    _done(_libc.umount2(b"/.old", _DETACH), "umount")
    os.rmdir("/.old")
    socket.sethostname(hostname)


def _loopback() -> None:
    """Switches the network namespace's own interface on."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        found = fcntl.ioctl(handle, _SIOCGIFFLAGS, struct.pack("16sh22x", b"lo", 0))
        flags = struct.unpack("16sh22x", found)[1]
        fcntl.ioctl(handle, _SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", flags | _IFF_UP))


def enter(pid: int, user: str, folder: str, command: Sequence[str]) -> int:
    """Runs a command in the namespaces of process ``pid`` as ``user``; returns its exit code."""
    kinds = {"user": _NEWUSER, "mnt": _NEWNS, "pid": _NEWPID, "net": _NEWNET, "ipc": _NEWIPC, "uts": _NEWUTS}
    handles = [(os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC), kind) for name, kind in kinds.items()]
    with open(f"/proc/{pid}/uid_map") as file:
        single = len(file.readlines()) == 1
    for handle, kind in handles:
        _done(_libc.setns(handle, kind), "setns")
        os.close(handle)
    watched = {signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}
    signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    alone = not has_terminal()
    child = os.fork()
    if child == 0:
        try:
            if alone:
                os.setsid()
            asked = uname.reach()
            _become(user, single)
            uname.ask(asked)
            _go(folder, user)
            for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGQUIT):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, ())  # now what came meanwhile ends it, without a traceback
            _exec(command, _environment(user))
        except OSError as error:
            os.write(2, f"edgeperf: {error.filename or command[0]}: {error.strerror}\n".encode())
        os._exit(127)
    while True:
        found = signal.sigwaitinfo(watched)
        if found.si_signo == signal.SIGCHLD:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
        elif found.si_code <= 0:  # sent by a process; what a terminal sends goes to the command as well
            try:
                (os.killpg if alone else os.kill)(child, found.si_signo)
            except ProcessLookupError:  # it has no group of its own yet: it gets the signal once it can end by it
                os.kill(child, found.si_signo)


def has_terminal() -> bool:
    """Says whether a terminal sends its signals to this process and those that it starts."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _become(user: str, single: bool) -> None:
    """Makes this process one of ``user``, which cannot get other rights and does not outlive the one who waits."""
    for number in range(64):
        if number not in _CAPABILITIES:
            _libc.prctl(_CAPBSET_DROP, number, 0, 0, 0)
    uid = USERS[user]
    if single:
        os.setresgid(0, 0, 0)
        os.setresuid(0, 0, 0)
    if single and uid:
        # Another user cannot be had, but another name for the same one; the twin tells them apart by their namespaces.
        _done(_libc.unshare(_NEWUSER), "unshare")
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(f"{uid} 0 1")
    if not single:
        os.setgroups([uid])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    _done(_libc.prctl(_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    _keep_off_terminal()
    _libc.prctl(_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid():  # who waits is outside of the namespace, and 0: it has ended before that
        os._exit(127)


def _keep_off_terminal() -> None:
    """Refuses the calls that type into a terminal: what is typed there is run out here once edgeperf has ended.

    So are calls of other instruction sets, whose numbers differ. A seccomp filter, see linux/filter.h and seccomp.h.
    """
    if os.uname().machine not in _IOCTL:
        return
    architecture, ioctl = _IOCTL[os.uname().machine]
    load, equal, at_least, give = 0x20, 0x15, 0x35, 0x06
    steps = [
        (load, 0, 0, 4),  # the instruction set
        (equal, 0, 7, architecture),
        (load, 0, 0, 0),  # the call
        (at_least, 5, 0, 0x40000000),  # those of x32
        (equal, 0, 3, ioctl),
        (load, 0, 0, 24),  # its second argument
        (equal, 3, 0, _TIOCSTI),
        (equal, 2, 0, _TIOCLINUX),
        (give, 0, 0, 0x7FFF0000),  # allowed
        (give, 0, 0, 0x50000 | errno.ENOSYS),
        (give, 0, 0, 0x50000 | errno.EPERM),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code))
    _done(_libc.prctl(_SET_SECCOMP, 2, program, 0, 0), "seccomp")


def _exec(command: Sequence[str], environment: Mapping[str, str]) -> None:
    """Becomes a command. Raises OSError."""
    try:
        os.execvpe(command[0], list(command), environment)
    except OSError as error:
        raise OSError(error.errno, error.strerror, command[0]) from error


def _go(folder: str, user: str) -> None:
    try:
        os.chdir(folder or _HOMES[user])
    except OSError:
        os.chdir("/")


def _environment(user: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    own = {"PATH": _PATH, "HOME": _HOMES[user], "USER": user, "LOGNAME": user, "SHELL": SHELL, "LANG": "C.UTF-8"}
    return {**kept, **own}


def main(words: Sequence[str]) -> int:
    """Does what the command line says; returns the exit code."""
    if words[0] == "enter":
        return enter(int(words[1]), words[2], words[3], words[4:])
    with socket.socket(fileno=int(words[1])) as control:
        try:
            make(control)
        except OSError as error:
            _tell(
                control, {"step": "failed", "what": error.filename or "", "why": error.strerror, "errno": error.errno}
            )
            return 1
    return 0


if __name__ == "__main__":
    os._exit(main(sys.argv[1:]))
