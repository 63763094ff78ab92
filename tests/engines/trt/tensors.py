"""Tensors, weights and what all layers of the stand-in share."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tests.engines.trt.surface import Object

Shape = tuple[int, ...]


class Invalid(ValueError):
    """What TensorRT logs as an error of a layer."""


class Dims(Object):
    """A fixed list of whole numbers, without the comforts of a tuple."""

    MAX_DIMS = 8

    def _start(self, shape: Any = ()) -> None:
        self._numbers = list(shape)

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, place: Any) -> Any:
        taken = self._numbers[place]
        return tuple(taken) if isinstance(taken, list) else taken

    def __setitem__(self, place: Any, value: Any) -> None:
        self._numbers[place] = value

    def __repr__(self) -> str:
        return f"({', '.join(map(str, self._numbers))})"


class DimsHW(Dims):
    """Height and width."""

    def _start(self, *shape: Any) -> None:
        super()._start(shape[0] if len(shape) == 1 else shape)


class Permutation(Dims):
    """The order of axes."""


_WEIGHT_TYPES = {np.dtype("f4"): "FLOAT", np.dtype("f2"): "HALF", np.dtype("i1"): "INT8", np.dtype("i4"): "INT32"}


class Weights(Object):
    """Points to an array; nothing is copied before the build, so the array must stay as it is until then."""

    def _start(self, a: Any = None, type: Any = None) -> None:
        self._array = np.zeros(0, np.float32) if not isinstance(a, np.ndarray) else a
        if self._array.dtype not in _WEIGHT_TYPES:
            raise ValueError(f"cannot make weights of {self._array.dtype}")
        if not self._array.flags.c_contiguous:
            raise ValueError("weights must lie in one piece: TensorRT would keep a pointer to a passing copy")

    def __len__(self) -> int:
        return int(self._array.size)

    def _get_dtype(self) -> Any:
        return getattr(self._trt.types["DataType"], _WEIGHT_TYPES[self._array.dtype])

    def _get_size(self) -> int:
        return int(self._array.size)

    def _get_nbytes(self) -> int:
        return int(self._array.nbytes)

    def _do_numpy(self) -> Any:
        return self._array


class ITensor(Object):
    """Made by a layer, or fed. Its shape is computed when asked: layers may still change."""

    def _start(self, name: str, shape: Shape = (), dtype: Any = None, layer: Any = None, index: int = 0) -> None:
        self._name, self._fixed, self._own_dtype, self._layer, self._index = name, shape, dtype, layer, index
        self._output = False
        self._known: tuple[int, Shape] = (-1, ())

    def _get_shape(self) -> Any:
        return self._trt.new("Dims", self._dims())

    def _set_shape(self, value: Any) -> None:
        self._fixed = tuple(value)

    def _dims(self) -> Shape:
        if not self._layer:
            return self._fixed
        if self._known[0] != self._trt.changes:  # kept until any property changes: joined branches would ask too often
            self._known = self._trt.changes, self._layer._shape(self._index)
        return self._known[1]

    def _get_dtype(self) -> Any:
        return self._own_dtype or self._layer._dtype(self._index)

    def _set_dtype(self, value: Any) -> None:
        self._own_dtype = value

    def _get_is_network_input(self) -> bool:
        return self._layer is None

    def _get_is_network_output(self) -> bool:
        return self._output

    def _get_is_shape_tensor(self) -> bool:
        return False

    def _get_is_execution_tensor(self) -> bool:
        return True


class ILayer(Object):
    """``_kind`` names the operation for the executor; ``_fields`` are the properties that it needs."""

    _kind = ""
    _fields: tuple[str, ...] = ()
    _start_values: ClassVar[dict[str, Any]] = {}
    _rounds = False

    def _start(self, name: str, inputs: list[Any], outputs: int = 1, **fields: Any) -> None:
        self._name, self._inputs = name, inputs
        for field, value in {**self._start_values, **fields}.items():
            setattr(self, f"_{field}", value)
        self._outputs = [
            self._trt.new("ITensor", f"{name}_output" if not i else f"{name}_output_{i}", layer=self, index=i)
            for i in range(outputs)
        ]
        self._check()

    def _check(self) -> None:
        """Raises Invalid where TensorRT refuses to add the layer."""

    def _get_num_inputs(self) -> int:
        return len(self._inputs)

    def _get_num_outputs(self) -> int:
        return len(self._outputs)

    def _get_type(self) -> Any:
        return getattr(self._trt.types.get("LayerType"), self._kind.upper(), None)

    def _do_get_input(self, index: int) -> Any:
        return self._inputs[index] if index < len(self._inputs) else None

    def _do_get_output(self, index: int) -> Any:
        return self._outputs[index] if index < len(self._outputs) else None

    def _do_set_output_type(self, index: int, dtype: Any) -> None:
        self._outputs[index]._own_dtype = dtype

    def _read(self, index: int = 0) -> Shape:
        dims: Shape = self._inputs[index]._dims()
        return dims

    def _shape(self, index: int) -> Shape:
        return self._read()

    def _dtype(self, index: int) -> Any:
        return self._inputs[0]._get_dtype()

    def _weights(self) -> dict[str, Any]:
        return {
            n: w._array for n in ("kernel", "bias", "scale", "shift", "power") if (w := getattr(self, f"_{n}", None))
        }

    def _parameters(self) -> dict[str, Any]:
        """What the executor needs; arrays are copied here and not before."""
        arrays = {name: array.copy() for name, array in self._weights().items() if array.size}
        plain = {name: getattr(self, f"_{name}") for name in self._fields}
        return {
            **{
                n: str(v).split(".")[-1] if hasattr(v, "__index__") and not isinstance(v, int) else v
                for n, v in plain.items()
            },
            **arrays,
        }
