from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeperf.units import (
    parse_hz,
    parse_seconds,
    show,
    show_both,
    show_bytes,
    show_count,
    show_figure,
    show_hz,
    show_seconds,
)
from remote.errors import UsageError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10s", 10), ("5m", 300), ("1.5h", 5400), ("250ms", 0.25), ("10", 10), ("0", 0), (" 2 S ", 2), ("5min", 300)],
)
def test_durations_are_seconds(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize(
    ("text", "hz"),
    [("844.8MHz", 844_800_000), ("1.6GHz", 1_600_000_000), ("998400000", 998_400_000), ("20Hz", 20), ("0.5 khz", 500)],
)
def test_rates_are_hertz_and_exact(text: str, hz: float) -> None:
    assert parse_hz(text) == hz


@pytest.mark.parametrize(
    "text", ["", "fast", "-3s", "1e3", "10 parsecs", "nan", "inf", "1..5s", "10s 5s", "٣s", "20Hz"]
)
def test_what_is_no_duration_is_refused_with_the_forms_that_are(text: str) -> None:
    with pytest.raises(UsageError, match=r"1\.5h, 250ms") as caught:
        parse_seconds(text)
    assert repr(text) in caught.value.what


@pytest.mark.parametrize("text", ["", "0", "0Hz", "-20Hz", "10s", "60%"])
def test_what_is_no_rate_is_refused_with_the_forms_that_are(text: str) -> None:
    with pytest.raises(UsageError, match=r"844\.8MHz"):
        parse_hz(text)


@pytest.mark.parametrize(
    ("value", "half", "text"),
    [
        (255.123, 1.84, "255.1 +- 1.8 img/s"),
        (25512.0, 180.0, "25510 +- 180 img/s"),
        (9.9996, 0.0998, "10.00 +- 0.10 img/s"),
        (3.5, 0.0, "3.5 img/s"),
        (0.0, 0.02, "0.000 +- 0.020 img/s"),
    ],
)
def test_digits_follow_the_uncertainty(value: float, half: float, text: str) -> None:
    assert show_figure(value, (value - half, value + half), "img/s") == text


def test_an_unknown_uncertainty_says_so() -> None:
    assert show_figure(255.1, None, "img/s") == "255 img/s (+- unknown)"


def test_both_uncertainties_are_named_and_each_has_its_own_digits() -> None:
    both = show_both(8.5219, (8.4969, 8.5469), (8.352, 8.692), "W")
    assert both == "8.522 +- 0.025 W (repeatable), +- 0.17 W absolute"
    assert show_both(8.5219, (8.4969, 8.5469), None, "W") == "8.522 +- 0.025 W (repeatable)"
    assert show_both(44.8, None, (43.8, 45.8), "img/s/W") == "44.8 img/s/W (+- unknown), +- 1.0 img/s/W absolute"


def test_quantities_read_as_people_write_them() -> None:
    assert [show_hz(691.2e6), show_hz(1.734e9), show_hz(20.0)] == ["691.2 MHz", "1734 MHz", "20 Hz"]
    assert [show_seconds(0.0039), show_seconds(12.5), show_bytes(243_860_896)] == ["3.9 ms", "12.5 s", "244 MB"]
    assert [show_count(724_406_816), show_count(7), show(-0.005, "W"), show(0.0, "W")] == [
        "724.4 M",
        "7",
        "-5 mW",
        "0 W",
    ]


def test_rounding_up_moves_to_the_next_prefix() -> None:
    assert show(999_960.0, "Hz") == "1 MHz"


@given(st.floats(1e-9, 1e14))
def test_a_shown_quantity_is_within_half_of_its_last_digit(value: float) -> None:
    number, unit = show(value, "s").split()
    scale = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}.get(unit.removesuffix("s"), 1.0)
    assert float(number) * scale == pytest.approx(value, rel=5.001e-4)


@given(st.floats(0, 1e9), st.floats(1e-6, 1e6))
def test_a_shown_figure_and_its_uncertainty_end_at_the_same_place(value: float, half: float) -> None:
    first, _, second, _ = show_figure(value, (value - half, value + half), "x").split()
    assert len(first.partition(".")[2]) == len(second.partition(".")[2])
    assert float(second) == pytest.approx(half, rel=0.06, abs=1e-7 * value)


@given(st.text(max_size=10))
def test_any_text_is_a_duration_or_a_usage_error(text: str) -> None:
    with suppress(UsageError):
        assert parse_seconds(text) >= 0
