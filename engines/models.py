"""Model names and files -> networks."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from engines.cost import Precision
from engines.network import Network, Shape
from engines.networks import BUILTIN
from remote.errors import UsageError

_EXAMPLE = "Give the name of an input and all its dimensions, as in --shape image:1x3x224x224."


@dataclass(frozen=True)
class FedInput:
    """An input as it is fed: all its dimensions, the batch among them, and numpy's name of its type."""

    name: str
    dims: Shape
    dtype: str


@dataclass(frozen=True)
class Model:
    """A network and where it is from: ``source`` is "builtin" or the path of an ONNX file; ``digest`` its content.

    ``inputs`` are those at the batch it was loaded for, ``open_inputs`` the names of those whose dimensions the file
    leaves open. ``typed`` is the precision of the file itself: a file of float16 weights computes in FP16, whatever
    the engine is told. ``beside`` are the files beside it that hold weights.
    """

    name: str
    network: Network
    source: str
    digest: str
    inputs: tuple[FedInput, ...] = ()
    typed: Precision = "fp32"
    open_inputs: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()


def names() -> tuple[str, ...]:
    """Returns the names of the built-in networks."""
    return tuple(sorted(BUILTIN))


def load(name_or_path: str, batch: int, shapes: Mapping[str, Shape] | None = None) -> Model:
    """Returns the built-in network of that name (upper or lower case), or that in an ONNX file, for ``batch``.

    ``shapes`` are those of inputs whose dimensions a file leaves open (`parse_shapes`). Raises UsageError for an
    unknown name, a batch below 1, and a file or ``shapes`` that cannot be used.
    """
    if not name_or_path.strip():
        raise UsageError("the model's name is empty", f"Built in are {', '.join(names())}.")
    if batch < 1:
        raise UsageError(f"batch {batch}: there is no such batch", "Give a batch of 1 or more.")
    known = name_or_path.casefold()
    if known in BUILTIN:
        network = BUILTIN[known]()
        content = repr((network.inputs, network.layers, network.outputs)).encode()
        if shapes:
            raise UsageError(f"--shape: the inputs of {known} are fixed", "Leave --shape out, or give a model file.")
        return Model(known, network, "builtin", hashlib.sha256(content).hexdigest(), _fed(network, batch))
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
    found = read_onnx(path, batch, shapes)
    inputs = _fed(found.network, batch)
    return Model(
        path.stem, found.network, str(path), found.digest, inputs, found.typed, found.open_inputs, found.beside
    )


def parse_shapes(texts: Iterable[str]) -> dict[str, Shape]:
    """Returns the dimensions of each input in texts such as "image:1x3x224x224".

    Raises UsageError for a text that says something else, and for a name given twice.
    """
    found: dict[str, Shape] = {}
    for text in texts:
        name, _, dims = text.strip().rpartition(":")  # names may have colons themselves
        sizes = dims.casefold().split("x")
        if not name or not all(size.isascii() and size.isdigit() and int(size) for size in sizes):
            raise UsageError(f"--shape {text!r} is not understood", _EXAMPLE)
        if name in found:
            raise UsageError(f"--shape is given twice for input {name!r}", "Give it once.")
        found[name] = tuple(map(int, sizes))
    return found


def _fed(network: Network, batch: int) -> tuple[FedInput, ...]:
    return tuple(FedInput(i.name, (batch, *i.shape) if i.batched else i.shape, i.dtype) for i in network.inputs)


def _looks_like_path(text: str) -> bool:
    separators = [s for s in (os.sep, os.altsep) if s]
    return any(s in text for s in separators) or text.casefold().endswith(".onnx") or Path(text).exists()
