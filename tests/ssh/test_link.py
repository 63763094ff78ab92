"""A program's byte stream when the SSH library fails or Ctrl-C strikes, on a channel that is told what to do."""

from __future__ import annotations

import signal
from collections.abc import Callable
from queue import SimpleQueue

import pytest

from remote.errors import LinkLost
from remote.ssh_link import SshLink


class Channel:
    """Delivers what was put into ``came``; ``sending`` happens in the middle of sending."""

    def __init__(self, sending: Callable[[], None] = lambda: None) -> None:
        self.came: SimpleQueue[bytes] = SimpleQueue()
        self.sent = b""
        self.active = self.eof_received = False
        self._sending = sending

    def settimeout(self, timeout: float | None) -> None:
        pass

    def sendall(self, data: bytes) -> None:
        self._sending()
        self.sent += data

    def recv(self, size: int) -> bytes:
        return self.came.get()

    def recv_stderr_ready(self) -> bool:
        return False

    def recv_stderr(self, size: int) -> bytes:
        return b""

    def set_combine_stderr(self, combine: bool) -> bool:
        return combine

    def close(self) -> None:
        self.came.put(b"")

    def get_transport(self) -> Channel:
        return self

    def is_active(self) -> bool:
        return self.active


def ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


def eof() -> None:
    raise EOFError


def test_a_line_that_is_gone_while_something_is_sent_is_lost() -> None:
    with pytest.raises(LinkLost):
        SshLink(Channel(eof), "board", b"").send(b"ping")


@pytest.mark.parametrize(
    ("said", "what"), [(True, "the program on the board has ended"), (False, "connection .* lost")]
)
def test_a_program_has_ended_only_if_the_board_said_so(said: bool, what: str) -> None:
    channel = Channel()
    channel.active = True  # as a connection that breaks still is when its channels end
    channel.eof_received = said
    channel.close()
    with pytest.raises(LinkLost, match=what):
        SshLink(channel, "board", b"").receive(60.0)


def test_a_line_at_its_end_stays_lost() -> None:
    channel = Channel()
    link = SshLink(channel, "board", b"")
    channel.close()
    for _ in range(2):
        with pytest.raises(LinkLost):
            link.receive(60.0)
    link.wait_closed(60.0)


def test_a_board_that_says_nothing_for_too_long_is_lost() -> None:
    channel = Channel()
    link = SshLink(channel, "board", b"")
    with pytest.raises(LinkLost, match="said nothing"):
        link.receive(0.01)
    channel.close()


def test_ctrl_c_in_the_middle_of_the_library_is_told_after_it_and_loses_nothing() -> None:
    channel = Channel(ctrl_c)
    link = SshLink(channel, "board", b"")
    link.send(b"request")
    assert channel.sent == b"request"
    with pytest.raises(KeyboardInterrupt):
        link.receive(60.0)
    channel.came.put(b"answer")
    assert link.receive(60.0) == b"answer"
    channel.close()
