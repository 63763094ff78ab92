"""The networks that published measurements name: as large as their papers say."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from engines.cost import cost, total
from engines.network import Network
from engines.networks import light, yolo
from engines.networks.alexnet import one_tower
from engines.networks.resnet import resnet
from engines.networks.squeezenet import squeezenet
from engines.networks.vgg import vgg

# Billions of multiply-accumulates and millions of parameters: He et al. 2015, table 1 (which counts shortcuts of 18 and
# 34 layers as free); Simonyan and Zisserman 2014, table 2; Iandola et al. 2016; torchvision from there on; YOLO's own
# summaries, with normalisations folded in.
LARGE = [
    (resnet(18), 1.8, 11.7),
    (resnet(34), 3.6, 21.8),
    (resnet(50), 3.8, 25.5),
    (resnet(101), 7.6, 44.5),
    (resnet(152), 11.3, 60.1),
    (vgg(11), 7.6, 133),
    (vgg(16), 15.5, 138),
    (vgg(19), 19.6, 144),
    (squeezenet("1.1"), 0.39, 1.24),
    (one_tower(), 0.71, 61.1),
    (light.mobilenet(1), 0.30, 3.50),
    (light.mnasnet("0.5", 1), 0.104, 2.22),
    (light.mnasnet("1.3", 1), 0.53, 6.28),
    (light.shufflenet("0.5", 1), 0.041, 1.37),
    (light.shufflenet("2.0", 1), 0.588, 7.39),
    (light.densenet("121", 1), 2.83, 7.98),
    (light.densenet("161", 1), 7.73, 28.7),
    (light.resnext(1), 4.23, 25.0),
    (yolo.yolo4(608, 1), 64.2, 64.4),
    (yolo.yolo5("s", 1), 8.5, 7.3),
    (yolo.yolo5("x", 1), 109.4, 87.7),
    (yolo.yolo("v8n", 1), 4.35, 3.15),
    (yolo.yolo("11n", 1), 3.25, 2.62),
    (yolo.yolo("11s", 1), 10.75, 9.44),
    (yolo.yolo("11m", 1), 34.0, 20.1),
    (yolo.yolo("11l", 1), 43.45, 25.3),
    (yolo.yolo("11x", 1), 97.45, 56.9),
]


@pytest.mark.parametrize(("network", "giga_macs", "million"), LARGE, ids=lambda one: getattr(one, "name", ""))
def test_a_network_is_as_large_as_published(network: Network, giga_macs: float, million: float) -> None:
    found = total(cost(network, 1))
    assert found.macs / 1e9 == pytest.approx(giga_macs, rel=0.03)
    assert found.parameters / 1e6 == pytest.approx(million, rel=0.01)


@pytest.mark.parametrize(
    "build", [light.mobilenet, light.se_resnet, partial(yolo.yolo, "11n")], ids=["mobilenet", "se-resnet", "yolo"]
)
def test_a_network_of_a_batch_costs_as_many_times_more(build: Callable[[int], Network]) -> None:
    one, four = (total(cost(build(batch), batch)) for batch in (1, 4))
    assert four.macs == 4 * one.macs
    assert four.parameters == one.parameters


def test_squeezenet_1_1_takes_less_than_half_of_1_0() -> None:
    first, second = (total(cost(squeezenet(version), 1)) for version in ("1.0", "1.1"))
    assert second.macs < first.macs / 2
    assert second.parameters == pytest.approx(first.parameters, rel=0.02)
