"""What a toolchain asks, what it is asked for, and what it returns. Pure."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from engines.cost import cost
from engines.models import Model
from engines.spec import EngineSpec
from remote.errors import EngineError, OutOfMemory
from remote.types import Blob, Completed, Facts, Job

_STOPPED = "cancelled"
_KILLED = "signal 9"


@dataclass(frozen=True)
class Put:
    """Asks for a file on the board; answered with its path there."""

    blob: Blob


@dataclass(frozen=True)
class Run:
    """Asks for a job; answered with its `Completed`. ``measured``: the one whose clocks and watts count."""

    job: Job
    measured: bool


@dataclass(frozen=True)
class Request:
    """What to run, on which board and for how long (``iterations`` wins over ``duration_s``).

    ``cache`` is a folder of this machine for model files.
    """

    model: Model
    spec: EngineSpec
    facts: Facts
    warmup_s: float
    duration_s: float
    iterations: int | None
    cache: Path

    @property
    def key(self) -> str:
        """The engine's content key on this board."""
        return self.spec.key({"l4t": self.facts.l4t, "gpu": self.facts.board})

    @property
    def timeout_s(self) -> float:
        """How long the job may take: the run, and an hour for building, slow batches and whatever else."""
        return 3600.0 + self.warmup_s + self.duration_s


@dataclass(frozen=True)
class Built:
    """How an engine came to be. ``cached``: it was there already, ``seconds`` is for loading it."""

    seconds: float
    cached: bool
    engine_bytes: int


@dataclass(frozen=True)
class EngineRun:
    """What a toolchain measured. Times are the board's monotonic clock.

    ``latencies_s`` are per batch of ``batch`` images (empty where the tool times more than that), ``scope`` says what
    they time, ``protocol`` how images/s are formed, ``batch_s`` is the mean time of a batch where the tool itself
    gives it. Of an interrupted run it holds what there was by then. ``power_missing`` says why watts measured between
    ``start_s`` and ``stop_s`` are not those of inference; "" where they are.
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
    """``bench`` measures; ``build`` only makes what would be run, its `EngineRun` has no iterations."""

    name: str
    bench: Callable[[Request], Conversation]
    build: Callable[[Request], Conversation]


def release(facts: Facts) -> int | None:
    """Returns the major L4T release, None for a machine that has none."""
    major = facts.l4t.partition(".")[0]
    return int(major) if major.isdigit() else None


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


def died(name: str, completed: Completed) -> NoReturn:
    """Raises the error for a job that ended without saying why: OutOfMemory or EngineError."""
    last = [line.text for line in completed.lines if line.source == "stderr" and line.text.strip()][-5:]
    if completed.reason == _KILLED or completed.exit_code == -9:
        raise OutOfMemory(
            f"{name} was killed on the board, as happens when its memory is used up", "use a smaller batch"
        )
    how = completed.reason or f"exit code {completed.exit_code}"
    raise EngineError(
        f"{name} ended without a result ({how})",
        "its last words:\n" + "\n".join(last) if last else "it printed nothing; try it by hand on the board",
    )
