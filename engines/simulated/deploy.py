"""Caffe deploy file -> Network, as Caffe reads it. The inverse of `engines.emit.prototxt`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from engines.network import (
    LRN,
    Concat,
    Conv,
    Dropout,
    Eltwise,
    FullyConnected,
    Input,
    Layer,
    Network,
    Pool,
    ReLU,
    Reshape,
    Softmax,
)

Message = dict[str, list[Any]]
_TOKEN = re.compile(r'\s+|#[^\n]*|(?P<word>"[^"\n]*"|[{}]|[^\s{}:"#]+|:)')


@dataclass(frozen=True)
class Deploy:
    """A deploy file. ``in_place`` names the layers that write into the tensor that they read."""

    network: Network
    batch: int
    in_place: frozenset[str]


def read_deploy(text: str) -> Deploy:
    """Returns the network in a deploy file. Raises ValueError with what is wrong with the text."""
    try:
        return _deploy(_message(_words(text), ""))
    except (KeyError, IndexError, TypeError, AttributeError, ArithmeticError) as error:
        raise ValueError(f"the network is not complete: {error!r}") from error


def _deploy(net: Message) -> Deploy:
    shapes = [tuple(map(int, shape["dim"])) for shape in net["input_shape"]]
    inputs = tuple(Input(name, shape[1:]) for name, shape in zip(net["input"], shapes, strict=True))
    makers = {name: name for name in net["input"]}  # the layer that wrote last into a blob
    layers, in_place = [], set()
    for row in net["layer"]:
        name, (top,) = row["name"][0], row["top"]
        layers.append(_layer(row, name, tuple(makers[blob] for blob in row["bottom"])))
        if top in row["bottom"]:
            in_place.add(name)
        makers[top] = name
    read = {name for layer in layers for name in layer.inputs}
    outputs = tuple(layer.name for layer in layers if layer.name not in read)
    network = Network(net["name"][0], inputs, tuple(layers), outputs)
    network.shapes(shapes[0][0])
    return Deploy(network, shapes[0][0], frozenset(in_place))


def _layer(row: Message, name: str, inputs: tuple[str, ...]) -> Layer:
    kind = row["type"][0]
    if kind not in _LAYERS:
        raise ValueError(f"Unknown layer type: {kind}")
    return _LAYERS[kind](name, inputs, _Parameters(row))


class _Parameters:
    """The parameters of a layer; every kind has them in one message of its own."""

    def __init__(self, row: Message) -> None:
        found = [values[0] for key, values in row.items() if key.endswith("_param")]
        self._rows: Message = found[0] if found else {}

    def number(self, key: str, default: float | None = None) -> float:
        return float(self.word(key, None if default is None else str(default)))

    def whole(self, key: str, default: int | None = None) -> int:
        return int(self.word(key, None if default is None else str(default)))

    def word(self, key: str, default: str | None = None) -> str:
        return str(self._rows[key][0] if key in self._rows or default is None else default)

    def flag(self, key: str, default: bool) -> bool:
        return self.word(key, str(default).lower()) == "true"

    def pair(self, key: str, default: int | None = None) -> tuple[int, int]:
        """Returns what holds for height and width: named so, or one number for both."""
        if f"{key}_h" in self._rows:
            return self.whole(f"{key}_h"), self.whole(f"{key}_w")
        both = self.whole("kernel_size" if key == "kernel" else key, default)
        return both, both

    def pads(self) -> tuple[int, int, int, int]:
        pad = self.pair("pad", 0)
        return (*pad, *pad)

    def dims(self) -> tuple[int, ...]:
        """Returns the sizes of a reshape without the batch."""
        return tuple(map(int, self._rows["shape"][0]["dim"][1:]))


def _conv(name: str, inputs: tuple[str, ...], p: _Parameters) -> Layer:
    window = p.pair("kernel"), p.pair("stride", 1), p.pads(), p.pair("dilation", 1)
    return Conv(name, inputs, p.whole("num_output"), *window, p.whole("group", 1), p.flag("bias_term", True))


def _pool(name: str, inputs: tuple[str, ...], p: _Parameters) -> Layer:
    mode: Literal["max", "avg"] = "max" if p.word("pool", "MAX") == "MAX" else "avg"
    if p.flag("global_pooling", False):
        return Pool(name, inputs, mode)
    return Pool(name, inputs, mode, p.pair("kernel"), p.pair("stride", 1), p.pads())


def _lrn(name: str, inputs: tuple[str, ...], p: _Parameters) -> Layer:
    return LRN(name, inputs, p.whole("local_size", 5), p.number("alpha", 1), p.number("beta", 0.75), p.number("k", 1))


def _inner(name: str, inputs: tuple[str, ...], p: _Parameters) -> Layer:
    return FullyConnected(name, inputs, p.whole("num_output"), p.flag("bias_term", True))


_LAYERS: dict[str, Callable[[str, tuple[str, ...], _Parameters], Layer]] = {
    "Convolution": _conv,
    "Pooling": _pool,
    "LRN": _lrn,
    "InnerProduct": _inner,
    "ReLU": lambda name, inputs, p: ReLU(name, inputs),
    "Dropout": lambda name, inputs, p: Dropout(name, inputs, p.number("dropout_ratio", 0.5)),
    "Softmax": lambda name, inputs, p: Softmax(name, inputs, p.whole("axis", 1)),
    "Concat": lambda name, inputs, p: Concat(name, inputs, p.whole("axis", 1)),
    "Eltwise": lambda name, inputs, p: Eltwise(name, inputs, "mul" if p.word("operation", "SUM") == "PROD" else "add"),
    "Reshape": lambda name, inputs, p: Reshape(name, inputs, p.dims()),
}


def _words(text: str) -> Iterator[str]:
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise ValueError(f"cannot read {text[place : place + 20]!r}")
        place = match.end()
        if match["word"] and match["word"] != ":":
            yield match["word"]


def _message(words: Iterator[str], end: str) -> Message:
    """Returns {key: values} up to the word ``end``."""
    found: Message = {}
    for key in words:
        if key == end:
            return found
        value = next(words, "")
        if key in ("{", "}") or value in ("", "}"):
            raise ValueError(f"{key!r} has no value")
        found.setdefault(key, []).append(_message(words, "}") if value == "{" else value.strip('"'))
    if end:
        raise ValueError(f"a {end!r} is missing")
    return found
