"""The command line: parses, puts the pieces together, maps errors to exit codes. Flows are imported when needed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgeperf import __version__, catalog
from edgeperf.ui import Ui
from remote.errors import EdgeperfError, Interrupted, UsageError

if TYPE_CHECKING:
    from clockprofiles.profile import Profile
    from edgeperf.clocks import Changes
    from engines.cost import Precision
    from remote.board import Board
    from remote.hosts import Host

app = typer.Typer(
    name="edgeperf",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Locks the clocks, builds and runs a network, reads the power rails, says how sure the numbers are.",
)

HostOption = Annotated[
    str | None, typer.Option("--host", metavar="HOST", help="local | sim:BOARD[@RELEASE][,KEY=VALUE...]")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the record as JSON.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No notes and no progress.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print the plan; change nothing.")]
ExitCodeOption = Annotated[
    bool, typer.Option("--exit-code", help="With --dry-run: exit 7 when it would change something.")
]
ClockOption = Annotated[
    list[str] | None, typer.Option("--clock", metavar="K=V", help="Another clock: cpu, gpu or emc, as gpu=844.8MHz.")
]
ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help="A built-in network or a file.onnx.")]
PrecisionOption = Annotated[str | None, typer.Option("--precision", metavar="fp32|fp16", help="Default: fp32.")]
Fp16Option = Annotated[bool, typer.Option("--fp16", help="The same as --precision fp16.")]
Fp32Option = Annotated[bool, typer.Option("--fp32", help="The same as --precision fp32.")]
BatchOption = Annotated[int, typer.Option("--batch", help="Images per batch.")]
ToolchainOption = Annotated[
    str | None, typer.Option("--toolchain", metavar="NAME", help="tensorrt | caffe | onnxruntime")
]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of weights and dither.")]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"edgeperf {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


@contextmanager
def opened(host: Host, *, engines: bool = False) -> Iterator[Board]:
    """Opens a board; with ``engines`` a twin can also run networks."""
    from edgeperf.config import cache_folder
    from remote.board import open_board
    from remote.hosts import Twin

    programs = {}
    if engines and isinstance(host, Twin):
        from engines.simulated.programs import programs as simulated

        programs = simulated()
    with open_board(host, programs, cache_folder()) as board:
        yield board


def clock_overrides(pairs: list[str] | None) -> dict[str, str]:
    """Returns ``["gpu=844.8MHz"]`` as a dictionary. Raises UsageError for what is not K=V."""
    overrides = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        if not equals or not key or not value:
            raise UsageError(f"--clock {pair!r} is not KEY=VALUE", "for example --clock gpu=844.8MHz")
        overrides[key] = value
    return overrides


def _profile(name: str, clocks: list[str] | None) -> Profile:
    from clockprofiles.profile import load, override

    return override(load(name), clock_overrides(clocks))


@app.command()
def maxperf(
    host: HostOption = None,
    clock: ClockOption = None,
    dry_run: DryRunOption = False,
    exit_code: ExitCodeOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Sets all clocks to their maximum, and checks each."""
    _apply("maxperf", host, clock, dry_run, exit_code, json, quiet)


