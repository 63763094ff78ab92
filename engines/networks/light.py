"""Networks that sort images by many small layers: MobileNetV2, MnasNet, ShuffleNetV2, DenseNet and kin of ResNet-50.

Sizes are those of their papers and of torchvision: Sandler et al. 2018; Tan et al. 2018; Ma et al. 2018; Huang et al.
2016; Xie et al. 2016; Hu et al. 2017. All are for images of 224x224.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engines.network import Network
from engines.networks.build import Builder

_SIZE = 224
_STAGES = (3, 4, 6, 3)  # of ResNet-50

# Stages: how much wider their blocks are inside, channels, blocks, stride of the first, kernel.
_MOBILENET = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 32, 3, 2, 3),
    (6, 64, 4, 2, 3),
    (6, 96, 3, 1, 3),
    (6, 160, 3, 2, 3),
    (6, 320, 1, 1, 3),
)
_MNASNET = (
    (3, 24, 3, 2, 3),
    (3, 40, 3, 2, 5),
    (6, 80, 3, 2, 5),
    (6, 96, 2, 1, 3),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)

SHUFFLENETS: Mapping[str, tuple[int, int, int, int]] = {
    "0.5": (48, 96, 192, 1024),
    "1.0": (116, 232, 464, 1024),
    "1.5": (176, 352, 704, 1024),
    "2.0": (244, 488, 976, 2048),
}
"""Channels of the stages and of the end, by width."""

DENSENETS: Mapping[str, tuple[int, int, tuple[int, ...]]] = {
    "121": (64, 32, (6, 12, 24, 16)),
    "161": (96, 48, (6, 12, 36, 24)),
    "169": (64, 32, (6, 12, 32, 32)),
    "201": (64, 32, (6, 12, 48, 32)),
}
"""Channels at first, what each layer adds, and how many layers each block has, by depth."""


def mobilenet(batch: int) -> Network:
    """Returns MobileNetV2: 0.30 G multiply-accumulates, 3.5 M parameters."""
    net = Builder(batch, _SIZE, "relu6")
    last = _inverted(net, net.conv("data", 32, 3, 2), _MOBILENET)
    return net.network("mobilenetv2", net.classes(net.conv(last, 1280)))


def mnasnet(width: str, batch: int) -> Network:
    """Returns MnasNet-B1 that many times as wide."""
    net = Builder(batch, _SIZE, "relu")
    last = net.deep(net.conv("data", _eights(32, width), 3, 2))
    last = net.conv(last, _eights(16, width), activation="")
    stages = [(inside, _eights(channels, width), *rest) for inside, channels, *rest in _MNASNET]
    return net.network(f"mnasnet{width}", net.classes(net.conv(_inverted(net, last, stages), 1280)))


def _eights(channels: int, width: str) -> int:
    """Returns channels times ``width`` as the nearest multiple of eight, or the next where that is a tenth less."""
    wanted = channels * float(width)
    near = max(8, int(wanted + 4) // 8 * 8)
    return near + 8 if near < 0.9 * wanted else near


def _inverted(net: Builder, last: str, stages: Sequence[Sequence[int]]) -> str:
    """Adds stages of blocks that are wide inside, and returns the last tensor."""
    for inside, channels, count, stride, kernel in stages:
        for number in range(count):
            step, before = 1 if number else stride, net.channels(last)
            wide = net.conv(last, before * inside) if inside > 1 else last
            made = net.conv(net.deep(wide, kernel, step), channels, activation="")
            last = net.combine("add", made, last) if step == 1 and before == channels else made
    return last


def shufflenet(width: str, batch: int) -> Network:
    """Returns ShuffleNetV2 that many times as wide."""
    net = Builder(batch, _SIZE, "relu")
    *stages, end = SHUFFLENETS[width]
    last = net.pool(net.conv("data", 24, 3, 2), 3, 2, pad=1)
    for channels, count in zip(stages, (4, 8, 4), strict=True):
        half = channels // 2
        for number in range(count):
            if number:
                left, right = net.split(last, half, half)
            else:
                left, right = net.conv(net.deep(last, stride=2, activation=""), half), last
            right = net.deep(net.conv(right, half), stride=1 if number else 2, activation="")
            last = _shuffled(net, net.concat(left, net.conv(right, half)))
    return net.network(f"shufflenetv2_{width}", net.classes(net.conv(last, end)))


def _shuffled(net: Builder, source: str) -> str:
    _, channels, high, wide = net.shape(source)
    pairs = net.transpose(net.reshape(source, 2, channels // 2, high, wide), 0, 2, 1, 3, 4)
    return net.reshape(pairs, channels, high, wide)


def densenet(depth: str, batch: int) -> Network:
    """Returns DenseNet, whose normalisations come before the convolutions; 121: 2.8 G MACs, 8.0 M parameters."""
    net = Builder(batch, _SIZE, "relu")
    first, growth, blocks = DENSENETS[depth]
    last = net.pool(net.conv("data", first, 7, 2), 3, 2, pad=1)
    for block, count in enumerate(blocks):
        if block:
            half = net.conv(net.norm(last), net.channels(last) // 2, activation="")
            last = net.pool(half, 2, 2, "avg")
        for _ in range(count):
            narrow = net.conv(net.norm(last), 4 * growth)
            last = net.concat(last, net.conv(narrow, growth, 3, activation=""))
    return net.network(f"densenet{depth}", net.classes(net.norm(last)))


def resnext(batch: int) -> Network:
    """Returns ResNeXt-50 with 32 groups: 4.2 G multiply-accumulates, 25.0 M parameters."""
    return _resnet50("resnext50", batch, groups=32, squeezed=False)


def se_resnet(batch: int) -> Network:
    """Returns ResNet-50 whose channels are weighed: 28.1 M parameters."""
    return _resnet50("se-resnet50", batch, groups=1, squeezed=True)


def _resnet50(name: str, batch: int, groups: int, squeezed: bool) -> Network:
    net = Builder(batch, _SIZE, "relu")
    last = net.pool(net.conv("data", 64, 7, 2), 3, 2, pad=1)
    for stage, count in enumerate(_STAGES):
        width = 64 << stage
        for number in range(count):
            inside, stride = width * (2 if groups > 1 else 1), 2 if stage and not number else 1
            made = net.conv(net.conv(last, inside), inside, 3, stride, groups)
            made = net.conv(made, 4 * width, activation="")
            if squeezed:
                weights = net.conv(net.conv(net.mean(made), width // 4), 4 * width, activation="")
                made = net.combine("mul", made, net.other("Sigmoid", weights))
            if not number:
                last = net.conv(last, 4 * width, stride=stride, activation="")
            last = net.activation(net.combine("add", made, last), "relu")
    return net.network(name, net.classes(last))
