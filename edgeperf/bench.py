"""The measurement: lock the clocks, measure idle, run the network, sample the rails, put the board back.

A flow: a board and a request in, a record out; no printing, no files.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Protocol

from edgeperf import __version__, conditions, figures, heat
from edgeperf.converse import Cut, Failed, Told, converse, until
from edgeperf.cooling import Phase, cool, paced
from edgeperf.left import Left, Locked, Request
from edgeperf.locking import locked_for, mode_missing
from edgeperf.lost import RunFailed, RunLost, restarted
from edgeperf.power import choose_total
from edgeperf.raw import Measured, Ran, keep
from edgeperf.record import SCHEMA, Bench, BoardInfo, Build, Clocks, Spec
from edgeperf.repeat import combined
from edgeperf.soak import over_time
from edgeperf.sources import source_of, through
from edgeperf.verdict import judge
from engines import models, toolchains
from engines.simulated.explain import source
from engines.spec import EngineSpec
from engines.toolchains import EngineRun, Run
from remote.board import Board, release
from remote.errors import BoardError, EdgeperfError, Interrupted, LinkLost
from remote.types import Job, Sampling, Series, Text

_PREPARING_S = 10.0


class Sampled(Protocol):
    """What a measurement asks of the sampler."""

    @property
    def rail_rate_hz(self) -> float:
        """How often the rails are read."""

    @property
    def seed(self) -> int:
        """Of the dither."""


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


def measure(request: Request, board: Board, cache: Path, phase: Phase) -> Bench:
    """Returns the record of one measurement; of an interrupted one what there was by then.

    Raises UsageError, BoardError, EngineError; Interrupted when there is nothing to keep yet; RunLost, RunFailed.
    """
    chain, asked = prepare(request, board, cache)
    board = through(board, request.source)
    runs: list[Ran] = []
    try:
        with locked_for(request, board) as locked:
            asked = _in_mode(asked, locked)
            try:
                while len(runs) < request.repeat:
                    runs.append(_run(request, board, chain, asked, locked, runs, phase))
                    if runs[-1].run.interrupted:
                        break
                    # The engine is there now: it is not built several times again.
                    asked = replace(asked, options=replace(asked.options, builds=1))
            except Interrupted:
                if not runs:
                    raise
    except EdgeperfError as error:
        if not runs or isinstance(error, (RunLost, RunFailed)):
            raise
        raise RunFailed(error, made(Measured(request, locked, tuple(runs)), board, asked)) from error
    return made(Measured(request, locked, tuple(runs)), board, asked)


def again(measured: Measured, board: Board, cache: Path) -> Bench:
    """Returns the record of what was measured before, as this version of edgeperf makes it. Raises UsageError."""
    _, asked = prepare(measured.request, board, cache)
    return made(measured, board, _in_mode(asked, measured.locked))


def made(measured: Measured, board: Board, asked: toolchains.Request) -> Bench:
    """Returns the record of what was measured."""
    request, locked = measured.request, measured.locked
    record = combined([_record(request, board, asked, locked, done) for done in measured.runs], request.repeat)
    return replace(record, raw=keep(board, measured.without_samples(board.transport.rails)))


def _run(
    request: Request,
    board: Board,
    chain: toolchains.Toolchain,
    asked: toolchains.Request,
    locked: Locked,
    before: Sequence[Ran],
    phase: Phase,
) -> Ran:
    """Returns one run of those asked for: cooled down before it, with idle power measured before the first."""
    sampling = sampling_for(request, board, number=len(before))
    cooling = cool(board, request.cool_to_c, request.cool_limit_s, phase) if request.cool_to_c is not None else None
    idle: tuple[Series, ...] = before[0].idle if before else ()
    if sampling.rails and request.idle_s > 0 and not before:
        idle = idle_series(board, request.idle_s, sampling, phase)
    left = Left(request, locked, idle)
    try:
        run, done = converse(chain.bench(asked), board, sampling, left, told=_told(phase, asked, board))
    except Cut as cut:
        ran = Ran(cut.made, (), idle, cooling, lost=cut.lost.what, rebooted=restarted(board))
        raise RunLost(cut.lost, made(Measured(request, locked, (*before, ran)), board, asked)) from cut.lost
    except Failed as failed:
        done = failed.done
        run = until(failed, chain.bench(asked))
        ran = Ran(run, done.series, idle, cooling, texts_after(board), done.silent_s, failed=failed.failure.what)
        record = made(Measured(request, locked, (*before, ran)), board, asked)
        raise RunFailed(failed.failure, record) from failed.failure
    return Ran(run, done.series, idle, cooling, texts_after(board), done.silent_s)


def texts_after(board: Board) -> Mapping[str, Text]:
    """Returns the files that tell of a run's conditions, as they are after it; none where the line is gone by then."""
    try:
        return board.transport.read(conditions.PATHS).texts
    except LinkLost:  # the run is over and stands; what asks the board next tells of the line
        return {}


def attach(board: Board, cache: Path, phase: Phase) -> Bench:
    """Returns the record of a measurement whose host lost its line, once it is over. Raises as `measure` does."""
    left = Left.parse(board.transport.note)
    request = left.request
    chain, asked = prepare(request, board, cache)
    asked = _in_mode(asked, left.locked)
    board = through(board, request.source, look=False)
    sampling, told = sampling_for(request, board), _told(phase, asked, board)
    alone = f"one of the {request.repeat} runs that were asked for: the line was lost" if request.repeat > 1 else ""
    try:
        run, told_all = converse(chain.bench(asked), board, sampling, left, resume=True, told=told)
    except BaseException:
        release(board)
        raise
    done = Ran(run, told_all.series, left.idle, texts=texts_after(board), silent_s=told_all.silent_s)
    record = made(Measured(replace(request, repeat=1), left.locked, (done,)), board, asked)
    record = replace(record, notes=(*record.notes, alone)) if alone else record
    try:
        release(board)
    except (BoardError, LinkLost) as error:
        raise RunFailed(error, record) from error
    return record


