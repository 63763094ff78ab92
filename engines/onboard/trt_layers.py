"""One function for each kind of layer: adds it to the network under way and returns the tensor it makes.

Each is given the network under way (`engines.onboard.trt_network.Written`), the layer's row of the graph file and its
weights as float32 arrays.
"""

from typing import Any, Dict, List, Tuple

from engines.onboard.failure import Failed

Row = Dict[str, Any]


def _conv(net: Any, row: Row, arrays: List[Any]) -> Any:
    rank = len(row["kernel"])
    layer = _convolution(net, net.exact(row["inputs"][0]), row["filters"], tuple(row["kernel"]), arrays)
    layer.stride_nd = tuple(row["stride"])
    layer.dilation_nd = tuple(row["dilation"])
    layer.pre_padding = tuple(row["pad"][:rank])
    layer.post_padding = tuple(row["pad"][rank:])
    layer.num_groups = row["groups"]
    return net.made(layer, row["name"])


def _fully_connected(net: Any, row: Row, arrays: List[Any]) -> Any:
    """A convolution with a window as large as its input: other than a layer of this kind all versions have it."""
    source = row["inputs"][0]
    shape, tensor = net.shapes[source], net.tensor(source)
    if row["axis"] != 1:
        raise unsupported(row, "only from axis 1 on")
    if len(shape) < 4:
        shape += (1,) * (4 - len(shape))
        tensor = net.shaped(tensor, shape, source)
    matrix = arrays[0].reshape((row["filters"],) + shape[1:])
    layer = _convolution(net, tensor, row["filters"], shape[2:], [matrix] + arrays[1:])
    return net.made(layer, row["name"])


def _convolution(net: Any, tensor: Any, filters: int, kernel: Tuple[int, ...], arrays: List[Any]) -> Any:
    weights = [net.weights(array) for array in arrays]  # the kernel and, where there is one, the bias
    layer = net.network.add_convolution_nd(tensor, filters, kernel, *weights)
    if layer is None:
        raise Failed("unsupported", "TensorRT refuses a convolution with a window of %s" % (kernel,))
    return layer


