"""Every exception of the SSH libraries has a meaning of its own."""

from __future__ import annotations

import errno
import inspect
import socket
from types import ModuleType

import pytest

fabric_exceptions = pytest.importorskip("fabric.exceptions")
paramiko = pytest.importorskip("paramiko")
ssh_exception = pytest.importorskip("paramiko.ssh_exception")

from remote.errors import HostError, LinkLost  # noqa: E402 - after the libraries are known to be there
from remote.ssh import MEANING, mapped  # noqa: E402

GENERAL = (OSError, ValueError)


def exceptions(module: ModuleType) -> list[type[BaseException]]:
    found = [kind for _, kind in inspect.getmembers(module, inspect.isclass) if issubclass(kind, BaseException)]
    return [kind for kind in found if kind is not OSError]


INSTANCES = {
    ssh_exception.BadAuthenticationType: ssh_exception.BadAuthenticationType("no", ["publickey"]),
    ssh_exception.BadHostKeyException: ssh_exception.BadHostKeyException("tx1", paramiko.PKey(), paramiko.PKey()),
    ssh_exception.ChannelException: ssh_exception.ChannelException(1, "prohibited"),
    ssh_exception.ProxyCommandFailure: ssh_exception.ProxyCommandFailure("nc", 1),
}

ALL = [*exceptions(fabric_exceptions), *exceptions(ssh_exception), socket.gaierror, socket.herror, TimeoutError]


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_every_foreign_exception_has_a_meaning_of_its_own(kind: type[BaseException]) -> None:
    first = next(row for row in MEANING if issubclass(kind, row[0]))
    assert first[0] is kind
    assert first[0] not in GENERAL


@pytest.mark.parametrize("row", MEANING, ids=lambda row: row[0].__name__)
def test_every_meaning_is_a_host_error_with_something_to_do(row: tuple[type[BaseException], str, str]) -> None:
    kind, what, hint = row
    error = mapped(INSTANCES.get(kind) or kind.__new__(kind), "tx1")
    assert isinstance(error, HostError)
    assert what in error.what
    assert error.what.startswith("tx1: ")
    assert error.hint == hint
    assert hint


def test_a_socket_that_was_closed_under_way_is_a_lost_line() -> None:
    error = mapped(OSError(errno.EBADF, "Bad file descriptor"), "tx1")
    assert isinstance(error, LinkLost)
    assert "descriptor" not in error.what
