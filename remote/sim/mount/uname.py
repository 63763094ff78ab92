"""Answers the system call uname for the programs in a board's own root, as the board's kernel would.

Who asks the kernel and not a file, as Python's ``platform`` and ``lscpu`` do, would be told of the machine that really
runs. So a seccomp filter stops a program in that call, and a thread of the root's first process writes the board's
answer into its memory, see seccomp_unotify(2). That process may do so, and lives as long as any that waits for it.

Who cannot be answered, as a program whose file nobody may read, is told of the machine that really runs, and so is
everybody where the kernel does not allow such a filter. Before the first process has noticed a call a signal may
interrupt it, as it may any call that waits. Only the standard library is used, as other modules would not be found.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import socket
import struct
import threading
from collections.abc import Mapping
from contextlib import ExitStack, suppress

SOCKET = "/.edgeperf/uname"
"""Where in the root the first process takes over who is to be answered."""
_MOST_WAITING = 4096
_PATIENCE_S = 3.0
"""How long a command waits for the first process before it starts without."""
_CALLS = {"x86_64": (0xC000003E, 317, 63), "aarch64": (0xC00000B7, 277, 160)}
"""The numbers of an instruction set and of its calls seccomp and uname, from linux/audit.h and asm/unistd.h."""
_FIELD_BYTES = 65
_FIELDS = {"release": 2, "version": 3, "machine": 4}
"""The size of a field of struct new_utsname, and which one has what, from linux/utsname.h."""

# From linux/seccomp.h, asm-generic/ioctl.h and linux/sched.h.
_SET_FILTER, _NEW_LISTENER, _WAIT_KILLABLE = 1, 8, 32
_NOTIFY, _ALLOW = 0x7FC00000, 0x7FFF0000
_RECEIVE, _SEND, _IS_VALID = 0xC0502100, 0xC0182101, 0x40082102
_CALL, _ANSWER = "QIIiIQ6Q", "QqiI"
_AS_IT_IS = 1
_NEWUTS = 0x4000000

_libc = ctypes.CDLL(None, use_errno=True)


def reach() -> socket.socket | None:
    """Returns a line to the root's first process, for a process in there; None where nobody is there who answers."""
    with ExitStack() as stack, suppress(OSError):
        line = stack.enter_context(socket.socket(socket.AF_UNIX))
        line.settimeout(_PATIENCE_S)
        line.connect(SOCKET)
        # Root in there could have put a socket of its own into this place.
        pid = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        if pid == 1 and line.recv(1):
            stack.pop_all()
            return line
    return None


def ask(line: socket.socket | None) -> None:
    """Has this process, and those that it starts, answered by who is at ``line``; does nothing where that cannot be.

    It must have given up its privileges. Raises OSError when it cannot be handed over.
    """
    machine = os.uname().machine
    if line is None or machine not in _CALLS:
        return
    architecture, seccomp, call = _CALLS[machine]
    load, equal, give = 0x20, 0x15, 0x06
    steps = [
        (load, 0, 0, 4),  # the instruction set
        (equal, 0, 3, architecture),
        (load, 0, 0, 0),  # the call
        (equal, 0, 1, call),
        (give, 0, 0, _NOTIFY),
        (give, 0, 0, _ALLOW),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = struct.pack("HxxxxxxQ", len(steps), ctypes.addressof(code))
    with line:
        # Linux 5.19 can keep signals from interrupting a call that is being answered.
        for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER):
            calls = _libc.syscall(seccomp, _SET_FILTER, flags, program)
            if calls >= 0:
                socket.send_fds(line, [b"."], [calls])
                os.close(calls)
                return


def answer(told: Mapping[str, str], proc: str) -> None:
    """Has a thread of the root's first process answer from now on by the ``release``, ``version`` and ``machine`` told.

    ``proc`` is where the processes in there are seen. Where that cannot be, commands find nobody to reach.
    """
    with suppress(OSError, RuntimeError):  # RuntimeError: no thread is to be had
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(SOCKET)
        os.chmod(SOCKET, 0o600)
        listener.listen(_MOST_WAITING)
        answerer = _Answerer(listener, told, proc)
        threading.Thread(target=answerer.run, name="uname", daemon=True).start()


class _Answerer:
    """Answers calls, one after the other: none takes long."""

    def __init__(self, listener: socket.socket, told: Mapping[str, str], proc: str) -> None:
        self._listener, self._told, self._proc = listener, told, proc
        self._lines: dict[int, socket.socket] = {}
        self._ready = select.epoll()
        self._ready.register(listener, select.EPOLLIN)

    def run(self) -> None:
        """Does so until the process ends."""
        while True:
            for fd, event in self._ready.poll():
                with suppress(OSError):  # whoever asked is gone
                    if fd == self._listener.fileno():
                        self._greet()
                    elif fd in self._lines:
                        self._take_over(self._lines.pop(fd))
                    elif event & select.EPOLLIN:
                        self._answer(fd)
                    else:  # all are gone who could ask
                        os.close(fd)

    def _greet(self) -> None:
        line, _ = self._listener.accept()
        line.setblocking(False)
        self._lines[line.fileno()] = line
        self._ready.register(line, select.EPOLLIN)
        line.send(b".")

    def _take_over(self, line: socket.socket) -> None:
        with line:
            _, found, _, _ = socket.recv_fds(line, 1, 1)
        for fd in found:
            if os.readlink(f"{self._proc}/self/fd/{fd}") == "anon_inode:seccomp notify":
                self._ready.register(fd, select.EPOLLIN)
            else:
                os.close(fd)

    def _answer(self, calls: int) -> None:
        call = bytearray(struct.calcsize(_CALL))
        fcntl.ioctl(calls, _RECEIVE, call)
        number, pid, _, _, _, _, address, *_ = struct.unpack(_CALL, call)
        flags = _AS_IT_IS
        process = f"{self._proc}/{pid}"
        refused = suppress(OSError, OverflowError)  # OverflowError: an address where no program has memory
        with refused, open(f"{process}/ns/uts") as space, open(f"{process}/mem", "r+b", 0) as memory:
            fcntl.ioctl(calls, _IS_VALID, struct.pack("Q", number))  # else it could be another's memory by now
            said = self._said(space.fileno())
            if os.pwrite(memory.fileno(), said, address) == len(said):
                flags = 0
        fcntl.ioctl(calls, _SEND, struct.pack(_ANSWER, number, 0, 0, flags))

    def _said(self, space: int) -> bytes:
        """Returns the struct new_utsname of a program whose host name is that of ``space``."""
        said = ctypes.create_string_buffer(6 * _FIELD_BYTES)
        if _libc.setns(space, _NEWUTS) or _libc.uname(said):  # this thread has no other use for the name
            raise OSError(ctypes.get_errno(), "uname")
        text = bytearray(said.raw)
        for name, index in _FIELDS.items():
            field = self._told[name].encode()[: _FIELD_BYTES - 1].ljust(_FIELD_BYTES, b"\0")
            text[index * _FIELD_BYTES : (index + 1) * _FIELD_BYTES] = field
        return bytes(text)
