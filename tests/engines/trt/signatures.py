"""Checks the arguments of a call against signatures as pybind11 writes them: ``f(self: trt.X, n: int = 1) -> bool``."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Check = Callable[[Any], Any]
"""Returns the argument, converted as pybind11 would, or raises TypeError."""

_SEQUENCES = ("List[", "list[", "collections.abc.Sequence[")
_UNSET = object()


@dataclass(frozen=True)
class Parameter:
    """One argument: its name, the text of its type, and the text of its default (None: it must be given)."""

    name: str
    kind: str
    default: str | None


@dataclass(frozen=True)
class Signature:
    """One overload, without ``self``."""

    parameters: tuple[Parameter, ...]

    def bind(self, types: Mapping[str, type], args: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what was given, by name and converted. Raises TypeError where it does not fit."""
        if len(args) > len(self.parameters):
            raise TypeError(f"{len(args)} arguments for {len(self.parameters)} parameters")
        given = dict(zip((p.name for p in self.parameters), args, strict=False))
        for name, value in named.items():
            if name in given or name not in {p.name for p in self.parameters}:
                raise TypeError(f"no place for {name!r}")
            given[name] = value
        return {p.name: value for p in self.parameters if (value := _taken(p, types, given)) is not _UNSET}


def _taken(parameter: Parameter, types: Mapping[str, type], given: Mapping[str, Any]) -> Any:
    if parameter.name not in given:
        if parameter.default is None:
            raise TypeError(f"{parameter.name!r} is missing")
        return _UNSET
    value = given[parameter.name]
    if value is None and parameter.default == "None":
        return None
    return check(parameter.kind, types)(value)


def parse(text: str) -> Signature | None:
    """Returns the signature in ``text``; None where it holds none (a class without a constructor)."""
    if "(self:" not in text and not text.split("(")[0].isidentifier():
        return None
    inside = text[text.index("(") + 1 : _closing(text)]
    pieces = [piece for piece in _split(inside) if piece and not piece.startswith("self:")]
    return Signature(tuple(map(_parameter, pieces)))


def _closing(text: str) -> int:
    depth = 0
    for place, letter in enumerate(text):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == ")" and depth == 0:
            return place
    raise ValueError(f"no closing bracket in {text!r}")


def _split(text: str) -> list[str]:
    pieces, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        depth += {"(": 1, "[": 1, "<": 1, ")": -1, "]": -1, ">": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            pieces.append(text[start:place].strip())
            start = place + 1
    return [*pieces, text[start:].strip()]


def _parameter(text: str) -> Parameter:
    name, _, rest = text.partition(":")
    kind, equals, default = rest.partition(" = ")
    return Parameter(name.strip(), kind.strip(), default.strip() if equals else None)


def check(kind: str, types: Mapping[str, type]) -> Check:
    """Returns the check for a type's text; ``types`` are the module's classes and enums by name."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    for opening in _SEQUENCES:
        if kind.startswith(opening):
            return _sequence(check(kind[len(opening) : -1], types))
    name = kind.removeprefix("trt.").removeprefix("nvinfer1::").removeprefix("nvonnxparser::").replace("::", ".")
    if name in ("Dims", "DimsHW", "Permutation"):
        return _dims(2 if name == "DimsHW" else None, types.get("Dims"), types.get("Permutation"))
    if name == "Weights":
        return _weights(types["Weights"])
    return _instance(types[name]) if name in types else _anything


def _integer(value: Any) -> int:
    return operator.index(value)


def _number(value: Any) -> float:
    if isinstance(value, (int, float, np.floating, np.integer)):
        return float(value)
    raise TypeError(f"{value!r} is not a number")


def _buffer(value: Any) -> Any:
    memoryview(value)
    return value


def _anything(value: Any) -> Any:
    return value


def _instance(wanted: type) -> Check:
    def checked(value: Any) -> Any:
        if not isinstance(value, wanted):
            raise TypeError(f"{value!r} is not {wanted.__name__}")
        return value

    return checked


def _sequence(inner: Check) -> Check:
    def checked(value: Any) -> Any:
        if isinstance(value, (str, bytes)) or not isinstance(value, (Sequence, np.ndarray)):
            raise TypeError(f"{value!r} is not a sequence")
        return [inner(item) for item in value]

    return checked


def _dims(length: int | None, *recorded: type | None) -> Check:
    """Dims are made from sequences of whole numbers by themselves."""
    known: Any = tuple(kind for kind in recorded if kind)

    def checked(given: Any) -> tuple[int, ...]:
        if not isinstance(given, (tuple, list, *known)):
            raise TypeError(f"{given!r} are not dimensions")
        value: Any = given
        numbers = tuple(operator.index(value[i]) for i in range(len(value)))
        if length is not None and len(numbers) != length:
            raise TypeError(f"{len(numbers)} dimensions instead of {length}")
        return numbers

    return checked


def _weights(recorded: type) -> Check:
    """Weights are made from arrays by themselves."""

    def checked(value: Any) -> Any:
        if isinstance(value, recorded):
            return value
        if isinstance(value, np.ndarray):
            return recorded(value)
        raise TypeError(f"{value!r} are not weights")

    return checked


_PLAIN: dict[str, Check] = {
    "int": _integer,
    "typing.SupportsInt": _integer,
    "float": _number,
    "typing.SupportsFloat": _number,
    "str": _instance(str),
    "bool": _instance(bool),
    "bytes": _buffer,
    "buffer": _buffer,
    "typing_extensions.Buffer": _buffer,
    "tuple": _instance(tuple),
    "list": _instance(list),
    "numpy.ndarray": _instance(np.ndarray),
}
