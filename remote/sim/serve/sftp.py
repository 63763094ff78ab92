"""A twin's files over SFTP and scp, with the permissions of whoever has logged in."""

from __future__ import annotations

import asyncio
import errno
import os
import posixpath
import stat
from collections.abc import AsyncIterator, Callable
from typing import NoReturn, TypeVar

import asyncssh

from remote.sim.kernel.node import fail
from remote.sim.live import LiveBoard
from remote.sim.serve.disk import Disk, Found

_Answer = TypeVar("_Answer")

_BLOCK_BYTES = 4096
_IDS = {"root": 0, "nvidia": 1000, "ubuntu": 1001}
_NAME_BYTES = 255


class _Open:
    """An open file: what it holds is read at first need, and what was written to it is kept when it is closed."""

    def __init__(self, path: str, flags: int, through: bool) -> None:
        self.path = path
        self.writes = flags & (os.O_WRONLY | os.O_RDWR) != 0
        self.reads = flags & os.O_WRONLY == 0
        self.through = through
        self.content: bytearray | None = bytearray() if flags & os.O_TRUNC and not through else None
        self.appends = flags & os.O_APPEND != 0
        self.changed = False


class Sftp(asyncssh.SFTPServer):
    """The server of one channel. What it does not answer itself is refused: the base class would use this machine."""

    def __init__(self, channel: asyncssh.SSHServerChannel[bytes], board: LiveBoard, user: str) -> None:
        super().__init__(channel)
        self._board = board
        self._disk = Disk(board.machine, user)

    async def _do(self, act: Callable[[], _Answer]) -> _Answer:
        """Returns what the board answers, on its own thread. Raises OSError."""
        return await asyncio.wrap_future(self._board.ask(act))

    def map_path(self, path: bytes) -> NoReturn:
        """Keeps the base class from this machine's files."""
        raise asyncssh.SFTPOpUnsupported("a simulated board cannot do that")

    def _path(self, path: bytes) -> str:
        """Returns the absolute path that a client means. Raises SFTPInvalidFilename."""
        try:
            text = path.decode("utf-8")
        except UnicodeDecodeError as error:
            raise asyncssh.SFTPNoSuchFile("a simulated board has no such name") from error
        return "/" + posixpath.normpath(posixpath.join(self._disk.home, text)).lstrip("/")

    def exit(self) -> None:
        self.channel.exit(0)  # or a client that waits for an exit status takes its copy for failed

    # Open files

    async def open(self, path: bytes, pflags: int, attrs: asyncssh.SFTPAttrs) -> object:
        place, flags = self._path(path), _flags(pflags)
        return await self._do(lambda: self._opened(place, flags))

    def _opened(self, path: str, flags: int) -> _Open:
        disk = self._disk
        if disk.writes_through(path):
            disk.may_open(path, flags)
            return _Open(path, flags, True)
        file = _Open(path, flags, False)
        try:
            disk.look(path)
        except FileNotFoundError:
            if not flags & os.O_CREAT:
                raise
            disk.save(path, b"")
            return file
        if flags & os.O_EXCL and flags & os.O_CREAT:
            fail(errno.EEXIST, path)
        before = disk.load(path)  # says what it may not be opened for
        if file.writes:
            disk.save(path, b"" if flags & os.O_TRUNC else before)
        return file

    async def read(self, file_obj: object, offset: int, size: int) -> bytes:
        file = _file(file_obj)
        if not file.reads:
            fail(errno.EBADF, file.path)
        content = await self._do(lambda: self._content(file))
        return bytes(content[offset : offset + size])

    def _content(self, file: _Open) -> bytearray:
        if file.content is None:
            file.content = bytearray(self._disk.load(file.path))
        return file.content

    async def write(self, file_obj: object, offset: int, data: bytes) -> int:
        file = _file(file_obj)
        if not file.writes:
            fail(errno.EBADF, file.path)
        await self._do(lambda: self._write(file, offset, data))
        return len(data)

    def _write(self, file: _Open, offset: int, data: bytes) -> None:
        if file.through:
            self._disk.write(file.path, data)
            return
        content = self._content(file)
        start = len(content) if file.appends else offset
        self._disk.room(file.path, max(len(content), start + len(data)))
        if start > len(content):
            content.extend(bytes(start - len(content)))
        content[start : start + len(data)] = data
        file.changed = True

    async def close(self, file_obj: object) -> None:
        await self._do(lambda: self._keep(_file(file_obj)))

    def _keep(self, file: _Open) -> None:
        if file.changed and file.content is not None:
            file.changed = False
            self._disk.save(file.path, bytes(file.content))

    async def fsync(self, file_obj: object) -> None:
        await self.close(file_obj)

    # What there is

    async def lstat(self, path: bytes) -> asyncssh.SFTPAttrs:
        place = self._path(path)
        return _attrs(await self._do(lambda: self._disk.look(place, follow=False)))

    async def stat(self, path: bytes) -> asyncssh.SFTPAttrs:
        place = self._path(path)
        return _attrs(await self._do(lambda: self._disk.look(place)))

    async def fstat(self, file_obj: object) -> asyncssh.SFTPAttrs:
        file = _file(file_obj)

        def look() -> asyncssh.SFTPAttrs:
            attrs = _attrs(self._disk.look(file.path))
            if file.content is not None and not file.through:
                attrs.size = len(file.content)
            return attrs

        return await self._do(look)

    async def scandir(self, path: bytes) -> AsyncIterator[asyncssh.SFTPName]:
        place = self._path(path)
        for name, found in await self._do(lambda: self._listed(place)):
            yield asyncssh.SFTPName(name.encode(), attrs=_attrs(found))

    def _listed(self, folder: str) -> list[tuple[str, Found]]:
        names = [(name, f"{folder.rstrip('/')}/{name}") for name in self._disk.names(folder)]
        around = [(".", folder), ("..", posixpath.dirname(folder))]
        return [(name, self._disk.look(path, follow=False)) for name, path in (*around, *names)]

    async def readlink(self, path: bytes) -> bytes:
        place = self._path(path)
        found = await self._do(lambda: self._disk.look(place, follow=False))
        return found.target.encode() if found.target else fail(errno.EINVAL, place)

    async def realpath(self, path: bytes) -> bytes:
        return self._path(path).encode()

    async def statvfs(self, path: bytes) -> asyncssh.SFTPVFSAttrs:
        free = await self._do(self._disk.free_bytes)
        blocks = free // _BLOCK_BYTES
        return asyncssh.SFTPVFSAttrs(
            bsize=_BLOCK_BYTES, frsize=_BLOCK_BYTES, blocks=blocks, bfree=blocks, bavail=blocks, namemax=_NAME_BYTES
        )

    async def fstatvfs(self, file_obj: object) -> asyncssh.SFTPVFSAttrs:
        return await self.statvfs(b"/")

    # What can be changed

    async def setstat(self, path: bytes, attrs: asyncssh.SFTPAttrs) -> None:
        place = self._path(path)
        await self._do(lambda: self._set(place, attrs))

    lsetstat = setstat

    async def fsetstat(self, file_obj: object, attrs: asyncssh.SFTPAttrs) -> None:
        file = _file(file_obj)

        def change() -> None:
            if attrs.size is not None and not file.through:
                content = self._content(file)
                content[:] = bytes(content[: attrs.size]).ljust(attrs.size, b"\0")
                file.changed = True
            self._keep(file)
            self._set(file.path, asyncssh.SFTPAttrs(mtime=attrs.mtime))

        await self._do(change)

    def _set(self, path: str, attrs: asyncssh.SFTPAttrs) -> None:
        """Takes length and time of change; a board's own permissions stay as they are."""
        self._disk.look(path)
        if attrs.size is not None and not self._disk.writes_through(path):
            self._disk.save(path, self._disk.load(path)[: attrs.size].ljust(attrs.size, b"\0"))
        if attrs.mtime is not None and not self._disk.writes_through(path):
            self._disk.touch(path, float(attrs.mtime))

    async def mkdir(self, path: bytes, attrs: asyncssh.SFTPAttrs) -> None:
        place = self._path(path)
        await self._do(lambda: self._disk.make_folder(place))

    async def rmdir(self, path: bytes) -> None:
        place = self._path(path)
        await self._do(lambda: self._disk.remove_folder(place))

    async def remove(self, path: bytes) -> None:
        place = self._path(path)
        await self._do(lambda: self._disk.remove(place))

    async def rename(self, oldpath: bytes, newpath: bytes) -> None:
        old, new = self._path(oldpath), self._path(newpath)
        await self._do(lambda: self._disk.move(old, new, replace=False))

    async def posix_rename(self, oldpath: bytes, newpath: bytes) -> None:
        old, new = self._path(oldpath), self._path(newpath)
        await self._do(lambda: self._disk.move(old, new, replace=True))

    def format_user(self, uid: int | None) -> str:
        return next((name for name, number in _IDS.items() if number == uid), str(uid))

    def format_group(self, gid: int | None) -> str:
        return self.format_user(gid)


