"""The same command on several boards at once: a row each, and a board that fails does not stop the others."""

from __future__ import annotations

import queue
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from edgeperf.clocks import Changes, Status
from edgeperf.ui import table
from remote.errors import EdgeperfError
from remote.hosts import Host

R = TypeVar("R", Changes, Status)


@dataclass(frozen=True)
class Answer(Generic[R]):
    """What became of one host: its report, or the ``error`` with its ``hint`` and exit code."""

    host: str
    exit_code: int
    report: R | None = None
    error: str = ""
    hint: str = ""


@dataclass(frozen=True)
class Answers(Generic[R]):
    """All hosts in the order asked."""

    schema: int
    kind: str
    hosts: tuple[Answer[R], ...]

    @property
    def exit_code(self) -> int:
        """Returns the worst of all exit codes."""
        return max((answer.exit_code for answer in self.hosts), default=0)


def ask(hosts: Sequence[Host], flow: Callable[[Host], R]) -> Answers[R]:
    """Runs ``flow`` on all hosts in parallel and returns what became of each."""
    done: queue.Queue[tuple[int, Answer[R] | BaseException]] = queue.Queue()

    def work(index: int, host: Host) -> None:
        try:
            done.put((index, _answer(host, flow)))
        except BaseException as error:
            done.put((index, error))

    for index, host in enumerate(hosts):
        # Daemons: Ctrl-C ends the command without waiting for a host that does not answer.
        threading.Thread(target=work, args=(index, host), daemon=True).start()
    found: dict[int, Answer[R]] = {}
    for _ in hosts:
        index, answer = done.get()
        if isinstance(answer, BaseException):
            raise answer
        found[index] = answer
    return Answers(1, "hosts", tuple(found[index] for index in range(len(hosts))))


def _answer(host: Host, flow: Callable[[Host], R]) -> Answer[R]:
    try:
        report = flow(host)
    except EdgeperfError as error:
        return Answer(host.text, error.exit_code, None, error.what, error.hint)
    refused = isinstance(report, Changes) and report.refused
    return Answer(host.text, 4 if refused else 0, report)


def text(answers: Answers[Changes] | Answers[Status]) -> str:
    """Returns a row per host, and what to do about those that failed."""
    rows = [(answer.host, *_row(answer)) for answer in answers.hosts]
    hints = [f"- {answer.host}: {answer.hint}" for answer in answers.hosts if answer.hint]
    lines = [table(["host", "board", "result", ""], rows)]
    return "\n".join([*lines, *(["", "advice", *hints] if hints else [])])


def _row(answer: Answer[Changes] | Answer[Status]) -> tuple[str, str, str]:
    report = answer.report
    if report is None:
        return "-", "failed", answer.error
    if isinstance(report, Status):
        held = "; ".join(filter(None, (report.applied_by, report.leased_by, *report.drift)))
        return report.board, "in use" if report.leased_by else "free", held
    counts = Counter(row.result for row in report.rows)
    refused = [f"{row.knob} refused: {row.why}" for row in report.rows if row.result == "refused"]
    done = {"apply": "applied", "restore": "restored", "plan": "plan"}[report.kind]
    told = ", ".join(f"{number} {result}" for result, number in counts.items())
    return report.board, "refused" if refused else done, "; ".join([told or "nothing to do", *refused, *report.notes])
