"""A network's graph file (`engines.emit.graphjson`) written into TensorRT, its weights drawn layer by layer.

Of what TensorRT 7.1 to 11 have only that is used which they all have.
"""

import json
from typing import Any, Dict, List, Tuple

from engines.onboard import trt_layers
from engines.onboard.failure import Failed
from engines.onboard.weights import draw

FORMAT = 1
"""The format of the graph file."""

_TYPES = {"float32": "FLOAT", "float16": "HALF", "int32": "INT32", "int64": "INT64", "bool": "BOOL", "int8": "INT8"}


def write(trt: Any, network: Any, text: str, half: bool) -> "Written":
    """Fills ``network`` with the graph in ``text``; keep what is returned until the engine is built: the weights.

    ``half``: all in between is typed FP16, except LRN, whose squares exceed its range; inputs and outputs stay FP32.
    Raises Failed, naming the layer, for what TensorRT does not take or takes differently.
    """
    graph = json.loads(text)
    if graph["graph"] != FORMAT:
        raise Failed("version", "the network's graph has format %s, not %d" % (graph["graph"], FORMAT))
    written = Written(trt, network, half)
    for row in graph["inputs"]:
        written.add_input(row)
    for row in graph["layers"]:
        written.add_layer(row)
    for name in graph["outputs"]:
        written.add_output(name)
    return written


class Written(object):
    """A network under way: the tensors made so far by name, and all weights, which TensorRT does not copy.

    A tensor can have more dimensions than the graph says, of length one at its end: a layer that needs the graph's
    own asks for it. So between convolutions that stand for fully connected layers nothing is reshaped.
    """

    def __init__(self, trt: Any, network: Any, half: bool) -> None:
        self.trt = trt
        self.network = network
        self.half = half
        self.shapes: Dict[str, Tuple[int, ...]] = {}
        self._tensors: Dict[str, Any] = {}
        self._kept: List[Any] = []

    def add_input(self, row: Dict[str, Any]) -> None:
        """Adds an input of the network."""
        dtype = getattr(self.trt.DataType, _TYPES[row["dtype"]], None)
        if dtype is None:
            raise Failed("unsupported", "input %s: this TensorRT has no %s" % (row["name"], row["dtype"]))
        tensor = self.network.add_input(row["name"], dtype, tuple(row["shape"]))
        if self.half and row["dtype"] == "float32":
            tensor = self.cast(tensor, self.trt.DataType.HALF, row["name"] + "/fp16")
        self._note(row, tensor)

    def add_layer(self, row: Dict[str, Any]) -> None:
        """Adds a layer and checks the shape that it makes."""
        function = trt_layers.KINDS.get(row["kind"])
        if function is None:
            raise trt_layers.unsupported(row, "TensorRT is not told such layers")
        arrays = draw(row["weights"]["seed"], row["weights"]["arrays"]) if "weights" in row else []
        self._note(row, function(self, row, arrays))

    def add_output(self, name: str) -> None:
        """Makes the tensor ``name`` an output of the network."""
        tensor = self.exact(name)
        if self.half:
            tensor = self.cast(tensor, self.trt.DataType.FLOAT, name + "/fp32")
        elif tensor.is_network_input or tensor.is_network_output:
            tensor = self.made(self.network.add_identity(tensor), name)
        tensor.name = name
        self.network.mark_output(tensor)

    def tensor(self, name: str) -> Any:
        """Returns a tensor as it is, maybe with further dimensions of length one at its end."""
        return self._tensors[name]

    def exact(self, name: str) -> Any:
        """Returns a tensor with the graph's shape."""
        return self.shaped(self._tensors[name], self.shapes[name], name)

    def shaped(self, tensor: Any, shape: Tuple[int, ...], name: str) -> Any:
        """Returns ``tensor`` in another shape."""
        if dims(tensor) == shape:
            return tensor
        layer = self.network.add_shuffle(tensor)
        layer.reshape_dims = shape
        return self.made(layer, name + "/shape")

    def cast(self, tensor: Any, dtype: Any, name: str) -> Any:
        """Returns ``tensor`` as another type."""
        return self.made(self.network.add_cast(tensor, dtype), name)

    def made(self, layer: Any, name: str) -> Any:
        """Names a new layer and returns what it makes."""
        if layer is None:
            raise Failed("unsupported", "TensorRT refuses layer %s" % name)
        layer.name = name
        return layer.get_output(0)

    def weights(self, array: Any) -> Any:
        """Returns ``array`` as TensorRT's weights, of the type that is computed in."""
        import numpy

        array = numpy.ascontiguousarray(array, numpy.float16 if self.half else numpy.float32)
        self._kept.append(array)
        return self.trt.Weights(array)

    def _note(self, row: Dict[str, Any], tensor: Any) -> None:
        name, wanted = row["name"], tuple(row["shape"])
        made = dims(tensor)
        if made != wanted and made != wanted + (1,) * (len(made) - len(wanted)):
            raise Failed("engine", "layer %s: TensorRT makes %s of it, not %s" % (name, made, wanted))
        self.shapes[name], self._tensors[name] = wanted, tensor


def dims(tensor: Any) -> Tuple[int, ...]:
    """Returns a tensor's shape; () where TensorRT cannot make it."""
    try:
        return tuple(tensor.shape)
    except ValueError:  # a shape that cannot be has a length of -1
        return ()
