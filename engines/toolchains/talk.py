"""The host's side of the on-board runner: the request it gets, and its JSON lines turned into an `EngineRun`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from engines.toolchains.conversation import Built, Conversation, EngineRun, Put, Request, Run, died, stopped
from engines.weights import INPUT_VALUE
from remote.bundle import runnable
from remote.errors import EngineError, OutOfMemory, UsageError
from remote.types import Blob, Completed, Job

MIN_ITERATIONS = 10
_ERRORS = {"out_of_memory": OutOfMemory, "model": UsageError}


@dataclass(frozen=True)
class Timed:
    """What a toolchain's latencies time and how its figures are formed, in words."""

    scope: str
    protocol: str


def converse(
    request: Request, action: Literal["probe", "build", "bench"], timed: Timed, model: str | None, graph: str | None
) -> Conversation:
    """Puts the runner on the board and lets it do ``action`` with ``model`` (a path there) or ``graph``."""
    runner = yield Put(Blob("runner.zip", runnable("engines.onboard", "runner", {})))
    spec = request.spec
    asked = {
        "action": action,
        "toolchain": spec.toolchain,
        "model": model,
        "graph": graph,
        "precision": spec.precision,
        "batch": spec.batch,
        "seed": spec.seed,
        "key": request.key,
        "cache": request.facts.cache,
        "input_value": INPUT_VALUE,
        "warmup_s": request.warmup_s,
        "duration_s": request.duration_s,
        "iterations": request.iterations,
        "min_iterations": MIN_ITERATIONS,
    }
    job = Job((request.facts.python, runner), stdin=json.dumps(asked), timeout_s=request.timeout_s)
    completed = yield Run(job, measured=action == "bench")
    return understand(completed, spec.toolchain, spec.batch, timed)


def understand(completed: Completed, name: str, batch: int, timed: Timed) -> EngineRun:
    """Returns what the runner said, also of a run that was interrupted.

    Raises the error that it named: OutOfMemory, UsageError for the model's file, else EngineError.
    """
    spoken = list(_spoken(completed))
    events = {event["event"]: event for event in spoken}
    if "failed" in events:
        said = events["failed"]
        error = _ERRORS.get(str(said["kind"]), EngineError)
        raise error(f"{name}: {said['what']}", str(said["hint"]))
    interrupted = stopped(completed) or bool(events.get("done", {}).get("interrupted"))
    if not interrupted and ("done" not in events or completed.exit_code):
        died(f"{name}'s runner", completed)
    hello, built, stop = (events.get(name, {}) for name in ("hello", "built", "stop"))
    latencies = tuple(s for event in spoken if event["event"] == "latencies" for s in event["seconds"])
    if stop.get("iterations", 0) != len(latencies):  # cut off while it was telling them
        latencies = ()
    return EngineRun(
        start_s=events["start"]["t_s"] if stop else completed.ended_s,
        stop_s=stop.get("t_s", completed.ended_s),
        iterations=len(latencies),
        latencies_s=latencies,
        batch=batch,
        scope=timed.scope,
        precision_found=built.get("precision_found"),
        protocol=timed.protocol,
        versions=hello.get("versions", {}),
        built=Built(built["seconds"], built["cached"], built["engine_bytes"]) if built else None,
        layers_s={row["name"]: row["seconds"] for row in events.get("layers", {}).get("rows", ())},
        notes=(built["note"],) if built.get("note") else (),
        interrupted=interrupted,
    )


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
