"""GoogLeNet (Inception v1) as BVLC defines it for Caffe, without the auxiliary heads that only training uses."""

from __future__ import annotations

from engines.network import LRN, Concat, Conv, Dropout, FullyConnected, Input, Layer, Network, Pool, ReLU, Softmax

# Filters of each inception block: 1x1, 3x3 reduce, 3x3, 5x5 reduce, 5x5, pool projection.
_BLOCKS = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}


def googlenet() -> Network:
    """Returns GoogLeNet for 224x224 images and 1000 classes: 1582.7 M multiply-accumulates, 7.00 M parameters."""
    layers: list[Layer] = [
        *_conv("conv1", "7x7_s2", "data", 64, 7, stride=2, pad=3),
        Pool.square("pool1/3x3_s2", "conv1/relu_7x7", "max", 3, stride=2),
        LRN("pool1/norm1", ("pool1/3x3_s2",)),
        *_conv("conv2", "3x3_reduce", "pool1/norm1", 64, 1),
        *_conv("conv2", "3x3", "conv2/relu_3x3_reduce", 192, 3, pad=1),
        LRN("conv2/norm2", ("conv2/relu_3x3",)),
        Pool.square("pool2/3x3_s2", "conv2/norm2", "max", 3, stride=2),
    ]
    for block, filters in _BLOCKS.items():
        layers += _inception(f"inception_{block}", layers[-1].name, filters)
        if block in ("3b", "4e"):
            stage = int(block[0])
            layers.append(Pool.square(f"pool{stage}/3x3_s2", layers[-1].name, "max", 3, stride=2))
    layers += [
        Pool.square("pool5/7x7_s1", layers[-1].name, "avg", 7),
        Dropout("pool5/drop_7x7_s1", ("pool5/7x7_s1",), 0.4),
        FullyConnected("loss3/classifier", ("pool5/drop_7x7_s1",), 1000),
        Softmax("prob", ("loss3/classifier",)),
    ]
    return Network("googlenet", (Input("data", (3, 224, 224)),), tuple(layers), ("prob",))


def _conv(
    block: str, name: str, source: str, filters: int, kernel: int, *, stride: int = 1, pad: int = 0
) -> tuple[Layer, Layer]:
    """Returns a convolution and its ReLU, which is called ``block/relu_name`` without its stride."""
    conv = Conv.square(f"{block}/{name}", source, filters, kernel, stride=stride, pad=pad)
    return conv, ReLU(f"{block}/relu_{name.removesuffix('_s2')}", (conv.name,))


def _inception(block: str, source: str, filters: tuple[int, int, int, int, int, int]) -> list[Layer]:
    """Returns the four branches of an inception block and their concatenation."""
    one, reduce3, three, reduce5, five, project = filters
    branches = ("1x1", "3x3", "5x5", "pool_proj")
    return [
        *_conv(block, "1x1", source, one, 1),
        *_conv(block, "3x3_reduce", source, reduce3, 1),
        *_conv(block, "3x3", f"{block}/relu_3x3_reduce", three, 3, pad=1),
        *_conv(block, "5x5_reduce", source, reduce5, 1),
        *_conv(block, "5x5", f"{block}/relu_5x5_reduce", five, 5, pad=2),
        Pool.square(f"{block}/pool", source, "max", 3, pad=1),
        *_conv(block, "pool_proj", f"{block}/pool", project, 1),
        Concat(f"{block}/output", tuple(f"{block}/relu_{branch}" for branch in branches)),
    ]
