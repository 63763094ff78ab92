"""Runs a network with ONNX Runtime on the processor."""

import os
import platform
from typing import Any, Dict

from engines.onboard.failure import Failed

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


def versions() -> Dict[str, str]:
    """Returns the versions of what computes. Raises Failed where it is not installed."""
    try:
        import numpy
        import onnxruntime
    except ImportError as error:
        what = "ONNX Runtime cannot be loaded here: %s" % error
        raise Failed("missing", what, "install it: pip install onnxruntime") from error
    return {"onnxruntime": onnxruntime.__version__, "numpy": numpy.__version__, "python": platform.python_version()}


def device() -> str:
    """Returns what computes."""
    return _PROVIDER


class Engine(object):
    """A network ready to run. ``engine_bytes`` is the size of its file, ``note`` what the user should know."""

    cached = False
    precision_found = "fp32"

    def __init__(self, request: Dict[str, Any]) -> None:
        import onnxruntime

        self._path = request["model"]
        self.note = _HALF_NOTE if request["precision"] == "fp16" else ""
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        try:
            self._session = onnxruntime.InferenceSession(self._path, options, providers=[_PROVIDER])
            self.engine_bytes = os.path.getsize(self._path)
        except Exception as error:  # its classes have no common base of their own
            raise _failed("loading %s" % self._path, error) from error
        self._feeds = {entry.name: _constant(entry, request) for entry in self._session.get_inputs()}

    def run(self) -> None:
        """Computes one batch."""
        self._session.run(None, self._feeds)

    def check(self) -> None:
        """Computes one batch. Raises Failed, where `run` raises whatever comes."""
        try:
            self.run()
        except Exception as error:
            raise _failed("running %s" % self._path, error) from error


def _constant(entry: Any, request: Dict[str, Any]) -> Any:
    """Returns nonzero constant data for an input; an open first dimension is the batch."""
    import numpy

    if entry.type not in _TYPES:
        raise Failed("unsupported", "input %s is a %s: there is no constant of that type" % (entry.name, entry.type))
    batch = request["batch"]
    shape = [batch if n == 0 and not isinstance(size, int) else size for n, size in enumerate(entry.shape)]
    unknown = [size for size in shape if not isinstance(size, int)]
    if unknown:
        hint = "export the model with this dimension fixed"
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
