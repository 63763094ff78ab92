"""The measurement: lock the clocks, measure idle, run the network, sample the rails, put the board back.

A flow: a board and a request in, a record out; no printing, no files.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TypeVar

from clockprofiles.plan import ClockPlan
from clockprofiles.profile import load as load_profile
from clockprofiles.profile import override
from edgeperf import __version__, figures
from edgeperf.clocks import held, plan_for
from edgeperf.left import Left, Locked, Request
from edgeperf.record import SCHEMA, Bench, BoardInfo, Build, Clocks, Spec
from edgeperf.verdict import judge
from engines import models, toolchains
from engines.simulated.explain import source
from engines.spec import EngineSpec
from engines.toolchains import EngineRun, Put, Run
from remote.board import Board, release
from remote.errors import BoardError, Interrupted
from remote.hosts import Twin
from remote.types import Job, Sampling, Series

Made = TypeVar("Made")
Phase = Callable[[str, float], AbstractContextManager[None]]
"""Tells what is going on and how many seconds it will take."""

Told = Callable[[Run], AbstractContextManager[None]]
"""The same of one job of a toolchain."""

_PREPARING_S = 10.0
UNSET = ("refused", "needs-reboot")
WATCHED = ("cpu.hz", "gpu.hz", "emc.hz", "gpu.load")


def prepare(request: Request, board: Board, cache: Path) -> tuple[toolchains.Toolchain, toolchains.Request]:
    """Returns the toolchain and what it is asked, nothing having been touched yet. Raises UsageError."""
    facts = board.transport.facts
    chain = toolchains.toolchain(request.toolchain or toolchains.default(facts))
    chain.check(request.options)
    model = models.load(request.model, request.batch, request.options.shapes)
    flags = request.options.flags() if chain.keeps else ()
    spec = EngineSpec(model.name, request.precision, request.batch, chain.name, request.seed, model.digest, flags)
    return chain, toolchains.Request(
        model,
        spec,
        facts,
        request.warmup_s,
        request.duration_s,
        request.iterations,
        cache / "models",
        request.options,
        power_mode(board),
    )


def power_mode(board: Board) -> str:
    """Returns the name of the power mode that the board was found in, "" where it has none."""
    knob = board.transport.found.knobs.get("nvpmodel.mode")
    return str(knob.value) if knob is not None and knob.value is not None else ""


def _in_mode(asked: toolchains.Request, locked: Locked) -> toolchains.Request:
    """Returns ``asked`` for the power mode that the lock has set, if it has set one."""
    mode = [row.now for row in locked.outcomes if row.knob == "nvpmodel.mode" and row.now is not None]
    return replace(asked, power_mode=str(mode[-1])) if mode else asked


def choose_clocks(request: Request, board: Board) -> ClockPlan | Locked:
    """Returns the plan by which the clocks are held, or why they float. Raises BoardError for a lock not to be had."""
    facts = board.transport.facts
    name = request.profile
    why = ""
    if name is None and board.spec.name == "generic-linux" and not request.clocks:
        why = "they are left as found on this kind of machine; --profile maxperf locks them"
    elif name is None and not facts.root:
        why = f"{facts.user} may not set them on this board"
    if why and request.require_lock:
        raise BoardError(f"the clocks cannot be locked: {why}", "leave out --require-lock, or name a --profile")
    if why:
        return Locked(floating=why)
    return plan_for(board, override(load_profile(name or "maxperf"), request.clocks))


@contextmanager
def _locked(request: Request, board: Board) -> Iterator[Locked]:
    """Holds the clocks for the length of a ``with``, as far as they can be; yields how."""
    chosen = choose_clocks(request, board)
    if isinstance(chosen, Locked):
        yield chosen
        return
    with held(board, chosen) as (made, outcomes):
        planned = (*(row.knob for row in outcomes), *(step.knob for step in made.kept))
        yield _check_lock(request, board, Locked(made.profile.name, made.asked, planned, made.notes, outcomes))


def measure(request: Request, board: Board, cache: Path, phase: Phase) -> Bench:
    """Returns the record of one measurement; of an interrupted one what there was by then.

    Raises UsageError, BoardError, EngineError; Interrupted when there is nothing to keep yet.
    """
    chain, asked = prepare(request, board, cache)
    sampling = sampling_for(request, board)
    with _locked(request, board) as locked:
        asked = _in_mode(asked, locked)
        idle: tuple[Series, ...] = ()
        if sampling.rails and request.idle_s > 0:
            with phase(f"measuring {board.host.text} at idle", request.idle_s if paced(board) else 0.0):
                idle = _idle(board, request.idle_s, sampling)
        left = Left(request, locked, idle)
        run, series = converse(chain.bench(asked), board, sampling, left, told=_told(phase, asked, board))
    return _record(request, board, asked, locked, run, idle, series)


def attach(board: Board, cache: Path, phase: Phase) -> Bench:
    """Returns the record of a measurement whose host lost its line, once it is over. Raises as `measure` does."""
    left = Left.parse(board.transport.note)
    request = left.request
    chain, asked = prepare(request, board, cache)
    asked = _in_mode(asked, left.locked)
    sampling, told = sampling_for(request, board), _told(phase, asked, board)
    try:
        run, series = converse(chain.bench(asked), board, sampling, left, resume=True, told=told)
    finally:
        release(board)
    return _record(request, board, asked, left.locked, run, left.idle, series)


def sampling_for(request: Request, board: Board) -> Sampling:
    """Returns what is sampled beside a run: all rails, and the readings that tell whether it may be believed."""
    readings = board.transport.readings
    return Sampling(
        rails=tuple(board.transport.rails),
        rate_hz=request.rail_rate_hz,
        readings=tuple(name for name in readings if name in WATCHED or name.startswith("temp.")),
        seed=request.seed,
    )


def build(request: Request, board: Board, cache: Path, phase: Phase) -> Build:
    """Returns what became of building an engine, under the clocks that it will run at. Raises as `measure` does."""
    chain, asked = prepare(request, board, cache)
    with _locked(request, board) as locked:
        asked = _in_mode(asked, locked)
        run, _ = converse(chain.build(asked), board, told=_told(phase, asked, board))
    facts = board.transport.facts
    return Build(
        schema=SCHEMA,
        kind="build",
        simulated=facts.simulated,
        host=board.host.text,
        board=board.spec.name,
        l4t=facts.l4t,
        spec=_spec(request, asked, run),
        built=run.built,
        versions=run.versions,
        notes=run.notes,
    )


def paced(board: Board) -> bool:
    """Says whether a run takes real time; a twin's does not unless it was asked to."""
    return not isinstance(board.host, Twin) or board.host.speed == "1"


