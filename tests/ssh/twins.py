"""Twins behind edgeperf's own SSH server, with a client that has a key and the lines of config that are printed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import asyncssh

from remote import hosts
from remote.hosts import Twin
from remote.sim.process import Program
from remote.sim.serve import Served, config_lines, identities, public_keys, serving


def welcome(home: Path) -> None:
    """Gives the user whose home this is a pair of keys."""
    (home / ".ssh").mkdir(mode=0o700, parents=True, exist_ok=True)
    key = asyncssh.generate_private_key("ssh-ed25519")
    key.write_private_key(home / ".ssh/id_ed25519")
    (home / ".ssh/id_ed25519").chmod(0o600)
    key.write_public_key(home / ".ssh/id_ed25519.pub")


@contextmanager
def served(host: str, folder: Path, programs: Mapping[str, Program] | None = None) -> Iterator[Served]:
    """Serves one twin to the user whose home is in effect now."""
    twin = hosts.parse(host)
    assert isinstance(twin, Twin)
    welcome(Path.home())
    with serving([twin], programs or {}, public_keys(None), folder, address="127.0.0.1", port=0) as (one,):
        (Path.home() / ".ssh/config").write_text(config_lines([one], folder, identities(None)))
        yield one
