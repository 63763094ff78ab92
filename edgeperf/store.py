"""The only writer of result files: one JSON file a result, replaced at once, in the user's data folder."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgeperf.record import SCHEMA, Bench, Exec
from remote.errors import EdgeperfError, UsageError

_FIELDS = {kind: {field.name for field in dataclasses.fields(of)} for kind, of in (("bench", Bench), ("exec", Exec))}

_SAME = ("model", "precision", "batch", "toolchain", "seed")
_NAMED = re.compile(r"(\d{8}T\d{6})-.*-(\d+)\.json")
_LATEST = 20
"""How many results are looked through for one like another: the latest."""


@dataclass(frozen=True)
class Saved:
    """A result file and what it holds."""

    path: Path
    data: dict[str, Any]


def check(path: Path, *, make_folder: bool = False) -> None:
    """Raises UsageError when a result could not be written to ``path``: better now than after the run."""
    try:
        if make_folder:
            path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        _part(path).write_bytes(b"")  # asking for permissions is not enough: some file systems say yes and refuse
        _part(path).unlink()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(
            f"{path} cannot be written: {why}", "give --out FILE in a folder that is there and yours"
        ) from error


def save(text: str, path: Path) -> Path:
    """Writes a result; returns where it is. A reader sees the whole file or none.

    Raises EdgeperfError when the disk does not take it.
    """
    part = _part(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text + "\n", "utf-8")
        part.replace(path)
    except OSError as error:
        raise _unsaved(path, error) from error
    return path


def add(text: str, folder: Path, created: str, name: str) -> Path:
    """Saves a result under a new name in ``folder``; returns where: ``20261120T131500-alexnet-1.json``.

    The number counts what was saved in that second, so that names tell the order, and two runs that end together keep
    both their results. Raises EdgeperfError when the disk does not take it.
    """
    stamp = created.replace("-", "").replace(":", "").split(".")[0].split("+")[0]
    path = _reserved(folder, stamp, _word(name))
    try:
        return save(text, path)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _reserved(folder: Path, stamp: str, word: str) -> Path:
    """Makes an empty file of a name that nobody has."""
    number = 1 + max((_order(path)[1] for path in folder.glob(f"{stamp}-*.json")), default=0)
    path = folder / f"{stamp}-{word}-{number}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.open("x").close()
    except OSError as error:
        if isinstance(error, FileExistsError) and folder.is_dir():  # another process was faster
            return _reserved(folder, stamp, word)
        raise _unsaved(path, error) from error
    return path


def _order(path: Path) -> tuple[str, int]:
    """Returns by what results are put in time order."""
    named = _NAMED.fullmatch(path.name)
    return (named[1], int(named[2])) if named else (path.name, 0)


def _unsaved(path: Path, error: OSError) -> EdgeperfError:
    return EdgeperfError(f"the result could not be saved to {path}: {error.strerror}", "use --out FILE")


def _part(path: Path) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}")


def _word(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_" else "-" for c in Path(name).stem)[:40] or "model"


def results(folder: Path) -> list[Saved]:
    """Returns the saved results, oldest first. Files that are not results are passed over."""
    found = []
    for path in sorted(folder.glob("*.json"), key=_order):
        with suppress(OSError, ValueError):
            found.append(_load(path))
    return found


def _load(path: Path) -> Saved:
    """Raises ValueError for a file that is no result of this schema, or not a whole one."""
    data = json.loads(path.read_text("utf-8"))
    if not isinstance(data, dict) or data.get("kind") not in _FIELDS:
        raise ValueError("it holds something else")
    if data.get("schema") == 1:
        data = _from_first(data)
    if data.get("schema") == 2:
        data = _from_second(data)
    if data.get("schema") != SCHEMA:
        raise ValueError(f"its schema is {data.get('schema')!r}, this edgeperf knows {SCHEMA}")
    if missing := sorted(_FIELDS[data["kind"]] - set(data)):
        raise ValueError(f"it has no {missing[0]!r}")
    return Saved(path, data)


def _from_first(data: dict[str, Any]) -> dict[str, Any]:
    """Returns a record of schema 1 as one of schema 2."""
    engine = {"layers": None, "outputs": None, "protocol": None, **data.get("engine", {})}
    if engine.get("built"):
        engine["built"] = {"why": "", "workspace_bytes": 0, "builds_per_s": [], **engine["built"]}
    return {**data, "schema": 2, "host_latency_s": None, "engine": engine}


def _from_second(data: dict[str, Any]) -> dict[str, Any]:
    """Returns a record of schema 2 as one of schema 3."""
    new: dict[str, Any] = {"repeats": [], "between": {}, "over_time": [], "cooling": None, "edp": None, "scatter": None}
    new |= {"no_gain": None, "raw": None}
    figure: dict[str, Any] = {"absolute95": None}
    added = dict.fromkeys(("throughput_per_s", "images_per_s_per_w", "energy_j_per_image"), figure)
    added["power_w"] = {**figure, "carrier": {}, "net_of_idle": None, "settling_s": 0.0}
    added["sampling"] = {"source": "sysfs"}
    if data.get("edp_js") is not None:
        new["edp"] = {"value": data["edp_js"], "ci95": None, **figure}
    known = {name: {**more, **data[name]} for name, more in added.items() if data.get(name)}
    return {**data, **new, **known, "schema": 3}


def in_fp32(folder: Path, data: dict[str, Any]) -> Saved | None:
    """Returns the latest result of the same network on the same board at the same clocks, but in FP32, if any.

    Only one that has the times of its layers counts.
    """
    spec = {**data["spec"], "precision": "fp32"}
    wanted = _what({**data, "spec": spec})
    for path in sorted(folder.glob(f"*-{_word(spec['model'])}-*.json"), key=_order, reverse=True)[:_LATEST]:
        with suppress(OSError, ValueError, KeyError, TypeError):
            found = _load(path)
            if _what(found.data) == wanted and found.data["engine"]["layers_s"]:
                return found
    return None


def _what(data: dict[str, Any]) -> list[Any]:
    board = data["board"]
    return [data["spec"][name] for name in _SAME] + [board["name"], board["serial"], data["clocks"]["effective"]]


def find(folder: Path, name: str) -> Saved:
    """Returns one result: a file, the start of a saved name, or ``last``. Raises UsageError."""
    path = Path(name)
    if path.is_file():
        try:
            return _load(path)
        except (OSError, ValueError) as error:
            raise UsageError(
                f"{path} is not a result: {error}", "`edgeperf results list` shows the saved ones"
            ) from error
    saved = results(folder)
    fitting = saved[-1:] if name == "last" else [item for item in saved if item.path.name.startswith(name)]
    if len(fitting) != 1:
        what = f"{len(fitting)} results start with {name!r}" if fitting else f"there is no result {name!r}"
        raise UsageError(what, f"`edgeperf results list` shows them; they are in {folder}")
    return fitting[0]
