"""trtexec, NVIDIA's own program for building and timing engines: JetPack's, of TensorRT 7.1 to 11."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Any

from engines.causes import error_of
from engines.emit.onnx import skeleton
from engines.precision import found
from engines.spec import Protocol
from engines.toolchains import builds
from engines.toolchains.container import wrapped
from engines.toolchains.conversation import (
    MIN_ITERATIONS,
    Built,
    Conversation,
    EngineRun,
    Put,
    Request,
    Run,
    check_memory,
    died,
    ended_from_outside,
    model_blob,
    stopped,
)
from engines.toolchains.protocol import SCOPE, protocol_text
from engines.toolchains.talk import Said, ask, built_of, runner_blob
from engines.toolchains.tensorrt import check_release
from engines.trtexec import flags
from engines.trtexec.output import Failure
from engines.trtexec.summary import Build, Summary, disagreements, read_build, read_run
from engines.trtexec.version import Version, from_text, known
from remote.errors import OutOfMemory, UnsupportedModel
from remote.types import Blob, Completed, Job

LESS_WORKSPACE_BYTES = 64 << 20
_TYPED_SINCE = 11
_UNSEEN = "the outputs were not compared with FP32: trtexec keeps them to itself"

Talk = Generator[Put | Run, Any, Any]


def bench(request: Request) -> Conversation:
    """Builds the engine, unless the board has it, and measures it. Raises UsageError for a board without TensorRT."""
    return (yield from _converse(request, bench=True))


def build(request: Request) -> Conversation:
    """Builds the engine, unless the board has it. Raises UsageError for a board without TensorRT."""
    return (yield from _converse(request, bench=False))


def _converse(request: Request, *, bench: bool) -> Conversation:
    check_release(request)
    check_memory(request)
    runner = yield Put(runner_blob())
    what = yield from _model(request)
    if request.options.builds > 1:
        best, per_s = yield from builds.fastest(request, runner, _variant(request, runner, what))
        site = yield from _prepare(request, runner, what)
        made = built_of(best.one("built"), per_s)
    else:
        site = yield from _prepare(request, runner, what)
        made = built_of((yield from _built(request, site)).one("built"))
    empty = _empty(request, site, made)
    if not bench:
        return empty
    completed = yield Run(_run_job(request, site), measured=True, doing="running")
    if stopped(completed):
        return replace(empty, start_s=completed.ended_s, stop_s=completed.ended_s, interrupted=True)
    summary = _read(request, completed)
    profiled = yield Run(_profile_job(request, site), measured=False, doing="profiling")
    told = yield from _collect(request, site, {"layers", "profile"} if not profiled.exit_code else set())
    return _measured(empty, site, summary, told)


@dataclass(frozen=True)
class _Site:
    """What is at hand on the board, ``prepared`` and with the ``protocol`` that its trtexec can follow."""

    runner: str
    hello: dict[str, Any]
    prepared: dict[str, Any]
    version: Version
    protocol: Protocol
    notes: tuple[str, ...]


def _model(request: Request) -> Generator[Put, str, dict[str, Any]]:
    """Puts the model on the board; of a built-in network all but its weights, which are made there.

    FP16 comes from the types in the file where TensorRT has no flag for it any more: which it is shows on the board.
    """
    model, spec = request.model, request.spec
    if model.source != "builtin":
        path = yield Put(model_blob(request))
        return {"model": path, "inputs": {item.name: item.dims for item in model.inputs}}
    paths = {}
    for name, typed in (("skeleton", "fp32"), ("typed_skeleton", "fp16")):
        if typed in ("fp32", spec.precision):
            text = skeleton(model.network, spec.batch, "fp16" if typed == "fp16" else "fp32", spec.seed)
            paths[name] = yield Put(Blob(f"{spec.model}-{spec.batch}-{typed}.skeleton", text.encode()))
    return paths


def _prepare(
    request: Request, runner: str, what: dict[str, Any], variant: int | None = None
) -> Generator[Put | Run, Any, _Site]:
    said = yield from ask(request, runner, "prepare", variant=variant, **what)
    prepared = dict(said.one("prepared"))
    version = known(from_text(prepared["version"]))
    if version.major >= _TYPED_SINCE and request.spec.precision == "fp16" and "model" in what:
        _check_typed(request, version)
    protocol, notes = flags.effective(version, request.options.protocol)
    if not prepared["cached"]:
        protocol = replace(protocol, workspace_bytes=min(protocol.workspace_bytes, prepared["workspace_bytes"]))
    return _Site(runner, dict(said.one("hello")), prepared, version, protocol, notes)


def _check_typed(request: Request, version: Version) -> None:
    """Raises UnsupportedModel for a file of FP32 types that is to run in FP16 where there is no flag for that."""
    if request.model.typed != "fp16":
        raise UnsupportedModel(
            f"TensorRT {version} takes precisions from the model's types, and {request.model.source} is FP32",
            "convert it on this machine: python -m modelopt.onnx.autocast --onnx_path model.onnx "
            "--output_path model_fp16.onnx; or leave out --fp16",
        )


def _built(request: Request, site: _Site, variant: int | None = None) -> Generator[Put | Run, Any, Said]:
    """Returns what is said of the engine once the board has it; where it is built, with less workspace if need be."""
    prepared = site.prepared
    if prepared["cached"]:
        words = {name: prepared[name] for name in ("why", "engine_bytes", "workspace_bytes", "notes")}
        return Said(({"event": "built", "seconds": 0.0, "cached": True, **words},))
    protocol, notes = site.protocol, list(prepared["notes"])
    completed = yield Run(_build_job(request, site, protocol), measured=False, doing="building")
    result = read_build(_stamped(completed), completed.exit_code)
    if isinstance(result, Failure) and _no_memory(result) and protocol.workspace_bytes > LESS_WORKSPACE_BYTES:
        protocol = replace(protocol, workspace_bytes=LESS_WORKSPACE_BYTES)
        notes.append("the memory did not do for the workspace asked for: built with 64 MiB of it")
        completed = yield Run(_build_job(request, site, protocol), measured=False, doing="building")
        result = read_build(_stamped(completed), completed.exit_code)
    if not isinstance(result, Build):
        if ended_from_outside(completed):
            died("trtexec", completed)
        raise error_of("engine", f"trtexec could not build {request.spec.model}: {result.text}", "", result.log)
    if result.short_of_memory:
        notes.append("tactics were left out for lack of memory: with more of it the engine may be faster")
    built = {
        "seconds": result.built_s or completed.ended_s - completed.started_s,
        "workspace_bytes": protocol.workspace_bytes,
        "notes": notes,
        "why": prepared["why"],
    }
    return (yield from ask(request, site.runner, "seal", variant=variant, built=built))


def _no_memory(failure: Failure) -> bool:
    return isinstance(error_of("engine", failure.text, "", failure.log), OutOfMemory)


def _variant(request: Request, runner: str, what: dict[str, Any]) -> builds.Variant:
    """Returns how one of several engines is built and timed shortly."""

    def make(number: int) -> Generator[Put | Run, Any, tuple[Said, float]]:
        site = yield from _prepare(request, runner, what, number)
        said = yield from _built(request, site, number)
        short = builds.trial(request)
        completed = yield Run(_run_job(short, site), measured=False, doing="trying")
        summary = _read(short, completed)
        yield from _collect(short, site, set())
        return said, summary.images_per_s(request.spec.batch)

    return make


def _read(request: Request, completed: Completed) -> Summary:
    """Returns the figures of a timed run. Raises the error of what went wrong."""
    result = read_run(_stamped(completed), completed.exit_code)
    if isinstance(result, Summary):
        return result
    if ended_from_outside(completed):
        died("trtexec", completed)
    last = [line.text for line in completed.lines][-20:]
    raise error_of("engine", f"trtexec gave no figures of {request.spec.model}: {result.text}", "", result.log or last)


def _collect(request: Request, site: _Site, more: set[str]) -> Generator[Put | Run, Any, Said]:
    names = {"times", *more} if site.version.major > 7 else more
    files = {name: site.prepared[name] for name in sorted(names)}
    version = site.prepared["version"]
    return (yield from ask(request, site.runner, "collect", files=files, version=version))


def _empty(request: Request, site: _Site, built: Built | None) -> EngineRun:
    """Returns what is known before anything is measured."""
    protocol = site.protocol
    if built is not None:
        protocol = replace(protocol, workspace_bytes=built.workspace_bytes)
    return EngineRun(
        start_s=0.0,
        stop_s=0.0,
        iterations=0,
        latencies_s=(),
        batch=request.spec.batch,
        scope=SCOPE,
        precision_found=None,
        protocol=protocol_text("trtexec", protocol),
        versions=site.hello["versions"],
        built=built,
        notes=site.notes,
        key=str(site.hello["key"]),
        effective=protocol,
    )


def _measured(empty: EngineRun, site: _Site, summary: Summary, told: Said) -> EngineRun:
    """Returns the run with its figures, and a note for all that was not as asked."""
    latencies = told.numbers("latencies") or tuple(sample.gpu_s for sample in summary.samples)
    rows = told.one("layers").get("rows", ())
    what = found(rows, str(site.version))
    notes = [*empty.notes, *disagreements(summary.in_effect, site.protocol), *told.one("collected").get("notes", ())]
    return replace(
        empty,
        start_s=summary.began_s,
        stop_s=summary.ended_s,
        iterations=summary.queries,
        latencies_s=latencies if len(latencies) == summary.queries else (),
        host_s=told.numbers("host") or tuple(sample.host_s for sample in summary.samples),
        precision_found=what.precision,
        layers_s={row["name"]: row["seconds"] for row in rows if row["seconds"] is not None},
        found=what,
        notes=(*notes, flags.INPUT_DATA, _UNSEEN),
    )


def _build_job(request: Request, site: _Site, protocol: Protocol) -> Job:
    said, precision = site.prepared, request.spec.precision
    argv = flags.build_argv(
        *(site.version, said["trtexec"], said["onnx"], said["part"], precision, protocol),
        _shapes(request),
        said["timing"],
    )
    return _job(request, argv)


def _run_job(request: Request, site: _Site) -> Job:
    argv = flags.run_argv(
        *(site.version, site.prepared["trtexec"], site.prepared["plan"], site.protocol),
        warmup_s=request.warmup_s,
        duration_s=request.duration_s,
        iterations=request.iterations,
        min_iterations=MIN_ITERATIONS,
        times=site.prepared["times"],
        shapes=_shapes(request),
    )
    return replace(_job(request, argv), timeout_s=request.run_timeout_s)


def _profile_job(request: Request, site: _Site) -> Job:
    said = site.prepared
    paths = said["trtexec"], said["plan"], said["profile"], said["layers"]
    return _job(request, flags.profile_argv(site.version, *paths, _shapes(request)))


def _job(request: Request, argv: tuple[str, ...]) -> Job:
    return Job(wrapped(argv, request), timeout_s=request.timeout_s)


def _shapes(request: Request) -> dict[str, tuple[int, ...]]:
    """Returns the shapes of the inputs that the file leaves open; trtexec refuses them for others."""
    return {item.name: item.dims for item in request.model.inputs if item.name in request.model.open_inputs}


def _stamped(completed: Completed) -> list[tuple[float, str]]:
    return [(line.t_s, line.text) for line in completed.lines]
