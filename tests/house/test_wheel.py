"""The wheel holds the four rooms and their data, and works where nothing of the checkout is in sight."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

import edgeperf

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("edgeperf", "clockprofiles", "engines", "remote")
DATA = {".py", ".toml", ".json"}


def run(command: list[str | Path], folder: Path) -> str:
    """What a command prints on stdout when run in a folder, with no Python path from outside."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def scripts(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an empty environment that holds the wheel, and sees this one's libraries but not its projects."""
    folder = tmp_path_factory.mktemp("fresh")
    run([sys.executable, "-m", "venv", "--without-pip", "env"], folder)
    programs = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
    install = [sys.executable, "-m", "uv", "pip", "install", "--no-config", "--no-cache", "--offline", "--no-deps"]
    run([*install, "--python", programs / "python", wheel], folder)
    (site,) = (folder / "env").glob("**/site-packages")
    # A .pth file is read in this folder only: the checkout's own, in the folder named here, stays unread.
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n", "utf-8")
    return programs


def test_the_wheel_holds_the_four_rooms_with_their_data_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    files = (file for room in ROOMS for file in (ROOT / room).rglob("*") if file.is_file())
    expected = {file.relative_to(ROOT).as_posix() for file in files if "__pycache__" not in file.parts}
    assert packed == expected
    assert {Path(name).suffix for name in packed} <= DATA


def test_the_installed_program_says_its_version_from_any_folder(scripts: Path, tmp_path: Path) -> None:
    assert edgeperf.__version__ in run([scripts / "edgeperf", "--version"], tmp_path)
    where = run([scripts / "python", "-c", "import edgeperf; print(edgeperf.__file__)"], tmp_path)
    assert Path(where.strip()).is_relative_to(scripts.parent)


def test_the_installed_program_measures_on_the_simulated_board(scripts: Path, tmp_path: Path) -> None:
    bench: list[str | Path] = ["bench", "alexnet", "--fp16", "--batch", "64", "--host", "sim:tx1", "--json"]
    record = json.loads(run([scripts / "edgeperf", *bench], tmp_path))
    assert record["simulated"] is True
    assert record["throughput_per_s"]["value"] > 0
