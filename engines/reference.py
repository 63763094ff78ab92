"""The numbers that a network should give, computed on this machine, and how near an engine's numbers come to them.

The reference is FP32 on the processor, by ONNX Runtime, from the same seed and the same constant input. How far an
engine may be from it depends on its arithmetic:

- FP16 has 11 significant bits: each weight and each tensor is rounded by up to 2^-12 of itself. So rounded, with sums
  in FP32, AlexNet and GoogLeNet with 12 seeds each differ from the reference by up to 0.3 % of its largest number
  (1 - cosine up to 1e-6). GPUs without tensor cores keep the sums in FP16 too: it is up to 0.8 % (6e-6) in partial
  sums of 64 terms, and up to 6 % (4e-4) in the worst case, all terms of a sum (9216 in AlexNet) added one after the
  other to one FP16 number. 1500 random small networks stay within 8 % (2e-5). TF32 has the same 11 bits.
- FP32 has 24 bits. With all terms added one after the other it is up to 5e-6 of the largest number.
- Another network is farther away: other weights, another input, a ReLU left out, tensors exchanged in a concatenation
  or the last pooling averaged change the outputs by 30 % or more (1 - cosine from 0.02 on). Not seen at FP16 are
  changes that hardly matter in these networks: LRN left out (0.06 %, which FP32 sees), and the kind of the first
  pooling (5 % in GoogLeNet, nothing in AlexNet: a constant image makes constant planes).

All of that was computed with numpy, rounding after each step, not measured on a GPU. The bounds lie between: twice the
worst for FP16; 40 times for FP32, because kernels may transform their operands (Winograd) and lose digits by it.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engines.cost import Precision
from engines.models import Model
from engines.weights import ALGORITHM, INPUT_VALUE
from remote.errors import EngineError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.generic]

_FORMAT = 1
_LARGEST = 3.4028235e38  # of a float32: what is beyond it, or not a number, is not finite


@dataclass(frozen=True)
class Bounds:
    """The least cosine with the reference, and the largest ``error`` relative to its largest number."""

    cosine: float
    error: float


BOUNDS: Mapping[Precision, Bounds] = {"fp16": Bounds(0.999, 0.12), "fp32": Bounds(0.999999, 2e-4)}
"""By the precision of the arithmetic; reasons in the module's text."""


@dataclass(frozen=True)
class OutputCheck:
    """How an engine's outputs compare with the reference, over all of them: the worst is what counts.

    ``cosine`` is that of the angle between both; ``max_error`` the largest difference relative to the largest number
    of the reference; both None where outputs are missing or odd. ``top1_equal``: whether the highest class score is
    that of the same class, None where no output looks like class scores. ``outputs`` counts what was compared.
    ``passed``: within the bounds. ``text`` says it in words.
    """

    cosine: float | None
    max_error: float | None
    top1_equal: bool | None
    outputs: int
    text: str
    passed: bool


# --- the reference ----------------------------------------------------------------------------------------------------


def reference(model: Model, seed: int, batch: int, cache: Path) -> dict[str, Array]:
    """Returns the outputs of ``model`` in FP32 by their names, of the first image, without the batch's axis.

    Every input is filled with `INPUT_VALUE`, integers and booleans with 1. A built-in network has the weights of
    ``seed`` and runs at batch 1, since all images are equal; a user's model runs at ``batch``, which it may depend on.
    Kept in the folder ``cache``. Raises EngineError where ONNX Runtime cannot run the model on this machine, and where
    what it gives is not finite.
    """
    kept = cache / f"reference-{_key(model, seed, batch)}.npz"
    found = _read(kept)
    if found is None:
        cache.mkdir(parents=True, exist_ok=True)
        found = _computed(model, seed, batch, cache)
        _write(kept, found)
    return found


def _key(model: Model, seed: int, batch: int) -> str:
    from engines.emit import onnx

    writer = hashlib.sha256(Path(onnx.__file__).read_bytes()).hexdigest()
    shapes = [] if model.source == "builtin" else [[entry.name, *entry.shape] for entry in model.network.inputs]
    weights = [ALGORITHM, seed, writer] if model.source == "builtin" else [batch]
    content = [_FORMAT, model.digest, INPUT_VALUE, shapes, weights]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]


def _computed(model: Model, seed: int, batch: int, cache: Path) -> dict[str, Array]:
    import tempfile

    if model.source != "builtin":
        return _run(Path(model.source), model, batch)
    from engines.emit.onnx import emit_onnx

    with tempfile.TemporaryDirectory(dir=cache) as folder:  # up to 250 MB: not for a /tmp in memory
        path = Path(folder) / "model.onnx"
        emit_onnx(model.network, 1, "fp32", seed, path)
        return _run(path, model, 1)


def _run(path: Path, model: Model, batch: int) -> dict[str, Array]:
    import numpy as np
    import onnxruntime

    shapes = model.network.shapes(batch)
    feeds = {}
    for entry in model.network.inputs:
        dtype = np.dtype(entry.dtype)
        feeds[entry.name] = np.full(shapes[entry.name], INPUT_VALUE if dtype.kind == "f" else 1, dtype)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what it says is in the exception
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        names = [entry.name for entry in session.get_outputs()]
        made = [np.asarray(array) for array in session.run(names, feeds)]
    except Exception as error:  # its classes have no common base of their own
        reason = " ".join(str(error).split())[:300]
        raise EngineError(
            f"ONNX Runtime cannot run {model.name} on this machine: {reason}", "check the file with onnx.checker"
        ) from error
    outputs = {name: array for name, array in zip(names, made, strict=True) if array.dtype.kind in "fiub"}
    finite = all(np.isfinite(array).all() for array in outputs.values())
    if not (outputs and finite):
        what = "numbers that are not finite" if outputs else "no numbers"
        raise EngineError(f"{model.name} gives {what} from a constant input", "its outputs cannot be compared")
    return {name: array[0] if array.ndim and len(array) == batch else array for name, array in outputs.items()}


