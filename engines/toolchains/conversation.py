"""What a toolchain asks, what it is asked for, and what it returns. Pure."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from engines.cost import cost
from engines.models import Model
from engines.precision import Found
from engines.reference import OutputCheck
from engines.spec import EngineSpec, Options, Protocol
from remote.errors import EngineError, OutOfMemory, UsageError
from remote.types import Blob, Completed, Facts, Job

MIN_ITERATIONS = 10
"""A measurement has so many batches at least, however long they take."""

_STOPPED = "cancelled"
_KILLED = ("signal 9", "exit code -9", "exit code 137")
_SHELL = 128  # added to the number of a signal by shells, and by docker
_OVERDUE = "timeout"
_PATIENCE_S = 600.0
_SLOWEST_FLOPS = 1e9


@dataclass(frozen=True)
class Put:
    """Asks for a file on the board; answered with its path there."""

    blob: Blob


@dataclass(frozen=True)
class Run:
    """Asks for a job; answered with its `Completed`. ``measured``: the one whose clocks and watts count.

    ``doing`` says in one word what takes its time; "" for what does not.
    """

    job: Job
    measured: bool
    doing: str = ""


@dataclass(frozen=True)
class Request:
    """What to run, on which board and for how long (``iterations`` wins over ``duration_s``).

    ``cache`` is a folder of this machine for model files, ``power_mode`` the name of the mode that the board is in.
    """

    model: Model
    spec: EngineSpec
    facts: Facts
    warmup_s: float
    duration_s: float
    iterations: int | None
    cache: Path
    options: Options = field(default_factory=Options)
    power_mode: str = ""

    @property
    def content(self) -> dict[str, Any]:
        """What the engine depends on, as far as this machine knows; the board adds its TensorRT and its GPU."""
        return self.spec.content({"l4t": self.facts.l4t, "gpu": self.facts.board, "power_mode": self.power_mode})

    @property
    def timeout_s(self) -> float:
        """How long a job that prepares may take: the run, and an hour for building and whatever else."""
        return 3600.0 + self.warmup_s + self.duration_s

    @property
    def run_timeout_s(self) -> float:
        """How long the measured job may take: twice the run, the time of a very slow board, and ten minutes."""
        spec, batches = self.spec, self.iterations or MIN_ITERATIONS
        flops = 2.0 * sum(row.macs for row in cost(self.model.network, spec.batch, spec.precision))
        return _PATIENCE_S + 2 * (self.warmup_s + self.duration_s) + (batches + 1) * flops / _SLOWEST_FLOPS


@dataclass(frozen=True)
class Built:
    """How an engine came to be. ``cached``: it was there already, ``seconds`` is for finding it.

    ``why`` says why an engine that was kept did not do. ``builds_per_s`` are the images per second of each of several
    builds; the fastest was kept.
    """

    seconds: float
    cached: bool
    engine_bytes: int
    why: str = ""
    workspace_bytes: int = 0
    builds_per_s: tuple[float, ...] = ()


@dataclass(frozen=True)
class EngineRun:
    """What a toolchain measured. Times are the board's monotonic clock.

    ``latencies_s`` are per batch of ``batch`` images (empty where the tool times more than that), ``scope`` says what
    they time, ``protocol`` how images/s are formed, ``batch_s`` is the mean time of a batch where the tool itself
    gives it. Of an interrupted run it holds what there was by then. ``power_missing`` says why watts measured between
    ``start_s`` and ``stop_s`` are not those of inference; "" where they are. ``host_s`` are the latencies as the host
    program saw them, ``key`` is the engine's, ``found`` says what its layers compute in, ``check`` whether its outputs
    are right, ``effective`` the protocol that was followed.
    """

    start_s: float
    stop_s: float
    iterations: int
    latencies_s: tuple[float, ...]
    batch: int
    scope: str
    precision_found: str | None
    protocol: str
    versions: Mapping[str, str] = field(default_factory=dict)
    built: Built | None = None
    layers_s: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    interrupted: bool = False
    power_missing: str = ""
    batch_s: float | None = None
    host_s: tuple[float, ...] = ()
    key: str = ""
    found: Found | None = None
    check: OutputCheck | None = None
    effective: Protocol | None = None

    @property
    def images_per_s(self) -> float | None:
        """Images per second as ``protocol`` says; None where no batch was finished."""
        if self.batch_s:
            return self.batch / self.batch_s
        seconds = self.stop_s - self.start_s
        return self.batch * self.iterations / seconds if self.iterations and seconds > 0 else None

    @property
    def power_valid(self) -> bool:
        """Whether watts measured between start and stop are those of inference."""
        return not self.power_missing


Conversation = Generator[Put | Run, Any, EngineRun]


@dataclass(frozen=True)
class Toolchain:
    """``bench`` measures; ``build`` only makes what would be run, its `EngineRun` has no iterations.

    ``keeps``: engines are built beforehand and kept on the board.
    """

    name: str
    bench: Callable[[Request], Conversation]
    build: Callable[[Request], Conversation]
    keeps: bool = False

    def check(self, options: Options) -> None:
        """Raises UsageError for options that mean nothing to this toolchain."""
        if not self.keeps and options != Options(shapes=options.shapes):
            raise UsageError(
                f"{self.name} builds no engines: workspace, TF32, transfers, spin, CUDA graph, builds and container "
                "are options of TensorRT",
                "leave them out, or use --toolchain tensorrt or trtexec",
            )


def release(facts: Facts) -> int | None:
    """Returns the major L4T release, None for a machine that has none."""
    major = facts.l4t.partition(".")[0]
    return int(major) if major.isdigit() else None


def model_blob(request: Request) -> Blob:
    """Returns a user's file as it is put on a board. Raises UsageError where it is not all of the model."""
    model = request.model
    if model.beside:
        raise UsageError(
            f"{model.source}: weights of it are in {', '.join(model.beside)}, which does not go to the board with it",
            "save it as one file: onnx.save(onnx.load('model.onnx'), 'whole.onnx')",
        )
    return Blob(Path(model.source).name, path=Path(model.source))


