"""The README's commands run and print what it shows; the documents cover what there is."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from difflib import unified_diff
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import typer

from edgeperf.cli import app
from edgeperf.record import Bench
from engines import models
from engines.emit.onnx import emit_onnx

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text("utf-8")
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
ROOMS = ("edgeperf", "clockprofiles", "engines", "remote")
EDGEPERF = Path(sysconfig.get_path("scripts")) / "edgeperf"


@dataclass
class Shown:
    """A command as the README shows it; a line ``...`` stands for any number of lines."""

    command: str
    code: int = 0
    lines: list[str] = field(default_factory=list)

    @property
    def differs_from_run_to_run(self) -> bool:
        return "--host local" in self.command or self.command.startswith("edgeperf results")


def commands() -> list[Shown]:
    """What the console blocks show, in order; ``$ echo $?`` shows the exit code of the command before it."""
    found: list[Shown] = []
    for block in re.findall(r"^```console\n(.*?)^```", README, re.DOTALL | re.MULTILINE):
        before = len(found)
        lines = iter(block.splitlines())
        for line in lines:
            if line == "$ echo $?":
                found[-1].code = int(next(lines))
            elif line.startswith("$ "):
                found.append(Shown(line.removeprefix("$ ")))
            else:
                found[-1].lines.append(line)
        assert len(found) > before, block
    return found


def changeable(text: str) -> str:
    """The text without what differs from day to day and from user to user."""
    text = re.sub(r"^(saved +)\S+", r"\1FILE", text, flags=re.MULTILINE)
    return re.sub(r"applied by \S+ since \S+", "applied by SOMEONE", text)


def first_words(text: str) -> set[str]:
    text = re.sub(r"^\d{8}T\d{6}-(\w+)-\d+", r"\1", text, flags=re.MULTILINE)
    return set(re.findall(r"^[\w-]+", text, re.MULTILINE))


def complaint(shown: Shown, printed: str) -> str:
    expected = "".join(f"{line}\n" for line in shown.lines)
    if shown.differs_from_run_to_run:
        missing = first_words(expected) - first_words(printed)
        return f"no line starts with {sorted(missing)} in\n{printed}" if missing else ""
    wanted, got = changeable(expected), changeable(printed)
    pattern = "".join(
        r"(?:.*\n)*?" if line == "..." else re.escape(line) + r"\n" for line in wanted.splitlines()
    )  # fmt: skip
    if re.fullmatch(pattern, got):
        return ""
    return "\n".join(unified_diff(wanted.splitlines(), got.splitlines(), "README", "printed", lineterm=""))


def test_every_command_of_the_readme_prints_what_the_readme_shows(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    for name, text in re.findall(r"^```(?:toml|text)\n# (\S+)\n(.*?)^```", README, re.DOTALL | re.MULTILINE):
        (here / name).write_text(text, "utf-8")
    emit_onnx(models.load("googlenet", 1).network, 1, "fp32", 0, here / "model.onnx")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("EDGEPERF_", "XDG_"))}
    environment["HOME"] = str(tmp_path)
    complaints = []
    for shown in commands():
        program, *arguments = shlex.split(shown.command)
        assert program == "edgeperf"
        done = subprocess.run(
            [EDGEPERF, *arguments], cwd=here, env=environment, text=True, check=False, timeout=60,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        said = complaint(shown, done.stdout)
        if done.returncode != shown.code:
            said = f"exit code {done.returncode}, not {shown.code}\n{said or done.stdout}"
        if said:
            complaints.append(f"$ {shown.command}\n{said}")
    assert not complaints, "\n\n".join(complaints)


def named_fields(record: type) -> Iterator[str]:
    """The names of a record's fields, and of those of the records in it."""
    types = get_type_hints(record)
    for item in fields(record):
        yield item.name
        for kind in (types[item.name], *get_args(types[item.name])):
            if is_dataclass(kind):
                yield from named_fields(kind if isinstance(kind, type) else type(kind))


def test_every_field_of_a_result_is_explained() -> None:
    explained = set(re.findall(r"`(\w+)`|\b\w+\.(\w+)`", (ROOT / "docs/result.md").read_text("utf-8")))
    assert sorted(set(named_fields(Bench)) - {word for pair in explained for word in pair}) == []


def command_lines(group: object, above: str) -> Iterator[str]:
    for name, command in getattr(group, "commands", {}).items():
        line = f"{above} {name}"
        yield from command_lines(command, line) if hasattr(command, "commands") else [line]


def test_every_command_is_in_the_readme() -> None:
    told = set(re.findall(r"[a-z]+", README.replace("`", " ")))
    lines = list(command_lines(typer.main.get_command(app), "edgeperf"))
    assert len(lines) > 20
    assert [line for line in lines if not set(line.split()) <= told] == []


def test_every_variable_of_the_environment_is_documented() -> None:
    documents = "\n".join(document.read_text("utf-8") for document in DOCUMENTS)
    sources = "\n".join(file.read_text("utf-8") for room in ROOMS for file in (ROOT / room).rglob("*.py"))
    read = set(re.findall(r"EDGEPERF_[A-Z_]+", sources))
    assert read
    assert read - set(re.findall(r"EDGEPERF_[A-Z_]+", documents)) == set()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text("utf-8"))
    assert [link for link in links if not (document.parent / link).exists()] == []