def _pool(net: Any, row: Row, arrays: List[Any]) -> Any:
    source = row["inputs"][0]
    tensor, size, made = net.exact(source), net.shapes[source][2:], tuple(row["shape"][2:])
    window = tuple(row["kernel"]) or size
    axes = range(len(window))
    stride = tuple(row["stride"]) or (1,) * len(axes)
    before, after = (
        tuple(row["pad"][: len(axes)]) or (0,) * len(axes),
        tuple(row["pad"][len(axes) :]) or (0,) * len(axes),
    )
    rooms = [size[n] + before[n] + after[n] - window[n] for n in axes]
    rounded_up = made != tuple(rooms[n] // stride[n] + 1 for n in axes)
    count_pad = row["count_pad"] and any(row["pad"])
    if rounded_up and count_pad and row["mode"] == "avg":
        # What TensorRT divides the last window by is not written down. Padded beforehand there is nothing to ask.
        tensor = net.made(net.network.add_padding_nd(tensor, before, after), row["name"] + "/pad")
        size = tuple(size[n] + before[n] + after[n] for n in axes)
        before, after, count_pad = (0,) * len(axes), (0,) * len(axes), False
    modes, types = net.trt.PaddingMode, net.trt.PoolingType
    mode = modes.EXPLICIT_ROUND_DOWN
    if rounded_up and made == tuple(-(-rooms[n] // stride[n]) + 1 for n in axes):
        mode = modes.EXPLICIT_ROUND_UP
    elif rounded_up:
        # Caffe rounds up but drops a window that begins beyond its input: here, in some directions only.
        reach = [(made[n] - 1) * stride[n] + window[n] for n in axes]
        after = tuple(max(after[n], reach[n] - size[n] - before[n]) for n in axes)
    layer = net.network.add_pooling_nd(tensor, types.MAX if row["mode"] == "max" else types.AVERAGE, window)
    if layer is None:
        raise unsupported(row, "TensorRT refuses a window of %s" % (window,))
    layer.stride_nd, layer.pre_padding, layer.post_padding, layer.padding_mode = stride, before, after, mode
    if row["mode"] == "avg":
        layer.average_count_excludes_padding = not count_pad
    return net.made(layer, row["name"])


def _lrn(net: Any, row: Row, arrays: List[Any]) -> Any:
    tensor, types = net.exact(row["inputs"][0]), net.trt.DataType
    if net.half:
        tensor = net.cast(tensor, types.FLOAT, row["name"] + "/fp32")
    layer = net.network.add_lrn(tensor, row["size"], row["alpha"], row["beta"], row["k"])
    tensor = net.made(layer, row["name"])
    return net.cast(tensor, types.HALF, row["name"] + "/fp16") if net.half else tensor


def _relu(net: Any, row: Row, arrays: List[Any]) -> Any:
    tensor = net.tensor(row["inputs"][0])
    return net.made(net.network.add_activation(tensor, net.trt.ActivationType.RELU), row["name"])


def _dropout(net: Any, row: Row, arrays: List[Any]) -> Any:
    return net.tensor(row["inputs"][0])


def _softmax(net: Any, row: Row, arrays: List[Any]) -> Any:
    source = row["inputs"][0]
    layer = net.network.add_softmax(net.tensor(source))
    layer.axes = 1 << (row["axis"] % len(net.shapes[source]))
    return net.made(layer, row["name"])


def _batch_norm(net: Any, row: Row, arrays: List[Any]) -> Any:
    source = row["inputs"][0]
    shape, tensor = net.shapes[source], net.tensor(source)
    if len(shape) < 4:
        tensor = net.shaped(tensor, shape + (1,) * (4 - len(shape)), source)
    scale, shift, mean, variance = arrays
    scale = scale / (variance + row["epsilon"]) ** 0.5
    weights = {"scale": net.weights(scale), "shift": net.weights(shift - mean * scale)}
    mode = net.trt.ScaleMode.CHANNEL
    return net.made(net.network.add_scale_nd(tensor, mode, channel_axis=1, **weights), row["name"])


def _eltwise(net: Any, row: Row, arrays: List[Any]) -> Any:
    operations = net.trt.ElementWiseOperation
    operation = {"add": operations.SUM, "sub": operations.SUB, "mul": operations.PROD, "div": operations.DIV}
    first, *others = _same_rank(net, row)
    for other in others:
        first = net.made(net.network.add_elementwise(first, other, operation[row["operation"]]), row["name"])
    return first


def _matmul(net: Any, row: Row, arrays: List[Any]) -> Any:
    left, right = _same_rank(net, row)
    plain = net.trt.MatrixOperation.NONE
    return net.made(net.network.add_matrix_multiply(left, plain, right, plain), row["name"])


def _same_rank(net: Any, row: Row) -> List[Any]:
    """Returns the inputs with as many dimensions each: TensorRT broadcasts, but adds none."""
    rank = max(len(net.shapes[name]) for name in row["inputs"])
    wide = [(name, (1,) * (rank - len(net.shapes[name])) + net.shapes[name]) for name in row["inputs"]]
    return [net.shaped(net.tensor(name), shape, name) for name, shape in wide]


def _concat(net: Any, row: Row, arrays: List[Any]) -> Any:
    layer = net.network.add_concatenation([net.exact(name) for name in row["inputs"]])
    layer.axis = row["axis"] % len(row["shape"])
    return net.made(layer, row["name"])


def _reshape(net: Any, row: Row, arrays: List[Any]) -> Any:
    layer = net.network.add_shuffle(net.tensor(row["inputs"][0]))
    layer.reshape_dims = tuple(row["shape"])
    return net.made(layer, row["name"])


def unsupported(row: Row, why: str) -> Failed:
    """Returns the failure that names a layer."""
    hint = "export the model as ONNX with other layers, or use --toolchain onnxruntime"
    return Failed("unsupported", "layer %s (%s): %s" % (row["name"], row["kind"], why), hint)


KINDS = {
    "Conv": _conv,
    "Pool": _pool,
    "LRN": _lrn,
    "FullyConnected": _fully_connected,
    "ReLU": _relu,
    "Dropout": _dropout,
    "Softmax": _softmax,
    "BatchNorm": _batch_norm,
    "Eltwise": _eltwise,
    "MatMul": _matmul,
    "Concat": _concat,
    "Reshape": _reshape,
}
