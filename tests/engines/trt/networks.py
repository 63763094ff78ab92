"""Networks to build: small ones in the shape of the large, and random ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from engines.network import (
    LRN,
    BatchNorm,
    Concat,
    Conv,
    Dropout,
    Eltwise,
    FullyConnected,
    Input,
    Layer,
    MatMul,
    Network,
    Pool,
    ReLU,
    Reshape,
    Softmax,
)
from remote.errors import UsageError


def like_alexnet() -> Network:
    """Returns AlexNet with few channels."""
    return Network(
        "like-alexnet",
        (Input("data", (3, 35, 35)),),
        (
            Conv.square("conv1", "data", 8, 11, stride=4),
            ReLU("relu1", ("conv1",)),
            LRN("norm1", ("relu1",)),
            Pool.square("pool1", "norm1", "max", 3, stride=2),
            Conv.square("conv2", "pool1", 8, 5, pad=2, groups=2),
            ReLU("relu2", ("conv2",)),
            LRN("norm2", ("relu2",)),
            FullyConnected("fc6", ("norm2",), 12),
            ReLU("relu6", ("fc6",)),
            Dropout("drop6", ("relu6",)),
            FullyConnected("fc7", ("drop6",), 10),
            Softmax("prob", ("fc7",)),
        ),
        ("prob",),
    )


def like_googlenet() -> Network:
    """Returns GoogLeNet's parts with few channels: pooling that rounds up, branches that are joined, an average."""
    return Network(
        "like-googlenet",
        (Input("data", (3, 32, 32)),),
        (
            Conv.square("conv1", "data", 8, 7, stride=2, pad=3),
            Pool.square("pool1", "conv1", "max", 3, stride=2),
            LRN("norm1", ("pool1",)),
            Conv.square("a", "norm1", 4, 1),
            Conv.square("b", "norm1", 6, 3, pad=1),
            Conv.square("c", "norm1", 2, 5, pad=2),
            Pool.square("d", "norm1", "max", 3, stride=1, pad=1),
            Concat("joined", ("a", "b", "c", "d")),
            Pool.square("pool2", "joined", "max", 3, stride=2),
            Pool.square("pool3", "pool2", "avg", 4),
            Dropout("drop", ("pool3",)),
            FullyConnected("classes", ("drop",), 10),
            Softmax("prob", ("classes",)),
        ),
        ("prob",),
    )


def of_all_kinds() -> Network:
    """Returns a network with the layers that the large ones lack."""
    return Network(
        "of-all-kinds",
        (Input("x", (4, 6, 6)), Input("y", (4, 6, 6))),
        (
            BatchNorm("norm", ("x",)),
            Conv("wide", ("norm",), 4, (1, 3), (1, 1), (0, 1, 0, 1), (1, 1), bias=False),
            Eltwise("sum", ("wide", "y")),
            Eltwise("product", ("sum", "x"), "mul"),
            Pool("global", ("product",), "avg"),
            Reshape("flat", ("product",), (12, 12)),
            MatMul("square", ("flat", "flat")),
            Concat("wider", ("flat", "square"), axis=2),
            Reshape("line", ("product",)),
            Softmax("line_prob", ("line",)),
            FullyConnected("classes", ("global",), 5),
            BatchNorm("norm2", ("classes",)),
            Softmax("prob", ("norm2",)),
        ),
        ("prob", "line_prob", "wider"),
    )


Draw = Callable[[st.SearchStrategy[Any]], Any]


@st.composite
def random_networks(draw: Draw) -> Network:
    """Up to seven layers: convolutions in groups, pooling of all kinds, LRN, branches joined, then classes."""
    channels, height, width = draw(st.sampled_from((2, 4, 6))), draw(st.integers(6, 14)), draw(st.integers(6, 14))
    network = Network("random", (Input("x", (channels, height, width)),), (), ("x",))
    for number in range(draw(st.integers(1, 6))):
        made = draw(st.sampled_from((_conv, _conv, _pool, _pool, _lrn, _relu, _branches)))(draw, f"l{number}", network)
        network = _with(network, made)
    if draw(st.booleans()):
        source = network.outputs[0]
        network = _with(network, [FullyConnected("fc", (source,), 5), Softmax("prob", ("fc",))])
    return network


def _with(network: Network, layers: list[Layer]) -> Network:
    """Returns ``network`` with further layers, or as it was where they do not fit."""
    longer = Network(network.name, network.inputs, (*network.layers, *layers), (layers[-1].name,))
    try:
        longer.shapes(1)
    except UsageError:
        return network
    return longer


def _channels(network: Network) -> int:
    return network.shapes(1)[network.outputs[0]][1]


def _conv(draw: Draw, name: str, network: Network) -> list[Layer]:
    kernel = (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    stride = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    pad = tuple(draw(st.integers(0, 2)) for _ in range(4))
    dilation = (draw(st.integers(1, 2)), draw(st.integers(1, 2)))
    groups = draw(st.sampled_from([g for g in (1, 2) if _channels(network) % g == 0]))
    filters, bias = groups * draw(st.integers(1, 4)), draw(st.booleans())
    return [Conv(name, network.outputs, filters, kernel, stride, pad, dilation, groups, bias)]


def _pool(draw: Draw, name: str, network: Network) -> list[Layer]:
    mode, kernel = draw(st.sampled_from(("max", "avg"))), (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    stride = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    pad = tuple(draw(st.integers(0, min(2, size - 1))) for size in (*kernel, *kernel))
    made = Pool(
        name, network.outputs, mode, kernel, stride, pad, ceil=draw(st.booleans()), count_pad=draw(st.booleans())
    )
    return [made, ReLU(f"{name}/relu", (name,))]


def _lrn(draw: Draw, name: str, network: Network) -> list[Layer]:
    size, alpha = draw(st.sampled_from((1, 3, 5, 7))), draw(st.sampled_from((1e-4, 0.1, 1.0)))
    return [
        LRN(name, network.outputs, size, alpha, draw(st.sampled_from((0.5, 0.75))), draw(st.sampled_from((1.0, 2.0))))
    ]


def _relu(draw: Draw, name: str, network: Network) -> list[Layer]:
    return [ReLU(name, network.outputs)]


def _branches(draw: Draw, name: str, network: Network) -> list[Layer]:
    (source,) = network.outputs
    left, right = f"{name}/left", f"{name}/right"
    kernel = draw(st.sampled_from((1, 3, 5)))
    one = Conv.square(left, source, draw(st.integers(1, 4)), kernel, pad=kernel // 2)
    other = draw(
        st.sampled_from(
            (
                Conv.square(right, source, 3, 3, pad=1),
                Pool.square(right, source, "max", 3, stride=1, pad=1),
                ReLU(right, (source,)),
            )
        )
    )
    return [one, other, Concat(name, (left, right) if draw(st.booleans()) else (right, left))]
