"""What goes wrong with TensorRT on a board: the texts it is known by, its cause, and what to do. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from remote.errors import (
    DeviceDenied,
    EdgeperfError,
    EngineError,
    OutOfMemory,
    PlanMismatch,
    ToolMissing,
    UnsupportedModel,
    UsageError,
)

_REBUILD = "plans do not move between versions and devices: build it again on this board with edgeperf build"
_MEMORY = (
    "stop the desktop (sudo systemctl isolate multi-user.target), close what else uses the GPU, "
    "or use a smaller batch or --workspace"
)
_ROOM = f"use a larger --workspace or a smaller batch; to free memory: {_MEMORY.partition(', or')[0]}"
_DOCTOR = "run edgeperf doctor; the driver must be there, the GPU awake, and a container started with --runtime nvidia"
_GROUPS = (
    "let the user use the GPU: sudo usermod -aG video,render $USER, then log in again; "
    "start a container with --runtime nvidia"
)
_VENV = (
    "use the board's own python3 (package python3-libnvinfer), or make the virtual environment with "
    "python3 -m venv --system-site-packages"
)
_ERRORS: dict[str, type[EdgeperfError]] = {
    "out_of_memory": OutOfMemory,
    "model": UsageError,
    "usage": UsageError,
    "unsupported": UnsupportedModel,
    "missing": ToolMissing,
    "permission": DeviceDenied,
    "device": DeviceDenied,
    "version": PlanMismatch,
    "engine": EngineError,
}


@dataclass(frozen=True)
class Cause:
    """Why something failed. ``kind`` is one of the kinds of the on-board runner's ``failed``."""

    kind: str
    what: str
    hint: str


@dataclass(frozen=True)
class _Row:
    """``pattern`` is the stable part of a text; its named groups appear in ``what``."""

    pattern: re.Pattern[str]
    kind: str
    what: str
    hint: str


def _row(pattern: str, kind: str, what: str, hint: str) -> _Row:
    return _Row(re.compile(pattern), kind, what, hint)


_NODE = r"(?:While parsing node number (?P<node>\d+)|In node (?P<index>-?\d+))"

