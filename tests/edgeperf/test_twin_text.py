"""One parser for the text of real boards and of the twin."""

from __future__ import annotations

import pytest

from edgeperf.tegrastats import parse
from remote import boards, hosts
from remote.sim.link import TwinTransport
from remote.types import Job


@pytest.mark.parametrize("release", boards.load("tx1").releases)
def test_every_line_of_the_twins_tegrastats_is_understood_to_its_last_word(release: str) -> None:
    host = hosts.parse(f"sim:tx1@{release}")
    assert isinstance(host, hosts.Twin)
    with TwinTransport(host, {}) as board:
        done = board.run(Job(argv=("tegrastats", "--interval", "200"), timeout_s=2.0))
    lines = [parse(line.text) for line in done.lines]
    assert len(lines) >= 8
    for line in lines:
        assert line.unknown == ()
        assert len(line.cores) == 4
        assert line.ram is not None
