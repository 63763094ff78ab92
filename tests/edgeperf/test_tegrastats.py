from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeperf.tegrastats import Core, Memory, RailPower, Unit, parse
from remote.errors import BoardError

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "tegrastats"
SAMPLES = Path(__file__).resolve().parents[3] / "shared" / "facts" / "tegrastats" / "samples.txt"
LINES = {path.stem: path.read_text("utf-8") for path in sorted(GOLDEN.glob("*.txt"))}
MIB = 1024**2


@pytest.mark.parametrize("name", LINES)
def test_each_layout_reads_as_recorded(name: str) -> None:
    recorded = json.loads((GOLDEN / f"{name}.json").read_text("utf-8"))
    assert json.loads(json.dumps(asdict(parse(LINES[name])))) == recorded


def test_every_line_of_real_boards_is_understood_to_the_last_token() -> None:
    if not SAMPLES.exists():
        pytest.skip("the collection of real lines is not here")
    lines = [line for line in SAMPLES.read_text("utf-8").splitlines() if line.strip() and not line.startswith("#")]
    assert len(lines) >= 20
    for line in lines:
        read = parse(line)
        assert read.unknown == (), line
        assert read.ram is not None
        assert read.cores
        assert "GR3D" in read.units


def test_one_clock_behind_the_bracket_is_that_of_all_cores() -> None:
    read = parse(LINES["r21_one_clock"])
    assert [core.rate_hz for core in read.cores if core] == [2065e6] * 4
    assert read.cpu_limit_hz == 2065e6
    assert read.units["VDE"] == Unit(rates_hz=(84e6,))


def test_sizes_are_bytes_with_the_unit_that_stands_behind_them() -> None:
    read = parse(LINES["r28_with_swap_after_cpu"])
    assert read.ram == Memory(2048 * MIB, 3983 * MIB, free_blocks=33, free_block_bytes=512 * 1024)
    assert read.swap == Memory(12 * MIB, 1991 * MIB, cached_bytes=3 * MIB)
    assert read.iram == Memory(16 * 1024, 252 * 1024, free_blocks=1, free_block_bytes=128 * 1024)


def test_an_offline_core_is_none_and_keeps_its_place() -> None:
    assert parse(LINES["r28_with_swap_after_cpu"]).cores[:3] == (Core(0.09, 1555e6), None, Core(0.0, 1555e6))


def test_rails_and_sensors_of_one_name_are_told_apart() -> None:
    read = parse(LINES["r32_carmel_rails_named_like_sensors"])
    assert read.temperatures_c["GPU"] == 44.5
    assert read.rails[0] == RailPower("GPU", 9.273, 8.9)
    assert read.units["MTS bg"] == Unit(load=0.06)


def test_a_clock_that_needs_root_is_absent_not_zero() -> None:
    assert parse(LINES["r32_without_root"]).units["GR3D"] == Unit(load=0.41)


def test_two_rails_of_one_name_are_both_kept() -> None:
    assert [rail.name for rail in parse(LINES["r35_twice_nc_and_a_gated_gpu"]).rails] == ["VDD_GPU_SOC", "NC", "NC"]


def test_a_sensor_that_is_off_has_no_temperature() -> None:
    assert parse(LINES["r35_twice_nc_and_a_gated_gpu"]).temperatures_c == {"GPU": None, "tj": 41.312}


def test_a_list_of_clocks_belongs_to_its_load() -> None:
    assert parse("GR3D_FREQ 0%@[305]").units == {"GR3D": Unit(load=0.0, rates_hz=(305e6,))}
    assert parse(LINES["r38_three_clusters_no_load"]).units["GR3D"] == Unit(rates_hz=(1575e6, 1575e6, 1574e6))


def test_unknown_tokens_are_kept_and_hide_nothing_behind_them() -> None:
    read = parse(LINES["r39_highest_values_and_a_new_token"])
    assert read.unknown == ("FUTURE_TOKEN value",)
    assert read.units["OFA"].off
    assert read.rails == (RailPower("VDD_GPU_SOC", 12.345, 11.0, 15.432),)
    assert read.highest_c == {"cpu": 58.5, "soc0": 51.75}


@pytest.mark.parametrize("line", ["", "   ", "bash: tegrastats: command not found", "VDD_IN", "RAM lots"])
def test_a_line_without_anything_of_tegrastats_is_refused_with_its_text(line: str) -> None:
    with pytest.raises(BoardError) as caught:
        parse(line)
    assert repr(line.strip()) in caught.value.what


@pytest.mark.parametrize("name", LINES)
def test_runs_of_spaces_change_nothing(name: str) -> None:
    assert parse(LINES[name].replace(" ", "    ").replace("TOKEN    value", "TOKEN value")) == parse(LINES[name])


WORDS = st.sampled_from(" ".join(LINES.values()).split()) | st.text(max_size=12)


@given(st.lists(WORDS).map(" ".join))
def test_any_text_is_read_or_refused_and_none_of_it_is_lost(line: str) -> None:
    try:
        read = parse(line)
    except BoardError:
        return
    assert all(word in line for text in read.unknown for word in text.split())
    assert all(rail.name in line for rail in read.rails)


@given(st.sampled_from(sorted(LINES)), st.data())
def test_a_line_cut_short_never_gives_a_rail_that_was_not_there(name: str, data: st.DataObject) -> None:
    line = LINES[name].rstrip()
    cut = line[: data.draw(st.integers(0, len(line)))]
    try:
        read = parse(cut)
    except BoardError:
        return
    assert {rail.name for rail in read.rails} <= {rail.name for rail in parse(line).rails}
