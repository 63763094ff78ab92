"""SqueezeNet (Iandola et al., 2016), versions 1.0 and 1.1, for 227x227 images and 1000 classes."""

from __future__ import annotations

from engines.network import Concat, Conv, Dropout, Input, Layer, Network, Pool, ReLU, Softmax

_FIRES = {2: (16, 64), 3: (16, 64), 4: (32, 128), 5: (32, 128), 6: (48, 192), 7: (48, 192), 8: (64, 256), 9: (64, 256)}


def squeezenet(version: str) -> Network:
    """Returns version ``1.0``, with 0.83 G multiply-accumulates, or ``1.1``, with 0.39 G. Both have 1.2 M parameters.

    They differ in the first convolution and in where they pool. Raises KeyError for other versions.
    """
    filters, kernel, pooled = {"1.0": (96, 7, (1, 4, 8)), "1.1": (64, 3, (1, 3, 5))}[version]
    layers: list[Layer] = [
        Conv.square("conv1", "data", filters, kernel, stride=2),
        ReLU("relu_conv1", ("conv1",)),
        Pool.square("pool1", "relu_conv1", "max", 3, stride=2),
    ]
    last = "pool1"
    for n, (squeeze, expand) in _FIRES.items():
        layers += _fire(f"fire{n}", last, squeeze, expand)
        last = f"fire{n}/concat"
        if n in pooled:
            layers.append(Pool.square(f"pool{n}", last, "max", 3, stride=2))
            last = f"pool{n}"
    layers += [
        Dropout("drop9", (last,)),
        Conv.square("conv10", "drop9", 1000, 1),
        ReLU("relu_conv10", ("conv10",)),
        Pool("pool10", ("relu_conv10",), "avg"),
        Softmax("prob", ("pool10",)),
    ]
    return Network(f"squeezenet{version}", (Input("data", (3, 227, 227)),), tuple(layers), ("prob",))


def _fire(name: str, source: str, squeeze: int, expand: int) -> list[Layer]:
    """Returns a 1x1 convolution that squeezes, and two of 1x1 and 3x3 that expand, put one behind the other."""
    narrow, small, wide = f"{name}/squeeze1x1", f"{name}/expand1x1", f"{name}/expand3x3"
    return [
        Conv.square(narrow, source, squeeze, 1),
        ReLU(f"{name}/relu_squeeze1x1", (narrow,)),
        Conv.square(small, f"{name}/relu_squeeze1x1", expand, 1),
        ReLU(f"{name}/relu_expand1x1", (small,)),
        Conv.square(wide, f"{name}/relu_squeeze1x1", expand, 3, pad=1),
        ReLU(f"{name}/relu_expand3x3", (wide,)),
        Concat(f"{name}/concat", (f"{name}/relu_expand1x1", f"{name}/relu_expand3x3")),
    ]
