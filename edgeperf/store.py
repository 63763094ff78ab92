"""The only writer of result files: one JSON file a result, replaced at once, in the user's data folder."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from remote.errors import EdgeperfError, UsageError


@dataclass(frozen=True)
class Saved:
    """A result file and what it holds."""

    path: Path
    data: dict[str, Any]


def check(path: Path) -> None:
    """Raises UsageError when a result could not be written to ``path``: better now than after the run."""
    folder = path.parent
    if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise UsageError(f"{path} cannot be written", f"name a file in a folder that is there and yours: {folder}")


def save(text: str, path: Path) -> None:
    """Writes a result. A reader sees the whole file or none. Raises EdgeperfError when the disk does not take it."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text + "\n", "utf-8")
        part.replace(path)
    except OSError as error:
        raise EdgeperfError(f"the result could not be saved to {path}: {error.strerror}", "use --out FILE") from error


def new_path(folder: Path, created: str, name: str) -> Path:
    """Returns a file name that is not taken yet, in time order: ``20261120T131500-alexnet-1.json``."""
    stamp = created.replace("-", "").replace(":", "").split(".")[0].split("+")[0]
    word = "".join(c if c.isalnum() or c in "-_" else "-" for c in Path(name).stem)[:40] or "model"
    number = 1
    while (path := folder / f"{stamp}-{word}-{number}.json").exists():
        number += 1
    return path


def results(folder: Path) -> list[Saved]:
    """Returns the saved results, oldest first. Files that are not results are passed over."""
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            data = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(data, dict) and data.get("kind") == "bench":
            found.append(Saved(path, data))
    return found


def find(folder: Path, name: str) -> Saved:
    """Returns one result: a file, the start of a saved name, or ``last``. Raises UsageError."""
    path = Path(name)
    if path.is_file():
        try:
            return Saved(path, json.loads(path.read_text("utf-8")))
        except ValueError as error:
            raise UsageError(f"{path} is not a result: {error}") from error
    saved = results(folder)
    fitting = saved[-1:] if name == "last" else [item for item in saved if item.path.name.startswith(name)]
    if len(fitting) != 1:
        what = f"{len(fitting)} results start with {name!r}" if fitting else f"there is no result {name!r}"
        raise UsageError(what, f"`edgeperf results list` shows them; they are in {folder}")
    return fitting[0]