def check_memory(request: Request) -> None:
    """Raises OutOfMemory where weights and the largest layer alone exceed the memory: no toolchain needs less."""
    spec, room = request.spec, request.facts.memory_bytes
    costs = cost(request.model.network, spec.batch, spec.precision)
    largest = max((row.read_bytes - row.weight_bytes + row.written_bytes for row in costs), default=0)
    least = sum(row.weight_bytes for row in costs) + largest
    if least > room > 0:
        raise OutOfMemory(
            f"{spec.model} at batch {spec.batch} needs {least / 1e9:.1f} GB or more, the board has {room / 1e9:.1f} GB",
            "use a smaller batch",
        )


def stopped(completed: Completed) -> bool:
    """Says whether a job ended early because the user wanted it to."""
    return completed.reason == _STOPPED


def ended_from_outside(completed: Completed) -> bool:
    """Says whether a signal or its time limit ended a job, so that its output does not say why."""
    signalled = completed.exit_code < 0 or completed.exit_code > _SHELL
    return completed.reason == _OVERDUE or completed.reason.startswith("signal ") or signalled


def died(name: str, completed: Completed) -> NoReturn:
    """Raises the error for a job that ended without saying why: OutOfMemory or EngineError."""
    last = [line.text for line in completed.lines if line.source == "stderr" and line.text.strip()][-5:]
    how = completed.reason or f"exit code {completed.exit_code}"
    if how in _KILLED:
        raise OutOfMemory(
            f"{name} was killed on the board, as happens when its memory is used up",
            "dmesg on the board says whether it was; free memory (stop the desktop, close what else uses the GPU), "
            "add swap, or use a smaller batch",
        )
    if how == _OVERDUE:
        raise EngineError(
            f"{name} was ended: it gave no result in {completed.ended_s - completed.started_s:.0f} s",
            "its GPU may hang: see dmesg on the board; where it does, only a restart helps",
        )
    raise EngineError(
        f"{name} ended without a result ({how})",
        "its last words:\n" + "\n".join(last) if last else "it printed no error; try it by hand on the board",
    )
