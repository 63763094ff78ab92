"""Simulated boards of the user: found by name, made from shipped ones, with errors that name file and key."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from remote import boards, own_boards
from remote.errors import UsageError
from remote.sim.physics import TimeConstants


def own(name: str, text: str) -> Path:
    """Writes the file of a board of the user."""
    own_boards.folder().mkdir(parents=True, exist_ok=True)
    own_boards.path(name).write_text(text, "utf-8")
    return own_boards.path(name)


LAUNCH = """
inherits = "nano"
[time.tensorrt]
source = "measured: here"
launch_s = 1e-4
"""


def test_a_board_of_the_user_is_the_shipped_one_with_other_constants() -> None:
    own("my-nano", LAUNCH)
    mine, nano = boards.load("my-nano"), boards.load("nano")
    assert mine.name == "nano"
    assert (mine.knobs, mine.rails, mine.releases) == (nano.knobs, nano.rails, nano.releases)
    assert mine.twin["time"]["tensorrt"] == {
        **nano.twin["time"]["tensorrt"],
        "launch_s": 1e-4,
        "source": "measured: here",
    }
    assert {**mine.twin, "time": 0} == {**nano.twin, "time": 0}
    assert boards.of_user() == ("my-nano",)
    assert "my-nano" not in boards.names()


def test_a_board_of_the_user_is_read_anew_each_time() -> None:
    own("my-nano", LAUNCH)
    assert boards.load("my-nano").twin["time"]["tensorrt"]["launch_s"] == 1e-4
    own("my-nano", LAUNCH.replace("1e-4", "2e-4"))
    assert boards.load("my-nano").twin["time"]["tensorrt"]["launch_s"] == 2e-4


def test_boards_of_the_user_lie_where_the_variable_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own("my-nano", LAUNCH).rename(tmp_path / "other.toml")
    assert boards.of_user() == ()
    monkeypatch.setenv("EDGEPERF_BOARDS", str(tmp_path))
    assert boards.of_user() == ("other",)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("", "inherits: it names no board"),
        ('inherits = "generic-linux"', "inherits: there is no simulated board 'generic-linux'"),
        ('inherits = "theirs"', "inherits: there is no simulated board 'theirs'"),
        ('inherits = ["nano"]', "inherits: there is no simulated board ['nano']"),
        ('inherits = "nano"\nspeed = 3', "speed: unknown key"),
        ('inherits = "nano"\n[power]\nidel_w = 3.0', "power.idel_w: unknown key"),
        ('inherits = "nano"\n[time.caffee]\nlaunch_s = 1e-4', "time.caffee: unknown key"),
        ('inherits = "nano"\n[time.tensorrt]\nlaunch_s = "fast"', "time.tensorrt.launch_s: 'fast' is not a number"),
        ('inherits = "nano"\n[time.tensorrt]\nlaunch_s = true', "time.tensorrt.launch_s: True is not a number"),
        ('inherits = "nano"\n[time.tensorrt]\nlaunch_s = -1e-4', "time.tensorrt.launch_s: -0.0001 cannot be"),
        ('inherits = "nano"\n[power]\nidle_w = inf', "power.idle_w: inf cannot be"),
        ('inherits = "nano"\npower = 3', "power: 3 is not a table"),
        ('inherits = "nano"\n[', "Invalid"),
    ],
)
def test_what_is_wrong_in_a_board_of_the_user_is_named_by_file_and_key(text: str, key: str) -> None:
    file = own("theirs", text)
    with pytest.raises(UsageError) as caught:
        boards.load("theirs")
    assert str(file) in caught.value.what
    assert key in caught.value.what


def test_an_unknown_key_gets_the_nearest_one() -> None:
    own("theirs", 'inherits = "nano"\n[power]\nidel_w = 3.0')
    with pytest.raises(UsageError) as caught:
        boards.load("theirs")
    assert "did you mean idle_w?" in caught.value.hint


def test_a_constant_that_is_0_in_a_shipped_board_may_be_given() -> None:
    missing = {field.name for field in fields(TimeConstants)} - set(boards.load("nano").twin["time"]["tensorrt"])
    own("theirs", "\n".join(['inherits = "nano"', "[time.tensorrt]", *(f"{name} = 1.5" for name in missing)]))
    assert all(boards.load("theirs").twin["time"]["tensorrt"][name] == 1.5 for name in missing)


def test_what_a_board_says_it_is_finds_its_constants_here() -> None:
    own("my-nano", LAUNCH)
    assert boards.met("nano", "my-nano").twin["time"]["tensorrt"]["launch_s"] == 1e-4
    assert boards.met("nano", "") == boards.met("nano", "nano") == boards.load("nano")
    assert boards.met("nano", "unknown").twin == boards.met("tx1", "my-nano").twin == {}
