"""The commands about a board's clocks: maxperf, apply, restore, status; on one board or several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from edgeperf.options import (
    AcceptOption,
    ClockOption,
    DryRunOption,
    ExitCodeOption,
    FaultOption,
    FaultsOption,
    ForOption,
    HostsOption,
    JsonOption,
    ModeOption,
    QuietOption,
    RebootOption,
    RecordOption,
    broken,
    clock_overrides,
    opened,
    scripted,
)
from edgeperf.ui import Ui
from remote.errors import UsageError

if TYPE_CHECKING:
    from clockprofiles.profile import Profile
    from edgeperf.clocks import Changes, Status
    from remote.board import Board
    from remote.hosts import Host

R = TypeVar("R", "Changes", "Status")


def add_to(app: typer.Typer) -> None:
    """Makes them commands of ``app``."""
    for command in (maxperf, apply, restore, status):
        app.command()(command)


def _profile(name: str, clocks: list[str] | None) -> Profile:
    from clockprofiles.profile import load, override

    return override(load(name), clock_overrides(clocks))


def maxperf(
    host: HostsOption = None,
    clock: ClockOption = None,
    mode: ModeOption = None,
    reboot: RebootOption = False,
    for_: ForOption = None,
    dry_run: DryRunOption = False,
    exit_code: ExitCodeOption = False,
    fault: FaultOption = None,
    faults: FaultsOption = None,
    record: RecordOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
    accept: AcceptOption = False,
) -> None:
    """Sets all clocks to their maximum, and checks each."""
    script = scripted(fault, faults)
    _apply("maxperf", host, clock, mode, reboot, for_, dry_run, exit_code, script, record, json, quiet, accept)


def apply(
    profile: Annotated[
        str, typer.Argument(metavar="NAME|FILE", help="A profile (`edgeperf profiles list`) or a TOML file.")
    ],
    host: HostsOption = None,
    clock: ClockOption = None,
    mode: ModeOption = None,
    reboot: RebootOption = False,
    for_: ForOption = None,
    dry_run: DryRunOption = False,
    exit_code: ExitCodeOption = False,
    fault: FaultOption = None,
    faults: FaultsOption = None,
    record: RecordOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
    accept: AcceptOption = False,
) -> None:
    """Applies a clock profile, and checks each setting."""
    script = scripted(fault, faults)
    _apply(profile, host, clock, mode, reboot, for_, dry_run, exit_code, script, record, json, quiet, accept)


def _apply(
    name: str,
    host: list[str] | None,
    clock: list[str] | None,
    mode: str | None,
    reboot: bool,
    for_: str | None,
    dry_run: bool,
    exit_code: bool,
    faults: Sequence[str],
    record: Path | None,
    json: bool,
    quiet: bool,
    accept: bool,
) -> None:
    from edgeperf.units import parse_seconds

    profile = _profile(name, clock)
    ttl_s = parse_seconds(for_) if for_ is not None else 0.0
    if reboot and for_ is not None:
        raise UsageError("--reboot and --for exclude each other: a reboot ends what would be timed", "give one of them")

    def flow(board: Board) -> Changes:
        from edgeperf import clocks

        asked = profile if mode is None else clocks.in_mode(board, profile, mode)
        made = clocks.plan_for(board, asked)
        return clocks.preview(board, made) if dry_run else clocks.apply(board, made, ttl_s, reboot=reboot)

    reports = _each(host, accept, record, json, Ui(quiet), flow, faults)
    if dry_run and exit_code and any(report.would_change for report in reports):
        raise typer.Exit(7)


def _each(
    names: list[str] | None,
    accept: bool,
    record: Path | None,
    json: bool,
    ui: Ui,
    flow: Callable[[Board], Changes],
    faults: Sequence[str] = (),
) -> list[Changes]:
    """Changes one board and shows its record, or several at once and shows a row each. Exits unless all went well."""
    from edgeperf import config

    def change(host: Host) -> Changes:
        with opened(host, accept=accept, clocks_only=True, record=record) as board:
            return flow(board)

    hosts = _hosts(config.require(names), record, faults)
    if len(hosts) > 1:
        return _show_answers(hosts, change, json, ui)
    report = change(hosts[0])
    _show_changes(report, json, ui)
    return [report]


def _hosts(hosts: Sequence[Host], record: Path | None, faults: Sequence[str]) -> Sequence[Host]:
    if record is not None and len(hosts) > 1:
        raise UsageError(f"--record keeps what one board says, and these are {len(hosts)}", "name one --host")
    return [broken(host, faults) for host in hosts]


def _show_answers(hosts: Sequence[Host], flow: Callable[[Host], R], json: bool, ui: Ui) -> list[R]:
    from edgeperf import many

    answers = many.ask(hosts, flow)
    ui.result(_json(answers) if json else many.text(answers))
    if answers.exit_code:
        raise typer.Exit(answers.exit_code)
    return [answer.report for answer in answers.hosts if answer.report is not None]


def _json(record: object) -> str:
    from edgeperf.record import to_json  # loads much that the text does not need

    return to_json(record)


def restore(
    host: HostsOption = None,
    force: Annotated[bool, typer.Option("--force", help="Also what someone else changed since.")] = False,
    record: RecordOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
    accept: AcceptOption = False,
) -> None:
    """Puts the settings back as they were found."""
    from edgeperf import clocks

    _each(host, accept, record, json, Ui(quiet), lambda board: clocks.restore(board, force=force))


def _show_changes(changes: Changes, json: bool, ui: Ui) -> None:
    from edgeperf.words import changes_text

    ui.result(_json(changes) if json else changes_text(changes))
    if changes.refused:
        raise typer.Exit(4)


def status(
    host: HostsOption = None,
    profile: Annotated[str | None, typer.Option("--profile", help="Also say what differs from this profile.")] = None,
    fault: FaultOption = None,
    faults: FaultsOption = None,
    record: RecordOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
    accept: AcceptOption = False,
) -> None:
    """Shows the board's settings, and who applied what."""
    from edgeperf import clocks, config
    from edgeperf.words import status_text

    ui = Ui(quiet)
    wanted = _profile(profile, None) if profile else None
    script = scripted(fault, faults)
    hosts = _hosts(config.require(host), record, script) if host else ()
    if len(hosts) > 1:

        def look(at: Host) -> Status:
            with opened(at, accept=accept, clocks_only=True) as board:
                return clocks.status(board, wanted)

        _show_answers(hosts, look, json, ui)
        return
    chosen = config.choose(host[0] if host else None)
    if chosen.note:
        ui.note(chosen.note)
    with opened(chosen.host, accept=accept, clocks_only=True, record=record, faults=script) as board:
        report = clocks.status(board, wanted)
        ui.result(_json(report) if json else status_text(report, board.transport.found))
