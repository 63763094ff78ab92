"""What was built is executed, and computes what the ONNX file of the same network computes in ONNX Runtime."""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engines.emit.onnx import emit_onnx
from engines.network import Network
from engines.networks import BUILTIN
from engines.reference import compare
from engines.weights import INPUT_VALUE
from remote.errors import UsageError
from tests.conftest import SOAK
from tests.engines.trt.networks import like_alexnet, like_googlenet, of_all_kinds, random_networks
from tests.engines.trt.rig import Answers, Rig
from tests.engines.trt.running import network_outputs
from tests.engines.trt.surfaces import SMALL

Array = np.ndarray[Any, np.dtype[Any]]
TINY = (like_alexnet, like_googlenet, of_all_kinds)


def noise(network: Network, batch: int, seed: int = 0) -> dict[str, Array]:
    generator = np.random.default_rng(seed)
    return {i.name: generator.standard_normal((batch, *i.shape)).astype(np.float32) for i in network.inputs}


def by_onnx(network: Network, fed: dict[str, Array], seed: int, batch: int) -> dict[str, Array]:
    """Returns what ONNX Runtime makes of the file that the emitter writes. Raises UsageError where it writes none."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        emit_onnx(network, batch, "fp32", seed, path)
        session = onnxruntime.InferenceSession(str(path), options)
    made = session.run(list(network.outputs), fed)
    return dict(zip(network.outputs, made, strict=True))


def as_built(answers: Answers, fed: dict[str, Array]) -> dict[str, Array]:
    """Returns what the recorded layers of the engine make."""
    plan = Path(answers["built"][0]["path"]).read_bytes()
    return network_outputs(pickle.loads(plan.partition(b"\n")[2]), fed)


def distance(found: dict[str, Array], wanted: dict[str, Array]) -> float:
    """Returns the largest difference relative to the largest number."""
    assert {n: a.shape for n, a in found.items()} == {n: a.shape for n, a in wanted.items()}
    return max(float(np.abs(found[n] - a).max() / max(np.abs(a).max(), 1e-30)) for n, a in wanted.items())


@pytest.mark.parametrize("surface", SMALL)
@pytest.mark.parametrize("make", TINY)
@pytest.mark.parametrize("batch", [1, 3])
def test_what_was_built_equals_onnx(surface: str, make: Any, batch: int, tmp_path: Path) -> None:
    rig, network = Rig(tmp_path / "cache", surface), make()
    built = rig.ask("build", rig.network(network, batch=batch, seed=3))
    fed = noise(network, batch)
    assert distance(as_built(built, fed), by_onnx(network, fed, 3, batch)) < 1e-5


@pytest.mark.parametrize("surface", SMALL)
@pytest.mark.parametrize("make", TINY)
def test_half_precision_stays_within_its_bounds(surface: str, make: Any, tmp_path: Path) -> None:
    rig, network = Rig(tmp_path / "cache", surface), make()
    said = rig.run(rig.network(network, "fp16", seed=3))
    fed = {i.name: np.full((1, *i.shape), INPUT_VALUE, np.float32) for i in network.inputs}
    wanted = {name: array[0] for name, array in by_onnx(network, fed, 3, 1).items()}
    checked = compare(said["outputs"][0]["tensors"], wanted, "fp16")
    assert checked.passed, checked.text
    assert checked.max_error, "rounding to FP16 leaves a trace: without one nothing was computed in FP16"


@settings(max_examples=1000 if SOAK else 50)
@given(network=random_networks(), surface=st.sampled_from(SMALL), batch=st.integers(1, 2), seed=st.integers(0, 9))
def test_random_networks_equal_onnx(network: Network, surface: str, batch: int, seed: int) -> None:
    assume(network.layers)
    fed = noise(network, batch, seed)
    try:
        wanted = by_onnx(network, fed, seed, batch)
    except UsageError:  # an average that neither ONNX nor TensorRT can say
        assume(False)
    with tempfile.TemporaryDirectory() as folder:
        rig = Rig(Path(folder) / "cache", surface)
        built = rig.ask("build", rig.network(network, batch=batch, seed=seed))
        assert distance(as_built(built, fed), wanted) < 1e-5
        halved = as_built(rig.ask("build", rig.network(network, "fp16", batch, seed)), fed)
    rows = [
        {"name": name, "shape": list(array.shape), "index": 1, "values": [float(v) for v in array[0].ravel()]}
        for name, array in halved.items()
    ]
    checked = compare(rows, {name: array[0] for name, array in wanted.items()}, "fp16")
    assert checked.passed, checked.text


@pytest.mark.parametrize(("name", "surface"), [("alexnet", "8.2.1"), ("googlenet", "11.4.1")])
def test_the_networks_themselves_equal_onnx(name: str, surface: str, tmp_path: Path) -> None:
    rig, network = Rig(tmp_path / "cache", surface), BUILTIN[name]()
    fed = noise(network, 1)
    wanted = by_onnx(network, fed, 1, 1)
    assert distance(as_built(rig.ask("build", rig.network(network)), fed), wanted) < 1e-5
    halved = as_built(rig.ask("build", rig.network(network, "fp16")), fed)
    rows = [{"name": n, "shape": list(a.shape), "index": 1, "values": a[0].tolist()} for n, a in halved.items()]
    checked = compare(rows, {n: a[0] for n, a in wanted.items()}, "fp16")
    assert checked.passed, checked.text
