"""Serves the files of the place where it runs over SFTP version 3, at stdin and stdout. A program by itself.

It runs in the root of a board that has shells, so that a shell finds what was copied to it. Only the standard library
is used, as other modules would not be found there. The protocol: draft-ietf-secsh-filexfer-02, and OpenSSH's PROTOCOL
for the extensions.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, BinaryIO

_VERSION = 3
_EXTENSIONS = (b"posix-rename@openssh.com", b"1", b"statvfs@openssh.com", b"2", b"hardlink@openssh.com", b"1")
_STATUS, _HANDLE, _DATA, _NAME, _ATTRS, _EXTENDED_REPLY = 101, 102, 103, 104, 105, 201
_OK, _EOF, _NO_FILE, _DENIED, _FAILURE, _BAD_MESSAGE, _UNSUPPORTED = 0, 1, 2, 3, 4, 5, 8
_CODES = {errno.ENOENT: _NO_FILE, errno.EACCES: _DENIED, errno.EPERM: _DENIED, errno.ENOSYS: _UNSUPPORTED}
_SIZE, _OWNER, _MODE, _TIMES = 1, 2, 4, 8
_READ, _WRITE = 1, 2
_FLAGS = {4: os.O_APPEND, 8: os.O_CREAT, 16: os.O_TRUNC, 32: os.O_EXCL}
_NAMES_AT_ONCE = 100
_MOST_BYTES = 1 << 18
_HALF_A_YEAR_S = 182 * 86400.0

if TYPE_CHECKING:  # this machine's Python, which runs it, may be older than edgeperf's
    _Answer = tuple[int, bytes]  # the kind of a packet, and what it holds


class _Request:
    """What a client asks, to be taken value by value. Raises struct.error where it is too short."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def number(self, form: str = ">I") -> int:
        (value,) = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return int(value)

    def text(self) -> bytes:
        length = self.number()
        self._at += length
        if self._at > len(self._data):
            raise struct.error
        return self._data[self._at - length : self._at]

    def attributes(self) -> dict[int, tuple[int, ...]]:
        """Returns what is to be set: a length, (user, group), a mode, (time of access, time of change)."""
        flags = self.number()
        forms = {_SIZE: (">Q",), _OWNER: (">I", ">I"), _MODE: (">I",), _TIMES: (">I", ">I")}
        return {flag: tuple(map(self.number, form)) for flag, form in forms.items() if flags & flag}


