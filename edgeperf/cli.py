"""The command line: parses, puts the pieces together, maps errors to exit codes. Flows are imported when needed."""

from __future__ import annotations

import gc
import sys
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from edgeperf import (
    __version__,
    catalog,
    clock_commands,
    engine_commands,
    exec_commands,
    host_commands,
    lease_commands,
    rails_commands,
    sim_commands,
)
from edgeperf.engine_options import (
    BuildsOption,
    ContainerOption,
    CudaOption,
    GraphOption,
    ShapeOption,
    SpinOption,
    Tf32Option,
    TransfersOption,
    WorkspaceOption,
    engine_options,
)
from edgeperf.options import (
    AcceptOption,
    BatchOption,
    ClockOption,
    FaultOption,
    FaultsOption,
    Fp16Option,
    Fp32Option,
    HostOption,
    IdleOption,
    JsonOption,
    ModelArgument,
    OutOption,
    PrecisionOption,
    ProfileOption,
    QuietOption,
    RailRateOption,
    RecordOption,
    RequireLockOption,
    SeedOption,
    SourceOption,
    ToolchainOption,
    clock_overrides,
    opened,
    scripted,
    some_time,
)
from edgeperf.spans import celsius, span
from edgeperf.spans import rail_rate as parse_rail_rate
from edgeperf.ui import Ui
from remote import interrupts
from remote.errors import EdgeperfError, Interrupted, UsageError

if TYPE_CHECKING:
    from engines.cost import Precision

app = typer.Typer(
    name="edgeperf",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Locks the clocks, builds and runs a network, reads the power rails, says how sure the numbers are.",
)


_UNCOLLECTED = 100_000
"""Objects between two collections: loading the libraries makes many, and none that could be collected."""


def _version(wanted: bool) -> None:
    if wanted:
        raise typer.Exit(_tell_version())


def _tell_version() -> int:
    Ui().result(f"edgeperf {__version__}")
    return 0


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


clock_commands.add_to(app)


@app.command()
def bench(
    model: ModelArgument,
    host: HostOption = None,
    precision: PrecisionOption = None,
    fp16: Fp16Option = False,
    fp32: Fp32Option = False,
    batch: BatchOption = 1,
    profile: ProfileOption = None,
    clock: ClockOption = None,
    toolchain: ToolchainOption = None,
    duration: Annotated[str, typer.Option("--duration", help="At least this long: 10s, 5m.")] = "10s",
    warmup: Annotated[str, typer.Option("--warmup", help="Run this long before measuring.")] = "2s",
    iterations: Annotated[int | None, typer.Option("--iterations", min=1, help="Exactly this many batches.")] = None,
    repeat: Annotated[int, typer.Option("--repeat", min=1, max=1000, help="Run that often, under one lock.")] = 1,
    soak: Annotated[
        str | None, typer.Option("--soak", metavar="TIME", help="One long run, and how it went over time: 10m.")
    ] = None,
    cool_to: Annotated[
        str | None, typer.Option("--cool-to", metavar="TEMP", help="Wait before each run until it is as cool: 45C.")
    ] = None,
    cool_limit: Annotated[str, typer.Option("--cool-limit", help="Wait that long at most, then go on.")] = "5m",
    rail_rate: RailRateOption = "20Hz",
    rails: SourceOption = "auto",
    idle: IdleOption = "3s",
    seed: SeedOption = 0,
    require_lock: RequireLockOption = False,
    workspace: WorkspaceOption = "512MiB",
    tf32: Tf32Option = False,
    builds: BuildsOption = 1,
    transfers: TransfersOption = False,
    spin: SpinOption = False,
    cuda_graph: GraphOption = False,
    cuda: CudaOption = None,
    shape: ShapeOption = None,
    container: ContainerOption = "",
    out: OutOption = None,
    fault: FaultOption = None,
    faults: FaultsOption = None,
    record: RecordOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
    accept: AcceptOption = False,
) -> None:
    """Measures a network: img/s, latency, watts, and a verdict."""
    from edgeperf import commands
    from edgeperf.left import Request

    if soak is not None and (repeat > 1 or iterations is not None):
        raise UsageError("--soak is one run of a given time", "leave out --repeat and --iterations")
    request = Request(
        model=model,
        precision=_precision(precision, fp16, fp32),
        batch=_batch(batch),
        toolchain=toolchain,
        profile=profile,
        clocks=clock_overrides(clock),
        duration_s=some_time("--soak", soak) or span("--duration", duration),
        warmup_s=span("--warmup", warmup),
        iterations=iterations,
        rail_rate_hz=parse_rail_rate(rail_rate),
        source=rails,
        idle_s=span("--idle", idle),
        seed=seed,
        require_lock=require_lock,
        repeat=repeat,
        soak=soak is not None,
        cool_to_c=celsius("--cool-to", cool_to) if cool_to is not None else None,
        cool_limit_s=span("--cool-limit", cool_limit),
        options=engine_options(
            workspace=workspace,
            tf32=tf32,
            builds=builds,
            cuda=cuda,
            shape=shape,
            container=container,
            transfers=transfers,
            spin=spin,
            cuda_graph=cuda_graph,
        ),
    )
    open_ = partial(opened, accept=accept, record=record, faults=scripted(fault, faults))
    raise typer.Exit(commands.bench(request, host, out, json, Ui(quiet), open_))


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
    workspace: WorkspaceOption = "512MiB",
    tf32: Tf32Option = False,
    builds: BuildsOption = 1,
    cuda: CudaOption = None,
    shape: ShapeOption = None,
    container: ContainerOption = "",
    record: RecordOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
    accept: AcceptOption = False,
) -> None:
    """Builds a network's engine on the board, under its clocks."""
    from edgeperf import commands
    from edgeperf.left import Request

    options = engine_options(workspace=workspace, tf32=tf32, builds=builds, cuda=cuda, shape=shape, container=container)
    request = Request(model, _precision(precision, fp16, fp32), _batch(batch), toolchain, seed=seed, options=options)
    commands.build(request, host, json, Ui(quiet), partial(opened, accept=accept, record=record))


