"""Published measurements, from the data files beside this module, as rows that a fit or a comparison can use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import resources
from typing import Any

from engines.cost import Precision
from engines.network import Input, Network
from engines.networks import BUILTIN, light, yolo
from engines.networks.alexnet import one_tower
from engines.networks.resnet import BLOCKS, resnet
from engines.networks.squeezenet import squeezenet
from engines.networks.vgg import STAGES, vgg
from engines.simulated.work import Flavour, from_ampere, in_tf32, works
from remote.boards import load as load_board
from remote.sim.physics import Clocks, Gpu, Work, record

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


_FILES = ("measured.toml", "further.toml")


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
_OF_A_BATCH: Mapping[str, Callable[[int], Network]] = {
    "mobilenetv2": light.mobilenet,
    "resnext50": light.resnext,
    "se-resnet50": light.se_resnet,
    **{f"mnasnet{width}": partial(light.mnasnet, width) for width in ("0.5", "0.75", "1.0", "1.3")},
    **{f"shufflenetv2_{width}": partial(light.shufflenet, width) for width in light.SHUFFLENETS},
    **{f"densenet{depth}": partial(light.densenet, depth) for depth in light.DENSENETS},
    **{f"yolo{model}": partial(yolo.yolo, model) for model in yolo.YOLO},
    **{f"yolov5{size}": partial(yolo.yolo5, size) for size in yolo.YOLO5},
    **{f"yolov4-{size}": partial(yolo.yolo4, size) for size in (320, 416, 512, 608)},
}


@dataclass(frozen=True)
class Row:
    """One published measurement. ``watts`` is None where power was not measured; ``tf32``: TF32 is allowed in FP32.

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
    tf32: bool = False

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
        tf32 = self.tf32 and self.precision == "fp32"
        return _works(self.board, self.network, self.batch, self.precision, self.flavour, tf32)


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
    folder = resources.files("engines.simulated") / "data"
    tables = [tomllib.loads((folder / file).read_text("utf-8"))["set"] for file in _FILES]
    return {name: _set(name, table) for sets in tables for name, table in sets.items()}


def _set(name: str, table: Mapping[str, Any]) -> Set:
    rows = tuple(_row(name, table, row) for entry in table["rows"] for row in _spread(entry))
    return Set(name, table["board"], table["constants"], table["use"] == "fit", table["source"], rows)


def _spread(entry: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields a row for each of what an entry lists several of."""
    lists = {name: value for name, value in entry.items() if isinstance(value, list)}
    if not lists:
        yield dict(entry)
    for values in zip(*lists.values(), strict=True):
        yield {**entry, **dict(zip(lists, values, strict=True))}


def _row(name: str, table: Mapping[str, Any], row: dict[str, Any]) -> Row:
    clocks = Clocks(*(row.get(key, table[key]) for key in ("cpu_hz", "gpu_hz", "emc_hz")))
    per_s = row.get("images_per_s") or row["batch"] / row["batch_ms"] * 1e3
    together = {
        "row": f"{name} {row['precision']} {row['batch']} {row['network']}",
        "network": f"{table['board']} {row['network']}",
        "set": name,
    }
    return Row(
        board=table["board"],
        network=row["network"],
        precision=row["precision"],
        batch=row["batch"],
        images_per_s=per_s,
        watts=row.get("watts"),
        flavour=table["flavour"],
        clocks=clocks,
        left_out=together[table.get("left_out", "row")],
        tf32=table.get("tf32", False),
    )


@cache
def _gpu(board: str) -> Gpu:
    return record(Gpu, load_board(board).twin["gpu"])


@cache
def _network(name: str, batch: int) -> Network:
    return _NETWORKS[name]() if name in _NETWORKS else _OF_A_BATCH[name](batch)


@cache
def _works(
    board: str, network: str, batch: int, precision: Precision, flavour: Flavour, tf32: bool
) -> tuple[Work, ...]:
    twin = load_board(board).twin
    rows = works(_network(network, batch), batch, precision, flavour, curves=from_ampere(twin))
    return in_tf32(rows, twin["protocol"]["tf32_share"]) if tf32 else rows
