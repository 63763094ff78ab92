"""The server of the tests, and a client that it knows."""

from __future__ import annotations

from pathlib import Path

import pytest

from remote.hosts import Ssh
from tests.contract.backends import tree
from tests.ssh import sshd
from tests.ssh.sshd import Sshd


@pytest.fixture
def server() -> Sshd:
    """The server of this test run, with a client that has a key for it and knows its host key."""
    running = sshd.server()
    running.welcome(Path.home())
    return running


def board(server: Sshd, user: str) -> tuple[Ssh, Path]:
    """Returns a small board behind the server as a user reaches it, and the folder of its files."""
    root = server.tree(user)
    tree(root)
    return server.host(user, str(root)), root
