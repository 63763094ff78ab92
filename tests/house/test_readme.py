"""The README's commands run, and print what it shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sysconfig
from dataclasses import dataclass, field
from difflib import unified_diff
from pathlib import Path

import pytest

from engines import models
from engines.emit.onnx import emit_onnx

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text("utf-8")
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
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
    for name, text in re.findall(r"^```toml\n# (\S+)\n(.*?)^```", README, re.DOTALL | re.MULTILINE):
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


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text("utf-8"))
    assert [link for link in links if not (document.parent / link).exists()] == []
