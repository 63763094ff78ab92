from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clockprofiles import profile as profiles
from clockprofiles.rates import Rate
from remote.errors import UsageError

TABLES = ("cpu", "cpuquiet", "gpu", "emc", "fan", "nvpmodel", "idle", "summary", "inherits", "colour")
KEYS = ("governor", "min", "max", "enabled", "rate", "pwm", "mode", "cpu", "gpu", "speed")
LITERALS = (
    *(
        '"max"',
        '"60%"',
        '"auto"',
        '"MAXN"',
        '""',
        '"\\u0000"',
        "true",
        "0",
        "255",
        "-1",
        "3.5",
        "nan",
        "[]",
        "[1]",
        '["a", "b"]',
    ),
    *("{a = 1}", "1979-05-27", "9" * 30, "0x" + "f" * 6000, "9" * 6000, "[" * 3000 + "]" * 3000, '"maxperf"'),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("profiles")


def written(folder: Path, text: str | bytes, name: str = "mine.toml") -> str:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def complaint(text: str | bytes, folder: Path) -> str:
    with pytest.raises(UsageError) as caught:
        profiles.load(written(folder, text))
    assert "mine.toml" in str(caught.value)
    assert caught.value.hint
    return str(caught.value)


def test_the_four_profiles_load_and_say_what_they_are_for() -> None:
    assert profiles.names() == ("efficient", "maxperf", "stock", "whitepaper-690")
    for name in profiles.names():
        profile = profiles.load(name)
        assert profile.name == name
        assert profile.summary
        assert profile.settings()


def test_maxperf_leaves_fan_and_power_mode_alone() -> None:
    maxperf = profiles.load("maxperf")
    assert maxperf.fan_pwm is None
    assert maxperf.nvpmodel_mode is None


def test_an_heir_differs_only_where_it_says_so() -> None:
    paper = profiles.load("whitepaper-690").settings()
    assert paper == profiles.load("maxperf").settings() | {"gpu.rate": "691.2MHz"}


def test_a_file_inherits_by_name_or_from_beside_itself(folder: Path) -> None:
    written(folder, 'inherits = "maxperf"\n[cpuquiet]\nenabled = true', "base.toml")
    heir = profiles.load(written(folder, 'inherits = "base.toml"\n[fan]\npwm = 80'))
    assert (heir.name, heir.summary) == ("mine", "")
    assert (heir.cpuquiet_enabled, heir.fan_pwm, heir.gpu_rate) == (True, 80, Rate("max"))


def test_a_profile_may_not_inherit_from_itself(folder: Path) -> None:
    written(folder, 'inherits = "mine.toml"', "other.toml")
    assert "mine.toml -> other.toml -> mine.toml" in complaint('inherits = "other.toml"', folder)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[cpu]\ngovenor = 'userspace'", ("'govenor'", "[cpu]", "did you mean governor?", "governor, min, max")),
        ("[cpus]\nmin = 'max'", ("'cpus'", "did you mean cpu?", "cpuquiet, gpu")),
        ("gpu = 5", ("gpu is 5", "[gpu]", "rate")),
        ("[gpu]\nrate = 'fast'", ("gpu.rate is 'fast'", '"60%"', "844.8MHz")),
        ("[gpu]\nrate = -998400000", ("gpu.rate is -998400000",)),
        ("[idle]\ncpu = 1", ("idle.cpu is 1", "true or false")),
        ("[fan]\npwm = 256", ("fan.pwm is 256", "0 to 255")),
        ("[cpu]\ngovernor = ['a', 3]", ("cpu.governor is a list", '"userspace"')),
        ("[cpu]\nmin = 0x" + "f" * 6000, ("cpu.min is a number of more than 18 digits",)),
        ("[gpu]\nrate = 'max'\nrate = 'min'\n", ("broken TOML", "line 3")),
        ("[gpu\n", ("broken TOML", "line 1")),
        (b"\x7fELF\x02\x01\x01\x00\xff", ("broken TOML",)),
        ("", ("empty",)),
        ("# only a comment\n", ("empty",)),
        (b"#" * (2 << 20), ("larger than",)),
    ],
)
def test_a_complaint_names_file_key_and_what_is_allowed(text: str | bytes, says: tuple[str, ...], folder: Path) -> None:
    message = complaint(text, folder)
    assert all(part in message for part in says), message


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean maxperf\\?"):
        profiles.load("maxpref")


@pytest.mark.parametrize("name", ["", ".", "/", "/dev/null", "\0", "a" * 5000, "no/such/file.toml"])
def test_what_is_no_profile_file_is_a_usage_error(name: str) -> None:
    with pytest.raises(UsageError):
        profiles.load(name)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_profile_or_a_usage_error(folder: Path, data: bytes) -> None:
    loads_or_complains(written(folder, data, "fuzz.toml"))


@given(
    st.lists(st.tuples(st.sampled_from(TABLES), st.sampled_from(KEYS), st.sampled_from(LITERALS)), max_size=4),
    st.booleans(),
)
@example([("inherits", "", '"fuzz.toml"')], False)
def test_any_toml_is_a_profile_or_a_usage_error(
    folder: Path, entries: list[tuple[str, str, str]], nested: bool
) -> None:
    lines = [f"{table}.{key} = {literal}" if nested else f"{table} = {literal}" for table, key, literal in entries]
    loads_or_complains(written(folder, "\n".join(lines), "fuzz.toml"))


def loads_or_complains(path: str) -> None:
    complaint = None
    try:
        profiles.load(path).settings()
    except UsageError as error:
        complaint = error
    assert complaint is None or ("profile" in complaint.what and complaint.hint)


def test_a_clock_given_on_the_command_line_wins() -> None:
    profile = profiles.override(profiles.load("maxperf"), {"gpu": "844.8MHz", "cpu": 1_224_000_000, "emc": "auto"})
    assert profile.gpu_rate == Rate(hz=844_800_000)
    assert profile.cpu_min == profile.cpu_max == Rate(hz=1_224_000_000)
    assert profile.emc_rate == Rate("auto")
    assert profile.cpu_governor == profiles.load("maxperf").cpu_governor


@pytest.mark.parametrize(
    ("rates", "says"),
    [
        ({"gpuu": "max"}, "did you mean gpu? a clock is one of cpu, gpu, emc"),
        ({"gpu": "fast"}, "844.8MHz"),
        ({"emc": ""}, '"60%"'),
    ],
)
def test_a_bad_clock_names_the_allowed_keys_or_forms(rates: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError) as caught:
        profiles.override(profiles.load("maxperf"), rates)
    assert says in str(caught.value)