def _told(phase: Phase, asked: toolchains.Request, board: Board) -> Told:
    """Returns what tells of the jobs of a toolchain; how long those take that prepare nobody knows beforehand."""
    span_s = 2.0 + asked.warmup_s + asked.duration_s

    def told(ask: Run) -> AbstractContextManager[None]:
        expected_s = (span_s if ask.measured else _PREPARING_S) if ask.doing and paced(board) else 0.0
        return phase(f"{ask.doing} {asked.model.name} on {board.host.text}", expected_s)

    return told


def converse(
    talk: Generator[Put | Run, Any, Made],
    board: Board,
    sampling: Sampling | None = None,
    left: Left | None = None,
    *,
    resume: bool = False,
    told: Told = lambda ask: nullcontext(),
) -> tuple[Made, tuple[Series, ...]]:
    """Gives a toolchain what it asks for; returns what it made of it, and what was sampled beside the measured job.

    What it was answered goes with the measured job in a note, so that another process can pick the measurement up:
    that one starts from the answers in ``left``.
    """
    answers = list(left.answers) if left else []
    known = answers[:] if resume else []
    series: tuple[Series, ...] = ()
    measured = False
    ask = next(talk)
    try:
        while True:
            if known:
                answer = known.pop(0)
            elif isinstance(ask, Put):
                answer = board.transport.put(ask.blob)
            elif ask.measured:
                measured = True
                note = replace(left, answers=tuple(answers)).text() if left else ""
                with told(ask):
                    answer = board.transport.run(replace(ask.job, sampling=sampling, note=note, resume=resume))
                series = answer.series
            else:
                with told(ask):
                    answer = board.transport.run(ask.job)
                if answer.reason == "cancelled" and not measured:
                    raise Interrupted("interrupted before the measurement began")
            answers.append(answer)
            ask = talk.send(answer)
    except StopIteration as end:
        return end.value, series