def _string(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def _attributes(found: os.stat_result) -> bytes:
    times = (int(seconds) & 0xFFFFFFFF for seconds in (found.st_atime, found.st_mtime))
    flags = _SIZE | _OWNER | _MODE | _TIMES
    return struct.pack(">IQIIIII", flags, found.st_size, found.st_uid, found.st_gid, found.st_mode, *times)


def _named(name: bytes, found: os.stat_result | None) -> bytes:
    """Returns one name of a list, with a line as ``ls -l`` has it."""
    if found is None:
        return _string(name) + _string(name) + struct.pack(">I", 0)
    user, group = str(found.st_uid), str(found.st_gid)
    with suppress(KeyError):
        user, group = pwd.getpwuid(found.st_uid).pw_name, grp.getgrgid(found.st_gid).gr_name
    near = abs(time.time() - found.st_mtime) < _HALF_A_YEAR_S
    day = time.strftime("%b %e %H:%M" if near else "%b %e  %Y", time.localtime(found.st_mtime))
    line = f"{stat.filemode(found.st_mode)} {found.st_nlink:4} {user:8} {group:8} {found.st_size:10} {day} "
    return _string(name) + _string(line.encode() + name) + _attributes(found)


def _names(*names: bytes) -> _Answer:
    return _NAME, struct.pack(">I", len(names)) + b"".join(names)


def _set(target: bytes | int, wanted: dict[int, tuple[int, ...]]) -> None:
    if _SIZE in wanted:
        os.truncate(target, *wanted[_SIZE])
    if _MODE in wanted:
        os.chmod(target, stat.S_IMODE(*wanted[_MODE]))
    if _OWNER in wanted:
        os.chown(target, *wanted[_OWNER])
    if _TIMES in wanted:
        os.utime(target, wanted[_TIMES])  # type: ignore[arg-type]  # a pair


class Files:
    """The files of this place as one client has them open."""

    def __init__(self) -> None:
        self._open: dict[bytes, int] = {}
        self._listed: dict[bytes, Iterator[bytes]] = {}
        self._count = 0

    def answer(self, data: bytes) -> bytes:
        """Returns the packet that answers one."""
        request = _Request(data[1:])
        number = request.number()
        if data[0] == 1:
            return _packet(2, struct.pack(">I", min(number, _VERSION)) + b"".join(map(_string, _EXTENSIONS)))
        try:
            act = self._acts().get(data[0])
            kind, body = (act(request) if act else _status(_UNSUPPORTED)) or _status(_OK)
        except OSError as error:
            kind, body = _status(_CODES.get(error.errno or 0, _FAILURE), error.strerror or "")
        except (struct.error, KeyError, ValueError):
            kind, body = _status(_BAD_MESSAGE, "not understood")
        return _packet(kind, struct.pack(">I", number) + body)

    def _acts(self) -> dict[int, Callable[[_Request], _Answer | None]]:
        return {
            3: self._open_file,
            4: self._close,
            5: self._read,
            6: lambda asked: self._write(self._open[asked.text()], asked.number(">Q"), asked.text()),
            7: lambda asked: (_ATTRS, _attributes(os.lstat(asked.text()))),
            8: lambda asked: (_ATTRS, _attributes(os.fstat(self._open[asked.text()]))),
            9: lambda asked: _set(asked.text(), asked.attributes()),
            10: lambda asked: _set(self._open[asked.text()], asked.attributes()),
            11: self._open_folder,
            12: self._list,
            13: lambda asked: os.unlink(asked.text()),
            14: lambda asked: os.mkdir(asked.text(), asked.attributes().get(_MODE, (0o777,))[0]),
            15: lambda asked: os.rmdir(asked.text()),
            16: lambda asked: _names(_named(os.path.realpath(asked.text() or b"."), None)),
            17: lambda asked: (_ATTRS, _attributes(os.stat(asked.text()))),
            18: self._rename,
            19: lambda asked: _names(_named(os.readlink(asked.text()), None)),
            20: lambda asked: os.symlink(asked.text(), asked.text()),  # in the order in which OpenSSH has them
            200: self._extended,
        }

    def _handle(self) -> tuple[bytes, _Answer]:
        self._count += 1
        handle = str(self._count).encode()
        return handle, (_HANDLE, _string(handle))

    def _open_file(self, asked: _Request) -> _Answer:
        path, wanted, attributes = asked.text(), asked.number(), asked.attributes()
        flags = {_READ: os.O_RDONLY, _WRITE: os.O_WRONLY}.get(wanted & (_READ | _WRITE), os.O_RDWR)
        for theirs, ours in _FLAGS.items():
            flags |= ours if wanted & theirs else 0
        opened = os.open(path, flags | os.O_NOCTTY, stat.S_IMODE(attributes.get(_MODE, (0o666,))[0]))
        handle, answer = self._handle()
        self._open[handle] = opened
        return answer

    def _close(self, asked: _Request) -> None:
        handle = asked.text()
        if self._listed.pop(handle, None) is None:
            os.close(self._open.pop(handle))

    def _read(self, asked: _Request) -> _Answer:
        opened, offset, size = self._open[asked.text()], asked.number(">Q"), asked.number()
        data = os.pread(opened, min(size, _MOST_BYTES), offset)
        return (_DATA, _string(data)) if data else _status(_EOF)

    def _write(self, opened: int, offset: int, data: bytes) -> None:
        while data:
            written = os.pwrite(opened, data, offset)
            offset, data = offset + written, data[written:]

    def _open_folder(self, asked: _Request) -> _Answer:
        path = asked.text()
        found = [b".", b"..", *os.listdir(path)]
        handle, answer = self._handle()
        self._listed[handle] = _looked_at(path, found)
        return answer

    def _list(self, asked: _Request) -> _Answer:
        found = list(islice(self._listed[asked.text()], _NAMES_AT_ONCE))
        return _names(*found) if found else _status(_EOF)

    def _rename(self, asked: _Request) -> None:
        old, new = asked.text(), asked.text()
        if os.path.lexists(new):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        os.rename(old, new)

    def _extended(self, asked: _Request) -> _Answer | None:
        name = asked.text()
        if name == b"posix-rename@openssh.com":
            os.replace(asked.text(), asked.text())
        elif name == b"hardlink@openssh.com":
            os.link(asked.text(), asked.text())
        elif name == b"statvfs@openssh.com":
            found = os.statvfs(asked.text())
            kept = (found.f_bsize, found.f_frsize, found.f_blocks, found.f_bfree, found.f_bavail)
            more = (found.f_files, found.f_ffree, found.f_favail, 0, 0, found.f_namemax)
            return _EXTENDED_REPLY, struct.pack(">11Q", *kept, *more)
        else:
            return _status(_UNSUPPORTED)
        return None


def _looked_at(folder: bytes, names: list[bytes]) -> Iterator[bytes]:
    for name in names:
        with suppress(OSError):  # gone meanwhile
            yield _named(name, os.lstat(os.path.join(folder, name)))


def _packet(kind: int, body: bytes) -> bytes:
    return struct.pack(">IB", len(body) + 1, kind) + body


def _status(code: int, text: str = "") -> _Answer:
    return _STATUS, struct.pack(">I", code) + _string(text.encode()) + _string(b"")


def serve(source: BinaryIO, to: BinaryIO) -> None:
    """Answers what a client asks until it is gone."""
    files = Files()
    while len(head := source.read(4)) == 4:
        (length,) = struct.unpack(">I", head)
        data = source.read(length)
        if len(data) < max(length, 5):
            return
        to.write(files.answer(data))
        to.flush()


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        serve(sys.stdin.buffer, sys.stdout.buffer)