def _file(file_obj: object) -> _Open:
    assert isinstance(file_obj, _Open)
    return file_obj


def _flags(pflags: int) -> int:
    """Returns the flags of open(2) for those of SFTP version 3."""
    reads, writes = pflags & asyncssh.FXF_READ, pflags & asyncssh.FXF_WRITE
    flags = os.O_RDWR if reads and writes else os.O_WRONLY if writes else os.O_RDONLY
    known = ((asyncssh.FXF_APPEND, os.O_APPEND), (asyncssh.FXF_CREAT, os.O_CREAT), (asyncssh.FXF_TRUNC, os.O_TRUNC))
    for theirs, ours in (*known, (asyncssh.FXF_EXCL, os.O_EXCL)):
        flags |= ours if pflags & theirs else 0
    return flags


def _attrs(found: Found) -> asyncssh.SFTPAttrs:
    number = _IDS.get(found.owner, 0)
    at_s = int(found.changed_s)
    kinds = {stat.S_IFDIR: asyncssh.FILEXFER_TYPE_DIRECTORY, stat.S_IFLNK: asyncssh.FILEXFER_TYPE_SYMLINK}
    kind = kinds.get(stat.S_IFMT(found.mode), asyncssh.FILEXFER_TYPE_REGULAR)
    return asyncssh.SFTPAttrs(
        type=kind,
        size=found.size_bytes,
        uid=number,
        gid=number,
        permissions=found.mode,
        atime=at_s,
        mtime=at_s,
        nlink=1,
    )
