"""The commands that run networks: choose the host, measure, save, show."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Protocol

from edgeperf import config, store
from edgeperf.bench import attach as pick_up
from edgeperf.bench import build as build_engine
from edgeperf.bench import measure
from edgeperf.left import Request
from edgeperf.lost import RunFailed, RunLost
from edgeperf.record import Bench, Exec, plain, to_json
from edgeperf.report import report
from edgeperf.ui import Ui
from edgeperf.words import build_text
from engines.simulated.groups import no_gain
from remote.board import Board
from remote.hosts import Host


class Open(Protocol):
    """Opens a board; with ``engines`` a twin can also run networks."""

    def __call__(self, host: Host, *, engines: bool = False, resume: bool = False) -> AbstractContextManager[Board]:
        """Opens it for the length of a `with`."""


def bench(request: Request, host: str | None, out: Path | None, json: bool, ui: Ui, opened: Open) -> int:
    """Measures, saves and shows. Returns the exit code: 0, 8 for an INVALID result, 130 for an interrupted one."""
    check(out)
    chosen = config.choose(host)
    if chosen.note:
        ui.note(chosen.note)
    try:
        with opened(chosen.host, engines=True) as board:
            record = measure(request, board, config.cache_folder(), ui.phase)
    except (RunLost, RunFailed) as cut:
        keep(cut.record, request.model, out, json, ui)
        raise
    return keep(record, record.spec.model, out, json, ui)


def attach(host: str | None, out: Path | None, json: bool, ui: Ui, opened: Open) -> int:
    """Picks up a measurement whose line was lost, saves and shows it. Returns the exit code as `bench` does."""
    check(out)
    with opened(config.choose(host).host, resume=True) as board:
        try:
            record = pick_up(board, config.cache_folder(), ui.phase)
        except RunFailed as cut:
            keep(cut.record, "attached", out, json, ui)
            raise
    return keep(record, record.spec.model, out, json, ui)


def build(request: Request, host: str | None, json: bool, ui: Ui, opened: Open) -> None:
    """Builds an engine and shows what became of it."""
    chosen = config.choose(host)
    if chosen.note:
        ui.note(chosen.note)
    with opened(chosen.host, engines=True) as board:
        record = build_engine(request, board, config.cache_folder(), ui.phase)
    ui.result(to_json(record) if json else build_text(record))


def check(out: Path | None) -> None:
    """Raises UsageError when a result could not be saved: better now than after the run."""
    store.check(out or _results() / "result.json", make_folder=out is None)


def _results() -> Path:
    return config.data_folder() / "results"


def keep(record: Bench | Exec, name: str, out: Path | None, json: bool, ui: Ui) -> int:
    """Saves and shows a result called ``name``. Returns its exit code: 0, 8 where it is INVALID, 130 interrupted."""
    if isinstance(record, Bench):
        record = replace(record, no_gain=_no_gain(record))
    text = to_json(record)
    path = store.save(text, out) if out else store.add(text, _results(), record.created, name)
    ui.result(text if json else report(plain(record), path))
    if any(reason.code == "interrupted" for reason in record.verdict.reasons):
        return 130
    return 8 if record.verdict.state == "INVALID" else 0


def _no_gain(record: Bench) -> dict[str, Any] | None:
    """Returns which layers FP16 did not speed up, where the same was measured in FP32 before; None for other runs."""
    layers_s = record.engine["layers_s"]
    if record.spec.precision != "fp16" or not layers_s:
        return None
    before = store.in_fp32(_results(), plain(record))
    if before is None:
        return None
    return {**asdict(no_gain(before.data["engine"]["layers_s"], layers_s)), "against": before.path.stem}
