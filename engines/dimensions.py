"""The open dimensions of a model file's inputs: from the batch, from what the user says, or a refusal that helps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from engines.network import Shape
from remote.errors import UsageError

if TYPE_CHECKING:
    from onnx import TensorShapeProto, ValueInfoProto


def fix(inputs: Sequence[ValueInfoProto], batch: int, shapes: Mapping[str, Shape], where: str) -> None:
    """Writes a number into every open dimension of ``inputs``: of ``shapes``, else the batch for the first one.

    A symbol that is known in one place is known in all. Raises UsageError, which begins with ``where``, for an open
    dimension that nothing tells, for another batch than the file's, and for ``shapes`` that contradict the file.
    """
    dims = {value.name: _dims(value, where) for value in inputs}
    _check_names(shapes, dims, where)
    symbols: dict[str, int] = {}
    # A vector may be a list of numbers; what has two dimensions or more begins with the batch.
    lead = next((name for name in dims if len(dims[name]) > 1), next(iter(dims), ""))
    if dims.get(lead):
        _check_batch(dims[lead][0], batch, where)
        symbols[dims[lead][0].dim_param] = batch
    for name, shape in shapes.items():
        _give(name, dims[name], shape, symbols, where)
    for sizes in dims.values():
        for axis, dim in enumerate(sizes):
            if not _known(dim) and dim.dim_param in symbols and (dim.dim_param or not axis):
                dim.dim_value = symbols[dim.dim_param]
            elif not _known(dim) and axis == 0:
                dim.dim_value = batch
    _check_all_known(dims, where)


def _dims(value: ValueInfoProto, where: str) -> Sequence[TensorShapeProto.Dimension]:
    if not value.type.HasField("tensor_type") or not value.type.tensor_type.HasField("shape"):
        raise UsageError(
            f"{where}: the shape of input {value.name!r} is not in the file",
            "Export the model again with the shapes of its inputs.",
        )
    dims: Sequence[TensorShapeProto.Dimension] = value.type.tensor_type.shape.dim
    return dims


def _known(dim: TensorShapeProto.Dimension) -> bool:
    return bool(dim.dim_value > 0)


def _check_names(shapes: Mapping[str, Shape], dims: Mapping[str, object], where: str) -> None:
    for name in shapes:
        if name not in dims:
            import difflib  # only needed here, and start-up time counts

            near = difflib.get_close_matches(name, dims, 1)
            guess = f"Did you mean {near[0]!r}? " if near else ""
            raise UsageError(f"{where}: it has no input {name!r}", f"{guess}Its inputs are {', '.join(dims)}.")


def _check_batch(dim: TensorShapeProto.Dimension, batch: int, where: str) -> None:
    if _known(dim) and dim.dim_value != batch:
        raise UsageError(
            f"{where}: its batch is fixed at {dim.dim_value}, {batch} was asked for",
            f"Ask for batch {dim.dim_value}, or export the model with a dynamic batch.",
        )


def _give(
    name: str, dims: Sequence[TensorShapeProto.Dimension], shape: Shape, symbols: dict[str, int], where: str
) -> None:
    """Writes ``shape`` into the open ``dims`` of an input, and what it says of symbols into ``symbols``."""
    said = "x".join(map(str, shape))
    if len(dims) != len(shape):
        what = f"{where}: input {name!r} has {len(dims)} dimensions, --shape gives it {len(shape)} ({said})"
        raise UsageError(what, f"The file says {name}:{_text(dims)}; replace each ? by a number.")
    for axis, (dim, size) in enumerate(zip(dims, shape, strict=True)):
        wanted = dim.dim_value if _known(dim) else symbols.get(dim.dim_param) if dim.dim_param or not axis else None
        if wanted not in (None, size):
            called = f" ({dim.dim_param})" if dim.dim_param else ""
            what = f"{where}: dimension {axis}{called} of input {name!r} is {wanted}, --shape gives it {size}"
            fixed = "The file fixes it." if _known(dim) else "The batch, or another --shape, says so."
            raise UsageError(what, f"{fixed} Make them agree.")
        if dim.dim_param:
            symbols[dim.dim_param] = size
        dim.dim_value = size


def _check_all_known(dims: Mapping[str, Sequence[TensorShapeProto.Dimension]], where: str) -> None:
    unknown = [(name, axis) for name, sizes in dims.items() for axis, dim in enumerate(sizes) if not _known(dim)]
    if unknown:
        name, axis = unknown[0]
        symbol = dims[name][axis].dim_param
        wanted = dict.fromkeys(f"--shape {name}:{_text(dims[name])}" for name, _ in unknown)
        raise UsageError(
            f"{where}: dimension {axis}{f' ({symbol})' if symbol else ''} of input {name!r} is not known",
            f"Give it, with a number for each ?: {' '.join(wanted)}",
        )


def _text(dims: Sequence[TensorShapeProto.Dimension]) -> str:
    return "x".join(str(dim.dim_value) if _known(dim) else "?" for dim in dims)