# The most telling first: one trouble often shows in several lines, of which the later ones are its consequences.
_ROWS = (
    _row(
        r"not compatible with this version of TensorRT, expecting (?:library )?version (?P<here>[\w.]+) got "
        r"(?P<there>[\w.]*\w)",
        "version",
        "the plan was built by TensorRT {there}, here is {here}",
        _REBUILD,
    ),
    _row(
        r"[Vv]ersion tag does not match",
        "version",
        "the plan was built by another version of TensorRT",
        _REBUILD,
    ),
    _row(
        r"incompatible device, expecting compute (?P<here>[\d.]*\d) got compute (?P<there>[\d.]*\d)",
        "version",
        "the plan was built for a GPU of compute capability {there}, this one has {here}",
        _REBUILD,
    ),
    _row(
        r"engine plan file across different models of devices is not",
        "version",
        "the plan was built on another model of device, where other tactics were the fastest",
        _REBUILD,
    ),
    _row(
        r"NvRmMemInitNvmap failed.*Permission denied|/dev/(?:nvmap|nvhost\S*|nvgpu\S*): Permission denied",
        "permission",
        "this user may not use the GPU (/dev/nvmap)",
        _GROUPS,
    ),
    _row(
        r"CUDA initialization failure with error:? 2\b",
        "out_of_memory",
        "no memory is left even to start CUDA",
        _MEMORY,
    ),
    _row(
        r"CUDA initialization failure with error:? (?P<code>\d+)",
        "device",
        "CUDA cannot start (error {code}: {meaning})",
        _DOCTOR,
    ),
    _row(
        r"pybind11::init\(\): factory function returned nullptr",
        "device",
        "TensorRT cannot start because CUDA cannot",
        _DOCTOR,
    ),
    _row(
        r"Unknown embedded device detected",
        "device",
        "this TensorRT does not know the board, as 8.2.1 does not know a Xavier NX with 16 GB",
        "install TensorRT 8.2.1.9 or newer: sudo apt-get update, then sudo apt-get upgrade",
    ),
    _row(
        r"No module named '?tensorrt'?",
        "missing",
        "this Python does not have TensorRT, which JetPack brings for the board's own Python only",
        _VENV,
    ),
    _row(
        r"(?P<library>lib(?:nvinfer|nvonnxparser)\w*\.so[\d.]*): cannot open shared object",
        "missing",
        "{library} is not there: a tensorrt installed with pip hides the one of JetPack",
        "remove it: pip uninstall tensorrt tensorrt-bindings tensorrt-libs (tensorrt.__file__ says where it is)",
    ),
    _row(
        r"module 'numpy' has no attribute 'bool'",
        "missing",
        "TensorRT up to 8.5.2 does not go with NumPy from 1.24 on",
        "install an older one on the board: pip install 'numpy<1.24'",
    ),
    _row(
        r"Unknown option: (?P<option>--\w+)",
        "missing",
        "this trtexec has no option {option}: it is of another version than it was taken for",
        "see which trtexec there is: edgeperf doctor; or use --toolchain tensorrt",
    ),
    _row(
        r"No importer registered for op: (?P<op>[\w:.]*\w)|Unsupported ONNX op(?:erator)?:? (?P<named>\w+)"
        r"|could not find plugin:? (?P<plugin>\w+)",
        "unsupported",
        "the model has an operator that this TensorRT does not know: {op}",
        "export it with another opset or without that operator; the operators of each version are listed in "
        "docs/operators.md of onnx-tensorrt",
    ),
    _row(
        r"Attempting to import as plugin|Unsupported ONNX op|UNSUPPORTED_NODE",
        "unsupported",
        "the model has an operator that this TensorRT does not know",
        "export it with another opset or without that operator",
    ),
    _row(
        r"dynamic or shape inputs, but no optimization profile",
        "model",
        "the model leaves dimensions of its inputs open",
        "give them: --shape name:1x3x224x224",
    ),
    _row(
        r"[Cc]ould not find any implementation for node (?P<place>.+?)\.?\)?\.?$",
        "out_of_memory",
        "no tactic for {place} fits into workspace and memory (or none does its data type)",
        _ROOM,
    ),
    _row(
        r"[Oo]ut of memory|OutOfMemory|std::bad_alloc|cudaErrorMemoryAllocation|^Killed$|exit (?:code )?137\b",
        "out_of_memory",
        "the board's memory is used up",
        _MEMORY,
    ),
    _row(
        r"Tactic Device request: (?P<asked>\d+) ?MB Available: (?P<free>\d+) ?MB",
        "out_of_memory",
        "a tactic needed {asked} MB, {free} MB were free",
        _MEMORY,
    ),
    _row(
        r"insufficient to use tactic|Skipping tactic",
        "out_of_memory",
        "tactics were left out for lack of memory",
        _MEMORY,
    ),
    _row(
        r"do not have sufficient workspace memory",
        "out_of_memory",
        "tactics were left out because the workspace is small",
        "use a larger --workspace",
    ),
    _row(
        r"[Ff]ailed to parse (?:the )?(?:onnx|ONNX)|ModelImporter\.cpp",
        "model",
        "TensorRT cannot read the model's file",
        "check it with onnx.checker, or export it again with opset 11",
    ),
    _row(
        r"'NoneType' object has no attribute 'create_execution_context'|[Ee]ngine deserialization failed",
        "engine",
        "TensorRT could not load the plan",
        f"its log says why; mostly, {_REBUILD}",
    ),
    _row(
        r"(?:pull access denied for|manifest for|No such image:) (?P<image>[\w./:@-]*\w)",
        "missing",
        "docker has no image {image}, neither on the board nor in its registry",
        "name one that is there (docker images), or leave --container out",
    ),
    _row(
        r"permission denied while trying to connect to the Docker daemon",
        "permission",
        "this user may not use docker",
        "let the user: sudo usermod -aG docker $USER, then log in again",
    ),
    _row(
        r"[Uu]nknown (?:or invalid )?runtime (?:name:|specified) \"?nvidia",
        "missing",
        "docker has no runtime called nvidia, without which a container has no GPU",
        "install it on the board: sudo apt-get install nvidia-container-toolkit, then restart docker",
    ),
    _row(
        r"docker: Error response from daemon: (?P<said>.*\w)",
        "missing",
        "docker: {said}",
        "see that the image works on the board: docker run --rm --runtime nvidia IMAGE python3 --version",
    ),
    _row(
        r"No space left on device|Disk quota exceeded",
        "engine",
        "the board's disk is full",
        "make room there: edgeperf engines prune; `df -h` on the board shows what is full",
    ),
    _row(
        r"Read-only file system",
        "engine",
        "the board's disk takes no changes",
        "as after an error of its own: see `dmesg` on the board, and restart it",
    ),
)
_CUDA_MEANS = {
    "35": "the driver is missing or older than CUDA",
    "100": "no device is there",
    "999": "the driver is in no state to answer",
}


def explain(lines: Iterable[str]) -> Cause | None:
    """Returns the most telling cause that the lines of a log name, with the numbers and names in them; None for none.

    What is only a warning is taken for a cause if nothing worse is there, so ask only about what failed.
    """
    lines = list(lines)
    for row in _ROWS:
        match = next((found for line in lines if (found := row.pattern.search(line))), None)
        if match:
            values = {name: value or "" for name, value in match.groupdict().items()}
            values["meaning"] = _CUDA_MEANS.get(values.get("code", ""), "unknown")
            values["op"] = values.get("op") or values.get("named") or values.get("plugin") or ""
            what = row.what.format(**values) + (_node(lines) if row.kind == "unsupported" else "")
            return Cause(row.kind, what, row.hint)
    return None


def error_of(kind: str, what: str, hint: str = "", log: Sequence[str] = ()) -> EdgeperfError:
    """Returns the error to raise for a failure of ``kind``: OutOfMemory, UsageError for a model's file, or another.

    Where the failure itself does not know its cause ("engine"), ``log`` may; its last lines are told in any case.
    """
    cause = explain([*log, what]) if kind == "engine" else None
    if cause:
        kind, what, hint = cause.kind, f"{what}: {cause.what}" if cause.what not in what else what, cause.hint
    last = "\n".join(f"  {line}" for line in log[-5:])
    said = f"the last it said:\n{last}" if last else ""
    return _ERRORS.get(kind, EngineError)(what, "\n".join(part for part in (hint, said) if part))


def _node(lines: Iterable[str]) -> str:
    """Returns " (node 37)" where a line of the parser names the node."""
    match = next((found for line in lines if (found := re.search(_NODE, line))), None)
    return f" (node {match['node'] or match['index']})" if match else ""
