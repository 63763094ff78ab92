"""What several commands take, and how they open a board."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from remote.errors import UsageError

if TYPE_CHECKING:
    from remote.board import Board
    from remote.hosts import Host
    from remote.recording import Tape

_HOSTS = "NAME | user@address:port | local | sim:BOARD[@RELEASE][,KEY=VALUE...] | replay:FILE"
HostOption = Annotated[str | None, typer.Option("--host", metavar="HOST", help=_HOSTS)]
HostsOption = Annotated[
    list[str] | None, typer.Option("--host", metavar="HOST", help=f"{_HOSTS} | GROUP. May be given several times.")
]
AcceptOption = Annotated[
    bool, typer.Option("--accept-new-host-key", help="Trust a board that was never met before; never a changed one.")
]
RecordOption = Annotated[
    Path | None, typer.Option("--record", metavar="FILE", help="Keep all that the board says, for --host replay:FILE.")
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
ModeOption = Annotated[
    str | None, typer.Option("--mode", metavar="NAME", help="Set this power mode first; `doctor` lists the board's.")
]
RebootOption = Annotated[
    bool, typer.Option("--reboot", help="Let the board reboot where the power mode takes it; nobody waits for it.")
]
ForOption = Annotated[
    str | None, typer.Option("--for", metavar="TIME", help="Put back by the board itself after this time: 30m.")
]
ProfileOption = Annotated[str | None, typer.Option("--profile", help="Clock profile. Default: maxperf on Jetsons.")]
RequireLockOption = Annotated[bool, typer.Option("--require-lock", help="Exit 4 when the clocks cannot be locked.")]
RailRateOption = Annotated[str, typer.Option("--rail-rate", help="Samples of the power rails per second.")]
IdleOption = Annotated[str, typer.Option("--idle", help="Measure idle power this long first.")]
OutOption = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Where to save the result.")]
ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help="A built-in network or a file.onnx.")]
PrecisionOption = Annotated[str | None, typer.Option("--precision", metavar="fp32|fp16", help="Default: fp32.")]
Fp16Option = Annotated[bool, typer.Option("--fp16", help="The same as --precision fp16.")]
Fp32Option = Annotated[bool, typer.Option("--fp32", help="The same as --precision fp32.")]
BatchOption = Annotated[int, typer.Option("--batch", help="Images per batch.")]
ToolchainOption = Annotated[
    str | None, typer.Option("--toolchain", metavar="NAME", help="tensorrt | trtexec | caffe | onnxruntime")
]
SourceOption = Annotated[
    str, typer.Option("--rails", metavar="SOURCE", help="What reads the rails: auto | sysfs | tegrastats | jtop.")
]
FaultOption = Annotated[
    list[str] | None,
    typer.Option("--fault", metavar="NAME@START...", help="Breaks a simulated board; `edgeperf sim faults` lists how."),
]
FaultsOption = Annotated[
    Path | None, typer.Option("--faults", metavar="FILE", help="Faults for a simulated board, in TOML.")
]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of weights and dither.")]


@contextmanager
def opened(
    host: Host,
    *,
    engines: bool = False,
    accept: bool = False,
    clocks_only: bool = False,
    resume: bool = False,
    record: Path | None = None,
    faults: Sequence[str] = (),
) -> Iterator[Board]:
    """Opens a board; with ``engines`` a twin can also run networks, with ``accept`` a new host key is taken.

    With ``clocks_only`` nothing is run on the board; with ``resume`` the connection that was lost is taken up again.
    What the board says is kept in the file ``record``; ``faults`` befall a twin, and only a twin may have any.
    """
    from edgeperf.config import cache_folder
    from edgeperf.login import access
    from remote.board import open_board
    from remote.hosts import Twin

    host = broken(host, faults)
    programs = {}
    if engines and isinstance(host, Twin):
        from engines.simulated.programs import programs as simulated

        programs = simulated()
    allowed = access(accept_new_host_key=accept, clocks_only=clocks_only, resume=resume)
    with _taped(record) as tape, open_board(host, programs, cache_folder(), allowed) as board:
        yield _recorded(board, tape) if tape else board


@contextmanager
def _taped(record: Path | None) -> Iterator[Tape | None]:
    """Opens the file before the board. One that is not whole is told of, and costs nobody a measurement."""
    if record is None:
        yield None
        return
    from edgeperf.ui import Ui
    from remote.recording import Tape

    with closing(Tape(record)) as tape:
        yield tape
    if tape.failed:
        Ui().warn(f"the recording {record} is not whole: {tape.failed}")


def _recorded(board: Board, tape: Tape) -> Board:
    from edgeperf import __version__
    from remote.recording import Recording

    return replace(board, transport=Recording(board.transport, tape, board.host.text, __version__))


def broken(host: Host, faults: Sequence[str]) -> Host:
    """Returns a twin with more faults; `edgeperf.faults`, loaded only where there are any."""
    if not faults:
        return host
    from edgeperf.faults import broken as spoilt

    return spoilt(host, faults)


def scripted(named: Sequence[str] | None, file: Path | None) -> tuple[str, ...]:
    """Returns the faults of ``--fault`` and those of the file of ``--faults``. Raises UsageError for a wrong file."""
    if file is None:
        return tuple(named or ())
    from edgeperf.faults import from_file

    return (*(named or ()), *from_file(file))


def some_time(option: str, text: str | None) -> float | None:
    """Returns seconds, None where the option is not given. Raises UsageError for 0 and for what is no span."""
    from edgeperf.spans import span

    seconds = span(option, text) if text is not None else None
    if seconds == 0:
        raise UsageError(f"{option} {text} is no time to run for", "give more than 0, such as 10s")
    return seconds


def clock_overrides(pairs: list[str] | None) -> dict[str, str]:
    """Returns ``["gpu=844.8MHz"]`` as a dictionary. Raises UsageError for what is not K=V."""
    overrides = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        if not equals or not key or not value:
            raise UsageError(f"--clock {pair!r} is not KEY=VALUE", "for example --clock gpu=844.8MHz")
        overrides[key] = value
    return overrides
