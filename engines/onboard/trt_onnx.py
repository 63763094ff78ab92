"""A user's ONNX file read by TensorRT's own parser."""

import re
from typing import Any, Dict, List

from engines.onboard.failure import Failed
from engines.onboard.trt_library import Log
from engines.onboard.trt_network import dims

_IMPORTER = re.compile(r"(?:No importer registered for op|Unsupported (?:ONNX )?op\w*|operator)[: ]+\"?(\w+)", re.I)
_NODE = re.compile(r"node number (\d+) \[(\w+)")
_OTHER_OPERATORS = "export the model with another opset or other operators, or use --toolchain onnxruntime"
_AUTOCAST = (
    "make an FP16 file of it on a host: python -m modelopt.onnx.autocast --onnx_path MODEL --output_path MODEL_FP16; "
    "or use --fp32"
)


def parse(trt: Any, network: Any, log: Log, request: Dict[str, Any]) -> Any:
    """Fills ``network`` from the file; keep the parser that is returned until the engine is built.

    Raises Failed: "unsupported" names the node and its operator, "model" is a file that is none.
    """
    path = request["model"]
    parser = trt.OnnxParser(network, log.logger)
    with open(path, "rb") as file:
        content = file.read()
    if not parser.parse(content):
        errors = [parser.get_error(index) for index in range(parser.num_errors)]
        raise _refused(path, errors, log)
    return parser


def shape(trt: Any, builder: Any, network: Any, config: Any, request: Dict[str, Any]) -> None:
    """Fixes the open dimensions of the network's inputs to those asked for. Raises Failed where they do not fit."""
    profile = builder.create_optimization_profile()
    used = False
    for index in range(network.num_inputs):
        tensor = network.get_input(index)
        open_shape = dims(tensor)
        asked = tuple(request["inputs"].get(tensor.name, open_shape))
        fits = len(asked) == len(open_shape) and all(
            size > 0 and open_shape[n] in (-1, size) for n, size in enumerate(asked)
        )
        if not fits:
            what = "input %s is %s, which cannot be %s" % (tensor.name, list(open_shape), list(asked))
            raise Failed("model", what, "give its shape: --shape %s:1x..." % tensor.name)
        if tensor.is_shape_tensor:
            values = [1] * _volume(asked)
            profile.set_shape_input(tensor.name, values, values, values)
            used = True
        elif -1 in open_shape:
            profile.set_shape(tensor.name, asked, asked, asked)
            used = True
    if used and config.add_optimization_profile(profile) < 0:
        raise Failed("model", "TensorRT refuses these shapes: %s" % request["inputs"], "give others with --shape")


def require_half(trt: Any, network: Any) -> None:
    """Raises Failed for a network in which nothing is FP16: where types come from the file it would run in FP32."""
    half = trt.DataType.HALF
    for index in range(network.num_layers):
        layer = network.get_layer(index)
        if any(layer.get_output(number).dtype == half for number in range(layer.num_outputs)):
            return
    what = "this TensorRT takes the precision from the model, and nothing in it is FP16"
    raise Failed("unsupported", what, _AUTOCAST)


def _refused(path: str, errors: List[Any], log: Log) -> Failed:
    if not errors:
        return log.failed("%s cannot be read" % path, "check the file with onnx.checker, or export it again", "model")
    error = errors[0]
    text = " ".join(str(error.desc()).split())
    match = _NODE.search(" ".join(log.lines))
    operator = _named(error, "node_operator") or (match.group(2) if match else _operator(text))
    node = _named(error, "node_name") or (match.group(1) if match else str(error.node()))
    lines = log.lines + ["node %s: %s" % (one.node(), " ".join(str(one.desc()).split())) for one in errors]
    if operator or "UNSUPPORTED" in str(error.code()):
        what = "%s: TensorRT does not take node %s (%s): %s" % (path, node, operator or "unknown", text)
        return Failed("unsupported", what, _OTHER_OPERATORS, lines[-20:])
    hint = "check the file with onnx.checker, or export it again"
    return Failed("model", "%s: %s" % (path, text), hint, lines[-20:])


def _named(error: Any, what: str) -> str:
    return str(getattr(error, what)()) if hasattr(error, what) else ""


def _operator(text: str) -> str:
    match = _IMPORTER.search(text)
    return match.group(1) if match else ""


def _volume(shape: Any) -> int:
    volume = 1
    for size in shape:
        volume *= size
    return volume
