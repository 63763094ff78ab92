from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remote.errors import UsageError
from remote.hosts import Local, Ssh, Twin
from remote.inventory import Entry, Inventory, from_toml

TWO = Inventory().add("nano", Entry("me@192.168.55.1", "nano", "1422"), ("desk",)).add("tx1", Entry("tx1"), ("desk",))

names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,8}", fullmatch=True).filter(
    lambda name: name not in ("groups", "local", "sim")
)
entries = st.builds(
    Entry, st.text(min_size=1, max_size=20), st.text(max_size=9), st.text(max_size=9), st.text(max_size=9)
)


@given(st.dictionaries(names, entries, max_size=4))
def test_what_is_written_is_what_is_read(hosts: dict[str, Entry]) -> None:
    known = Inventory(hosts, {"all of them": tuple(hosts)} if hosts else {})
    assert from_toml(known.to_toml(), "hosts.toml") == known


def test_a_name_means_its_board_and_a_group_all_of_its_boards() -> None:
    (nano,) = TWO.find("nano")
    assert nano == Ssh("192.168.55.1", "me", serial="1422", text="nano")
    assert [host.text for host in TWO.find("desk")] == ["nano", "tx1"]


def test_other_names_are_host_strings() -> None:
    assert TWO.find("local") == (Local(),)
    assert isinstance(TWO.find("sim:tx1")[0], Twin)
    assert TWO.find("me@elsewhere") == (Ssh("elsewhere", "me", text="me@elsewhere"),)


def test_a_remembered_simulated_board_goes_by_its_name() -> None:
    (host,) = Inventory().add("toy", Entry("sim:tx1")).find("toy")
    assert isinstance(host, Twin)
    assert host.text == "toy"


def test_a_removed_board_leaves_its_groups() -> None:
    assert TWO.remove("nano").groups == {"desk": ("tx1",)}
    assert TWO.remove("nano").remove("tx1") == Inventory()
    assert TWO.remove("desk").groups == {}


@pytest.mark.parametrize("name", ["", "-x", "a b", "local", "groups", "sim", "a/b", "desk"])
def test_names_that_would_mean_something_else_are_refused(name: str) -> None:
    with pytest.raises(UsageError):
        TWO.add(name, Entry("x"))


@pytest.mark.parametrize(
    "text",
    [
        "[nano]\n",
        "[nano]\naddress = 1\n",
        "nano = 1\n",
        "[nano]\naddress='x'\ncolour='red'\n",
        "[groups]\nx = 1\n",
        "[",
    ],
)
def test_a_damaged_file_is_named_with_what_is_wrong(text: str) -> None:
    with pytest.raises(UsageError, match=r"hosts\.toml"):
        from_toml(text, "hosts.toml")


def test_a_group_with_an_unknown_board_is_told() -> None:
    with pytest.raises(UsageError, match="gone"):
        from_toml('[groups]\nx = ["gone"]\n', "hosts.toml").find("x")
