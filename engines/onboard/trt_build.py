"""From a graph file or a user's ONNX file to a plan."""

from typing import Any, Dict, List, Tuple

from engines.onboard import memory, trt_config, trt_network, trt_onnx
from engines.onboard.trt_library import Log

_TYPED = (
    "this TensorRT takes FP16 from the network's own types: all layers are FP16 except LRN; older versions choose a "
    "precision for each layer, so the two are not the same measurement"
)

_TRY = "try --toolchain trtexec, or --toolchain onnxruntime to see whether the model is right"


def build(trt: Any, log: Log, request: Dict[str, Any], timings: str) -> Tuple[Any, int, List[str]]:
    """Returns the plan as a buffer, the bytes of workspace it was built with and what to tell the user.

    Where memory runs out, it tries once more with a small workspace. ``timings`` is the file that the times of
    tactics are kept in, "" for none. Raises Failed with TensorRT's last lines.
    """
    workspace_bytes, notes = memory.check(request)
    plan, said = _build(trt, log, request, timings, workspace_bytes)
    if plan is None and log.tells_of_memory() and workspace_bytes > memory.SMALL_WORKSPACE_BYTES:
        notes.append(memory.reduced(workspace_bytes, memory.SMALL_WORKSPACE_BYTES))
        workspace_bytes = memory.SMALL_WORKSPACE_BYTES
        log.clear()
        plan, said = _build(trt, log, request, timings, workspace_bytes)
    if plan is None:
        hint = memory.HINT if log.tells_of_memory() else _TRY
        raise log.failed("TensorRT builds no engine of %s" % request["name"], hint)
    return plan, workspace_bytes, notes + said


def _build(trt: Any, log: Log, request: Dict[str, Any], timings: str, workspace_bytes: int) -> Tuple[Any, List[str]]:
    """Returns the plan, None where there is none, and notes. All else is gone by then: network, weights, builder."""
    half, typed = request["precision"] == "fp16", trt_config.typed(trt)
    notes: List[str] = []
    builder = trt_config.builder(trt, log)
    network = trt_config.network(trt, builder)
    config = trt_config.config(trt, builder, request, workspace_bytes, notes)
    # The weights, or the parser that holds them, have to live until the engine is built.
    if request["graph"] is not None:
        kept = trt_network.write(trt, network, request["graph"], half and typed)
        notes += [_TYPED] if half and typed else []
    else:
        kept = trt_onnx.parse(trt, network, log, request)
        if half and typed:
            trt_onnx.require_half(trt, network)
        trt_onnx.shape(trt, builder, network, config, request)
    times = trt_config.Timings(config, timings)
    plan = trt_config.serialized(builder, network, config)
    if plan is not None:
        times.save()
    del kept
    return plan, notes
