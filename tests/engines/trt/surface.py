"""Makes a module from recorded names: what was not recorded is not there, and calls must follow their signatures.

A record that lacks a part (signatures, the list of read-only names) is followed where it speaks; the rest is let
through.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tests.engines.trt import signatures

Record = Mapping[str, Any]
"""``version``, ``classes`` {name: [names]}, ``enums`` {name: [members]}, ``functions``, ``constants``, ``aliases``, and
where known ``enum_values``, ``bases``, ``properties``, ``readonly``, ``signatures``."""

_PROPERTY_KINDS = {
    **dict.fromkeys(("stride_nd", "padding_nd", "pre_padding", "post_padding", "dilation_nd"), "trt.Dims"),
    **dict.fromkeys(("stride", "padding", "dilation"), "trt.DimsHW"),
    **dict.fromkeys(("reshape_dims", "pre_padding_nd", "post_padding_nd", "window_size_nd"), "trt.Dims"),
    **dict.fromkeys(("num_groups", "axis", "axes", "max_workspace_size", "channel_axis", "flags"), "int"),
    **dict.fromkeys(("max_batch_size", "avg_timing_iterations", "min_timing_iterations"), "int"),
    **dict.fromkeys(("builder_optimization_level", "max_aux_streams"), "int"),
    "name": "str",
    "padding_mode": "trt.PaddingMode",
    "average_count_excludes_padding": "bool",
    "enqueue_emits_profile": "bool",
    "first_transpose": "trt.Permutation",
    "second_transpose": "trt.Permutation",
    "profiling_verbosity": "trt.ProfilingVerbosity",
    "precision": "trt.DataType",
    "dtype": "trt.DataType",
    "profiler": "trt.IProfiler",
}


class EnumType(type):
    """Members are read from the class; a member that was not recorded is an AttributeError."""

    _members: dict[str, Any]

    @property
    def __members__(cls) -> dict[str, Any]:
        return dict(cls._members)


class Enum(metaclass=EnumType):
    """As pybind11 makes them: equal within one enum only, no arithmetic; ``int()`` gives the value."""

    def __init__(self, value: int) -> None:
        found = [member for member in type(self)._members.values() if int(member) == value]
        if not found:
            raise ValueError(f"{value} is not a member of {type(self).__name__}")
        self.__dict__.update(found[0].__dict__)

    def __int__(self) -> int:
        return int(self.__dict__["value"])

    def __index__(self) -> int:
        return int(self)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and int(self) == int(other)

    def __hash__(self) -> int:
        return hash(int(self))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"cannot set {name!r} of a member of {type(self).__name__}")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}.{self.__dict__['name']}: {int(self)}>"

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.__dict__['name']}"


class Bound(type):
    """Like pybind11: a subclass that forgets to call its base's constructor cannot be made."""

    def __call__(cls, *args: Any, **named: Any) -> Any:
        made = super().__call__(*args, **named)
        if not made.__dict__.get("_ready"):
            raise TypeError(f"{cls.__name__}.__init__() must be called when overriding __init__")
        return made


class Object(metaclass=Bound):
    """What all recorded classes share. Behaviour: ``_do_x`` (method), ``_get_x`` and ``_set_x`` (property)."""

    _trt: Any
    _recorded: type
    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def _start(self, *args: Any, **named: Any) -> None:
        """What a constructor does."""

    def __setattr__(self, name: str, value: Any) -> None:
        known = name.startswith("_") or type(self) is not self._recorded or hasattr(type(self), name)
        if not known:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        super().__setattr__(name, value)


