"""How TensorRT is told to build. What a version has is asked of it, never concluded from its number.

Numbers of enumerations move between versions too: only ``int`` of a member is right.
"""

import os
from contextlib import suppress
from typing import Any, Dict, List

from engines.onboard.trt_library import Log

_NO_FAST_HALF = "this GPU computes FP16 slower than FP32"
_TF32 = "FP32 may be computed in TF32, as asked for"


def builder(trt: Any, log: Log) -> Any:
    """Returns a builder. Raises Failed where CUDA does not start."""
    try:
        return trt.Builder(log.logger)
    except TypeError as error:  # what pybind11 makes of a null pointer
        what = "the TensorRT in %s cannot start its builder" % getattr(
            trt, "__file__", "use"
        )  # it may be one that is not JetPack's
        raise log.failed(what, "run `edgeperf doctor`", "device") from error


def network(trt: Any, builder: Any) -> Any:
    """Returns an empty network with explicit batch, as it is called where there is any other."""
    flag = getattr(trt.NetworkDefinitionCreationFlag, "EXPLICIT_BATCH", None)
    return builder.create_network(0 if flag is None else 1 << int(flag))


def typed(trt: Any) -> bool:
    """Says whether FP16 has to be in the network itself, there being no flag for it: from 11 on."""
    return not hasattr(trt.BuilderFlag, "FP16")


def config(trt: Any, builder: Any, request: Dict[str, Any], workspace_bytes: int, notes: List[str]) -> Any:
    """Returns the builder's configuration; appends to ``notes`` what the user should know of it."""
    made = builder.create_builder_config()
    if hasattr(made, "set_memory_pool_limit"):
        made.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, workspace_bytes)
    else:
        made.max_workspace_size = workspace_bytes
    if hasattr(trt.BuilderFlag, "TF32"):
        if request["options"]["tf32"]:
            made.set_flag(trt.BuilderFlag.TF32)
            notes.append(_TF32)
        else:
            made.clear_flag(trt.BuilderFlag.TF32)
    if request["precision"] == "fp16" and not typed(trt):
        made.set_flag(trt.BuilderFlag.FP16)
        if not builder.platform_has_fast_fp16:
            notes.append(_NO_FAST_HALF)
    if hasattr(made, "profiling_verbosity"):
        detailed = getattr(trt.ProfilingVerbosity, "DETAILED", None)
        made.profiling_verbosity = trt.ProfilingVerbosity.VERBOSE if detailed is None else detailed
    return made


def serialized(builder: Any, network: Any, config: Any) -> Any:
    """Builds and returns the plan in TensorRT's own memory, None where it cannot: its log has the reason."""
    if hasattr(builder, "build_serialized_network"):
        plan = builder.build_serialized_network(network, config)
    else:
        engine = builder.build_engine(network, config)
        plan = None if engine is None else engine.serialize()
    return plan


class Timings(object):
    """The times of tactics that TensorRT measured while building, kept in a file for later builds.

    They hold for one device and version; of others, or damaged, they are not used. Without a ``path``, and for a
    TensorRT that has none, nothing is kept.
    """

    def __init__(self, config: Any, path: str) -> None:
        self._config = config
        self._times: Any = None  # held while TensorRT works with them
        self._path = path if path and hasattr(config, "create_timing_cache") else ""
        if self._path and not self._use(_read(self._path)):
            self._use(b"")

    def save(self) -> None:
        """Writes the file. A disk that is full costs a later build some time, and no more."""
        if not self._path:
            return
        times = self._config.get_timing_cache()
        part = self._path + ".%d" % os.getpid()
        with suppress(OSError):
            with open(part, "wb") as file:
                file.write(bytes(times.serialize()))
            os.replace(part, self._path)

    def _use(self, content: bytes) -> bool:
        self._times = self._config.create_timing_cache(content)
        return self._times is not None and bool(self._config.set_timing_cache(self._times, False))


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
