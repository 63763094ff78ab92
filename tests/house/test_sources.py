"""What holds of every source file, whoever wrote it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import clockprofiles
import edgeperf
import engines
import remote

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("edgeperf", "clockprofiles", "engines", "remote")
# What a board's own software brings, besides the standard library.
BROUGHT_BY_THE_BOARD = {"remote": set(), "engines": {"cuda", "numpy", "onnxruntime", "pycuda", "tensorrt"}}


def sources() -> list[Path]:
    return sorted(file for folder in (*ROOMS, "benchmarks") for file in (ROOT / folder).rglob("*.py"))


def imported(file: Path) -> Iterator[str]:
    """The dotted names that a file imports, relative ones made absolute."""
    package = ".".join(file.relative_to(ROOT).parent.parts)
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = f"{package}.{node.module or ''}" if node.level else node.module or ""
            yield from (f"{module}.{alias.name}" for alias in node.names)


def test_the_four_rooms_lie_side_by_side() -> None:
    places = {Path(str(room.__file__)).resolve().parent.parent for room in (edgeperf, clockprofiles, engines, remote)}
    assert places == {ROOT}


def test_no_source_file_is_over_400_lines() -> None:
    lengths = {str(file.relative_to(ROOT)): len(file.read_text("utf-8").splitlines()) for file in sources()}
    assert {name: lines for name, lines in lengths.items() if lines > 400} == {}


@pytest.mark.parametrize("room", ["remote", "engines"])
def test_on_board_programs_import_only_what_is_on_the_board(room: str) -> None:
    here = f"{room}.onboard"
    strangers = {
        f"{file.name}: {name}"
        for file in (ROOT / room / "onboard").glob("*.py")
        for name in imported(file)
        if not f"{name}.".startswith(f"{here}.")
        and name.split(".")[0] not in sys.stdlib_module_names | BROUGHT_BY_THE_BOARD[room]
    }
    assert strangers == set()


def test_no_file_names_a_path_of_the_machine_it_was_written_on() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listed.returncode:
        pytest.skip("not a git checkout")
    home = re.compile(rf"{re.escape(str(ROOT))}\b|(?<![\w.~}}])/(?:root|work|Users|home/\w+)/\w")
    found = []
    for name in filter(None, listed.stdout.split("\0")):
        file = ROOT / name
        if file.is_file():
            lines = enumerate(file.read_text("utf-8", "replace").splitlines(), 1)
            found += [f"{name}:{number}: {line.strip()[:100]}" for number, line in lines if home.search(line)]
    assert found == []