class Surface:
    """The module under construction."""

    def __init__(
        self, record: Record, behaviour: Mapping[str, type], functions: Mapping[str, Callable[..., Any]]
    ) -> None:
        self.record, self.behaviour = record, behaviour
        self.types: dict[str, type] = {}
        self.changes = 0
        self.module = ModuleType("tensorrt")
        numbers = re.search(r"\d+(\.\d+)+", str(record["version"]))
        self.version = numbers[0] if numbers else str(record["version"])
        self.module.__dict__["__version__"] = self.version
        for name, members in record["enums"].items():
            self.types[name] = self._enum(name, members)
        for name in record["classes"]:
            self._class(name)
        for name, kind in self.types.items():
            self._place(name, kind)
        for name, target in record.get("aliases", {}).items():
            self._place(name, self.types[target])
        for name, texts in _named(record.get("functions")).items():
            setattr(self.module, name, self._call(name, list(texts or ()), functions.get(name)))
        for name, kind in _named(record.get("constants")).items():
            member = _TYPES_BY_WORD.get(name)
            setattr(self.module, name, getattr(self.types["DataType"], member) if member else kind)

    severity: Any
    """The enum of what is logged; where it hangs differs between records."""

    def new(self, name: str, *args: Any, **named: Any) -> Any:
        """Returns an object of class ``name`` although its constructor is not open to users."""
        kind: Any = self.types[name]
        made = bytes.__new__(kind, *args) if issubclass(kind, bytes) else object.__new__(kind)
        made._ready = True
        made._start(*args, **named)
        return made

    def _enum(self, name: str, members: list[str]) -> type:
        values = self.record.get("enum_values", {}).get(name) or {member: i for i, member in enumerate(members)}
        made: Any = EnumType(name.split(".")[-1], (Enum,), {"_members": {}})
        for member in members:
            one = object.__new__(made)
            one.__dict__.update(name=member, value=values[member])
            made._members[member] = one
            setattr(made, member, one)
        kind: type = made
        return kind

    def _place(self, name: str, kind: type) -> None:
        """A dotted name is an attribute of its class; an enum's members are attributes there too where recorded."""
        *owner, last = name.split(".")
        if last == "Severity":
            self.severity = kind
        if not owner:
            setattr(self.module, name, kind)
            return
        target = self.types.get(owner[0])
        if target is None:
            return
        setattr(target, last, kind)
        for member, value in getattr(kind, "_members", {}).items():
            if member in self.record["classes"].get(owner[0], ()):
                setattr(target, member, value)

    def _class(self, name: str) -> type:
        if name in self.types:
            return self.types[name]
        behaviour = self.behaviour.get(name)
        bases = tuple(self._class(base) for base in self._bases(name) if base in self.record["classes"])
        body: dict[str, Any] = {"__init__": self._constructor(name), "_trt": self}
        nested = {n.split(".")[1] for n in (*self.record["enums"], *self.record.get("aliases", {})) if "." in n}
        properties = self.record.get("properties", {}).get(name)
        for member in self.record["classes"][name]:
            if member in nested or member.isupper():
                continue
            if member in properties if properties is not None else not hasattr(behaviour, f"_do_{member}"):
                body[member] = self._property(name, member)
            else:
                body[member] = self._method(name, member)
        mixed = (*bases, *((behaviour,) if behaviour else () if bases else (Object,)))
        made: Any = Bound(name, mixed, body)
        made._recorded = made
        self.types[name] = made
        return self.types[name]

    def _bases(self, name: str) -> list[str]:
        """Where bases were not recorded they are those of the behaviour, as far as there are such classes."""
        recorded = self.record.get("bases", {}).get(name)
        if recorded is not None:
            return [base for base in recorded if base != "pybind11_object"]
        behaviour = self.behaviour.get(name)
        above = behaviour.__mro__[1:] if behaviour else ()
        return [n for n, b in self.behaviour.items() if b in above and n != name][-1:]

    def _constructor(self, name: str) -> Callable[..., None]:
        texts = self.record.get("signatures", {}).get(f"{name}.__init__")
        start = self._call(f"{name}.__init__", texts or [], lambda self, *args, **named: self._start(*args, **named))

        def __init__(self: Any, *args: Any, **named: Any) -> None:
            if texts and not any(map(signatures.parse, texts)):
                raise TypeError(f"tensorrt.{name}: No constructor defined!")
            start(self, *args, **named)
            self._ready = True

        return __init__

    def _method(self, name: str, member: str) -> Callable[..., Any]:
        def forward(self: Any, *args: Any, **named: Any) -> Any:
            act = getattr(self, f"_do_{member}", None)
            if act is None:
                raise NotImplementedError(f"the stand-in does not play {name}.{member}")
            return act(*args, **named)

        return self._call(f"{name}.{member}", self.record.get("signatures", {}).get(f"{name}.{member}", []), forward)

    def _call(self, name: str, texts: list[str], act: Callable[..., Any] | None) -> Callable[..., Any]:
        overloads = [found for text in texts if (found := signatures.parse(text))]

        def call(*args: Any, **named: Any) -> Any:
            if act is None:
                raise NotImplementedError(f"the stand-in does not play {name}")
            if not overloads:
                return act(*args, **named)
            own, rest = (args[:1], args[1:]) if "." in name else ((), args)
            problems = []
            for overload in overloads:
                try:
                    bound = overload.bind(self.types, rest, named)
                except TypeError as error:
                    problems.append(str(error))
                    continue
                return act(*own, **bound)
            raise TypeError(f"{name}(): incompatible function arguments: {'; '.join(problems)}")

        return call

    def _property(self, owner: str, name: str) -> property:
        def read(self: Any) -> Any:
            getter = getattr(self, f"_get_{name}", None)
            return getter() if getter else self.__dict__.get(f"_{name}")

        def write(self: Any, value: Any) -> None:
            self._trt.changes += 1
            kind = _PROPERTY_KINDS.get(name)
            if kind and not (value is None and name == "profiler"):
                value = signatures.check(kind, self._trt.types)(value)
            setter = getattr(self, f"_set_{name}", None)
            if setter:
                setter(value)
            else:
                setattr(self, f"_{name}", value)

        return property(read, None if name in self.record.get("readonly", {}).get(owner, ()) else write)


_TYPES_BY_WORD = {
    "float32": "FLOAT",
    "float16": "HALF",
    "int8": "INT8",
    "int32": "INT32",
    "int64": "INT64",
    "bool": "BOOL",
}


def _named(recorded: Any) -> Mapping[str, Any]:
    """Some records have no more than a list of names."""
    return recorded if isinstance(recorded, Mapping) else dict.fromkeys(recorded or ())
