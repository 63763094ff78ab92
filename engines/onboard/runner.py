"""Builds and runs a network on the board. The request is JSON on stdin, the answers are JSON lines on stdout.

Request: ``action`` ("probe": only say hello; "build"; "bench"), ``toolchain``, ``model`` (path of an ONNX file or
null), ``graph`` (the network as JSON or null), ``precision``, ``batch``, ``seed``, ``key``, ``cache`` (folder for
engines), ``input_value``, ``warmup_s``, ``duration_s``, ``iterations`` (null: by duration), ``min_iterations``.

Answers have an ``event``: hello, built, warm, start, stop, latencies, done; or failed, and exit code 1. Every ``t_s``
is the monotonic clock in seconds.
"""

import json
import sys
from typing import Any, Dict, List

from engines.onboard import onnx_runtime
from engines.onboard.failure import Failed
from engines.onboard.loop import Interrupt, clock, measure

_TOOLCHAINS = {"onnxruntime": onnx_runtime}


def main(argv: List[str]) -> int:
    """Answers the request on stdin. Returns the exit code."""
    interrupt = Interrupt()
    try:
        _answer(json.loads(sys.stdin.read()), interrupt)
    except Failed as failed:
        _say("failed", kind=failed.kind, what=failed.what, hint=failed.hint)
        return 1
    except MemoryError:
        _say("failed", kind="out_of_memory", what="no memory is left", hint="use a smaller batch")
        return 1
    return 0


def _answer(request: Dict[str, Any], interrupt: Interrupt) -> None:
    toolchain = _TOOLCHAINS.get(request["toolchain"])
    if toolchain is None:
        what = "this version cannot run %s on a real board yet" % request["toolchain"]
        raise Failed("missing", what, "use one of: %s" % ", ".join(sorted(_TOOLCHAINS)))
    _say("hello", versions=toolchain.versions(), device=toolchain.device())
    if request["action"] != "probe":
        begin_s = clock()
        engine = toolchain.Engine(request)
        _say(
            "built",
            seconds=clock() - begin_s,
            cached=engine.cached,
            engine_bytes=engine.engine_bytes,
            precision_found=engine.precision_found,
            note=engine.note,
        )
    if request["action"] == "bench" and not interrupt.seen:
        engine.check()
        measure(engine.run, request, interrupt, _say)
    if interrupt.seen:
        _say("done", interrupted=True)
    else:
        _say("done")


def _say(event: str, **fields: Any) -> None:
    sys.stdout.write(json.dumps(dict(fields, event=event)) + "\n")
    sys.stdout.flush()
