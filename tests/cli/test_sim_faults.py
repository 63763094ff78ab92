"""Faults from the command line: what there are, one by one with --fault, and several from a file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeperf.faults import from_file
from remote.errors import UsageError
from remote.sim.faults import FAULTS, parse
from tests.cli.command import edgeperf

READERS = [
    ["bench", "alexnet", "--duration", "1s"],
    ["rails", "--duration", "1s"],
    ["status"],
    ["doctor"],
]
CHANGERS = [["maxperf"], ["apply", "efficient"]]
EXEC = ["exec", "--duration", "1s"]


def commands(*options: str) -> list[list[str]]:
    """Every command that takes faults, with these options."""
    return [*([*words, *options] for words in READERS + CHANGERS), [*EXEC, *options, "--", "sleep", "1"]]


def script(folder: Path, text: str) -> Path:
    path = folder / "faults.toml"
    path.write_text(text, "utf-8")
    return path


def test_every_fault_is_listed_with_its_line_and_its_usual_argument() -> None:
    listed = {row["name"]: row for row in edgeperf("sim", "faults", "--json").data()}
    assert list(listed) == list(FAULTS)
    for name, kind in FAULTS.items():
        row = listed[name]
        assert row["summary"] == str(kind.__doc__).splitlines()[0]
        usual = kind.words[0] if kind.words else kind.usual
        assert row["usual_argument"] == (usual if "ARGUMENT" in row["summary"] else None)
        assert row["form"].startswith(f"{name}@START[:FOR")
    text = edgeperf("sim", "faults").out
    for name, row in listed.items():
        (line,) = (line for line in text.splitlines() if line.startswith(f"{name} "))
        assert row["summary"] in line
    assert "NAME@START[:FOR[:ARGUMENT]]" in text


@pytest.mark.parametrize("words", commands("--fault", "throttle@3s", "--host", "local"), ids=lambda words: words[0])
def test_a_fault_on_what_is_no_simulated_board_is_refused_before_anything_is_done(words: list[str]) -> None:
    ran = edgeperf(*words)
    assert (ran.code, ran.out) == (2, "")
    assert "local is no simulated board" in ran.err


@pytest.mark.parametrize("words", commands("--fault", "trottle@3s", "--host", "sim:tx1"), ids=lambda words: words[0])
def test_a_fault_that_there_is_not_is_refused_with_those_that_there_are(words: list[str]) -> None:
    ran = edgeperf(*words)
    assert (ran.code, ran.out) == (2, "")
    assert "trottle@3s" in ran.err
    assert "throttle" in ran.err


def test_of_several_hosts_none_is_changed_when_one_cannot_have_faults(tmp_path: Path) -> None:
    state = tmp_path / "board.json"
    host = f"sim:tx1,state={state}"
    ran = edgeperf("maxperf", "--host", host, "--host", "local", "--fault", "throttle@3s")
    assert ran.code == 2
    assert not state.exists()


def test_faults_of_options_of_a_file_and_of_the_host_string_are_the_same(tmp_path: Path) -> None:
    file = script(tmp_path, '[[fault]]\nname = "rail-freeze"\nstart = 0\nfor = "2s"\n')
    words = ["bench", "alexnet", "--duration", "1s", "--json", "--quiet", "--host"]
    asked = edgeperf(*words, "sim:nano,fault=gpu-sag@0", "--fault", "throttle@0::2", "--faults", str(file))
    spelt = edgeperf(*words, "sim:nano,fault=gpu-sag@0,fault=throttle@0::2,fault=rail-freeze@0:2s")
    assert asked.code == spelt.code == 8
    one, other = asked.data(), spelt.data()
    assert one["verdict"] == other["verdict"]
    assert one["host"] == other["host"]


def test_a_fault_by_option_shows_in_rails_exec_and_status() -> None:
    frozen = ["--host", "sim:nano", "--fault", "sampler-dead@0"]
    rows = [edgeperf("rails", *host, "--duration", "2s", "--csv").out for host in (frozen, frozen[:2])]
    assert rows[0] != rows[1]
    ran = edgeperf("exec", *frozen, "--json", "--", "sleep", "1")
    assert ran.data()["verdict"]["state"] == "DEGRADED"
    for words in (["status"], ["doctor"], ["maxperf"], ["apply", "efficient"]):
        ran = edgeperf(*words, *frozen)
        assert ran.code == 0, ran.err
        assert "fault=sampler-dead@0" in ran.out


def test_a_file_of_faults_reaches_the_board_of_every_command_that_takes_one(tmp_path: Path) -> None:
    file = script(tmp_path, '[[fault]]\nname = "link-drop"\nstart = 0\n[[fault]]\nname = "throttle"\nstart = "1h2"\n')
    for words in commands("--faults", str(file), "--host", "sim:tx1"):
        ran = edgeperf(*words)
        assert ran.code == 2
        assert "fault 2: start: '1h2' is not a time" in ran.err
    file.write_text(file.read_text().replace("1h2", "2m"))
    for words in commands("--faults", str(file), "--host", "sim:tx1"):
        ran = edgeperf(*words)
        assert ran.code == 3
        assert "refuses connections" in ran.err


def test_rails_keep_what_was_read_when_the_line_is_lost_and_say_what_is_wrong_with_it() -> None:
    lost = edgeperf("rails", "--host", "sim:nano", "--duration", "5s", "--csv", "--fault", "link-reset@2.5")
    assert lost.code == 3
    assert len(lost.out.splitlines()) == 3
    assert "2.0 s in 2 rows" in lost.err
    turned = edgeperf("rails", "--host", "sim:nano", "--duration", "5s", "--fault", "rail-negative@2")
    assert turned.code == 0
    assert "not valid: below zero in 3 of 5 rows" in turned.out
    gone = edgeperf("rails", "--host", "sim:nano", "--duration", "2s", "--fault", "rail-missing@0")
    assert gone.code == 0
    assert "no total: POM_5V_IN cannot be read on this board" in gone.out


def test_a_log_has_no_board_that_could_break() -> None:
    ran = edgeperf("rails", "--from", "-", "--fault", "throttle@0")
    assert ran.code == 2
    assert "--fault" in ran.err


def arguments(name: str) -> st.SearchStrategy[float | str | None]:
    """What a fault takes as its size."""
    if FAULTS[name].words:
        return st.none() | st.sampled_from(FAULTS[name].words)
    return st.none() | st.floats(-1e6, 1e6, allow_nan=False) | st.integers(0, 100)


@given(
    named=st.sampled_from(sorted(FAULTS)).flatmap(lambda name: st.tuples(st.just(name), arguments(name))),
    start=st.integers(0, 9999) | st.sampled_from(["3s", "500ms", "2m", "0.5"]),
    span=st.none() | st.integers(1, 9999) | st.sampled_from(["3s", "500ms", "2m", "0.5"]),
)
def test_a_file_says_what_the_option_says(
    tmp_path_factory: pytest.TempPathFactory,
    named: tuple[str, float | str | None],
    start: int | str,
    span: int | str | None,
) -> None:
    name, argument = named
    rows = {"name": name, "start": start, "for": span, "argument": argument}
    text = "".join(f"{key} = {value!r}\n" for key, value in rows.items() if value is not None)
    (found,) = from_file(script(tmp_path_factory.mktemp("faults"), f"[[fault]]\n{text}"))
    spelt = f"{name}@{start}:{'' if span is None else span}:{'' if argument is None else argument}"
    assert parse(found) == parse(spelt)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "fault: there is no table"),
        ("fault = []", "fault: there is no table"),
        ("fault = 3", "fault: there is no table"),
        ("fault = [1]", "fault: there is no table"),
        ("[fault]\nname = 'reboot'", "fault: there is no table"),
        ("[[faults]]\nname = 'reboot'", "unknown key 'faults'"),
        ("[[fault]]\nname = 'reboot'", "fault 1: start is missing"),
        ("[[fault]]\nstart = 1", "fault 1: name is missing"),
        ("[[fault]]\nname = 'x'\nstart = 1", "fault 1: name: 'x' is not a fault"),
        ("[[fault]]\nname = ['x']\nstart = 1", "fault 1: name: ['x'] is not a fault"),
        ("[[fault]]\nname = 'reboot'\nstart = 1\nspan = 1", "fault 1: unknown key 'span'"),
        ("[[fault]]\nname = 'reboot'\nstart = '1h'", "fault 1: start: '1h' is not a time"),
        ("[[fault]]\nname = 'reboot'\nstart = '1:2'", "fault 1: start: '1:2' is not a time"),
        ("[[fault]]\nname = 'reboot'\nstart = ''", "fault 1: start: '' is not a time"),
        ("[[fault]]\nname = 'reboot'\nstart = -1", "fault 1: start: -1 is not a time"),
        ("[[fault]]\nname = 'reboot'\nstart = true", "fault 1: start: True is not a time"),
        ("[[fault]]\nname = 'reboot'\nstart = 1\nfor = inf", "fault 1: for: inf is not a time"),
        ("[[fault]]\nname = 'reboot'\nstart = 1\nfor = 'ever'", "fault 1: for: 'ever' is not a time"),
        ("[[fault]]\nname = 'reboot'\nstart = 1\nargument = 'x'", "fault 1: argument: 'x' is not a number"),
        ("[[fault]]\nname = 'reboot'\nstart = 1\nargument = nan", "fault 1: argument: nan is not a number"),
        ("[[fault]]\nname = 'write-refused'\nstart = 1\nargument = 1", "fault 1: argument: there is no 1"),
        ("[[fault]]\nname = 'write-refused'\nstart = 1\nargument = 'fan'", "fault 1: argument: there is no 'fan'"),
        ("[[fault]]\nname = 'reboot'\nstart = 1\n[[fault]]\nname = 'reboot'", "fault 2: start is missing"),
        ("[[fault]", "line 1"),
    ],
)
def test_every_complaint_about_a_file_names_it_and_the_key(tmp_path: Path, text: str, said: str) -> None:
    path = script(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        from_file(path)
    assert str(path) in caught.value.what
    assert said in caught.value.what
    assert caught.value.hint


def test_a_file_that_is_not_there_is_a_wrong_usage(tmp_path: Path) -> None:
    ran = edgeperf("status", "--host", "sim:tx1", "--faults", str(tmp_path / "none.toml"))
    assert ran.code == 2
    assert "none.toml: No such file" in ran.err


def test_bytes_that_are_no_text_are_a_wrong_usage(tmp_path: Path) -> None:
    path = tmp_path / "faults.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match=r"faults\.toml"):
        from_file(path)
