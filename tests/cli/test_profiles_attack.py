"""Words with a meaning to a shell or a terminal, wherever a user may put words: nothing of them is ever carried out."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cli.command import edgeperf, nodes
from tests.conftest import SOAK

KEYS = (
    *("cpu.governor", "cpu.min", "cpu.max", "cpuquiet.enabled", "cpuquiet.governor", "gpu.rate", "emc.rate"),
    *("fan.pwm", "nvpmodel.mode", "idle.cpu", "idle.gpu"),
)
ATTACKS = (
    "$(touch pwned)",
    "`touch pwned`",
    "; touch pwned #",
    "| touch pwned",
    "&& touch pwned",
    "'; touch pwned; '",
    '"; touch pwned; "',
    "performance\ntouch pwned",
    "performance\0",
    "> pwned",
    "../../../etc/shadow",
    "%s%n{0.__class__}",
    "${IFS}touch${IFS}pwned",
    "-oProxyCommand=touch pwned",
    "\x1b]0;pwned\x07",
    "performance ",
    "",
)
BOARDS = ("sim:tx1@r23.1", "sim:agx-orin")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is carried out after all leaves its mark in a folder of the test."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def quoted(text: str) -> str:
    """Returns a TOML string of any text."""
    return '"' + "".join(c if c.isalnum() else f"\\U{ord(c):08X}" for c in text) + '"'


def profile(**texts: str) -> Path:
    """Writes a profile with these strings, ``cpu_governor`` for the key governor of [cpu]."""
    lines = [f"{key.replace('__', '.')} = {quoted(text)}" for key, text in texts.items()]
    path = Path("attack.toml")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("host", BOARDS)
@pytest.mark.parametrize("attack", ATTACKS)
def test_a_profile_with_shell_characters_in_every_string_does_nothing_but_fail(host: str, attack: str) -> None:
    host += f",state={Path.cwd().parent / 'board.json'}"
    before = nodes(host)
    for key in KEYS:
        ran = edgeperf("apply", str(profile(summary="x", **{key.replace(".", "__"): attack})), "--host", host)
        assert (ran.code, ran.out) == (2, ""), key
        assert f"attack.toml: {key}" in ran.err
        assert "\x1b" not in ran.err
    for word in (profile(inherits=attack), profile(**{key.replace(".", "__"): attack for key in ("summary", *KEYS)})):
        assert edgeperf("apply", str(word), "--host", host).code == 2
    assert nodes(host) == before
    assert [path.name for path in Path.cwd().iterdir()] == ["attack.toml"]


@pytest.mark.parametrize("attack", [word for word in ATTACKS if word and "\0" not in word])
def test_shell_characters_on_the_command_line_do_nothing_but_fail(attack: str) -> None:
    for words in (
        ("apply", attack),
        ("bench", attack),
        ("bench", "alexnet", "--profile", attack),
        ("bench", "alexnet", "--clock", f"gpu={attack}"),
        ("bench", "alexnet", "--toolchain", attack),
    ):
        ran = edgeperf(*words, "--host", "sim:tx1@r23.1")
        assert (ran.code, ran.out) == (2, ""), words
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.parametrize("attack", [word for word in ATTACKS if "\0" not in word])
def test_a_host_of_shell_characters_is_no_host(attack: str) -> None:
    for host in (attack, f"root@{attack}", f"{attack}@127.0.0.1:1", f"sim:{attack}"):
        ran = edgeperf("status", "--host", host)
        assert ran.code in (2, 3), host
        assert ran.out == ""
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.parametrize("name", ["$(touch pwned).toml", "`touch pwned`.toml", "; touch pwned #.toml", "a'b\"c.toml"])
def test_a_profile_in_a_file_of_such_a_name_is_a_profile_like_any_other(name: str) -> None:
    Path(name).write_text('[gpu]\nrate = "max"\n')
    assert edgeperf("apply", name, "--host", "sim:tx1@r23.1").code == 0
    assert [path.name for path in Path.cwd().iterdir()] == [name]


@settings(max_examples=3000 if SOAK else 60)
@given(key=st.sampled_from(KEYS), text=st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20))
def test_a_string_that_is_no_plain_word_is_never_taken(key: str, text: str) -> None:
    ran = edgeperf("apply", str(profile(**{key.replace(".", "__"): text})), "--host", "sim:tx1@r23.1", "--dry-run")
    plain = text.isascii() and all(c.isalnum() or c in "_.-" for c in text.strip())
    assert ran.code == 2 or (ran.code == 0 and plain)
