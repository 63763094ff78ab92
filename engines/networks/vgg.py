"""VGG (Simonyan and Zisserman, 2014) for 224x224 images and 1000 classes."""

from __future__ import annotations

from collections.abc import Mapping

from engines.network import Conv, Dropout, FullyConnected, Input, Layer, Network, Pool, ReLU, Softmax

STAGES: Mapping[int, tuple[int, int, int, int, int]] = {
    11: (1, 1, 2, 2, 2),
    13: (2, 2, 2, 2, 2),
    16: (2, 2, 3, 3, 3),
    19: (2, 2, 4, 4, 4),
}
"""How many convolutions come before each pooling, by depth."""


def vgg(depth: int) -> Network:
    """Returns the network of that depth; with 16 it has 15.5 G multiply-accumulates and 138 M parameters.

    Raises KeyError for a depth not in ``STAGES``.
    """
    layers: list[Layer] = []
    last = "data"
    for stage, count in enumerate(STAGES[depth], 1):
        for n in range(1, count + 1):
            name = f"conv{stage}_{n}"
            layers += [
                Conv.square(name, last, min(512, 32 << stage), 3, pad=1),
                ReLU(f"relu{stage}_{n}", (name,)),
            ]
            last = f"relu{stage}_{n}"
        layers.append(Pool.square(f"pool{stage}", last, "max", 2, stride=2))
        last = f"pool{stage}"
    for n in (6, 7):
        layers += [
            FullyConnected(f"fc{n}", (last,), 4096),
            ReLU(f"relu{n}", (f"fc{n}",)),
            Dropout(f"drop{n}", (f"relu{n}",)),
        ]
        last = f"drop{n}"
    layers += [FullyConnected("fc8", (last,), 1000), Softmax("prob", ("fc8",))]
    return Network(f"vgg{depth}", (Input("data", (3, 224, 224)),), tuple(layers), ("prob",))