def sampling_for(request: Sampled, board: Board, number: int = 0) -> Sampling:
    """Returns what is sampled beside a run: all rails, and the readings that tell whether it may be believed.

    Each run of several has a dither of its own, by its ``number``.
    """
    readings = board.transport.readings
    return Sampling(
        rails=tuple(board.transport.rails),
        rate_hz=request.rail_rate_hz,
        readings=conditions.watched(readings),
        seed=request.seed + number,
    )


def build(request: Request, board: Board, cache: Path, phase: Phase) -> Build:
    """Returns what became of building an engine, under the clocks that it will run at. Raises as `measure` does."""
    chain, asked = prepare(request, board, cache)
    with locked_for(request, board) as locked:
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


def _told(phase: Phase, asked: toolchains.Request, board: Board) -> Told:
    """Returns what tells of the jobs of a toolchain; how long those take that prepare nobody knows beforehand."""
    span_s = 2.0 + asked.warmup_s + asked.duration_s

    def told(ask: Run) -> AbstractContextManager[None]:
        expected_s = (span_s if ask.measured else _PREPARING_S) if ask.doing and paced(board) else 0.0
        return phase(f"{ask.doing} {asked.model.name} on {board.host.text}", expected_s)

    return told


def around_of(board: Board, start_s: float, stop_s: float, done: Ran) -> conditions.Around:
    """Returns what was seen around a run between two marks of the board's clock."""
    transport, totals = board.transport, board.spec.totals
    total = choose_total(totals, tuple(transport.rails))
    return conditions.Around(
        start_s,
        stop_s,
        done.series,
        done.idle,
        rails=total.rails if total else (),
        rails_unknown=conditions.rails_unknown(totals, transport.rails) if board.spec.match else "",
        cpus=transport.facts.cpus,
        texts=done.texts,
        stalled_s=done.silent_s,
        lost=done.lost,
        rebooted=done.rebooted,
        failed=done.failed,
    )


def idle_series(board: Board, seconds: float, sampling: Sampling, phase: Phase) -> tuple[Series, ...]:
    """Returns what is sampled while nothing runs. Raises Interrupted at Ctrl-C."""
    with phase(f"measuring {board.host.text} at idle", seconds if paced(board) else 0.0):
        completed = board.transport.run(Job(duration_s=seconds, sampling=sampling))
    if completed.reason == "cancelled":
        raise Interrupted("interrupted before the measurement began")
    return completed.series


def _record(request: Request, board: Board, asked: toolchains.Request, locked: Locked, done: Ran) -> Bench:
    facts, run, series, idle = board.transport.facts, done.run, done.series, done.idle
    window = figures.window(run, series, board.spec.totals, board.transport.rails, idle)
    chain = asked.spec.toolchain
    accepted = figures.accepted(locked.asked, locked.outcomes)
    evidence = figures.evidence(
        request.precision, request.rail_rate_hz, run, window, accepted, locked.floating, mode_missing(locked)
    )
    around = around_of(board, run.start_s, run.stop_s, done)
    evidence = conditions.added(evidence, around)
    evidence = replace(evidence, clocks_clamped_hz=conditions.clamped(locked.asked, accepted))
    return Bench(
        schema=SCHEMA,
        kind="bench",
        simulated=facts.simulated,
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        host=board.host.text,
        board=board_info(board),
        spec=_spec(request, asked, run),
        clocks=Clocks(locked.profile, figures.rates(locked.asked), window.effective),
        throughput_per_s=figures.figure(window.throughput),
        latency_s=window.latency,
        host_latency_s=figures.latency(run.host_s, "host time of one batch"),
        power_w=window.power,
        power_missing=window.power_missing,
        images_per_s_per_w=window.images_per_s_per_w,
        energy_j_per_image=window.energy_j_per_image,
        edp_js=window.edp.value if window.edp else None,
        edp=window.edp,
        scatter=window.scatter,
        sampling=figures.sampling(request.rail_rate_hz, window, source_of(board.transport.rails)),
        conditions={**window.conditions, **conditions.told(evidence, around)},
        bounds=figures.bounds(asked, window.effective, board.spec.twin),
        verdict=judge(replace(evidence, too_warm=heat.too_warm(done.cooling))),
        notes=(
            *board.transport.journal.notes,
            *locked.notes,
            *heat.not_cooled(request.cool_to_c, done.cooling),
            *run.notes,
            *(source(chain, facts.l4t, board.spec.twin) if facts.simulated else ()),
        ),
        protocol=run.protocol,
        samples_s=run.latencies_s,
        rail_samples_w={item.id: {"t_s": item.times_s, "w": item.values} for item in window.rail_series},
        engine=figures.engine(run),
        made_with={**run.versions, **made_with()},
        over_time=over_time(run, series, tuple(board.transport.rails), board.spec.totals) if request.soak else (),
        cooling=done.cooling,
    )


def board_info(board: Board) -> BoardInfo:
    """Returns what a board said of itself."""
    facts = board.transport.facts
    return BoardInfo(
        board.spec.name,
        facts.model,
        facts.l4t,
        facts.serial,
        facts.kernel,
        facts.machine or facts.cpu_model,
        facts.cpus,
        facts.memory_bytes,
    )


def made_with() -> dict[str, str]:
    """Returns the versions of what makes a record on this machine."""
    return {"edgeperf": __version__, "python": platform.python_version()}


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
