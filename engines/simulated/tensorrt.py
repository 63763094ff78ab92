"""Toolchain ``tensorrt`` on the twin: builds an engine, keeps it, runs it."""

from __future__ import annotations

from typing import Any

from engines.emit.graphjson import parse_graph
from engines.emit.onnx import skeleton
from engines.importer import read_skeleton
from engines.onboard.failure import Failed
from engines.simulated import plan as plans
from engines.simulated.builder import build_or_smaller, load_s, out_of_memory, take_memory
from engines.simulated.model import onnx_model
from engines.simulated.pace import Pace
from engines.simulated.plan import Plan, Refused
from engines.simulated.protocol import Engine, Mode, Physics
from engines.simulated.rows import layer_rows
from engines.simulated.site import Answer, Site, say
from remote.errors import UsageError
from remote.sim.physics import Activity
from remote.sim.process import Busy, Out, OutOfBoardMemory

_LATENCIES = 20_000


def answer(site: Site) -> Answer:
    """Does what was asked for. Raises Failed."""
    action = site.request["action"]
    yield site.hello()
    if action == "build":
        yield from _build(site)
    elif action == "bench":
        yield from _bench(site)
    elif action == "choose":
        yield from _choose(site)


def _build(site: Site) -> Answer:
    context, began_s = site.context, site.context.now()
    kept = site.cache.find(site.content, site.request["name"]) if site.variant is None else None
    if kept and kept.path:
        yield _built(context.now() - began_s, kept.path, kept.entry["plan_bytes"], kept.entry["built"], cached=True)
        return
    plan, notes = yield from build_or_smaller(context, _engine(site), site.timing())
    part = site.part()
    with site.cache.usable():
        context.save(part, plans.plan_text(plan))
    seconds = context.now() - began_s
    built = {"seconds": seconds, "workspace_bytes": plan.engine.workspace_bytes, "notes": notes}
    if kept:
        site.keep(part, built)
        part = site.path("plan")
    yield _built(seconds, part, plan.engine_bytes, built, why=kept.why if kept else "")


def _built(
    seconds: float, path: str, engine_bytes: int, built: dict[str, Any], *, cached: bool = False, why: str = ""
) -> Out:
    return say(
        "built",
        seconds=seconds,
        cached=cached,
        why=why,
        engine_bytes=engine_bytes,
        workspace_bytes=built["workspace_bytes"],
        notes=built["notes"],
        path=path,
    )


def _engine(site: Site) -> Engine:
    """Returns what is to be built. From TensorRT 11 on the numbers' types are those of the model."""
    request, options = site.request, site.request["options"]
    try:
        if request.get("model"):
            shapes = {name: tuple(dims) for name, dims in request.get("inputs", {}).items()}
            network, batch, typed = onnx_model(site.context.load(request["model"]), shapes)
        else:
            network, batch, typed = parse_graph(request["graph"] or ""), request["batch"], request["precision"]
            if typed == "fp16" and site.stack.numbers >= (11,):
                network = read_skeleton(skeleton(network, batch, typed, request["seed"]))  # with the casts of its types
    except UsageError as error:
        raise Failed("model", error.what, error.hint) from error
    except OSError as error:
        raise Failed("model", f"{request['model']}: {error.strerror}", "put it on the board again") from error
    precision = request["precision"]
    if site.stack.numbers >= (11,):
        if (precision, typed) == ("fp16", "fp32"):
            what = f"TensorRT {site.stack.version} takes types from the model, and this one is FP32"
            raise Failed("model", what, "convert the model to FP16, for instance with NVIDIA's Model Optimizer")
        precision = typed
    if _left_in_fp32(site) >= 1.0:
        precision = "fp32"
    return Engine(network, batch, precision, options["workspace_bytes"], options["tf32"])


def _left_in_fp32(site: Site) -> float:
    """Returns by which share of their time layers are left in FP32 whatever is asked: a fault of the board."""
    share: Any = site.context.twin.get("no_fp16", 0.0)
    return float(share)


def _bench(site: Site) -> Answer:
    context, request, options = site.context, site.request, site.request["options"]
    plan, began_s = _load(site), context.now()
    yield Busy(load_s(plan), Activity(cpu_load=1.0))
    yield say("loaded", seconds=context.now() - began_s, cuda_graph=options["cuda_graph"], notes=[])
    yield say("outputs", tensors=[])
    mode = Mode(options["transfers"], options["spin"], options["cuda_graph"], options["ahead"])
    physics = Physics(context.twin, plan.engine, mode)
    pace = Pace.of_tensorrt(context, physics)
    warm: list[float] = []
    yield from pace.run(warm, 1, request["warmup_s"])
    yield say("warm", t_s=context.now(), iterations=len(warm))
    yield say("start", t_s=context.now())
    done: list[float] = []
    interrupt = None
    try:
        if request["iterations"] is None:
            yield from pace.run(done, request["min_iterations"], request["duration_s"])
        else:
            yield from pace.run(done, request["iterations"], 0.0)
    except KeyboardInterrupt as error:
        interrupt = error
    yield say("stop", t_s=context.now(), iterations=len(done))
    batch = physics.batch(pace.clocks())
    for event, part in (("latencies", batch.compute_s), ("host", batch.host_s)):
        share = part / batch.period_s
        for first in range(0, len(done), _LATENCIES):
            yield say(event, seconds=[round(s * share, 9) for s in done[first : first + _LATENCIES]])
    if interrupt is not None:
        raise interrupt
    rows = layer_rows(plan.engine, physics, batch, _left_in_fp32(site))
    if not site.stack.inspects:
        rows = [{**row, "type": "", "precision": ""} for row in rows]
    yield say("layers", rows=rows)


def _load(site: Site) -> Plan:
    """Returns the engine that was built before. Raises Failed where there is none, or TensorRT does not take it."""
    if site.variant is None:
        found = site.cache.find(site.content, site.request["name"])
        if not found.path:
            raise Failed("engine", f"there is no engine to run: {found.why}", "build it first")
        path = found.path
    else:
        path = site.choose()
    plan = _read(site, path)
    try:
        take_memory(site.context, plan)
    except OutOfBoardMemory as error:
        raise out_of_memory(error) from None
    return plan


def _read(site: Site, path: str) -> Plan:
    try:
        return plans.load(site.context.load(path), site.stack)
    except Refused as error:
        raise Failed("engine", "TensorRT does not load the engine", "build it again", [str(error)]) from error


def _choose(site: Site) -> Answer:
    """Keeps one of several engines."""
    path = site.choose()
    plan = _read(site, path)
    told = {"seconds": 0.0, "workspace_bytes": plan.engine.workspace_bytes, "notes": []}
    built = {**told, **(site.request.get("built") or {})}
    site.keep(path, built)
    site.cache.remove_variants(site.key)
    yield _built(built["seconds"], site.path("plan"), plan.engine_bytes, built)