@app.command()
def apply(
    profile: Annotated[
        str, typer.Argument(metavar="NAME|FILE", help="A profile (`edgeperf profiles list`) or a TOML file.")
    ],
    host: HostOption = None,
    clock: ClockOption = None,
    dry_run: DryRunOption = False,
    exit_code: ExitCodeOption = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Applies a clock profile, and checks each setting."""
    _apply(profile, host, clock, dry_run, exit_code, json, quiet)


def _apply(
    name: str, host: str | None, clock: list[str] | None, dry_run: bool, exit_code: bool, json: bool, quiet: bool
) -> None:
    from edgeperf import clocks, config

    profile = _profile(name, clock)
    with opened(config.require(host)) as board:
        made = clocks.plan_for(board, profile)
        changes = clocks.preview(board, made) if dry_run else clocks.apply(board, made)
    _show_changes(changes, json, Ui(quiet))
    if dry_run and exit_code and changes.would_change:
        raise typer.Exit(7)


@app.command()
def restore(
    host: HostOption = None,
    force: Annotated[bool, typer.Option("--force", help="Also what someone else changed since.")] = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Puts the settings back as they were found."""
    from edgeperf import clocks, config

    with opened(config.require(host)) as board:
        changes = clocks.restore(board, force=force)
    _show_changes(changes, json, Ui(quiet))


def _show_changes(changes: Changes, json: bool, ui: Ui) -> None:
    from edgeperf.record import to_json
    from edgeperf.words import changes_text

    ui.result(to_json(changes) if json else changes_text(changes))
    if changes.refused:
        raise typer.Exit(4)


@app.command()
def status(
    host: HostOption = None,
    profile: Annotated[str | None, typer.Option("--profile", help="Also say what differs from this profile.")] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Shows the board's settings, and who applied what."""
    from edgeperf import clocks, config
    from edgeperf.record import to_json
    from edgeperf.words import status_text

    ui = Ui(quiet)
    wanted = _profile(profile, None) if profile else None
    chosen = config.choose(host)
    if chosen.note:
        ui.note(chosen.note)
    with opened(chosen.host) as board:
        report = clocks.status(board, wanted)
        ui.result(to_json(report) if json else status_text(report, board.transport.found))


@app.command()
def bench(
    model: ModelArgument,
    host: HostOption = None,
    precision: PrecisionOption = None,
    fp16: Fp16Option = False,
    fp32: Fp32Option = False,
    batch: BatchOption = 1,
    profile: Annotated[
        str | None, typer.Option("--profile", help="Clock profile. Default: maxperf on Jetsons.")
    ] = None,
    clock: ClockOption = None,
    toolchain: ToolchainOption = None,
    duration: Annotated[str, typer.Option("--duration", help="At least this long: 10s, 5m.")] = "10s",
    warmup: Annotated[str, typer.Option("--warmup", help="Run this long before measuring.")] = "2s",
    iterations: Annotated[int | None, typer.Option("--iterations", min=1, help="Exactly this many batches.")] = None,
    rail_rate: Annotated[str, typer.Option("--rail-rate", help="Samples of the power rails per second.")] = "20Hz",
    idle: Annotated[str, typer.Option("--idle", help="Measure idle power this long first.")] = "3s",
    seed: SeedOption = 0,
    require_lock: Annotated[
        bool, typer.Option("--require-lock", help="Exit 4 when the clocks cannot be locked.")
    ] = False,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Where to save the result.")] = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Measures a network: img/s, latency, watts, and a verdict."""
    from edgeperf import commands
    from edgeperf.bench import Request

    request = Request(
        model=model,
        precision=_precision(precision, fp16, fp32),
        batch=_batch(batch),
        toolchain=toolchain,
        profile=profile,
        clocks=clock_overrides(clock),
        duration_s=_span("--duration", duration),
        warmup_s=_span("--warmup", warmup),
        iterations=iterations,
        rail_rate_hz=_rail_rate(rail_rate),
        idle_s=_span("--idle", idle),
        seed=seed,
        require_lock=require_lock,
    )
    raise typer.Exit(commands.bench(request, host, out, json, Ui(quiet), opened))


def _precision(named: str | None, fp16: bool, fp32: bool) -> Precision:
    asked = {word.lower() for word, given in ((named or "", named), ("fp16", fp16), ("fp32", fp32)) if given}
    if len(asked) > 1:
        raise UsageError(f"two precisions were asked for: {' and '.join(sorted(asked))}", "give one of --fp16, --fp32")
    found = asked.pop() if asked else "fp32"
    if found == "fp16":
        return "fp16"
    if found == "fp32":
        return "fp32"
    raise UsageError(f"--precision {found!r} is not known", "give fp32 or fp16")


def _batch(batch: int) -> int:
    if not 1 <= batch <= 65536:
        raise UsageError(f"--batch {batch} is not possible", "a batch has 1 to 65536 images")
    return batch


def _span(option: str, text: str) -> float:
    from edgeperf.units import parse_seconds

    seconds = parse_seconds(text)
    if seconds > 24 * 3600:
        raise UsageError(f"{option} {text} is too long", "at most 24h")
    return seconds


def _rail_rate(text: str) -> float:
    from edgeperf.units import parse_hz

    hz = parse_hz(text)
    if hz > 1000:
        raise UsageError(f"--rail-rate {text} is faster than any power sensor converts", "at most 1kHz; 20Hz is usual")
    return hz


@app.command()
def build(
    model: ModelArgument,
    host: HostOption = None,
    precision: PrecisionOption = None,
    fp16: Fp16Option = False,
    fp32: Fp32Option = False,
    batch: BatchOption = 1,
    toolchain: ToolchainOption = None,
    seed: SeedOption = 0,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Builds a network's engine on the board, under its clocks."""
    from edgeperf import commands
    from edgeperf.bench import Request

    request = Request(model, _precision(precision, fp16, fp32), _batch(batch), toolchain, seed=seed)
    commands.build(request, host, json, Ui(quiet), opened)


@app.command()
def doctor(host: HostOption = None, json: JsonOption = False, quiet: QuietOption = False) -> None:
    """Examines a board: what it is, what can be set and measured."""
    from edgeperf import config
    from edgeperf.doctor import examine
    from edgeperf.record import to_json
    from edgeperf.words import doctor_text

    ui = Ui(quiet)
    chosen = config.choose(host)
    if chosen.note:
        ui.note(chosen.note)
    with opened(chosen.host) as board:
        report = examine(board)
    ui.result(to_json(report) if json else doctor_text(report))


for _name, _group in catalog.apps().items():
    app.add_typer(_group, name=_name)


def main() -> None:
    """Runs edgeperf and exits with the code of what happened: see the README."""
    if sys.argv[1:] == ["--version"]:
        print(f"edgeperf {__version__}")
        sys.exit(0)
    sys.exit(run())


def run(arguments: list[str] | None = None) -> int:
    """Runs one command line; returns its exit code."""
    try:
        code = app(args=arguments, prog_name="edgeperf", standalone_mode=False)
    except typer.TyperException as error:
        return _wrong_usage(error)
    except (KeyboardInterrupt, typer.Abort, Interrupted):
        print("interrupted", file=sys.stderr)
        return 130
    except EdgeperfError as error:
        Ui().error(error)
        return error.exit_code
    return code if isinstance(code, int) else 0


def _wrong_usage(error: typer.TyperException) -> int:
    context = getattr(error, "ctx", None)
    message = error.format_message()
    if message.startswith("Usage:"):  # a command without its arguments shows its help
        print(message, file=sys.stderr)
    else:
        path = context.command_path if context else "edgeperf"
        Ui().error(UsageError(message, f"`{path} --help` shows what it takes"))
    return 2
