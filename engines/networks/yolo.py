"""YOLO, which finds objects in images: versions 4, 5, 8 and 11 as far as published measurements of Jetson boards need.

Sizes are those of the paper (Bochkovskiy et al. 2020) and of the published models' summaries. What follows the network,
the choice among boxes, is not in them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil

from engines.network import Network
from engines.networks.build import Activation, Builder

YOLO: Mapping[str, tuple[float, int, int]] = {
    "v8n": (0.25, 1024, 1),
    "11n": (0.25, 1024, 1),
    "11s": (0.5, 1024, 1),
    "11m": (1, 512, 1),
    "11l": (1, 512, 2),
    "11x": (1.5, 512, 2),
}
"""YOLOv8 and YOLO11: how wide, the most channels before that factor, how deep."""
YOLO5: Mapping[str, tuple[float, float]] = {"s": (0.33, 0.5), "x": (1.33, 1.25)}
"""By size: how deep and how wide it is."""

# Stages of the two: channels of the convolution before and of the block, the block's share inside, its parts, and
# whether these are nested in any size.
_STAGES = {
    "v8": (
        (128, 128, 0.5, 1, False),
        (256, 256, 0.5, 2, False),
        (512, 512, 0.5, 2, False),
        (1024, 1024, 0.5, 1, False),
    ),
    "11": (
        (128, 256, 0.25, 1, False),
        (256, 512, 0.25, 1, False),
        (512, 512, 0.5, 1, True),
        (1024, 1024, 0.5, 1, True),
    ),
}
Step = Callable[[str, int], str]
_SIZE, _STRIDES, _CLASSES = 640, (8, 16, 32), 80
_MOST = 1024
_BINS = 16  # of the distance from a point to each side of its box
_KEY, _VALUE = 32, 64  # channels of a head of attention


def yolo(model: str, batch: int) -> Network:
    """Returns YOLOv8 or YOLO11 for images of 640x640; "11n" has 2.6 M parameters. Raises KeyError for another."""
    net, (width, most, deep) = Builder(batch, _SIZE, "silu"), YOLO[model]
    version, newer = model[:2], model.startswith("11")

    def wide(channels: int) -> int:
        return _eights(min(channels, most) * width)

    def down(source: str, channels: int) -> str:
        return net.conv(source, wide(channels), 3, 2)

    def block(source: str, channels: int, share: float, count: int, nested: bool, add: bool = newer) -> str:
        """A block that keeps what goes into each of its parts, and joins all of it."""
        inside = int(wide(channels) * share)
        kept = net.split(net.conv(source, 2 * inside), inside, inside)
        for _ in range(count * deep):
            if newer and (nested or most < _MOST):
                kept.append(_joined(net, kept[-1], inside, 2, add, 3))
            else:
                kept.append(_pair(net, kept[-1], inside, inside // 2 if newer else inside, add, 3))
        return net.conv(net.concat(*kept), wide(channels))

    last, levels = down("data", 64), []
    for before, channels, share, count, nested in _STAGES[version]:
        last = block(down(last, before), channels, share, count, nested, True)
        levels.append(last)
    last = _pyramid(net, last, (5, 5, 5))
    if newer:
        half = net.channels(last) // 2
        left, right = net.split(net.conv(last, 2 * half), half, half)
        for _ in range(deep):
            right = net.combine("add", right, _attention(net, right))
            right = net.combine("add", right, net.conv(net.conv(right, 2 * half), half, activation=""))
        last = net.conv(net.concat(left, right), 2 * half)

    def join(source: str, channels: int) -> str:
        return block(source, channels, 0.5, 1, channels == _MOST)

    ends = _ends(net, (levels[1], levels[2], last), join, down, lambda source, _: source)
    return net.network(f"yolo{model}", _boxes(net, ends, light=newer))


def yolo5(size: str, batch: int) -> Network:
    """Returns YOLOv5, whose first layer folds the image, for images of 640x640; "s" has 7.3 M parameters."""
    net, (depth, width) = Builder(batch, _SIZE, "silu"), YOLO5[size]
    half = _SIZE // 2

    def down(source: str, channels: int) -> str:
        return net.conv(source, _eights(channels * width), 3, 2)

    def block(source: str, channels: int, count: int = 3, add: bool = False) -> str:
        return _joined(net, source, _eights(channels * width), max(1, round(count * depth)), add, 1)

    quarters = [net.other("Slice", net.other("Slice", "data", 3, half, _SIZE), 3, half, half) for _ in range(4)]
    last = block(down(net.conv(net.concat(*quarters), _eights(64 * width), 3), 128), 128, 3, True)
    third = block(down(last, 256), 256, 9, True)
    fourth = block(down(third, 512), 512, 9, True)
    fifth = block(_pyramid(net, down(fourth, 1024), (5, 9, 13), in_turn=False), 1024)
    ends = _ends(net, (third, fourth, fifth), block, down, lambda last, most: net.conv(last, _eights(most * width)))
    found = [net.conv(end, 3 * (_CLASSES + 5), activation="") for end in ends]
    return net.network(f"yolov5{size}", *(net.other("Sigmoid", one) for one in found))


def yolo4(size: int, batch: int) -> Network:
    """Returns YOLOv4 for images of ``size`` x ``size``: 64 M parameters."""
    net = Builder(batch, size, "mish")
    leaky: Activation = "leaky"

    def stage(source: str, channels: int, count: int) -> str:
        first = channels == 64
        last, inside = net.conv(source, channels, 3, 2), channels if first else channels // 2
        left, right = net.conv(last, inside), net.conv(last, inside)
        for _ in range(count):
            narrow = net.conv(right, inside // 2 if first else inside)
            right = net.combine("add", right, net.conv(narrow, inside, 3))
        return net.conv(net.concat(net.conv(right, inside), left), channels)

    def chain(source: str, *steps: tuple[int, int]) -> str:
        for channels, kernel in steps:
            source = net.conv(source, channels, kernel, activation=leaky)
        return source

    def three(source: str, channels: int) -> str:
        return chain(source, (channels, 1), (2 * channels, 3), (channels, 1))

    def five(source: str, channels: int) -> str:
        return chain(three(source, channels), (2 * channels, 3), (channels, 1))

    def joined(wide: str, deep: str, channels: int) -> str:
        return net.concat(chain(wide, (channels, 1)), net.doubled(chain(deep, (channels, 1))))

    def end(source: str) -> str:
        return net.conv(chain(source, (2 * net.channels(source), 3)), 3 * (_CLASSES + 5), activation="")

    def down(source: str) -> str:
        return net.conv(source, 2 * net.channels(source), 3, 2, activation=leaky)

    third = stage(stage(stage(net.conv("data", 32, 3), 64, 1), 128, 2), 256, 8)
    fourth = stage(third, 512, 8)
    fifth = three(stage(fourth, 1024, 4), 512)
    fifth = three(net.concat(*(net.pool(fifth, k, 1, pad=k // 2) for k in (13, 9, 5)), fifth), 512)
    up4 = five(joined(fourth, fifth, 256), 256)
    end3 = five(joined(third, up4, 128), 128)
    end4 = five(net.concat(down(end3), up4), 256)
    end5 = five(net.concat(down(end4), fifth), 512)
    return net.network(f"yolov4-{size}", end(end3), end(end4), end(end5))


def _eights(channels: float) -> int:
    return ceil(channels / 8) * 8


def _pair(net: Builder, source: str, channels: int, inside: int, add: bool, kernel: int) -> str:
    """Adds two convolutions, and their input where ``add`` says so."""
    made = net.conv(net.conv(source, inside, kernel), channels, 3)
    return net.combine("add", source, made) if add else made


def _joined(net: Builder, source: str, channels: int, count: int, add: bool, kernel: int) -> str:
    """Adds pairs beside a convolution that goes past them."""
    left = net.conv(source, channels // 2)
    for _ in range(count):
        left = _pair(net, left, channels // 2, channels // 2, add, kernel)
    return net.conv(net.concat(left, net.conv(source, channels // 2)), channels)


def _ends(net: Builder, levels: Sequence[str], block: Step, down: Step, narrow: Step) -> tuple[str, str, str]:
    """Adds the way up to the largest of three sizes and down again, and returns what is seen at each."""
    third, fourth, fifth = levels
    low5 = narrow(fifth, 512)
    low4 = narrow(block(net.concat(net.doubled(low5), fourth), 512), 256)
    end3 = block(net.concat(net.doubled(low4), third), 256)
    end4 = block(net.concat(down(end3, 256), low4), 512)
    return end3, end4, block(net.concat(down(end4, 512), low5), 1024)


def _pyramid(net: Builder, source: str, kernels: Sequence[int], in_turn: bool = True) -> str:
    """Adds maxima over windows of several sizes, each of the one before or all of the same."""
    channels = net.channels(source)
    found = [net.conv(source, channels // 2)]
    for kernel in kernels:
        found.append(net.pool(found[-1] if in_turn else found[0], kernel, 1, pad=kernel // 2))
    return net.conv(net.concat(*found), channels)


def _attention(net: Builder, source: str) -> str:
    _, channels, high, wide = net.shape(source)
    heads = channels // _VALUE
    all_of_it = net.conv(source, channels + 2 * _KEY * heads, activation="")
    query, key, value = net.split(net.reshape(all_of_it, heads, -1, high * wide), _KEY, _KEY, _VALUE, axis=2)
    alike = net.other("Mul", net.matmul(net.transpose(query, 0, 1, 3, 2), key))
    weights = net.transpose(net.softmax(alike, -1), 0, 1, 3, 2)
    seen = net.reshape(net.matmul(value, weights), channels, high, wide)
    place = net.deep(net.reshape(value, channels, high, wide), activation="")
    return net.conv(net.combine("add", seen, place), channels, activation="")


def _boxes(net: Builder, ends: Sequence[str], light: bool) -> str:
    """Adds what makes boxes and classes of the three sizes; ``light``: with convolutions of single channels."""
    sides, inside = 4 * _BINS, max(net.channels(ends[0]), _CLASSES)
    found = []
    for end in ends:
        narrow = max(16, net.channels(ends[0]) // 4, sides)
        box = net.conv(net.conv(net.conv(end, narrow, 3), narrow, 3), sides, activation="")
        if light:
            kinds = net.conv(net.deep(net.conv(net.deep(end), inside)), inside)
        else:
            kinds = net.conv(net.conv(end, inside, 3), inside, 3)
        both = net.concat(box, net.conv(kinds, _CLASSES, activation=""))
        found.append(net.reshape(both, sides + _CLASSES, -1))
    points = sum((_SIZE // stride) ** 2 for stride in _STRIDES)
    box, kinds = net.split(net.concat(*found, axis=2), sides, _CLASSES)
    bins = net.softmax(net.transpose(net.reshape(box, 4, _BINS, points), 0, 2, 1, 3), 1)
    distances = net.other("Mul", net.reshape(net.conv(bins, 1, activation=""), 4, points))
    return net.concat(distances, net.other("Sigmoid", kinds))
