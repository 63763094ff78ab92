"""Caffe on the twin: the time command of the build that the white paper of 2015 measured with.

That build runs the forward pass only and does not stop the clock at every layer. Its text is that of BVLC/caffe,
tools/caffe.cpp, on stderr through glog.

Memory: every tensor that is not written in place has its own blob (its gradient is never touched), weights lie in host
and in GPU memory, cuDNN takes a workspace per convolution, and CUDA with its libraries takes a fixed part. Assumed: the
FP16 build needs as much as the FP32 one, since the paper could run GoogLeNet at batch 128 in neither.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from math import prod

from engines.cost import BYTES_PER_NUMBER, Precision, cost
from engines.network import Conv
from engines.simulated.deploy import Deploy, read_deploy
from engines.simulated.pace import Pace
from remote.sim.physics import Activity
from remote.sim.process import Action, Busy, Context, Err, OutOfBoardMemory

_ABORTED = 134
_LIBRARIES_BYTES = 300_000_000  # assumed: CUDA context, cuDNN, cuBLAS and Caffe itself
_WORKSPACE_BYTES = 8 << 20  # Caffe's limit for the workspace of a cuDNN convolution
_START_S = 1.5  # assumed: loading libraries, making the CUDA context
_FILL_S = 50e-9  # assumed: drawing one Gaussian weight on the CPU
_MS_PER_S = 1e3


class _Fatal(Exception):
    """Ends Caffe as a failed check does: where in its sources, and the text."""


def time_command(context: Context, precision: Precision) -> Generator[Action, None, int]:
    """``caffe time --model=FILE -gpu 0 -iterations N``."""
    log = _Log(context)
    try:
        yield from _time(context, precision, log)
    except _Fatal as fatal:
        place, text = fatal.args
        yield log("F", place, text)
        yield Err("*** Check failure stack trace: ***\n    @     0x7f8a0c3d4c  google::LogMessage::Fail()\nAborted\n")
        return _ABORTED
    return 0


class _Log:
    """Lines as glog writes them."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def __call__(self, severity: str, place: str, *texts: str) -> Err:
        now_s = self._context.wall()
        stamp = time.strftime("%m%d %H:%M:%S", time.gmtime(now_s)) + f".{int(now_s % 1 * 1e6):06d}"
        return Err("".join(f"{severity}{stamp}  1742 {place}] {text}\n" for text in texts))


def _time(context: Context, precision: Precision, log: _Log) -> Generator[Action, None, None]:
    flags = _flags(context.argv[1:])
    count = int(flags.get("iterations", "50"))
    deploy = _load(context, flags.get("model", ""))
    yield log("I", "caffe.cpp:337", f"Use GPU with device ID {flags.get('gpu', '0')}")
    yield Busy(_START_S, Activity(cpu_load=1.0))
    yield from _set_up(context, deploy, precision, log)
    pace = Pace.of_caffe(context, deploy.network, deploy.batch, precision)
    yield log("I", "caffe.cpp:360", "Performing Forward")
    yield from pace.run([], 1, 0.0)
    yield log("I", "caffe.cpp:365", "Initial loss: 0")
    yield log("I", "caffe.cpp:376", "*** Benchmark begins ***", f"Testing for {count} iterations.")
    done: list[float] = []
    told = 0
    for action in pace.run(done, count, 0.0):
        if told < len(done):
            yield log("I", "caffe.cpp:404", *_iterations(done, told))
            told = len(done)
        yield action
    yield log("I", "caffe.cpp:404", *_iterations(done, told))
    total_ms = sum(done) * _MS_PER_S
    yield log(
        "I",
        "caffe.cpp:412",
        f"Average Forward pass: {total_ms / count:g} ms.",
        "Average Backward pass: 0 ms.",
        f"Average Forward-Backward: {total_ms / count:g} ms.",
        f"Total Time: {total_ms:g} ms.",
        "*** Benchmark ends ***",
    )


def _iterations(done: list[float], first: int) -> list[str]:
    return [
        f"Iteration: {n} forward-backward time: {seconds * _MS_PER_S:g} ms."
        for n, seconds in enumerate(done[first:], first + 1)
    ]


def _flags(words: tuple[str, ...]) -> dict[str, str]:
    """Returns gflags: ``-name value``, ``--name=value`` and their mixtures."""
    if words[:1] != ("time",):
        raise _Fatal("caffe.cpp:430", f"Check failed: the simulated Caffe has only the command time, not {words[:1]}")
    found, rest = {}, iter(words[1:])
    for word in rest:
        name, equals, value = word.lstrip("-").partition("=")
        found[name] = value if equals else next(rest, "")
    if not found.get("model"):
        raise _Fatal("caffe.cpp:326", "Check failed: FLAGS_model.size() > 0 (0 vs. 0) Need a model definition to time.")
    if not found.get("iterations", "50").isdigit() or int(found.get("iterations", "50")) < 1:
        raise _Fatal("caffe.cpp:328", f"Check failed: FLAGS_iterations > 0 ({found['iterations']} vs. 0) ")
    return found


def _load(context: Context, path: str) -> Deploy:
    try:
        return read_deploy(context.load(path).decode("utf-8", "replace"))
    except (OSError, ValueError) as error:
        what = "Check failed: ReadProtoFromTextFile(param_file, param) Failed to parse NetParameter file"
        raise _Fatal("upgrade_proto.cpp:79", f"{what}: {path}: {error}") from error


def _set_up(context: Context, deploy: Deploy, precision: Precision, log: _Log) -> Generator[Action, None, None]:
    """Makes the layers: takes memory, draws the weights on the CPU."""
    try:
        context.allocate(memory_bytes(deploy))
    except OutOfBoardMemory:
        raise _Fatal("syncedmem.cpp:56", "Check failed: error == cudaSuccess (2 vs. 0)  out of memory") from None
    for row in cost(deploy.network, deploy.batch, precision):
        shape = " ".join(map(str, row.output_shape))
        yield log("I", "net.cpp:84", f"Creating Layer {row.name}")
        yield log("I", "net.cpp:122", f"Top shape: {shape} ({row.outputs})")
        if row.parameters:
            yield Busy(row.parameters * _FILL_S, Activity(cpu_load=1.0))


def memory_bytes(deploy: Deploy) -> int:
    """Returns what Caffe needs to run a network forward, in either precision; see the module."""
    network, batch = deploy.network, deploy.batch
    rows = cost(network, batch, "fp32")
    inputs = sum(prod((batch, *entry.shape)) for entry in network.inputs) * BYTES_PER_NUMBER["fp32"]
    blobs = sum(row.written_bytes for row in rows if row.name not in deploy.in_place and row.kind != "Reshape")
    workspaces = _WORKSPACE_BYTES * sum(isinstance(layer, Conv) for layer in network.layers)
    return _LIBRARIES_BYTES + inputs + blobs + workspaces + 2 * sum(row.weight_bytes for row in rows)
