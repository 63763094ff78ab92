"""trtexec's options by version, and what a command line asks for. Pure.

Which option is in which version, and the defaults: NVIDIA's sources of TensorRT 7.1 to 11.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Numbers = tuple[int, ...]

_ALWAYS: tuple[Numbers, Numbers] = ((0,), (99,))
_TO_8: tuple[Numbers, Numbers] = ((0,), (10,))
_TO_10: tuple[Numbers, Numbers] = ((0,), (11,))
# From which version on an option is there, and from which on not any more.
OPTIONS: Mapping[str, tuple[Numbers, Numbers]] = {
    **dict.fromkeys(("onnx", "saveEngine", "loadEngine", "help", "verbose", "device", "int8", "useDLACore"), _ALWAYS),
    **dict.fromkeys(("shapes", "minShapes", "optShapes", "maxShapes", "loadInputs", "allowGPUFallback"), _ALWAYS),
    **dict.fromkeys(("iterations", "avgRuns", "percentile", "duration", "warmUp", "streams", "threads"), _ALWAYS),
    **dict.fromkeys(("exportTimes", "exportProfile", "dumpProfile", "exportOutput", "dumpOutput"), _ALWAYS),
    **dict.fromkeys(("useCudaGraph", "useSpinWait", "noTF32", "avgTiming", "exposeDMA", "noBuilderCache"), _ALWAYS),
    **dict.fromkeys(("explicitBatch", "batch", "maxBatch", "workspace", "buildOnly", "minTiming"), _TO_8),
    **dict.fromkeys(("deploy", "model", "output", "uff"), _TO_8),
    **dict.fromkeys(("fp16", "best"), _TO_10),
    "noDataTransfers": ((7, 2), (99,)),
    **dict.fromkeys(("timingCacheFile", "separateProfileRun", "tacticSources"), ((8,), (99,))),
    **dict.fromkeys(("exportLayerInfo", "dumpLayerInfo", "profilingVerbosity", "idleTime"), ((8, 2), (99,))),
    "useManagedMemory": ((8, 2), (99,)),
    "precisionConstraints": ((8, 2), (11,)),
    "memPoolSize": ((8, 4), (99,)),
    **dict.fromkeys(("skipInference", "infStreams", "builderOptimizationLevel", "versionCompatible"), ((8, 6), (99,))),
    "stronglyTyped": ((10,), (99,)),
    **dict.fromkeys(("includeDataTransfers", "noCudaGraph", "noSpinWait"), ((11,), (99,))),
}

_MIB = 1 << 20
_ALL_MEMORY = 1 << 40


@dataclass(frozen=True)
class Asked:
    """What a command line asks for, with the version's defaults. Paths are "" where none was given.

    ``alone``: every batch waits for the one before.
    """

    onnx: str
    save: str
    load: str
    fp16: bool
    tf32: bool
    explicit: bool
    batch: int | None
    shapes: Mapping[str, tuple[int, ...]]
    workspace_bytes: int
    timing: str
    skip: bool
    transfers: bool
    spin: bool
    graph: bool
    alone: bool
    warmup_s: float
    duration_s: float
    iterations: int
    average: int
    percentiles: tuple[float, ...]
    times: str
    profile: str
    dump_profile: bool
    separate: bool
    layer_info: str
    help: bool

    @property
    def profiles(self) -> bool:
        """Whether layers are to be timed."""
        return bool(self.profile) or self.dump_profile


def known(name: str, version: Numbers) -> bool:
    """Says whether trtexec of that version takes ``--name``."""
    if name not in OPTIONS:
        return False
    first, gone = OPTIONS[name]
    return first <= version < gone


def parse(words: Sequence[str], version: Numbers) -> tuple[Asked, list[str]]:
    """Returns what is asked for, and the words that this version does not know, as it complains of them.

    Raises ValueError where a number is none.
    """
    found: dict[str, str] = {}
    unknown = []
    for word in words:
        name, _, value = word.partition("=")
        if name.startswith("--") and known(name[2:], version):
            found[name[2:]] = value
        elif name == "-h":
            found["help"] = ""
        else:
            unknown.append(f"{name} {value}")
    return _asked(found, version), unknown


def _asked(found: Mapping[str, str], version: Numbers) -> Asked:
    new = version >= (11,)
    default_percentiles = "90,95,99" if version >= (8, 5) else "99"
    options: dict[str, Any] = {
        "onnx": found.get("onnx", ""),
        "save": found.get("saveEngine", ""),
        "load": found.get("loadEngine", ""),
        "fp16": "fp16" in found or "best" in found,
        "tf32": "noTF32" not in found,
        "explicit": "explicitBatch" in found or version >= (8,),
        "batch": int(found["batch"]) if "batch" in found else None,
        "shapes": _shapes(found.get("shapes") or found.get("optShapes") or ""),
        "workspace_bytes": _workspace(found, version),
        "timing": found.get("timingCacheFile", ""),
        "skip": "buildOnly" in found or "skipInference" in found,
        "transfers": "includeDataTransfers" in found if new else "noDataTransfers" not in found,
        "spin": "noSpinWait" not in found if new else "useSpinWait" in found,
        "graph": "noCudaGraph" not in found if new else "useCudaGraph" in found,
        "alone": "exposeDMA" in found,
        "warmup_s": float(found.get("warmUp", "200")) / 1e3,
        "duration_s": float(found.get("duration", "3")),
        "iterations": int(found.get("iterations", "10")),
        "average": int(found.get("avgRuns", "10")),
        "percentiles": tuple(float(part) for part in found.get("percentile", default_percentiles).split(",")),
        "times": found.get("exportTimes", ""),
        "profile": found.get("exportProfile", ""),
        "dump_profile": "dumpProfile" in found,
        "separate": new or "separateProfileRun" in found,
        "layer_info": found.get("exportLayerInfo", ""),
        "help": "help" in found,
    }
    return Asked(**options)


def _workspace(found: Mapping[str, str], version: Numbers) -> int:
    if "workspace" in found:
        return int(float(found["workspace"]) * _MIB)
    for part in found.get("memPoolSize", "").split(","):
        pool, _, size = part.partition(":")
        if pool == "workspace":
            return _pool_bytes(size)
    return _ALL_MEMORY if version >= (8, 4) else 16 * _MIB


def _pool_bytes(text: str) -> int:
    """Returns a size in MiB, or with a letter for its unit, in bytes."""
    unit = {"B": 1, "K": 1 << 10, "M": _MIB, "G": 1 << 30}.get(text[-1:].upper())
    return int(float(text[:-1]) * unit) if unit else int(float(text) * _MIB)


def _shapes(text: str) -> dict[str, tuple[int, ...]]:
    found = {}
    for part in text.split(",") if text else ():
        name, _, dims = part.rpartition(":")
        found[name.strip("'\"")] = tuple(int(size) for size in dims.split("x"))
    return found
