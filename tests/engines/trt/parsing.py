"""The ONNX parser: takes what the oldest parser takes, and says which node it cannot import."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.engines.trt.surface import Object

_OPERATIONS = """
    Add AveragePool BatchNormalization Cast Clip Concat Constant Conv Div Dropout Exp Flatten Gather Gemm
    GlobalAveragePool GlobalMaxPool Identity LRN LeakyRelu MatMul MaxPool Mul Pad Pow ReduceMean Relu Reshape Shape
    Sigmoid Slice Softmax Sqrt Squeeze Sub Tanh Transpose Unsqueeze
"""


class OnnxParser(Object):
    """Fills a network from a file's bytes. A network of the implicit kind cannot be filled."""

    def _start(self, network: Any, logger: Any) -> None:
        self._network, self._logger = network, logger
        self._errors: list[Any] = []

    def _get_num_errors(self) -> int:
        return len(self._errors)

    def _do_get_error(self, index: int) -> Any:
        return self._errors[index]

    def _do_clear_errors(self) -> None:
        self._errors.clear()

    def _do_parse_from_file(self, model: str) -> bool:
        return self._do_parse(Path(model).read_bytes())

    def _do_parse(self, model: Any, path: str | None = None) -> bool:
        import onnx

        if self._network._implicit:
            return self._fail("MODEL_DESERIALIZE_FAILED", "This version needs an explicit batch for ONNX", -1, "", "")
        try:
            loaded = onnx.shape_inference.infer_shapes(onnx.load_model_from_string(bytes(model)))
        except Exception as error:
            return self._fail("MODEL_DESERIALIZE_FAILED", f"Failed to parse ONNX model: {error}", -1, "", "")
        for place, node in enumerate(loaded.graph.node):
            if node.op_type not in _OPERATIONS.split():
                what = f"No importer registered for op: {node.op_type}. Attempting to import as plugin."
                return self._fail("UNSUPPORTED_NODE", what, place, node.name, node.op_type)
        self._record(loaded, bytes(model))
        return True

    def _fail(self, code: str, what: str, node: int, name: str, operation: str) -> bool:
        self._errors.append(self._trt.new("ParserError", code, what, node, name, operation))
        self._logger._tell("ERROR", what)
        return False

    def _record(self, model: Any, content: bytes) -> None:
        """Every node becomes a layer with the shapes that were inferred; ONNX Runtime computes them later."""
        from onnx import TensorProto

        names = {TensorProto.FLOAT: "FLOAT", TensorProto.FLOAT16: "HALF", TensorProto.INT64: "INT64"}
        names |= {TensorProto.INT32: "INT32", TensorProto.BOOL: "BOOL", TensorProto.INT8: "INT8"}
        types: Any = self._trt.types["DataType"]
        network, constants = self._network, {i.name for i in model.graph.initializer}
        values = {
            v.name: v.type.tensor_type for v in (*model.graph.input, *model.graph.value_info, *model.graph.output)
        }

        def described(name: str) -> tuple[tuple[int, ...], Any]:
            kind = values.get(name)
            word = names.get(kind.elem_type if kind else TensorProto.FLOAT, "FLOAT")
            # Older versions have no 64-bit numbers and bind 32-bit ones instead.
            dtype = getattr(types, word, None) or types.INT32
            return tuple(d.dim_value if d.HasField("dim_value") else -1 for d in kind.shape.dim) if kind else (), dtype

        made: dict[str, Any] = {}
        for value in model.graph.input:
            if value.name not in constants:
                shape, dtype = described(value.name)
                made[value.name] = network._do_add_input(value.name, dtype, shape)
        for node in model.graph.node:
            layer = self._trt.new("ILayer", node.name, [made[n] for n in node.input if n in made], len(node.output))
            for tensor, name in zip(layer._outputs, node.output, strict=True):
                tensor._name, tensor._layer = name, None
                tensor._fixed, tensor._own_dtype = described(name)
                made[name] = tensor
            network._layers.append(layer)
        for value in model.graph.output:
            network._do_mark_output(made[value.name])
        network._onnx = content


class ParserError(Object):
    """Where parsing stopped, and why."""

    def _start(self, code: str, what: str, node: int, name: str, operation: str) -> None:
        self._code, self._what, self._node, self._node_name, self._operation = code, what, node, name, operation

    def _do_code(self) -> Any:
        return getattr(self._trt.types["ErrorCode"], self._code)

    def _do_desc(self) -> str:
        return self._what

    def _do_node(self) -> int:
        return self._node

    def _do_node_name(self) -> str:
        return self._node_name

    def _do_node_operator(self) -> str:
        return self._operation

    def _do_file(self) -> str:
        return "ModelImporter.cpp"

    def _do_line(self) -> int:
        return 1

    def _do_func(self) -> str:
        return "parse"


PARSING: dict[str, type] = {"OnnxParser": OnnxParser, "ParserError": ParserError}
