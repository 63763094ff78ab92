from __future__ import annotations

import pytest

from remote import hosts
from remote.errors import HostError, UsageError


def test_a_simulated_board_boots_with_as_many_cores_as_it_is_asked_to() -> None:
    assert hosts.parse("sim:tx1@r23.1,cores=2") == hosts.Twin(
        board="tx1", release="r23.1", cores=2, text="sim:tx1@r23.1,cores=2"
    )


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("sim:tx1,cores=0", "1 to 4"),
        ("sim:tx1,cores=5", "1 to 4"),
        ("sim:tx1,seed=-1", "seed"),
        ("sim:tx1,speed=2", "speed"),
        ("sim:tx1,probe=x", "lab"),
        ("sim:tx1,seed", "seed"),
        ("sim:tx1@r22", "r22"),
        ("sim:tx9", "tx9"),
        ("", "empty"),
    ],
)
def test_a_wrong_host_string_is_refused_by_what_is_wrong_in_it(text: str, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        hosts.parse(text)


def test_an_unknown_name_is_a_trouble_of_the_host() -> None:
    with pytest.raises(HostError, match="carol"):
        hosts.parse("carol")


def test_a_release_is_a_prefix_and_without_one_the_newest_is_meant() -> None:
    assert [hosts.parse(f"sim:tx1{release}") for release in ("", "@r32", "@r32.7")] == [
        hosts.Twin("tx1", "r32.7", text=f"sim:tx1{release}") for release in ("", "@r32", "@r32.7")
    ]
