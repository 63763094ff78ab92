"""The built-in networks: a file each. ``BUILTIN`` is what a model name may say."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from engines.network import Network
from engines.networks.alexnet import alexnet
from engines.networks.googlenet import googlenet

__all__ = ["BUILTIN", "alexnet", "googlenet"]

BUILTIN: Mapping[str, Callable[[], Network]] = {"alexnet": alexnet, "googlenet": googlenet}
