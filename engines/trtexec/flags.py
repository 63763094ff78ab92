"""What trtexec is told, so that a figure means the same with every version: nothing is left to its defaults.

Up to TensorRT 10 a run copies input and output, waits blocking and uses no CUDA graph unless told otherwise; from 11 on
it is the other way round. Input data is left to trtexec in every version: random numbers, the same for all batches.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from engines.cost import Precision
from engines.onboard.times import warmup_ms
from engines.spec import Protocol
from engines.trtexec.version import Version, known

INPUT_DATA = "trtexec fills the inputs with random numbers"
PERCENTILE = 99
_MIB = 1 << 20
_TRACE_EVERY = 100  # runs per line of its trace: a few lines show that it is alive
_PROFILED_RUNS = 20
_PLAIN_NAME = re.compile(r"[^,:'\s]+")

Shapes = Mapping[str, Sequence[int]]


def effective(version: Version, protocol: Protocol) -> tuple[Protocol, tuple[str, ...]]:
    """Returns the protocol nearest to ``protocol`` that this trtexec can follow, and what differs, in words.

    Raises EngineError for an unknown version.
    """
    known(version)
    done, notes = protocol, []
    if version.release < (7, 2) and not protocol.transfers:
        done = replace(done, transfers=True)
        notes.append(f"trtexec of TensorRT {version} copies input and output for every batch: it cannot do without")
    if protocol.ahead > 1:
        done = replace(done, ahead=1)
        notes.append("trtexec queues one batch ahead, not more")
    mib = max(1, protocol.workspace_bytes // _MIB)
    if mib * _MIB != protocol.workspace_bytes:
        done = replace(done, workspace_bytes=mib * _MIB)
        notes.append(f"trtexec takes whole MiB: the workspace is {mib} MiB")
    return done, tuple(notes)


def build_argv(
    version: Version,
    tool: str,
    onnx: str,
    plan: str,
    precision: Precision,
    protocol: Protocol,
    shapes: Shapes | None = None,
    timing: str = "",
) -> tuple[str, ...]:
    """Returns the command that builds ``plan`` from the file ``onnx`` and runs nothing.

    ``shapes`` are those of inputs whose dimensions the file leaves open; ``timing`` is the timing cache, "" for none
    (versions before 8.0 have none anyway). From TensorRT 11 on FP16 comes from the file's own types: there is no flag.
    Raises EngineError for an unknown version.
    """
    protocol, _ = effective(version, protocol)
    release, workspace = version.release, protocol.workspace_bytes // _MIB
    argv = [tool, f"--onnx={onnx}", f"--saveEngine={plan}"]
    argv += ["--explicitBatch"] if release < (8, 0) else []
    argv += ["--fp16"] if precision == "fp16" and release < (11, 0) else []
    argv += [] if protocol.tf32 else ["--noTF32"]
    argv += [f"--memPoolSize=workspace:{workspace}" if release >= (8, 4) else f"--workspace={workspace}"]
    if shapes:
        argv += [f"--{bound}Shapes={_spelled(shapes)}" for bound in ("min", "opt", "max")]
    argv += [f"--timingCacheFile={timing}"] if timing and release >= (8, 0) else []
    argv += ["--profilingVerbosity=detailed"] if release >= (8, 2) else []
    return (*argv, "--skipInference" if release >= (8, 6) else "--buildOnly")


def run_argv(
    version: Version,
    tool: str,
    plan: str,
    protocol: Protocol,
    *,
    warmup_s: float,
    duration_s: float,
    iterations: int | None,
    min_iterations: int,
    times: str,
    shapes: Shapes | None = None,
) -> tuple[str, ...]:
    """Returns the command that times ``plan`` and writes the time of every batch to ``times``.

    Durations are rounded up to whole ms and s; ``iterations`` wins over ``duration_s``. TensorRT 7 attaches a profiler
    to a run that writes ``times``, which slows it: there every batch gets a line of the trace instead, see
    `engines.trtexec.summary.Sample`, and ``times`` is not written. Raises EngineError for an unknown version.
    """
    protocol, _ = effective(version, protocol)
    traced = version.major == 7
    argv = [*_loading(version, tool, plan, shapes), f"--warmUp={warmup_ms(warmup_s)}"]
    argv += [f"--duration={0 if iterations else math.ceil(duration_s)}"]
    argv += [f"--iterations={iterations or min_iterations}"]
    argv += [f"--avgRuns={1 if traced else _TRACE_EVERY}", f"--percentile={PERCENTILE}"]
    argv += [] if traced else [f"--exportTimes={times}"]
    return (*argv, *_protocol_flags(version, protocol))


def profile_argv(
    version: Version, tool: str, plan: str, profile: str, layers: str, shapes: Shapes | None = None
) -> tuple[str, ...]:
    """Returns the command of a short run that writes layer times to ``profile`` and what the layers are to ``layers``.

    It is a run of its own, for a profiler changes what it times; CUDA graphs are off, for in them there are no layers.
    Before TensorRT 8.2 ``layers`` is not written. Raises EngineError for an unknown version.
    """
    release = known(version).release
    argv = [*_loading(version, tool, plan, shapes), "--warmUp=0", "--duration=0", f"--iterations={_PROFILED_RUNS}"]
    argv += ["--dumpProfile"] if release < (8, 0) else []  # without it these crash on --exportProfile
    argv += [f"--exportProfile={profile}"]
    argv += [f"--exportLayerInfo={layers}", "--profilingVerbosity=detailed"] if release >= (8, 2) else []
    return (*argv, *(["--noCudaGraph"] if release >= (11, 0) else []))


def _loading(version: Version, tool: str, plan: str, shapes: Shapes | None) -> list[str]:
    argv = [tool, f"--loadEngine={plan}"]
    argv += ["--explicitBatch"] if version.release < (8, 0) else []
    return argv + ([f"--shapes={_spelled(shapes)}"] if shapes else [])


def _protocol_flags(version: Version, protocol: Protocol) -> list[str]:
    argv = [] if protocol.ahead else ["--exposeDMA"]  # with it each batch waits for the one before
    if version.release >= (11, 0):
        argv += ["--includeDataTransfers"] if protocol.transfers else []
        argv += [] if protocol.spin else ["--noSpinWait"]
        return argv + ([] if protocol.cuda_graph else ["--noCudaGraph"])
    argv += [] if protocol.transfers else ["--noDataTransfers"]
    argv += ["--useSpinWait"] if protocol.spin else []
    return argv + (["--useCudaGraph"] if protocol.cuda_graph else [])


def _spelled(shapes: Shapes) -> str:
    return ",".join(f"{_quoted(name)}:{'x'.join(map(str, dims))}" for name, dims in shapes.items())


def _quoted(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else f"'{name}'"
