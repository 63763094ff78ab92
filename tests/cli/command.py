"""Runs command lines in this process, as a user types them."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto
from onnx import helper as make

from edgeperf import cli

RELEASES = ("r23.1", "r24.2", "r28.2", "r32.7")


@dataclass(frozen=True)
class Ran:
    """What a command left: its exit code and its two outputs."""

    code: int
    out: str
    err: str

    def data(self) -> Any:
        """Returns stdout as the one JSON document that it is."""
        return json.loads(self.out)


def edgeperf(*words: str) -> Ran:
    """Runs ``edgeperf WORDS...``."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = cli.run(list(words))
    return Ran(code, out.getvalue(), err.getvalue())


def bench(*words: str, model: str = "alexnet") -> Any:
    """Returns the record of a bench that has to succeed."""
    ran = edgeperf("bench", model, "--json", "--quiet", *words)
    assert ran.code == 0, ran.err
    return ran.data()


def nodes(host: str) -> dict[str, str]:
    """Returns the text of every settable node of a board."""
    found: dict[str, str] = edgeperf("status", "--host", host, "--json").data()["nodes"]
    return found


def tiny_model(path: Path, batch: int | str = 1) -> Path:
    """Writes a model of one layer to ``path``."""
    shape = [batch, 3, 8, 8]
    value = make.make_tensor_value_info
    graph = make.make_graph(
        [make.make_node("Relu", ["x"], ["y"])],
        "tiny",
        [value("x", TensorProto.FLOAT, shape)],
        [value("y", TensorProto.FLOAT, shape)],
    )
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 11)], ir_version=6), path)
    return path
