"""The lines of a trtexec run, told apart: what it says, its warnings and errors, and whether it passed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from engines.trtexec.version import Version, from_banner

_LOGGED = re.compile(r"(?:\[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\] )?\[([VIWEF])\] ?(.*)", re.ASCII)
_VERDICT = re.compile(r"&&&& ([A-Z]+) TensorRT\.trtexec(?: .*)?", re.ASCII)
_KEPT = 20


@dataclass(frozen=True)
class Failure:
    """A run that gave nothing: why, in words, and the last of its errors in ``log``, or of its warnings."""

    text: str
    log: tuple[str, ...] = ()


@dataclass(frozen=True)
class Output:
    """A run that passed. ``said`` are its lines of information as (time in s, text) without what the log adds."""

    version: Version | None
    said: tuple[tuple[float, str], ...]
    warned: tuple[str, ...]
    log: tuple[str, ...]


def read(lines: Iterable[tuple[float, str]], exit_code: int) -> Output | Failure:
    """Returns a passed run's lines, given as (time in s, text), or why it did not pass.

    A run passed if it ended with exit code 0 and says so. Only an excerpt, which has neither the line with which every
    run begins nor the one with which it ends, is taken at its exit code. Raises nothing, whatever the text.
    """
    said: list[tuple[float, str]] = []
    warned: list[str] = []
    errors: list[str] = []
    log: list[str] = []
    verdicts: list[str] = []
    version, last = None, ""
    for time_s, text in lines:
        last = text if text.strip() else last
        if text.startswith("&&&&"):
            match = _VERDICT.fullmatch(text.rstrip())
            verdicts.append(match[1] if match else "unreadable")
            version = version or from_banner(text)
        elif logged := _LOGGED.fullmatch(text.rstrip()):
            severity, words = logged.groups()
            if severity == "I":
                said.append((time_s, words))
            elif severity == "W":
                warned.append(words)
            elif severity != "V":
                errors.append(words)
                log.append(words)
        elif text.strip():
            log.append(text.rstrip())  # what the loader, a library or the kernel says has no prefix
    log = (log or warned)[-_KEPT:]
    if verdicts not in ([], ["PASSED"], ["RUNNING", "PASSED"]) or exit_code:
        return Failure(_why(verdicts, exit_code, errors, last), tuple(log))
    return Output(version, tuple(said), tuple(warned), tuple(log))


def _why(verdicts: list[str], exit_code: int, errors: list[str], last: str) -> str:
    if errors and (exit_code or "FAILED" in verdicts):
        return f"trtexec failed: {errors[0][:200]}"
    if verdicts[-1:] == ["RUNNING"]:
        return f"trtexec ended before it was done (exit code {exit_code}); its last line: {last[:200]}"
    return f"trtexec failed (exit code {exit_code}); its last line: {last[:200] or 'nothing'}"
