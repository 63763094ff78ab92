"""Builds and runs a network on the board. The request is JSON on stdin, the answers are JSON lines on stdout.

Request: ``action`` ("probe": only say hello; "build"; "bench"; "choose" of several engines; "prepare", "seal" and
"collect" around a run of trtexec; "engines" lists and "prune" removes kept ones), ``toolchain``, ``name`` of the model,
``model`` (path of an ONNX file or null), ``graph`` (the network as JSON or null), ``inputs`` (shapes of a user's
model), ``precision``, ``batch``, ``seed``, ``input_value``, ``content`` (what the engine's key is made of), ``cache``
(folder), ``options`` (the protocol), ``need`` (estimated bytes), ``cuda``, ``variant``, ``warmup_s``, ``duration_s``,
``iterations`` (null: by duration), ``min_iterations``.

Answers have an ``event``: hello, built, loaded, outputs, warm, start, stop, latencies, host, layers, done; or failed,
and exit code 1. Every ``t_s`` is the monotonic clock in seconds.
"""

import importlib
import json
import os
import sys
from typing import Any, Dict, List

from engines.onboard.failure import Failed
from engines.onboard.loop import Interrupt

_MODULES = {"onnxruntime": "onnx_runtime", "tensorrt": "trt", "trtexec": "trtexec", "": "kept"}


def main(argv: List[str]) -> int:
    """Answers the request on stdin. Returns the exit code."""
    interrupt = Interrupt()
    if os.uname().machine == "aarch64":
        # The numpy that pip has for a Jetson's Python 3.6 dies without it, of an illegal instruction on import.
        os.environ.setdefault("OPENBLAS_CORETYPE", "ARMV8")
    try:
        _answer(json.loads(sys.stdin.read()), interrupt)
    except Failed as failed:
        say("failed", kind=failed.kind, what=failed.what, hint=failed.hint, log=failed.log)
        return 1
    except MemoryError:
        say("failed", kind="out_of_memory", what="no memory is left", hint="use a smaller batch", log=[])
        return 1
    return 0


def _answer(request: Dict[str, Any], interrupt: Interrupt) -> None:
    module = _MODULES.get(request["toolchain"])
    if module is None:
        known = ", ".join(sorted(filter(None, _MODULES)))
        raise Failed("missing", "there is no toolchain %s on a board" % request["toolchain"], "use one of: " + known)
    # Each module is loaded when it is asked for: their libraries are large, and not all are there.
    importlib.import_module("engines.onboard." + module).answer(request, interrupt, say)
    if interrupt.seen:
        say("done", interrupted=True)
    else:
        say("done")


def say(event: str, **fields: Any) -> None:
    """Writes one answer."""
    sys.stdout.write(json.dumps(dict(fields, event=event)) + "\n")
    sys.stdout.flush()
