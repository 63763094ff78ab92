"""Published measurements, from the data file beside this module, as rows that a fit or a comparison can use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import resources
from typing import Any

from engines.cost import Precision
from engines.network import Input, Network
from engines.networks import BUILTIN
from engines.networks.alexnet import one_tower
from engines.networks.resnet import BLOCKS, resnet
from engines.networks.squeezenet import squeezenet
from engines.networks.vgg import STAGES, vgg
from engines.simulated.work import Flavour, works
from remote.boards import load as load_board
from remote.sim.physics import Clocks, Gpu, Work, record

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def _of_256(network: Callable[[], Network]) -> Network:
    """Returns the network for images of 256x256."""
    return replace(network(), inputs=(Input("data", (3, 256, 256)),))


_NETWORKS: Mapping[str, Callable[[], Network]] = {
    **BUILTIN,
    "alexnet-torchvision": one_tower,
    **{f"squeezenet{version}": partial(squeezenet, version) for version in ("1.0", "1.1")},
    **{f"resnet{depth}": partial(resnet, depth) for depth in BLOCKS},
    **{f"resnet{depth}-256": partial(_of_256, partial(resnet, depth)) for depth in BLOCKS},
    **{f"vgg{depth}": partial(vgg, depth) for depth in STAGES},
}


@dataclass(frozen=True)
class Row:
    """One published measurement. ``watts`` is None where power was not measured.

    ``left_out`` names what is left out of a fit together to see how well it is predicted without.
    """

    board: str
    network: str
    precision: Precision
    batch: int
    images_per_s: float
    watts: float | None
    flavour: Flavour
    clocks: Clocks
    left_out: str = ""

    @property
    def seconds(self) -> float:
        """The measured time of one batch."""
        return self.batch / self.images_per_s

    @property
    def gpu(self) -> Gpu:
        """The board's GPU."""
        return _gpu(self.board)

    def works(self) -> tuple[Work, ...]:
        """Returns the work of one batch, a row per layer."""
        return _works(self.network, self.batch, self.precision, self.flavour)


@dataclass(frozen=True)
class Set:
    """Measurements from one source on one board, which belong to the table ``constants``; ``fit``: others judge it."""

    name: str
    board: str
    constants: str
    fit: bool
    source: str
    rows: tuple[Row, ...]


@cache
def measured() -> dict[str, Set]:
    """Returns the published measurements by the name of their set."""
    text = (resources.files("engines.simulated") / "data" / "measured.toml").read_text("utf-8")
    return {name: _set(name, table) for name, table in tomllib.loads(text)["set"].items()}


def _set(name: str, table: Mapping[str, Any]) -> Set:
    rows = tuple(_row(name, table, row) for entry in table["rows"] for row in _spread(entry))
    return Set(name, table["board"], table["constants"], table["use"] == "fit", table["source"], rows)


def _spread(entry: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields a row for each batch where an entry lists several."""
    if not isinstance(entry["batch"], list):
        yield dict(entry)
        return
    for batch, batch_ms in zip(entry["batch"], entry["batch_ms"], strict=True):
        yield {**entry, "batch": batch, "batch_ms": batch_ms}


def _row(name: str, table: Mapping[str, Any], row: dict[str, Any]) -> Row:
    clocks = Clocks(*(row.get(key, table[key]) for key in ("cpu_hz", "gpu_hz", "emc_hz")))
    per_s = row.get("images_per_s") or row["batch"] / row["batch_ms"] * 1e3
    alone = f"{name} {row['precision']} {row['batch']} {row['network']}"
    return Row(
        board=table["board"],
        network=row["network"],
        precision=row["precision"],
        batch=row["batch"],
        images_per_s=per_s,
        watts=row.get("watts"),
        flavour=table["flavour"],
        clocks=clocks,
        left_out=f"{table['board']} {row['network']}" if table.get("left_out") == "network" else alone,
    )


@cache
def _gpu(board: str) -> Gpu:
    return record(Gpu, load_board(board).twin["gpu"])


@cache
def _network(name: str) -> Network:
    return _NETWORKS[name]()


@cache
def _works(network: str, batch: int, precision: Precision, flavour: Flavour) -> tuple[Work, ...]:
    return works(_network(network), batch, precision, flavour)
