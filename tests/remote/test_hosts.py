from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remote import own_boards
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


def own(name: str) -> None:
    own_boards.folder().mkdir(parents=True, exist_ok=True)
    own_boards.path(name).write_text('inherits = "tx1"\n', "utf-8")


def test_a_simulated_board_of_the_user_is_named_like_a_shipped_one() -> None:
    own("my-tx1")
    assert parse("sim:my-tx1@r28,seed=3") == Twin("my-tx1", "r28.2", seed=3, text="sim:my-tx1@r28,seed=3")


def test_an_unknown_simulated_board_gets_the_nearest_of_the_users_too() -> None:
    own("lab-bench")
    with pytest.raises(UsageError) as caught:
        parse("sim:lab-bnch")
    assert "did you mean lab-bench?" in caught.value.hint


def test_a_file_with_the_name_of_a_shipped_board_is_not_taken_for_it() -> None:
    own("tx1")
    with pytest.raises(UsageError, match=r"tx1\.toml: tx1 is a board that comes with edgeperf"):
        parse("sim:tx1")
