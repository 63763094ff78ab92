from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clockprofiles.rates import HIGHEST_HZ, LOWEST_HZ, Rate, nearest_point, parse_rate
from remote.types import Knob

POINTS_HZ = (76_800_000, 614_400_000, 691_200_000, 998_400_000)


def knob(choices: tuple[int, ...] = (), low: int | None = None, high: int | None = None) -> Knob:
    return Knob("gpu.rate", "/toy/gpu", "hz", None, "", choices, low, high)


@pytest.mark.parametrize(
    ("written", "rate"),
    [
        (998_400_000, Rate(hz=998_400_000)),
        ("998400000", Rate(hz=998_400_000)),
        ("844.8MHz", Rate(hz=844_800_000)),
        (" 844.8 mhz ", Rate(hz=844_800_000)),
        ("1.6GHz", Rate(hz=1_600_000_000)),
        ("76800kHz", Rate(hz=76_800_000)),
        ("60%", Rate(share=0.6)),
        ("MAX", Rate("max")),
        ("auto", Rate("auto")),
    ],
)
def test_every_documented_form_is_read(written: object, rate: Rate) -> None:
    assert parse_rate(written) == rate


@pytest.mark.parametrize(
    "written",
    [
        -1,
        0,
        844,
        "844",
        "0%",
        "101%",
        "-5%",
        "844.8 furlongs",
        "",
        "1e9",
        "\uff19\uff19\uff18MHz",
        True,
        1.5,
        None,
        [],
        10**400,
        "9" * 500,
    ],
)
def test_what_is_no_rate_or_lacks_its_unit_is_none(written: object) -> None:
    assert parse_rate(written) is None


@given(st.integers(LOWEST_HZ, HIGHEST_HZ))
def test_a_rate_in_hertz_survives_being_written(hz: int) -> None:
    assert parse_rate(str(parse_rate(hz))) == Rate(hz=hz)


@given(st.sets(st.sampled_from(POINTS_HZ), min_size=1), st.integers(LOWEST_HZ, 2_000_000_000))
def test_the_nearest_operating_point_is_taken_and_told(choices: set[int], wanted_hz: int) -> None:
    hz, note = nearest_point(Rate(hz=wanted_hz), knob(tuple(sorted(choices))))
    assert hz in choices
    assert abs(hz - wanted_hz) == min(abs(choice - wanted_hz) for choice in choices)
    assert (note == "") == (hz == wanted_hz)


def test_min_max_and_shares_stay_within_the_limits_of_the_driver() -> None:
    capped = knob(POINTS_HZ, low=600_000_000, high=700_000_000)
    assert nearest_point(Rate("min"), capped) == (614_400_000, "")
    assert nearest_point(Rate("max"), capped) == (691_200_000, "")
    assert nearest_point(Rate(share=1.0), capped) == (691_200_000, "")


def test_a_driver_without_a_list_takes_any_rate_within_its_limits() -> None:
    free = knob(low=800_000_000, high=3_000_000_000)
    assert nearest_point(Rate(hz=1_234_000_000), free) == (1_234_000_000, "")
    assert nearest_point(Rate(share=0.5), free) == (1_500_000_000, "")
    hz, note = nearest_point(Rate(hz=5_000_000_000), free)
    assert hz == 3_000_000_000
    assert note == "gpu: 5000MHz is no operating point of this board; 3000MHz is the nearest"


@pytest.mark.parametrize("rate", [Rate("min"), Rate("max"), Rate(share=0.6)])
def test_a_board_that_says_nothing_gives_no_point_but_a_note(rate: Rate) -> None:
    hz, note = nearest_point(rate, knob())
    assert hz is None
    assert note.startswith("gpu: the board does not say")
    assert nearest_point(Rate(hz=800_000_000), knob()) == (800_000_000, "")
