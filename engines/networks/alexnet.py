"""AlexNet as BVLC defines it for Caffe: one tower, groups of two, normalisation before pooling."""

from __future__ import annotations

from engines.network import LRN, Conv, Dropout, FullyConnected, Input, Layer, Network, Pool, ReLU, Softmax


def alexnet() -> Network:
    """Returns AlexNet for 227x227 images and 1000 classes: 724.4 M multiply-accumulates, 60.97 M parameters."""
    return Network(
        "alexnet",
        (Input("data", (3, 227, 227)),),
        (
            Conv.square("conv1", "data", 96, 11, stride=4),
            ReLU("relu1", ("conv1",)),
            LRN("norm1", ("relu1",)),
            Pool.square("pool1", "norm1", "max", 3, stride=2),
            Conv.square("conv2", "pool1", 256, 5, pad=2, groups=2),
            ReLU("relu2", ("conv2",)),
            LRN("norm2", ("relu2",)),
            Pool.square("pool2", "norm2", "max", 3, stride=2),
            Conv.square("conv3", "pool2", 384, 3, pad=1),
            ReLU("relu3", ("conv3",)),
            Conv.square("conv4", "relu3", 384, 3, pad=1, groups=2),
            ReLU("relu4", ("conv4",)),
            Conv.square("conv5", "relu4", 256, 3, pad=1, groups=2),
            ReLU("relu5", ("conv5",)),
            Pool.square("pool5", "relu5", "max", 3, stride=2),
            FullyConnected("fc6", ("pool5",), 4096),
            ReLU("relu6", ("fc6",)),
            Dropout("drop6", ("relu6",)),
            FullyConnected("fc7", ("drop6",), 4096),
            ReLU("relu7", ("fc7",)),
            Dropout("drop7", ("relu7",)),
            FullyConnected("fc8", ("drop7",), 1000),
            Softmax("prob", ("fc8",)),
        ),
        ("prob",),
    )


def one_tower() -> Network:
    """Returns AlexNet of 2014 (Krizhevsky, "one weird trick"), as PyTorch has it, for 224x224 images.

    It has no groups and no normalisation; 714 M multiply-accumulates, 61.1 M parameters.
    """
    layers: list[Layer] = []
    last = "data"
    shapes = ((64, 11, 4, 2, True), (192, 5, 1, 2, True), (384, 3, 1, 1, False), (256, 3, 1, 1, False))
    for n, (filters, kernel, stride, pad, pooled) in enumerate((*shapes, (256, 3, 1, 1, True)), 1):
        layers += [
            Conv.square(f"conv{n}", last, filters, kernel, stride=stride, pad=pad),
            ReLU(f"relu{n}", (f"conv{n}",)),
        ]
        last = f"relu{n}"
        if pooled:
            layers.append(Pool.square(f"pool{n}", last, "max", 3, stride=2))
            last = f"pool{n}"
    for n in (6, 7):
        layers += [FullyConnected(f"fc{n}", (last,), 4096), ReLU(f"relu{n}", (f"fc{n}",))]
        last = f"relu{n}"
    layers.append(FullyConnected("fc8", (last,), 1000))
    return Network("alexnet-torchvision", (Input("data", (3, 224, 224)),), tuple(layers), ("fc8",))
