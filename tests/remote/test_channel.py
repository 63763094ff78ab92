from __future__ import annotations

import json

import pytest

from remote.channel import Channel
from remote.errors import HostError

HELLO = b'{"id":0,"kind":"hello","build":"b1"}\n'


class Spoken:
    """A link on which everything has been said already, in pieces."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = list(pieces)
        self.sent: list[bytes] = []

    def send(self, data: bytes) -> None:
        self.sent.append(data)

    def receive(self, timeout_s: float | None) -> bytes:
        return self._pieces.pop(0)

    def close(self) -> None:
        pass


@pytest.mark.parametrize("line", [b"Welcome to Ubuntu\n", b'{"a":1}\n', b"[1]\n", b"\xff\xfe\n", b"\n"])
def test_what_no_program_of_ours_says_is_named_as_such(line: bytes) -> None:
    with pytest.raises(HostError, match="no answer"):
        Channel(Spoken(line), "b1")


def test_a_program_of_another_version_is_refused() -> None:
    with pytest.raises(HostError, match="b1"):
        Channel(Spoken(HELLO), "b2")
    with pytest.raises(HostError, match="None"):
        Channel(Spoken(b'{"id":0,"kind":"hello"}\n'), "b2")


def test_an_error_of_a_kind_that_is_not_known_is_still_told() -> None:
    link = Spoken(HELLO, b'{"id":1,"kind":"error","error":"new","what":"odd","hint":""}\n')
    with pytest.raises(HostError, match="odd"):
        Channel(link, "b1").ask("read")


def test_a_long_line_in_many_pieces_arrives_whole() -> None:
    text = "x" * 5_000_000
    line = json.dumps({"id": 1, "kind": "end", "text": text}).encode() + b"\n"
    pieces = [line[start : start + 1000] for start in range(0, len(line), 1000)]
    assert Channel(Spoken(HELLO, *pieces), "b1").ask("read")["text"] == text
