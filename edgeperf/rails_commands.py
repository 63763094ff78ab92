"""The command that shows a board's rails as they go by, or what stands in a captured tegrastats log."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from edgeperf.options import (
    AcceptOption,
    FaultOption,
    FaultsOption,
    HostOption,
    QuietOption,
    RecordOption,
    SourceOption,
    opened,
    scripted,
    some_time,
)
from edgeperf.spans import rail_rate, span
from edgeperf.ui import Ui
from remote.errors import BoardError, Interrupted, LinkLost, UsageError

if TYPE_CHECKING:
    from edgeperf.rails import Row, Tally
    from edgeperf.rails_view import Source
    from remote.board import Board
    from remote.hosts import Host

_UNPACED_S = 10.0
_LEAST_EVERY_S = 0.05


@dataclass(frozen=True)
class _Form:
    """How rows are shown: as CSV or JSON for programs, else for people."""

    csv: bool
    jsonl: bool
    quiet: bool

    @property
    def people(self) -> bool:
        return not (self.csv or self.jsonl)


def rails(
    host: HostOption = None,
    duration: Annotated[
        str | None, typer.Option("--duration", help="Stop after this time: 60s. Default: at Ctrl-C.")
    ] = None,
    rate: Annotated[str, typer.Option("--rate", help="Samples of the rails per second; a row is their mean.")] = "20Hz",
    every: Annotated[str, typer.Option("--every", metavar="TIME", help="A row each time that has passed.")] = "1s",
    source: SourceOption = "auto",
    log: Annotated[
        str | None, typer.Option("--from", metavar="FILE|-", help="Read a captured tegrastats log; - is stdin.")
    ] = None,
    board: Annotated[
        str | None, typer.Option("--board", metavar="NAME", help="With --from: what it is of, for the total.")
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="Rows as CSV.")] = False,
    jsonl: Annotated[bool, typer.Option("--jsonl", "--json", help="Rows as JSON, one object a line.")] = False,
    fault: FaultOption = None,
    faults: FaultsOption = None,
    record: RecordOption = None,
    quiet: QuietOption = False,
    accept: AcceptOption = False,
) -> None:
    """Shows rails, clocks, loads, heat and the energy so far.

    A row has rails in W, times in s, clocks in Hz, loads as shares of 0 to 1, temperatures in C. A summary comes last.
    """
    ui, form = Ui(quiet), _Form(csv, jsonl, quiet)
    if csv and jsonl:
        raise UsageError("--csv and --jsonl were given together", "give one of them")
    if log is not None:
        if any(given is not None for given in (host, record, fault, faults)):
            raise UsageError("--from reads a log: there is no board for --host, --record or --fault", "leave them out")
        _from_log(log, board, form, ui)
        return
    if board is not None:
        raise UsageError("--board goes with --from: a board says itself what it is", "leave it out")
    every_s, duration_s = span("--every", every), some_time("--duration", duration)
    if every_s < _LEAST_EVERY_S:
        raise UsageError(f"--every {every} is too short", f"at least {_LEAST_EVERY_S:g}s; --rate samples faster")
    open_ = partial(opened, accept=accept, record=record, faults=scripted(fault, faults))
    _from_board(host, open_, source, (rail_rate(rate, "--rate"), every_s, duration_s), form, ui)


def _from_board(
    name: str | None,
    open_: Callable[[Host], AbstractContextManager[Board]],
    source: str,
    pace: tuple[float, float, float | None],
    form: _Form,
    ui: Ui,
) -> None:
    from edgeperf import config, rails_view, sources
    from edgeperf.cooling import paced
    from edgeperf.rails import Tally, follow, total_of
    from edgeperf.report import place

    chosen = config.choose(name)
    if chosen.note:
        ui.note(chosen.note)
    rate_hz, every_s, duration_s = pace
    with open_(chosen.host) as found:
        board = sources.through(found, source)
        if duration_s is None and found.transport.facts.simulated and not paced(board):
            duration_s = _UNPACED_S
            ui.note(f"{board.host.text} does not keep real time: {duration_s:g} s are shown; see --duration")
        total, missing = total_of(board)
        facts = board.transport.facts
        where = place(facts.simulated, board.spec.name, facts.l4t, board.host.text)
        of = rails_view.Source(where, board.host.text, total.scope if total else "", facts.simulated)
        tally, writer = Tally(total, missing), _Writer(form, of)
        rows = tally.counted(follow(board, rate_hz, every_s, duration_s))
        try:
            with suppress(KeyboardInterrupt):
                if form.people and sys.stdout.isatty() and not ui.quiet:
                    with ui.live() as show:
                        for row in rows:
                            show(rails_view.screen(row, of))
                else:
                    ui.note(where)
                    _print(map(writer.text, rows), ui)
        except LinkLost:
            if tally.summary().rows:
                _end(tally, where, form, ui)
            raise
    _end(tally, where, form, ui)


def _from_log(name: str, board: str | None, form: _Form, ui: Ui) -> None:
    import json

    from edgeperf import rails_view
    from edgeperf.rails import Tally
    from edgeperf.rails_log import Entry, Log, as_data
    from remote import boards

    spec = boards.load(board) if board is not None else None
    log = Log(spec)
    writer, tally = _Writer(form, rails_view.Source(name)), Tally()

    def text(entry: Entry) -> str:
        if entry.read is not None:
            tally.add(entry.row, entry.total, entry.missing)
        if form.jsonl:
            return json.dumps(as_data(entry), separators=(",", ":"))
        return writer.text(entry.row) if entry.read is not None else ""

    whole = False
    with suppress(KeyboardInterrupt), _lines(name) as lines:
        _print(map(text, log.entries(lines)), ui)
        whole = True
    if log.others:
        ui.warn(f"{log.others} of {log.reports + log.others} lines of {name} are no report of tegrastats")
    if whole and not log.reports:
        raise BoardError(
            f"{name}: no line of it is a report of tegrastats", "its lines begin with RAM, or a time and RAM"
        )
    _end(tally, name, form, ui)


@contextmanager
def _lines(name: str) -> Iterator[TextIO]:
    """Opens a log for reading line by line. Raises UsageError for one that cannot be read."""
    if name == "-":
        yield sys.stdin
        return
    try:
        with open(name, encoding="utf-8", errors="replace") as file:
            yield file
    except OSError as error:
        raise UsageError(f"{name} cannot be read: {error.strerror}", "name a captured log, or - for stdin") from error


def _print(texts: Iterable[str], ui: Ui) -> None:
    """Prints what is not empty, until the reader has gone."""
    for text in texts:
        if text:
            ui.result(text)
        if ui.unheard:
            return


def _end(tally: Tally, where: str, form: _Form, ui: Ui) -> None:
    """Shows the summary. Raises Interrupted where nothing was read before Ctrl-C."""
    from edgeperf.rails_view import summary_text

    found = tally.summary()
    if not found.rows:
        raise Interrupted("interrupted before anything was read")
    text = summary_text(found, where)
    if not form.people:
        ui.note(text)
    elif not ui.unheard:
        ui.result(text)


class _Writer:
    """Turns rows into text in the form that was asked for; --quiet leaves people the summary only."""

    def __init__(self, form: _Form, of: Source) -> None:
        self._form = form
        self._of = of
        self._columns: list[str] = []

    def text(self, row: Row) -> str:
        """Returns a row as a line; before the first of a CSV comes its head."""
        from edgeperf import rails_view as view
        from edgeperf.record import to_json

        if self._form.jsonl:
            return to_json(view.as_data(row, self._of))
        if not self._form.csv:
            return "" if self._form.quiet else view.line(row)
        head = [] if self._columns else [view.csv_line(view.columns(row))]
        self._columns = self._columns or view.columns(row)
        return "\n".join([*head, view.csv_line(view.cells(row, self._columns, self._of))])
