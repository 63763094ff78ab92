"""ResNet (He et al., 2015) for 224x224 images and 1000 classes, its normalisations folded into the convolutions."""

from __future__ import annotations

from collections.abc import Mapping

from engines.network import Conv, Eltwise, FullyConnected, Input, Layer, Network, Pool, ReLU, Softmax

BLOCKS: Mapping[int, tuple[int, int, int, int]] = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
}
"""How many blocks each stage has, by depth."""

_BOTTLENECK = 50  # from this depth on a block narrows to a quarter of its width


def resnet(depth: int) -> Network:
    """Returns the network of that depth; with 50 it has 3.86 G multiply-accumulates and 25.5 M parameters.

    As first published: a stage's first convolution has its stride. Raises KeyError for a depth not in ``BLOCKS``.
    """
    layers: list[Layer] = [
        Conv.square("conv1", "data", 64, 7, stride=2, pad=3),
        ReLU("conv1_relu", ("conv1",)),
        Pool.square("pool1", "conv1_relu", "max", 3, stride=2),
    ]
    last, channels = "pool1", 64
    for stage, count in enumerate(BLOCKS[depth]):
        width = 64 << stage
        for block in range(count):
            name, stride = f"res{stage + 2}_{block}", 2 if stage and not block else 1
            wide = width if depth < _BOTTLENECK else 4 * width
            layers += _branch(name, last, width, stride, depth < _BOTTLENECK)
            if stride > 1 or channels != wide:
                layers.append(Conv.square(f"{name}_branch1", last, wide, 1, stride=stride))
                last = f"{name}_branch1"
            layers += [Eltwise(name, (f"{name}_branch2", last), "add"), ReLU(f"{name}_relu", (name,))]
            last, channels = f"{name}_relu", wide
    layers += [Pool("pool5", (last,), "avg"), FullyConnected("fc1000", ("pool5",), 1000), Softmax("prob", ("fc1000",))]
    return Network(f"resnet{depth}", (Input("data", (3, 224, 224)),), tuple(layers), ("prob",))


def _branch(name: str, source: str, width: int, stride: int, plain: bool) -> list[Layer]:
    """Returns the convolutions of a block: two of 3x3, or one between two of 1x1."""
    first, end = f"{name}_branch2a", f"{name}_branch2"
    if plain:
        return [
            Conv.square(first, source, width, 3, stride=stride, pad=1),
            ReLU(f"{first}_relu", (first,)),
            Conv.square(end, f"{first}_relu", width, 3, pad=1),
        ]
    second = f"{name}_branch2b"
    return [
        Conv.square(first, source, width, 1, stride=stride),
        ReLU(f"{first}_relu", (first,)),
        Conv.square(second, f"{first}_relu", width, 3, pad=1),
        ReLU(f"{second}_relu", (second,)),
        Conv.square(end, f"{second}_relu", 4 * width, 1),
    ]
