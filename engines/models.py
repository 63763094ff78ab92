"""Model names and files -> networks."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from engines.network import Network
from engines.networks import BUILTIN
from remote.errors import UsageError


@dataclass(frozen=True)
class Model:
    """A network and where it is from: ``source`` is "builtin" or the path of an ONNX file; ``digest`` its content."""

    name: str
    network: Network
    source: str
    digest: str


def names() -> tuple[str, ...]:
    """Returns the names of the built-in networks."""
    return tuple(sorted(BUILTIN))


def load(name_or_path: str, batch: int) -> Model:
    """Returns the built-in network of that name (upper or lower case), or that in an ONNX file, for ``batch``.

    Raises UsageError for an unknown name, a batch below 1, and a file that cannot be used.
    """
    if not name_or_path.strip():
        raise UsageError("the model's name is empty", f"Built in are {', '.join(names())}.")
    if batch < 1:
        raise UsageError(f"batch {batch}: there is no such batch", "Give a batch of 1 or more.")
    known = name_or_path.casefold()
    if known in BUILTIN:
        network = BUILTIN[known]()
        content = repr((network.inputs, network.layers, network.outputs)).encode()
        return Model(known, network, "builtin", hashlib.sha256(content).hexdigest())
    if not _looks_like_path(name_or_path):
        import difflib  # only needed here, and start-up time counts

        near = difflib.get_close_matches(known, BUILTIN, 1, 0.7)
        guess = f"Did you mean {near[0]!r}? " if near else ""
        raise UsageError(
            f"there is no model called {name_or_path!r}",
            f"{guess}Built in are {', '.join(names())}; or give the path of an ONNX file.",
        )
    from engines.importer import read_onnx

    path = Path(name_or_path).expanduser()
    found = read_onnx(path, batch)
    return Model(path.stem, found.network, str(path), found.digest)


def _looks_like_path(text: str) -> bool:
    separators = [s for s in (os.sep, os.altsep) if s]
    return any(s in text for s in separators) or text.casefold().endswith(".onnx") or Path(text).exists()