def _idle(board: Board, seconds: float, sampling: Sampling) -> tuple[Series, ...]:
    completed = board.transport.run(Job(duration_s=seconds, sampling=sampling))
    if completed.reason == "cancelled":
        raise Interrupted("interrupted before the measurement began")
    return completed.series


def _check_lock(request: Request, board: Board, locked: Locked) -> Locked:
    refused = {row.knob: f"{row.knob}: {row.why}" for row in locked.outcomes if row.result in UNSET}
    if refused and request.require_lock:
        raise BoardError(f"the clocks cannot be locked: {'; '.join(refused.values())}", "see `edgeperf doctor`")
    refused.pop("nvpmodel.mode", None)  # clocks can be locked in any mode
    if refused:
        return replace(locked, floating=f"the board refused {'; '.join(refused.values())}")
    free = _free(locked, board) if locked.profile else []
    if free and request.require_lock:
        raise BoardError(f"the clocks cannot be locked: {', '.join(free)}", "see `edgeperf doctor`")
    if free:
        return replace(locked, floating=f"profile and machine leave {', '.join(free)} free")
    return locked


def _mode_missing(locked: Locked) -> str:
    return "".join(row.why for row in locked.outcomes if row.knob == "nvpmodel.mode" and row.result in UNSET)


def _free(locked: Locked, board: Board) -> list[str]:
    """Returns the clocks that nothing holds; those of a GPU or a memory only where they can be set at all."""
    settable = {"cpu", *(knob.partition(".")[0] for knob in board.transport.found.knobs)}
    return [name for name in figures.CLOCKS if name in settable and getattr(locked.asked, f"{name}_hz") is None]


def _record(
    request: Request,
    board: Board,
    asked: toolchains.Request,
    locked: Locked,
    run: EngineRun,
    idle: tuple[Series, ...],
    series: tuple[Series, ...],
) -> Bench:
    facts = board.transport.facts
    window = figures.window(run, series, board.spec.totals, tuple(board.transport.rails), idle)
    chain = asked.spec.toolchain
    accepted = figures.accepted(locked.asked, locked.outcomes)
    evidence = figures.evidence(
        request.precision, request.rail_rate_hz, run, window, accepted, locked.floating, _mode_missing(locked)
    )
    return Bench(
        schema=SCHEMA,
        kind="bench",
        simulated=facts.simulated,
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        host=board.host.text,
        board=BoardInfo(
            board.spec.name,
            facts.model,
            facts.l4t,
            facts.serial,
            facts.kernel,
            facts.machine or facts.cpu_model,
            facts.cpus,
            facts.memory_bytes,
        ),
        spec=_spec(request, asked, run),
        clocks=Clocks(locked.profile, figures.rates(locked.asked), window.effective),
        throughput_per_s=figures.figure(window.throughput),
        latency_s=window.latency,
        host_latency_s=figures.latency(run.host_s, "host time of one batch"),
        power_w=window.power,
        power_missing=window.power_missing,
        images_per_s_per_w=figures.figure(window.images_per_s_per_w),
        energy_j_per_image=figures.figure(window.energy_j_per_image),
        edp_js=window.edp_js,
        sampling=figures.sampling(request.rail_rate_hz, window),
        conditions=window.conditions,
        bounds=figures.bounds(asked, window.effective, board.spec.twin),
        verdict=judge(evidence),
        notes=(
            *board.transport.journal.notes,
            *locked.notes,
            *run.notes,
            *(source(chain, facts.l4t, board.spec.twin) if facts.simulated else ()),
        ),
        protocol=run.protocol,
        samples_s=run.latencies_s,
        rail_samples_w={item.id: {"t_s": item.times_s, "w": item.values} for item in window.rail_series},
        engine=figures.engine(run),
        made_with={**run.versions, "edgeperf": __version__, "python": platform.python_version()},
    )


def _spec(request: Request, asked: toolchains.Request, run: EngineRun) -> Spec:
    return Spec(
        asked.model.name,
        request.precision,
        request.batch,
        asked.spec.toolchain,
        run.key or asked.spec.key({}),
        run.precision_found,
        request.seed,
    )
