"""Network -> compact JSON, from which a program on the board builds the same network, and back.

A layer's row has its ``kind``, its fields, the ``shape`` made and, where it has weights, ``weights``: how to draw them
(`engines.weights.Recipe`), as ``{"seed": 1, "arrays": [[shape, mean, deviation], ...]}``.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import Any

from engines import network as nodes
from engines.cost import Precision
from engines.network import Input, Layer, Network, inputs_of
from engines.weights import ALGORITHM, recipe
from remote.errors import UsageError

FORMAT = 1


def graph_json(network: Network, batch: int, precision: Precision, seed: int) -> str:
    """Returns ``network`` at ``batch`` as one line of JSON. Raises UsageError where its shapes do not fit."""
    shapes = network.shapes(batch)
    rows = []
    for index, layer in enumerate(network.layers):
        row = {"kind": type(layer).__name__, **asdict(layer), "shape": shapes[layer.name]}
        wanted = recipe(layer, inputs_of(layer, shapes), seed, index)
        if wanted.arrays:
            row["weights"] = asdict(wanted)
        rows.append(row)
    graph = {
        "graph": FORMAT,
        "name": network.name,
        "batch": batch,
        "fixed_batch": network.fixed_batch,
        "precision": precision,
        "seed": seed,
        "algorithm": ALGORITHM,
        "inputs": [asdict(i) | {"shape": shapes[i.name]} for i in network.inputs],
        "layers": rows,
        "outputs": network.outputs,
    }
    return json.dumps(graph, separators=(",", ":"))


def parse_graph(text: str) -> Network:
    """Returns the network that `graph_json` wrote. Raises UsageError for anything else."""
    try:
        graph = json.loads(text)
        if graph["graph"] != FORMAT:
            raise UsageError(f"network graph of format {graph['graph']}, not {FORMAT}", "Write it again.")
        return Network(
            graph["name"],
            tuple(_input(row) for row in graph["inputs"]),
            tuple(_layer(row) for row in graph["layers"]),
            tuple(graph["outputs"]),
            graph["fixed_batch"],
        )
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"this is not a network graph: {error!r}", "Write it again with `graph_json`.") from error


def _input(row: dict[str, Any]) -> Input:
    shape = _frozen(row["shape"])
    return Input(row["name"], shape[1:] if row["batched"] else shape, row["batched"], row["dtype"])


def _layer(row: dict[str, Any]) -> Layer:
    kind = getattr(nodes, row["kind"], None)
    if not (isinstance(kind, type) and issubclass(kind, Layer)):
        raise UsageError(f"network graph: no layer is called {row['kind']!r}", "Write it again.")
    return kind(**{field.name: _frozen(row[field.name]) for field in fields(kind)})


def _frozen(value: Any) -> Any:
    """JSON has lists where layers have tuples."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
