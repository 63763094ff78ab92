"""The command that measures any command on a board."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeperf.options import (
    AcceptOption,
    ClockOption,
    FaultOption,
    FaultsOption,
    HostOption,
    IdleOption,
    JsonOption,
    OutOption,
    ProfileOption,
    QuietOption,
    RailRateOption,
    RecordOption,
    RequireLockOption,
    SourceOption,
    clock_overrides,
    opened,
    scripted,
    some_time,
)
from edgeperf.spans import rail_rate, span
from edgeperf.ui import Ui
from remote.errors import EngineError, UsageError

if TYPE_CHECKING:
    from edgeperf.record import Exec
    from remote.types import Line


def execute(
    command: Annotated[list[str], typer.Argument(metavar="COMMAND...", help="What to run on the board; no shell.")],
    host: HostOption = None,
    profile: ProfileOption = None,
    clock: ClockOption = None,
    duration: Annotated[
        str | None, typer.Option("--duration", help="Interrupt it after this long: 60s. Default: until it ends.")
    ] = None,
    rail_rate_hz: RailRateOption = "20Hz",
    rails: SourceOption = "auto",
    idle: IdleOption = "3s",
    require_lock: RequireLockOption = False,
    out: OutOption = None,
    fault: FaultOption = None,
    faults: FaultsOption = None,
    record: RecordOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
    accept: AcceptOption = False,
) -> None:
    """Measures any command on a board: watts, joules, a verdict.

    Its output passes through; with --json all of it goes to stderr. Exits with 5 where the command fails.
    """
    from edgeperf import commands, config
    from edgeperf.execute import SIMULATED_S, Request
    from edgeperf.execute import execute as measure
    from edgeperf.lost import RunFailed, RunLost

    if not command[0]:
        raise UsageError("the command's name is empty", "name what is to run: edgeperf exec --host local -- sleep 10")
    ui = Ui(quiet)
    request = Request(
        argv=tuple(command),
        profile=profile,
        clocks=clock_overrides(clock),
        limit_s=some_time("--duration", duration),
        rail_rate_hz=rail_rate(rail_rate_hz),
        source=rails,
        idle_s=span("--idle", idle),
        require_lock=require_lock,
    )
    script = scripted(fault, faults)
    commands.check(out)
    (chosen,) = config.require([host] if host is not None else None)
    try:
        with opened(chosen, engines=True, accept=accept, record=record, faults=script) as board:
            done = measure(request, board, ui.phase, partial(_pass, ui, json))
    except (RunLost, RunFailed) as cut:
        commands.keep(cut.record, Path(command[0]).name, out, json, ui)
        raise
    if done.ended == "duration" and done.limit_s is None:
        ui.warn(f"ended after {SIMULATED_S:g} s: simulated boards run no command longer unless --duration says so")
    code = commands.keep(done, Path(command[0]).name, out, json, ui)
    if code == 0 and done.failed:
        raise _failure(done)
    raise typer.Exit(code)


def _pass(ui: Ui, json: bool, line: Line) -> None:
    ui.passed(line.text, aside=json or line.source != "stdout")


def _failure(record: Exec) -> EngineError:
    from edgeperf.record import plain
    from edgeperf.report_rows import command, how_ended

    return EngineError(f"{command(record.argv)}: {how_ended(plain(record))}", "what it printed is above")
