"""The TensorRT of the board: found, of a known version, and with its log and profile kept."""

import sys
from collections import deque
from typing import Any, Deque, Dict, Iterable, List

from engines.onboard.failure import Failed

OLDEST = (7, 1)
LINES = 20
_MEMORY = ("out of memory", "outofmemory", "insufficient", "memoryallocation", "bad_alloc", "alloc failed")
_VERSION = ("version tag does not match", "not compatible with this version")
_DEVICE = ("incompatible device", "different models of devices")


def load() -> Any:
    """Returns the module ``tensorrt``. Raises Failed where it is missing or too old."""
    try:
        import numpy  # noqa: F401  # of the same Python; what is made of weights needs it
        import tensorrt
    except ImportError as error:
        raise Failed(
            "missing", "TensorRT cannot be loaded by %s: %s" % (sys.executable, error), _hint(error)
        ) from error
    numbers = tensorrt.__version__.split(".")
    if tuple(int(number) for number in numbers[:2]) < OLDEST:
        what = "TensorRT %s is older than %d.%d" % ((tensorrt.__version__,) + OLDEST)
        raise Failed("version", what, "update JetPack, or use --toolchain caffe")
    return tensorrt


def _hint(error: Exception) -> str:
    if "libnvinfer" in str(error):
        return "a tensorrt of another JetPack is in the way: python3 -m pip uninstall tensorrt"
    if sys.prefix != sys.base_prefix:
        return "this Python is a virtual environment that hides it: python3 -m venv --system-site-packages FOLDER"
    return "it belongs to the Python that JetPack brings: sudo apt install python3-libnvinfer"


class Log(object):
    """The last lines of TensorRT that tell of errors, want of memory and a wrong device.

    ``logger`` is what TensorRT is given.
    """

    def __init__(self, trt: Any) -> None:
        errors: Deque[str] = deque(maxlen=LINES)
        warnings: Deque[str] = deque(maxlen=LINES)
        severities = trt.ILogger.Severity

        class Logger(trt.ILogger):  # type: ignore[misc]  # of a module without types
            def __init__(self) -> None:
                trt.ILogger.__init__(self)  # not by super(): pybind11 asks for it by name

            def log(self, severity: Any, msg: str) -> None:
                line = " ".join(msg.split())[:500]
                if severity in (severities.INTERNAL_ERROR, severities.ERROR):
                    errors.append(line)
                elif severity == severities.WARNING and _about([line], _MEMORY + _DEVICE):
                    warnings.append(line)

        self.logger = Logger()
        self._errors, self._warnings = errors, warnings

    @property
    def lines(self) -> List[str]:
        """At most `LINES` lines: the warnings first, then the errors, the latest last."""
        return (list(self._warnings) + list(self._errors))[-LINES:]

    def clear(self) -> None:
        """Forgets what was logged."""
        self._errors.clear()
        self._warnings.clear()

    def tells_of_memory(self) -> bool:
        """Says whether memory was short."""
        return _about(self.lines, _MEMORY)

    def tells_of_device(self) -> bool:
        """Says whether a plan is of another device; of another model of the same architecture that is a warning."""
        return _about(self.lines, _DEVICE)

    def failed(self, what: str, hint: str = "", kind: str = "engine") -> Failed:
        """Returns the failure ``what`` with these lines; a known cause among the errors becomes the kind.

        That memory was short for a tactic is a warning, and common: it is the cause only where there is no other.
        """
        for known, signs in (("version", _VERSION + _DEVICE), ("out_of_memory", _MEMORY)):
            if _about(self._errors or self._warnings, signs):
                kind = known
                break
        said = ": " + self.lines[-1] if self.lines else ""
        return Failed(kind, what + said, hint, self.lines)


def _about(lines: Iterable[str], signs: Iterable[str]) -> bool:
    return any(sign in line.lower() for line in lines for sign in signs)


def profiler(trt: Any) -> Any:
    """Returns what TensorRT can report the time of layers to; its ``seconds`` sums them up by name."""

    class Profiler(trt.IProfiler):  # type: ignore[misc]  # of a module without types
        def __init__(self) -> None:
            trt.IProfiler.__init__(self)
            self.seconds: Dict[str, float] = {}

        def report_layer_time(self, layer_name: str, ms: float) -> None:
            self.seconds[layer_name] = self.seconds.get(layer_name, 0.0) + ms / 1000.0

    return Profiler()
