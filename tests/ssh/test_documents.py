"""The commands for boards over SSH that the documents print: all can be parsed, and the README's first ones are run."""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer

from edgeperf import hosts as flow
from edgeperf.cli import app
from edgeperf.config import inventory
from tests.cli.command import edgeperf
from tests.ssh.conftest import board
from tests.ssh.sshd import Sshd

ROOT = Path(__file__).resolve().parents[2]
TEXTS = {path.name: path.read_text("utf-8") for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))}


def blocks(text: str) -> list[str]:
    """Returns the lines of the blocks that a shell runs."""
    found = re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [line for block in found for line in block.splitlines()]


def printed(text: str) -> list[str]:
    """Returns the command lines of a document: those of its blocks, and within its sentences those with options."""
    inline = re.findall(r"`(edgeperf [a-z][^`]* -[^`]*)`", text)
    lines = [*blocks(text), *re.findall(r"^\$ (edgeperf .*)$", text, re.MULTILINE), *inline]
    return [line for line in lines if line.startswith("edgeperf ") and not re.search(r"[$|\[]|\.\.\.", line)]


LINES = sorted({line for text in TEXTS.values() for line in printed(text)})


def parse(command: Any, name: str, words: list[str], above: Any = None) -> None:
    """Parses a command line as far as its last command, without running it. Raises what a wrong one raises."""
    with command.make_context(name, words, parent=above) as context:
        rest = [*getattr(context, "_protected_args", ()), *context.args]
        if hasattr(command, "commands") and rest:
            found, inner, rest = command.resolve_command(context, rest)
            parse(inner, found, rest, context)


@pytest.mark.parametrize("line", LINES)
def test_a_printed_command_line_can_be_parsed(line: str) -> None:
    program, *words = shlex.split(line, comments=True)
    with suppress(typer.Exit):  # an option such as --version has answered
        parse(typer.main.get_command(app), program, words)


def test_the_documents_print_commands_for_boards_over_ssh() -> None:
    assert "edgeperf attach --host nano" in LINES
    assert len(LINES) > 20


def test_the_commands_of_the_readme_for_a_board_over_ssh_work(server: Sshd) -> None:
    host, tree = board(server, "root")
    section = TEXTS["README.md"].partition("## Boards over SSH")[2].partition("\n## ")[0]
    codes = {}
    for _, *words in (shlex.split(line, comments=True) for line in blocks(section)):
        words = [host.text if word == "me@192.168.55.1" else word for word in words]
        codes[" ".join(words[:2])] = edgeperf(*words).code
        if words[:2] == ["hosts", "add"]:  # a folder stands for the file system of the board from here on
            known = inventory()
            entry = replace(known.hosts["nano"], tree=str(tree), board="generic-linux", serial="")
            flow.save(known.add("nano", entry, ()))
        if words[0] == "maxperf":
            governor = tree / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
            assert governor.read_text().strip() == "performance"
            assert edgeperf("restore", "--host", "nano").code == 0
    assert codes.pop("attach --host") == 3  # the board was forgotten in the line before
    assert codes.keys() >= {"hosts add", "status --host", "maxperf --host", "hosts check", "hosts remove"}
    assert set(codes.values()) == {0}
