"""Runs a network with ONNX Runtime on the processor."""

import os
import platform
from typing import Any, Dict, List

from engines.onboard.failure import Failed
from engines.onboard.key import engine_key
from engines.onboard.loop import Batches, Interrupt, Say, clock, measure
from engines.onboard.outputs import tensors

_PROVIDER = "CPUExecutionProvider"
_HALF_NOTE = "on a CPU, ONNX Runtime computes FP16 graphs in FP32"
_OUT_OF_MEMORY = ("bad allocation", "bad_alloc", "failed to allocate", "out of memory")
_TYPES = {
    "tensor(float)": "float32",
    "tensor(float16)": "float16",
    "tensor(double)": "float64",
    "tensor(int8)": "int8",
    "tensor(uint8)": "uint8",
    "tensor(int16)": "int16",
    "tensor(uint16)": "uint16",
    "tensor(int32)": "int32",
    "tensor(uint32)": "uint32",
    "tensor(int64)": "int64",
    "tensor(uint64)": "uint64",
    "tensor(bool)": "bool",
}


def answer(request: Dict[str, Any], interrupt: Interrupt, say: Say) -> None:
    """Does the actions "probe", "build" (loads the network) and "bench"."""
    content = request["content"]
    say("hello", versions=_versions(), device=_PROVIDER, board=content["board"], key=engine_key(content))
    if request["action"] == "probe":
        return
    begin_s = clock()
    engine = Engine(request)
    say(
        "built",
        seconds=clock() - begin_s,
        cached=False,
        why="",
        engine_bytes=os.path.getsize(request["model"]),
        workspace_bytes=0,
        notes=[_HALF_NOTE] if request["precision"] == "fp16" else [],
        path=request["model"],
        precision_found="fp32",
    )
    if request["action"] == "bench" and not interrupt.seen:
        say("outputs", tensors=engine.outputs())
        measure(Batches(engine.run), request, interrupt, say)


def _versions() -> Dict[str, str]:
    """Returns the versions of what computes. Raises Failed where it is not installed."""
    try:
        import numpy
        import onnxruntime
    except ImportError as error:
        what = "ONNX Runtime cannot be loaded here: %s" % error
        raise Failed("missing", what, "install it: pip install onnxruntime") from error
    return {"onnxruntime": onnxruntime.__version__, "numpy": numpy.__version__, "python": platform.python_version()}


class Engine(object):
    """A network ready to run. Raises Failed where it cannot be loaded."""

    def __init__(self, request: Dict[str, Any]) -> None:
        import onnxruntime

        self._path = request["model"]
        self._batch = request["batch"]
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        try:
            self._session = onnxruntime.InferenceSession(self._path, options, providers=[_PROVIDER])
        except Exception as error:  # its classes have no common base of their own
            raise _failed("loading %s" % self._path, error) from error
        self._feeds = {entry.name: _constant(entry, request) for entry in self._session.get_inputs()}

    def run(self) -> List[Any]:
        """Computes one batch; whatever ONNX Runtime raises comes through."""
        computed: List[Any] = self._session.run(None, self._feeds)
        return computed

    def outputs(self) -> List[Dict[str, Any]]:
        """Computes one batch and returns the rows of the ``outputs`` event. Raises Failed."""
        try:
            arrays = self.run()
        except Exception as error:
            raise _failed("running %s" % self._path, error) from error
        named = [(entry.name, arrays[n]) for n, entry in enumerate(self._session.get_outputs())]
        return tensors([pair for pair in named if hasattr(pair[1], "ndim")], self._batch)


def _constant(entry: Any, request: Dict[str, Any]) -> Any:
    """Returns nonzero constant data for an input: of the shape asked for, an open first dimension is the batch."""
    import numpy

    if entry.type not in _TYPES:
        raise Failed("unsupported", "input %s is a %s: there is no constant of that type" % (entry.name, entry.type))
    batch = request["batch"]
    shape = request["inputs"].get(entry.name)
    if shape is None:
        shape = [batch if n == 0 and not isinstance(size, int) else size for n, size in enumerate(entry.shape)]
    unknown = [size for size in shape if not isinstance(size, int)]
    if unknown:
        hint = "give its shape: --shape %s:%s" % (entry.name, "x".join(map(str, shape)))
        raise Failed("model", "input %s has an open dimension %r in %s" % (entry.name, unknown[0], entry.shape), hint)
    dtype = numpy.dtype(_TYPES[entry.type])
    return numpy.full(shape, request["input_value"] if dtype.kind == "f" else 1, dtype)


def _failed(doing: str, error: Exception) -> Failed:
    name, text = type(error).__name__, " ".join(str(error).split())[:500]
    what = "%s: %s" % (doing, text or name)
    if isinstance(error, MemoryError) or any(sign in text.lower() for sign in _OUT_OF_MEMORY):
        return Failed("out_of_memory", what, "use a smaller batch")
    if name in ("InvalidProtobuf", "InvalidGraph", "InvalidArgument", "NoSuchFile", "NoModel"):
        return Failed("model", what, "check the file with onnx.checker, or export it again")
    if name == "NotImplemented":
        return Failed("unsupported", what, "export the model with other operators, or use another toolchain")
    return Failed("engine", what)
