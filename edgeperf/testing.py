"""Simulated boards for tests of your own, as a pytest fixture: ``pytest_plugins = ["edgeperf.testing"]``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from remote.errors import UsageError

if TYPE_CHECKING:
    from remote.board import Board
    from remote.hosts import Twin


@dataclass(frozen=True)
class SshAddress:
    """Where a served board is reached, and with what.

    ``host`` is its name in ``config_file``, an SSH config that names everything else too. ``known_hosts`` has the
    server's key under the name ``edgeperf-sim``.
    """

    host: str
    address: str
    port: int
    user: str
    key_file: Path
    known_hosts: Path
    config_file: Path

    @property
    def command(self) -> tuple[str, ...]:
        """OpenSSH's client with what it needs; a command line for the board may follow."""
        return ("ssh", "-F", str(self.config_file), self.host)

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment variables with which ``edgeperf --host`` takes ``host``."""
        return {"EDGEPERF_SSH_CONFIG": str(self.config_file)}


class JetsonBoard:
    """Opens simulated boards until the test ends: the type of the fixture."""

    def __init__(self, folder: Path, open_until: ExitStack) -> None:
        self._folder = folder
        self._open = open_until
        self._served = 0

    def __call__(self, board: str, *, faults: Sequence[str] = ()) -> Board:
        """Returns ``BOARD[@RELEASE][,KEY=VALUE...]`` in this process; it can also build and run engines.

        ``faults`` are as ``NAME@START[:FOR[:ARGUMENT]]``. Raises UsageError for what there is not.
        """
        from engines.simulated.programs import programs
        from remote.board import open_board

        return self._open.enter_context(open_board(_twin(board, faults), programs(), self._folder))

    def serve(self, board: str, *, faults: Sequence[str] = (), shell: bool = False) -> SshAddress:
        """Puts such a board behind an SSH server on this machine; returns how to reach it.

        With ``shell`` it runs any command, as ``edgeperf sim serve --shell`` does. Raises UsageError for what there is
        not, and without asyncssh; HostError where there can be no shell.
        """
        from engines.simulated.programs import programs

        try:
            from remote.sim import serve
            from remote.sim.serve.program import USER
        except ImportError as error:
            what = f"a simulated board over SSH needs {error.name}"
            raise UsageError(what, "install it: pip install 'edgeperf[sim]'") from error
        twin = _twin(board, faults)
        self._served += 1
        folder = self._folder / f"served-{self._served}"
        key = serve.new_key(folder)
        rooted: serve.Rooted | None = None
        if shell:
            from remote.sim import mount

            rooted = mount.rooted
        known = serve.public_keys(key.with_suffix(".pub"))
        server = serve.serving([twin], programs(), known, folder, address="127.0.0.1", port=0, rooted=rooted)
        (one,) = self._open.enter_context(server)
        config = folder / "config"
        config.write_text(serve.config_lines([one], folder, [key]), "utf-8")
        return SshAddress(one.name, one.address, one.port, USER, key, folder / "known_hosts", config)


def _twin(board: str, faults: Sequence[str]) -> Twin:
    """Returns a board by its name. Raises UsageError."""
    from edgeperf.faults import broken
    from remote import hosts

    host = broken(hosts.parse(f"sim:{board.removeprefix('sim:')}"), faults)
    assert isinstance(host, hosts.Twin)
    return host


@pytest.fixture
def jetson_board(tmp_path: Path) -> Iterator[JetsonBoard]:
    """Gives simulated boards, as many as wanted: ``jetson_board("orin-nx@r36.4", faults=[...])`` in this process.

    ``jetson_board.serve("orin-nx@r36.4")`` gives one over SSH.
    """
    with ExitStack() as boards:
        yield JetsonBoard(tmp_path, boards)
