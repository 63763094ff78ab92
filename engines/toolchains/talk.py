"""The host's side of the on-board runner: the request it gets, and the JSON lines that it answers with."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from engines.causes import error_of, explain
from engines.cost import Precision, cost, total
from engines.onboard.cache import NONE_KEPT
from engines.precision import found
from engines.reference import OutputCheck, compare, reference
from engines.spec import Protocol
from engines.toolchains.container import wrapped
from engines.toolchains.conversation import MIN_ITERATIONS, Built, EngineRun, Put, Request, Run, died, stopped
from engines.weights import INPUT_VALUE
from remote.bundle import runnable
from remote.errors import EngineError
from remote.types import Blob, Completed, Job

RUNNER = "runner.zip"
_DOING = {"build": "preparing", "prepare": "preparing"}


@dataclass(frozen=True)
class Said:
    """What the runner said, event by event, also when it was interrupted. ``ended_s`` is when its process ended."""

    events: tuple[Mapping[str, Any], ...] = ()
    ended_s: float = 0.0
    interrupted: bool = False

    def one(self, name: str) -> Mapping[str, Any]:
        """Returns the last event of that name, {} where it was not said."""
        return next((event for event in reversed(self.events) if event["event"] == name), {})

    def numbers(self, name: str) -> tuple[float, ...]:
        """Returns the seconds of all events of that name, one after the other."""
        return tuple(s for event in self.events if event["event"] == name for s in event["seconds"])


def runner_blob() -> Blob:
    """Returns the runner as it is put on a board."""
    return Blob(RUNNER, runnable("engines.onboard", "runner", {}))


def ask(
    request: Request, runner: str, action: str, *, measured: bool = False, **changes: Any
) -> Generator[Put | Run, Completed, Said]:
    """Lets the runner at the path ``runner`` do ``action``; ``changes`` go into what it is asked.

    Raises the error that it named, or EngineError where it died.
    """
    spec = request.spec
    asked = {
        "action": action,
        "toolchain": spec.toolchain,
        "name": spec.model,
        "model": None,
        "graph": None,
        "skeleton": None,
        "inputs": {},
        "precision": spec.precision,
        "batch": spec.batch,
        "seed": spec.seed,
        "input_value": INPUT_VALUE,
        "content": request.content,
        "cache": request.facts.cache,
        "options": asdict(request.options.protocol),
        "need": _need(request),
        "cuda": request.options.cuda,
        "variant": None,
        "files": {},
        "warmup_s": request.warmup_s,
        "duration_s": request.duration_s,
        "iterations": request.iterations,
        "min_iterations": MIN_ITERATIONS,
        **changes,
    }
    argv = wrapped((_python(request), runner), request)
    timeout_s = request.run_timeout_s if measured else request.timeout_s
    job = Job(argv, stdin=json.dumps(asked), timeout_s=timeout_s)
    doing = "running" if action == "bench" else _DOING.get(action, "")
    completed = yield Run(job, measured=measured, doing=doing)
    return understand(completed, spec.toolchain)


def understand(completed: Completed, name: str) -> Said:
    """Returns what the runner said. Raises the error that it named: see `engines.causes.error_of`."""
    spoken = tuple(_spoken(completed))
    said = Said(spoken, completed.ended_s, stopped(completed) or any(event.get("interrupted") for event in spoken))
    if failed := said.one("failed"):
        log = [str(line) for line in failed.get("log", ())]
        raise error_of(str(failed["kind"]), f"{name}: {failed['what']}", str(failed["hint"]), log)
    if not said.interrupted and (not said.one("done") or completed.exit_code):
        if cause := explain([line.text for line in completed.lines]):
            last = [line.text for line in completed.lines if line.source == "stderr" and line.text.strip()]
            raise error_of(cause.kind, f"{name}: {cause.what}", cause.hint, last)
        died(f"{name}'s runner", completed)
    return said


def run_of(request: Request, built: Said, ran: Said, scope: str = "", protocol: str = "") -> EngineRun:
    """Returns what was measured, put together from what was said while building and while running.

    ``scope`` and ``protocol`` say what the latencies time and how the figures are formed.
    """
    latencies, stop = ran.numbers("latencies"), ran.one("stop")
    if stop.get("iterations", 0) != len(latencies):  # cut off while it was telling them
        latencies = ()
    hello = {**built.one("hello"), **ran.one("hello")}
    rows = ran.one("layers").get("rows", ())
    made = built.one("built")
    what = found(rows, str(hello.get("versions", {}).get("tensorrt", "")))
    check, odd = _checked(request, ran)
    return EngineRun(
        start_s=ran.one("start")["t_s"] if stop else ran.ended_s,
        stop_s=stop.get("t_s", ran.ended_s),
        iterations=len(latencies),
        latencies_s=latencies,
        batch=request.spec.batch,
        scope=scope,
        precision_found=made.get("precision_found") or what.precision,
        protocol=protocol,
        versions=hello.get("versions", {}),
        built=built_of(made),
        layers_s={row["name"]: row["seconds"] for row in rows if row["seconds"] is not None},
        notes=(*made.get("notes", ()), *ran.one("loaded").get("notes", ()), *ran.one("layers").get("notes", ()), *odd),
        interrupted=built.interrupted or ran.interrupted,
        host_s=ran.numbers("host") if latencies else (),
        key=str(hello.get("key", "")),
        found=what if rows else None,
        check=check,
        effective=_effective(request, made, ran) if made.get("workspace_bytes") else None,
    )


def _effective(request: Request, made: Mapping[str, Any], ran: Said) -> Protocol:
    """Returns the protocol that was followed: a CUDA graph may not have worked, the workspace been too large."""
    asked = request.options.protocol
    graph = asked.cuda_graph and bool(ran.one("loaded").get("cuda_graph", asked.cuda_graph))
    return replace(asked, cuda_graph=graph, workspace_bytes=int(made["workspace_bytes"]))


def built_of(made: Mapping[str, Any], per_s: tuple[float, ...] = ()) -> Built | None:
    """Returns how the engine came to be, from the event ``built``; None where nothing was said of it."""
    if not made:
        return None
    why, workspace = str(made.get("why", "")), int(made.get("workspace_bytes", 0))
    why = "" if why == NONE_KEPT else why  # which goes without saying
    return Built(made["seconds"], made["cached"], made["engine_bytes"], why, workspace, per_s)


def _checked(request: Request, ran: Said) -> tuple[OutputCheck | None, tuple[str, ...]]:
    """Returns how the outputs compare with those of FP32 on this machine, and a note where they could not be compared.

    Nothing is compared where the board told no outputs; an FP32 run of ONNX Runtime is what it would be compared with.
    """
    tensors, spec, model = ran.one("outputs").get("tensors", ()), request.spec, request.model
    if not tensors or (spec.toolchain, spec.precision) == ("onnxruntime", "fp32"):
        return None, ()
    try:
        expected = reference(model, spec.seed, spec.batch, request.cache)
    except EngineError as error:
        return None, (f"the outputs were not compared: {error.what}",)
    computed: Precision = "fp16" if "fp16" in (spec.precision, model.typed) else "fp32"
    return compare(tensors, expected, computed, tf32=request.options.protocol.tf32), ()


def _python(request: Request) -> str:
    """Returns the Python that starts the runner.

    TensorRT's module belongs to the system's own Python, whichever else comes first on the user's path.
    """
    if request.options.container:
        return "python3"
    return request.facts.python if request.spec.toolchain == "onnxruntime" else "/usr/bin/python3"


def _need(request: Request) -> dict[str, int]:
    rows = cost(request.model.network, request.spec.batch, request.spec.precision)
    largest = max((row.read_bytes - row.weight_bytes + row.written_bytes for row in rows), default=0)
    return {"weight_bytes": total(rows).weight_bytes, "tensor_bytes": largest}


def _spoken(completed: Completed) -> Iterator[Mapping[str, Any]]:
    """Yields the runner's events. Libraries print into the same output, and a killed program breaks off in a line."""
    for line in completed.lines:
        if line.source == "stdout" and line.text.startswith("{"):
            try:
                event = json.loads(line.text)
            except ValueError:
                continue
            if isinstance(event, dict) and isinstance(event.get("event"), str):
                yield event
