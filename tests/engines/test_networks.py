"""The networks that published measurements name: as large as their papers say."""

from __future__ import annotations

import pytest

from engines.cost import cost, total
from engines.network import Network
from engines.networks.alexnet import one_tower
from engines.networks.resnet import resnet
from engines.networks.squeezenet import squeezenet
from engines.networks.vgg import vgg

# Billions of multiply-accumulates and millions of parameters: He et al. 2015, table 1 (which counts shortcuts of 18 and
# 34 layers as free); Simonyan and Zisserman 2014, table 2; Iandola et al. 2016; torchvision for the last.
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
]


@pytest.mark.parametrize(("network", "giga_macs", "million"), LARGE, ids=lambda one: getattr(one, "name", ""))
def test_a_network_is_as_large_as_published(network: Network, giga_macs: float, million: float) -> None:
    found = total(cost(network, 1))
    assert found.macs / 1e9 == pytest.approx(giga_macs, rel=0.03)
    assert found.parameters / 1e6 == pytest.approx(million, rel=0.01)


def test_squeezenet_1_1_takes_less_than_half_of_1_0() -> None:
    first, second = (total(cost(squeezenet(version), 1)) for version in ("1.0", "1.1"))
    assert second.macs < first.macs / 2
    assert second.parameters == pytest.approx(first.parameters, rel=0.02)