def _read(path: Path) -> dict[str, Array] | None:
    """Returns what `_write` kept, None where there is nothing or nothing whole."""
    import zipfile

    import numpy as np

    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
            return {name: kept[str(number)] for number, name in enumerate(json.loads(str(kept["names"])))}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def _write(path: Path, outputs: Mapping[str, Array]) -> None:
    """Keeps ``outputs``, numbered: their names may be no file names."""
    import numpy as np

    part = path.with_name(f"{os.getpid()}-{path.name}")
    try:
        arrays: dict[str, Any] = {str(number): array for number, array in enumerate(outputs.values())}
        np.savez(part, names=np.array(json.dumps(list(outputs))), **arrays)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


# --- the comparison ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Distance:
    """How far one output is: as in `OutputCheck`."""

    cosine: float
    error: float
    top1_equal: bool | None


def compare(
    tensors: Iterable[Mapping[str, Any]], wanted: Mapping[str, Array], precision: Precision, *, tf32: bool = False
) -> OutputCheck:
    """Returns how the first image's ``tensors`` compare with the ``wanted`` ones, judged by the bounds of FP16 or FP32.

    Each tensor has ``name``, ``shape`` with the batch (axes of length one do not matter), ``index``, the stride in the
    flat image at which values were kept, and these ``values``. A missing output, another shape or count, and a number
    that is not finite fail. Where there are outputs of floating-point numbers only they are judged: integers are
    choices, and rounding may tip one. FP32 that may be computed in TF32 is judged as FP16.
    """
    floating = {name: array for name, array in wanted.items() if array.dtype.kind == "f"}
    judged = floating or dict(wanted)
    told = {tensor["name"]: tensor for tensor in tensors}
    for name, array in judged.items():
        problem = _problem(told[name], array) if name in told else "is missing"
        if problem:
            return OutputCheck(
                None, None, None, 0, f"outputs do not agree with FP32 on the host: {name} {problem}", False
            )
    far = [_distance(told[name], array) for name, array in judged.items()]
    bounds = BOUNDS["fp16" if tf32 else precision]
    cosine, error = min(d.cosine for d in far), max(d.error for d in far)
    tops = [d.top1_equal for d in far if d.top1_equal is not None]
    top1 = all(tops) if tops else None
    passed = cosine >= bounds.cosine and error <= bounds.error
    return OutputCheck(cosine, error, top1, len(far), _words(cosine, error, top1, bounds, passed), passed)


def _problem(tensor: Mapping[str, Any], wanted: Array) -> str:
    """Returns why ``tensor`` cannot be compared with ``wanted``, "" where it can."""
    shape, stride, values = tensor["shape"], tensor["index"], tensor["values"]
    if _plain(wanted.shape) not in (_plain(shape[1:]), _plain(shape)):
        return f"has the shape {list(shape)}, {list(wanted.shape)} per image was expected"
    if not isinstance(stride, int) or stride < 1 or len(values) != len(range(0, wanted.size, stride)):
        return f"has {len(values)} values at stride {stride} of {wanted.size}"
    if not all(isinstance(value, int | float) and abs(value) <= _LARGEST for value in values):
        return "holds numbers that are not finite"
    return ""


def _plain(shape: Iterable[int]) -> list[int]:
    return [size for size in shape if size != 1]


def _distance(tensor: Mapping[str, Any], wanted: Array) -> _Distance:
    import numpy as np

    whole = wanted.astype(np.float64).ravel()
    a, b = np.array(tensor["values"], np.float64), whole[:: tensor["index"]]
    difference = float(np.abs(a - b).max(initial=0.0))
    largest = float(np.abs(whole).max(initial=0.0))
    # Of what is zero there is no share, and no angle: two such are equal, one alone is not.
    error = difference / largest if largest else (math.inf if difference else 0.0)
    norm_a, norm_b = float(np.linalg.norm(a)), float(np.linalg.norm(b))
    cosine = float(a @ b) / norm_a / norm_b if norm_a and norm_b else float(norm_a == norm_b)
    scores = len(_plain(wanted.shape)) == 1 and tensor["index"] == 1 and wanted.dtype.kind == "f"
    return _Distance(min(cosine, 1.0), error, bool(a.argmax() == b.argmax()) if scores else None)


def _words(cosine: float, error: float, top1: bool | None, bounds: Bounds, passed: bool) -> str:
    text = f"cosine {_cosine(cosine)}, largest error {error * 100:.2g} %"
    if top1 is not None:
        text += ", same top-1" if top1 else ", another top-1"
    if passed:
        # Two scores within the bounds of each other may change places.
        return f"outputs agree with FP32 on the host: {text}" + (" of nearly equal score" if top1 is False else "")
    limits = f"cosine {bounds.cosine} or more and {bounds.error * 100:.2g} % or less"
    return f"outputs do not agree with FP32 on the host: {text}; {limits} were expected"


def _cosine(cosine: float) -> str:
    """Returns it with enough digits to tell it from 1, five at least, ten at most."""
    digits = next((digits for digits in range(5, 10) if round(cosine, digits) < 1), 10)
    return f"{cosine:.{digits}f}"
