"""The lock, the version and the changelog say the same everywhere."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import edgeperf

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
LOCK = (ROOT / "requirements.lock").read_text("utf-8")


def wanted() -> set[str]:
    """What the lock has to hold: all that the project asks for except the `board` extra."""
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    asked = [
        *project["build-system"]["requires"],
        *project["project"]["dependencies"],
        *project["project"]["optional-dependencies"]["sim"],
        *project["dependency-groups"]["dev"],
    ]
    return {canonicalize_name(Requirement(line).name) for line in asked}


def test_the_lock_holds_no_address() -> None:
    assert "://" not in LOCK
    assert set(re.findall(r"(?<!\S)-{1,2}[a-z][\w-]*", LOCK)) == {"--hash"}


def test_the_lock_pins_all_that_is_asked_for_by_version_and_hash() -> None:
    entries = re.findall(r"^(\S+)==\S+.*\\\n(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+", LOCK, re.MULTILINE)
    assert len(entries) == len(re.findall(r"^\S", LOCK, re.MULTILINE))
    assert wanted() - {canonicalize_name(name) for name in entries} == set()


def test_the_changelog_begins_with_the_version_of_the_code() -> None:
    heading = re.search(r"^## \[(\d\S*)\]", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert heading is not None
    assert heading[1] == edgeperf.__version__