@app.command()
def doctor(
    host: HostOption = None,
    fault: FaultOption = None,
    faults: FaultsOption = None,
    record: RecordOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
    accept: AcceptOption = False,
) -> None:
    """Examines a board: what it is, what can be set and measured."""
    from edgeperf import config
    from edgeperf.doctor import examine
    from edgeperf.record import to_json
    from edgeperf.words import doctor_text

    ui = Ui(quiet)
    chosen = config.choose(host)
    if chosen.note:
        ui.note(chosen.note)
    with opened(chosen.host, accept=accept, record=record, faults=scripted(fault, faults)) as board:
        report = examine(board)
    ui.result(to_json(report) if json else doctor_text(report))


@app.command()
def report(
    name: Annotated[str, typer.Argument(metavar="FILE", help="A saved result, its name or `last`, or a recording.")],
    json: JsonOption = False,
) -> None:
    """Makes the figures of a result or recording again."""
    from edgeperf import config, reports
    from edgeperf.record import to_json

    made = reports.look(name, config.data_folder() / "results", config.cache_folder())
    Ui().result(to_json(made) if json else reports.text(made))
    raise typer.Exit(made.exit_code)


_GROUPS = {
    "engines": engine_commands.engines,
    "hosts": host_commands.hosts,
    "lease": lease_commands.lease,
    "sim": sim_commands.sim,
}
for _name, _group in {**catalog.apps(), **_GROUPS}.items():
    app.add_typer(_group, name=_name)
app.command()(lease_commands.attach)
app.command("rails")(rails_commands.rails)
app.command("exec", context_settings={"allow_interspersed_args": False})(exec_commands.execute)


def main() -> None:
    """Runs edgeperf and exits with the code of what happened: see the README."""
    interrupts.interrupt_when_ended()
    gc.set_threshold(_UNCOLLECTED)
    code = run()
    gc.freeze()  # what is left goes with the process: looking through it first takes as long as a request
    sys.exit(code)


def run(arguments: list[str] | None = None) -> int:
    """Runs one command line; returns its exit code."""
    try:
        if (sys.argv[1:] if arguments is None else arguments) == ["--version"]:  # typer would take twice as long
            return _tell_version()
        code = app(args=arguments, prog_name="edgeperf", standalone_mode=False)
    except typer.TyperException as error:
        return _wrong_usage(error)
    except (KeyboardInterrupt, typer.Abort, Interrupted):
        Ui().note("interrupted")
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
