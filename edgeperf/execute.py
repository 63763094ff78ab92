"""Any command on a board, measured as a network is: clocks held, idle power first, rails, energy, verdict.

A flow: a board and a request in, a record out; what the command prints is passed on as it comes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from typing import Any

from edgeperf import conditions, figures, raw
from edgeperf.bench import around_of, board_info, idle_series, made_with, sampling_for, texts_after
from edgeperf.cooling import Phase
from edgeperf.left import Locked
from edgeperf.locking import locked_for, mode_missing
from edgeperf.lost import RunFailed, RunLost, restarted
from edgeperf.record import SCHEMA, Clocks, Exec, Figure, Power
from edgeperf.sources import source_of, through
from edgeperf.verdict import Evidence, judge
from engines.toolchains import EngineRun
from remote.board import Board
from remote.errors import BoardError, LinkLost
from remote.interrupts import noted
from remote.types import Completed, Ended, Job, Line, Series, Text

Pass = Callable[[Line], None]
"""Takes a line that the command printed."""

_LONGEST_S = 24 * 3600.0
SIMULATED_S = 600.0
"""A simulated board interrupts a command without a limit after this long: nobody would wait for its Ctrl-C."""
_FEWEST_READINGS = 10


@dataclass(frozen=True)
class Request:
    """What to run and under which clocks; see `edgeperf.left.Request`. After ``limit_s`` the command is interrupted.

    Without one a simulated board interrupts it after `SIMULATED_S`.
    """

    argv: tuple[str, ...]
    profile: str | None = None
    clocks: Mapping[str, str] = field(default_factory=dict)
    limit_s: float | None = None
    rail_rate_hz: float = 20.0
    source: str = "auto"
    idle_s: float = 3.0
    seed: int = 0
    require_lock: bool = False

    def text(self) -> str:
        """Returns it as JSON, to be kept beside the command on the board."""
        return json.dumps({"exec": asdict(self)})

    @classmethod
    def parse(cls, text: str) -> Request | None:
        """Returns what `text` made, None for the text of something else."""
        data = json.loads(text or "{}").get("exec")
        return cls(**{**data, "argv": tuple(data["argv"])}) if data else None


@dataclass(frozen=True)
class Followed:
    """What the record of a command is made from: what was asked, how the clocks were held, what came of it.

    For the rest see `edgeperf.raw.Ran`.
    """

    request: Request
    locked: Locked
    done: Completed
    idle: tuple[Series, ...]
    texts: Mapping[str, Text] = field(default_factory=dict)
    lost: str = ""
    rebooted: bool = False

    def without_samples(self, rails: Iterable[str]) -> Followed:
        """Returns it without the samples that the record has as ``rail_samples_w``."""
        return replace(self, done=replace(self.done, series=raw.emptied(self.done.series, set(rails))))

    def with_samples(self, data: Mapping[str, Any]) -> Followed:
        """Returns it with the samples of a record."""
        return replace(self, done=replace(self.done, series=raw.refilled(self.done.series, data["rail_samples_w"])))


def execute(request: Request, board: Board, phase: Phase, passed: Pass) -> Exec:
    """Returns the record of one run of a command, also of one that failed or was interrupted.

    Raises EngineError where the command cannot be started, BoardError, RunLost, RunFailed, and Interrupted before it
    is started.
    """
    board = through(board, request.source)
    sampling = sampling_for(request, board)
    idle: tuple[Series, ...] = ()
    followed = None
    try:
        with locked_for(request, board) as locked:
            if sampling.rails and request.idle_s > 0:
                idle = idle_series(board, request.idle_s, sampling, phase)
            limit_s = request.limit_s or (SIMULATED_S if board.transport.facts.simulated else 0.0)
            note = request.text()
            job = Job(request.argv, duration_s=limit_s, timeout_s=_LONGEST_S, note=note, sampling=sampling)
            try:
                done = _follow(board, job, passed)
                followed = Followed(request, locked, done, idle, texts_after(board))
            except LinkLost as lost:
                done = Completed(job.argv, -1, (), (), 0.0, 0.0, "lost")
                cut = Followed(request, locked, done, idle, lost=lost.what, rebooted=restarted(board))
                raise RunLost(lost, made(cut, board)) from lost
    except (BoardError, LinkLost) as error:
        if followed is None:
            raise
        raise RunFailed(error, made(followed, board)) from error
    return made(followed, board)


def _follow(board: Board, job: Job, passed: Pass) -> Completed:
    """Runs a job and passes on its lines as they come. Ctrl-C goes to the job, also while a line is passed on."""
    series: list[Series] = []
    events = board.transport.stream(job)
    event = next(events)
    while not isinstance(event, Ended):
        broken: list[bool] = []
        if isinstance(event, Series):
            series.append(event)
        else:
            with noted(partial(broken.append, True)):
                passed(event)
        event = events.throw(KeyboardInterrupt()) if broken else next(events)
    events.close()
    return Completed(
        job.argv,
        event.exit_code,
        (),
        tuple(series),
        event.started_s,
        event.ended_s,
        event.reason,
        silent_s=event.silent_s,
    )


def made(followed: Followed, board: Board) -> Exec:
    """Returns the record of what was followed."""
    request, locked, done, idle = followed.request, followed.locked, followed.done, followed.idle
    facts = board.transport.facts
    run = _as_run(done)
    window = figures.window(run, done.series, board.spec.totals, board.transport.rails, idle)
    accepted = figures.accepted(locked.asked, locked.outcomes)
    missing = mode_missing(locked)
    evidence = figures.evidence("", request.rail_rate_hz, run, window, accepted, locked.floating, missing)
    seconds = done.ended_s - done.started_s
    ran = raw.Ran(run, done.series, idle, None, followed.texts, done.silent_s, followed.lost, followed.rebooted)
    around = around_of(board, run.start_s, run.stop_s, ran)
    evidence = replace(conditions.added(evidence, around), clocks_clamped_hz=conditions.clamped(locked.asked, accepted))
    return Exec(
        schema=SCHEMA,
        kind="exec",
        simulated=facts.simulated,
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        host=board.host.text,
        board=board_info(board),
        argv=request.argv,
        exit_code=done.exit_code,
        ended=done.reason,
        duration_s=seconds,
        limit_s=request.limit_s,
        clocks=Clocks(locked.profile, figures.rates(locked.asked), window.effective),
        power_w=window.power,
        power_missing=window.power_missing,
        energy_j=_energy(window.power, seconds) if window.power else None,
        sampling=figures.sampling(request.rail_rate_hz, window, source_of(board.transport.rails)),
        conditions={**window.conditions, **conditions.told(evidence, around)},
        verdict=judge(_short(evidence, seconds, request.rail_rate_hz)),
        notes=(*board.transport.journal.notes, *locked.notes),
        rail_samples_w={item.id: {"t_s": item.times_s, "w": item.values} for item in window.rail_series},
        made_with=made_with(),
        raw=raw.keep(board, followed.without_samples(board.transport.rails)),
    )


def _short(evidence: Evidence, seconds: float, rail_rate_hz: float) -> Evidence:
    """Returns the evidence of a command that may have ended before its watts could be read: no fault of the sampler."""
    if not evidence.power_missing or seconds * rail_rate_hz >= _FEWEST_READINGS:
        return evidence
    text = f"it ended after {seconds:.3g} s, too soon for watts at {rail_rate_hz:g} Hz; see --rail-rate"
    return replace(evidence, power_missing="", too_short=text)


def _as_run(done: Completed) -> EngineRun:
    """Returns a command as a run without batches, from its start to its end."""
    return EngineRun(
        start_s=done.started_s,
        stop_s=done.ended_s,
        iterations=0,
        latencies_s=(),
        batch=1,
        scope="",
        precision_found=None,
        protocol="from the start of the command to its end",
        interrupted=done.reason == "cancelled",
    )


def _energy(power: Power, seconds: float) -> Figure:
    """Returns the joules of the whole command: its mean watts for as long as it ran."""
    return Figure(power.total * seconds, _times(power.ci95, seconds), _times(power.absolute95, seconds))


def _times(ends: tuple[float, float] | None, factor: float) -> tuple[float, float] | None:
    return (ends[0] * factor, ends[1] * factor) if ends is not None else None
