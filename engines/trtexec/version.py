"""Versions of TensorRT, and which of them this project knows how to talk to."""

from __future__ import annotations

import re
from dataclasses import dataclass

from engines.onboard.banner import version_in
from remote.errors import EngineError

_TEXT = re.compile(r"(\d{1,3})\.(\d{1,3})(?:\.(\d{1,3}))?(?:\.(\d{1,5}))?", re.ASCII)
_KNOWN_MINORS = {7: range(1, 3), 8: range(0, 7), 10: range(0, 1000), 11: range(0, 1000)}


@dataclass(frozen=True, order=True)
class Version:
    """A version of TensorRT; ``build`` is 0 where it is not known."""

    major: int
    minor: int
    patch: int = 0
    build: int = 0

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}" + (f".{self.build}" if self.build else "")

    @property
    def release(self) -> tuple[int, int]:
        """Major and minor: what decides which options there are."""
        return self.major, self.minor


def from_text(text: str) -> Version:
    """Returns the version that ``text`` ("8.2.1", "8.2.1.8", "7.1") names, whatever it is.

    Raises EngineError for anything else.
    """
    match = _TEXT.fullmatch(text.strip())
    if match is None:
        raise EngineError(f"{text[:80]!r} is no version of TensorRT", "see which one the board has: edgeperf doctor")
    major, minor, patch, build = (int(part or 0) for part in match.groups())
    return Version(major, minor, patch, build)


def from_banner(text: str) -> Version | None:
    """Returns the version in trtexec's output; None where there is none, as with TensorRT 7."""
    found = version_in(text)
    return from_text(found) if found else None


def known(version: Version) -> Version:
    """Returns ``version`` if it is 7.1, 7.2, 8.0 to 8.6, 10 or 11: those whose options and output have been read.

    Raises EngineError for any other: a guess would yield figures that mean something else.
    """
    if version.minor in _KNOWN_MINORS.get(version.major, ()):
        return version
    raise EngineError(
        f"trtexec of TensorRT {version} is not known: only 7.1, 7.2, 8.0 to 8.6, 10 and 11 are",
        "use --toolchain tensorrt, or a board with one of these; on TensorRT 6 and older use --toolchain caffe"
        if version.release < (7, 1)
        else "use --toolchain tensorrt, or a newer edgeperf",
    )
