"""Surfaces to load the stand-in with: small ones of the project's own, and recorded ones where there are any."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.engines.trt.surface import Record

SMALL = ("7.1.3", "8.2.1", "8.5.2", "10.3.0", "11.4.1")
"""A version of each generation. The first is written down without signatures, read-only names and values of enums."""

_LINE = re.compile(r"(?P<text>.*?)(?:\s+@(?P<since>[\d.]*)-(?P<until>[\d.]*))?$")
_TABLE = Path(__file__).with_name("surface_table.txt")


def small(version: str) -> Record:
    """Returns the project's own surface of ``version``."""
    record: dict[str, Any] = {key: {} for key in ("classes", "enums", "enum_values", "bases", "signatures")}
    record |= {"version": version, "properties": {}, "readonly": {}, "functions": {}}
    record |= {"constants": {}, "aliases": {"Logger.Severity": "ILogger.Severity"}}
    opened: tuple[str, str] | None = None
    for line in _TABLE.read_text().splitlines():
        text, holds = _held(line, version)
        if line.startswith(("enum ", "class ")):
            opened = _open(record, text) if holds else None
        elif line.startswith("    ") and holds and opened:
            _member(record, *opened, text.strip())
    return bare(record) if version == SMALL[0] else record


def _held(line: str, version: str) -> tuple[str, bool]:
    match = _LINE.fullmatch(line)
    assert match
    since, until, own = (_numbers(text) for text in (match["since"], match["until"], version))
    return match["text"], (not since or own >= since) and (not until or own <= until)


def _numbers(text: str | None) -> tuple[int, ...]:
    return tuple(map(int, text.split("."))) if text else ()


def _open(record: dict[str, Any], text: str) -> tuple[str, str]:
    kind, name = text.split(" ")
    name, _, base = name.rstrip(")").partition("(")
    if kind == "enum":
        record["enums"][name], record["enum_values"][name] = [], {}
    else:
        record["bases"][name] = [base] if base else []
        for key in ("classes", "properties", "readonly"):
            record[key][name] = list(record[key].get(base, ()))
    return kind, name


def _member(record: dict[str, Any], kind: str, owner: str, text: str) -> None:
    if kind == "enum":
        name, value = text.split()
        record["enums"][owner].append(name)
        record["enum_values"][owner][name] = int(value)
        return
    name = re.split(r"[(: ]", text)[0]
    if "(" in text:
        inside = text[text.index("(") + 1 : -1]
        arguments = ", ".join(filter(None, (f"self: trt.{owner}", inside)))
        record["signatures"][f"{owner}.{name}"] = [f"{name}({arguments}) -> object"]
    else:
        record["properties"][owner].append(name)
        if " = " in text:
            record["readonly"][owner].append(name)
    if name != "__init__" and name not in record["classes"][owner]:
        record["classes"][owner].append(name)


def _recorded() -> Mapping[str, Path]:
    beside = Path(__file__).resolve().parents[4] / "shared" / "facts" / "trt_api"
    folder = Path(os.environ.get("EDGEPERF_TRT_API") or beside)
    return {path.stem: path for path in sorted(folder.glob("*.json"))}


RECORDED = _recorded()
"""Files of full surfaces by name: of the folder EDGEPERF_TRT_API, else of one beside the checkout."""

EVERY = (*SMALL, *RECORDED)
"""The names that `record` takes."""

_BARE = ("version", "classes", "enums", "functions", "constants", "aliases")


def record(name: str) -> Record:
    """Returns the small surface of a version, or the recorded one of a file."""
    return small(name) if name in SMALL else json.loads(RECORDED[name].read_text())


def bare(record: Record) -> Record:
    """Returns a record of names only: without signatures, read-only names and values of enums."""
    return {key: record[key] for key in _BARE}
