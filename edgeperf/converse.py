"""What a toolchain asks of a board, and what becomes of it when the run comes to a bad end."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, TypeVar

from edgeperf.left import Left
from engines.toolchains import EngineRun, Put, Run
from remote.board import Board
from remote.errors import EdgeperfError, EngineError, Interrupted, LinkLost
from remote.types import Completed, Job, Sampling

Made = TypeVar("Made")
Told = Callable[[Run], AbstractContextManager[None]]
"""Tells of one job of a toolchain while it runs."""


class Cut(Exception):
    """The line was lost in the middle of a run: what the toolchain makes of what had been said."""

    def __init__(self, lost: LinkLost, made: Any) -> None:
        super().__init__(lost.what)
        self.lost, self.made = lost, made


class Failed(Exception):
    """The measured job came to nothing: why, what it was, and what the toolchain had been answered before it."""

    def __init__(self, failure: EngineError, done: Completed, before: Sequence[Any]) -> None:
        super().__init__(failure.what)
        self.failure, self.done, self.before = failure, done, tuple(before)


def converse(
    talk: Generator[Put | Run, Any, Made],
    board: Board,
    sampling: Sampling | None = None,
    left: Left | None = None,
    *,
    resume: bool = False,
    told: Told = lambda ask: nullcontext(),
) -> tuple[Made, Completed]:
    """Gives a toolchain what it asks for; returns what it made of it, and the measured job.

    What it was answered goes with the measured job in a note, so that another process can pick the measurement up:
    that one starts from the answers in ``left``.
    """
    answers = list(left.answers) if left else []
    known = answers[:] if resume else []
    done = Completed((), 0, (), (), 0.0, 0.0)
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
                job = replace(ask.job, sampling=sampling, note=note, resume=resume)
                try:
                    with told(ask):
                        done = answer = board.transport.run(job)
                except LinkLost as lost:
                    if not resume:
                        _cut(talk, lost, job)
                    raise
            else:
                with told(ask):
                    answer = board.transport.run(ask.job)
                if answer.reason == "cancelled" and not measured:
                    raise Interrupted("interrupted before the measurement began")
            answers.append(answer)
            try:
                ask = talk.send(answer)
            except EngineError as failure:
                if measured and left is not None and not resume:
                    raise Failed(failure, done, answers[: answers.index(done)]) from failure
                raise
    except StopIteration as end:
        return end.value, done


def _cut(talk: Generator[Put | Run, Any, Any], lost: LinkLost, job: Job) -> None:
    """Has a toolchain make what it can of a job whose line was lost. Raises Cut unless it can make nothing."""
    try:
        talk.send(Completed(job.argv, -1, lost.said, (), 0.0, 0.0, "cancelled"))
    except StopIteration as end:
        raise Cut(lost, end.value) from lost
    except EdgeperfError:
        return


def until(failed: Failed, talk: Generator[Put | Run, Any, EngineRun]) -> EngineRun:
    """Returns what a toolchain makes of a measured job as if the user had ended it there. Raises its failure."""
    try:
        next(talk)
        for answer in (*failed.before, replace(failed.done, reason="cancelled")):
            talk.send(answer)
    except StopIteration as end:
        run: EngineRun = end.value
        return run
    except EdgeperfError:
        pass
    raise failed.failure
