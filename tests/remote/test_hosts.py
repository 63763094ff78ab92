from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remote.errors import UsageError
from remote.hosts import Local, Ssh, Twin, parse


@pytest.mark.parametrize(
    ("text", "address", "user", "port"),
    [
        ("tx1", "tx1", "", 0),
        ("me@tx1", "tx1", "me", 0),
        ("me@192.168.55.1:2222", "192.168.55.1", "me", 2222),
        ("tx1.local:22", "tx1.local", "", 22),
        ("me@[fe80::1%eth0]:22", "fe80::1%eth0", "me", 22),
        ("fe80::1", "fe80::1", "", 0),
        ("::1", "::1", "", 0),
        ("me@corp.example@tx1", "tx1", "me@corp.example", 0),
    ],
)
def test_a_host_string_says_who_where_and_at_which_port(text: str, address: str, user: str, port: int) -> None:
    assert parse(text) == Ssh(address, user, port, text=text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "-oProxyCommand=x",
        "me@-x",
        "-me@tx1",
        "tx1:0",
        "tx1:65536",
        "tx1:port",
        "a b",
        "a;b",
        "@tx1",
        "a$b",
        "x\n",
    ],
)
def test_what_cannot_be_a_host_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse(text)


@given(st.text(max_size=20))
def test_any_text_is_a_host_or_a_usage_error(text: str) -> None:
    try:
        host = parse(text)
    except UsageError:
        return
    assert isinstance(host, (Local, Twin, Ssh))
    assert host.text == text
    if isinstance(host, Ssh):
        assert not host.address.startswith("-")
        assert not host.user.startswith("-")
