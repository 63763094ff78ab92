"""Caffe's own time command, the protocol of the white paper of 2015: L4T r23 to r28 with a Caffe build."""

from __future__ import annotations

from math import ceil

from engines.caffe import CaffeFailure, CaffeTime, parse
from engines.emit.prototxt import prototxt
from engines.toolchains.conversation import (
    Conversation,
    EngineRun,
    Put,
    Request,
    Run,
    check_memory,
    died,
    release,
    stopped,
)
from remote.errors import EngineError, OutOfMemory, UsageError
from remote.types import Blob, Completed, Job

_RELEASES = range(23, 29)
_PROGRAMS = {"fp32": "caffe", "fp16": "caffe_fp16"}
_SCOPE = "forward pass of one batch"
_SHORT = 3
_LEAST = 10
_FORMULA = "images/s = batch x 1000 / average forward pass in ms; Caffe warms up with one untimed pass."


def bench(request: Request) -> Conversation:
    """Times as many iterations as asked for, else as many as fill the duration, by a short run beforehand.

    Raises UsageError for what Caffe cannot run, OutOfMemory, and EngineError for a run that gave no figures.
    """
    _check(request)
    text = prototxt(request.model.network, request.spec.batch)
    path = yield Put(Blob(f"{request.model.name}.prototxt", text.encode()))
    count = request.iterations
    if count is None:
        completed = yield Run(_job(request, path, _SHORT), measured=False, doing="trying")
        short = _figures(request, completed)
        if short is None:
            return _interrupted(request, completed)
        count = max(_LEAST, ceil(request.duration_s / min(short.iterations_s)))
    completed = yield Run(_job(request, path, count), measured=True, doing="running")
    figures = _figures(request, completed)
    return _run(request, figures) if figures else _interrupted(request, completed)


def build(request: Request) -> Conversation:
    """Raises UsageError: Caffe builds nothing beforehand."""
    yield from ()
    raise UsageError("caffe has no engines to build: it runs a network from its text", "measure it with edgeperf bench")


def _check(request: Request) -> None:
    facts, spec = request.facts, request.spec
    if release(facts) not in _RELEASES:
        where = f"L4T {facts.l4t}" if facts.l4t else facts.board
        raise UsageError(
            f"caffe: it is for L4T r{_RELEASES[0]} to r{_RELEASES[-1]}, this is {where}", "use another --toolchain"
        )
    if request.model.source != "builtin":
        raise UsageError(
            f"caffe cannot run {request.model.source}: it does not read ONNX", "use --toolchain onnxruntime or tensorrt"
        )
    if spec.precision not in _PROGRAMS:
        raise UsageError(f"caffe has no {spec.precision}", f"it has {' and '.join(_PROGRAMS)}")
    check_memory(request)


def _job(request: Request, path: str, iterations: int) -> Job:
    program = _PROGRAMS[request.spec.precision]
    argv = (program, "time", f"--model={path}", "-gpu", "0", "-iterations", str(iterations))
    return Job(argv, timeout_s=request.run_timeout_s)


def _figures(request: Request, completed: Completed) -> CaffeTime | None:
    """Returns what Caffe printed, None where the user stopped it first. Raises OutOfMemory or EngineError."""
    if stopped(completed):
        return None
    found = parse((line.t_s, line.text) for line in completed.lines)
    spec = request.spec
    if isinstance(found, CaffeFailure) and found.out_of_memory:
        raise OutOfMemory(
            f"{spec.model} {spec.precision.upper()} at batch {spec.batch} does not fit the board's memory under Caffe: "
            f"{found.text}",
            "use a smaller batch",
        )
    if completed.reason or (isinstance(found, CaffeFailure) and not completed.exit_code):
        died("caffe", completed)
    if isinstance(found, CaffeFailure):
        raise EngineError(f"caffe: {found.text}", f"see what it prints on the board: {' '.join(completed.argv)}")
    if completed.exit_code:
        died("caffe", completed)
    return found


def _run(request: Request, figures: CaffeTime) -> EngineRun:
    if figures.forward_only:
        build, power_missing = " in a build that runs the forward pass only", ""
    else:
        build, power_missing = (
            "",
            "this Caffe also ran backward passes in the timed window: its watts are not inference's",
        )
    return EngineRun(
        start_s=figures.began_s,
        stop_s=figures.ended_s,
        iterations=len(figures.iterations_s),
        latencies_s=figures.iterations_s if figures.forward_only else (),
        batch=request.spec.batch,
        scope=_SCOPE,
        precision_found=request.spec.precision,
        protocol=f"Caffe's time command{build}. {_FORMULA}",
        batch_s=figures.forward_s,
        layers_s={layer.name: layer.forward_s for layer in figures.layers},
        notes=(power_missing,) if power_missing else (),
        power_missing=power_missing,
    )


def _interrupted(request: Request, completed: Completed) -> EngineRun:
    """Returns a run without figures: Caffe prints its averages at the end, and is believed only then."""
    return EngineRun(
        start_s=completed.ended_s,
        stop_s=completed.ended_s,
        iterations=0,
        latencies_s=(),
        batch=request.spec.batch,
        scope=_SCOPE,
        precision_found=None,
        protocol=f"Caffe's time command, stopped before it printed its averages. {_FORMULA}",
        interrupted=True,
    )
