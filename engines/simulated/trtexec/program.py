"""The twin's trtexec: builds, loads, runs and reports."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from typing import Any

from engines.cost import Precision
from engines.network import Network
from engines.onboard.failure import Failed
from engines.simulated import plan as plans
from engines.simulated.builder import build, load_s, take_memory
from engines.simulated.model import Model, onnx_model
from engines.simulated.pace import Pace
from engines.simulated.plan import Plan, Refused
from engines.simulated.protocol import Costs, Engine, Mode, Physics
from engines.simulated.rows import layer_rows
from engines.simulated.stack import Stack
from engines.simulated.trtexec import text, trace
from engines.simulated.trtexec.options import Asked, parse
from remote.errors import UsageError
from remote.sim.physics import Activity, record
from remote.sim.process import Action, Busy, Context, Out, OutOfBoardMemory

_START_S = 3.0  # assumed: loading CUDA and TensorRT
_CRASHED = 139
_MIB = 1 << 20

Actions = Generator[Action, None, None]


class _Fatal(Exception):
    """Ends trtexec as an error does: its words, line by line."""


def run(context: Context) -> Generator[Action, None, int]:
    """``trtexec --option=value ...``."""
    try:
        stack = Stack.of(context)
    except Failed as failed:
        yield Out(f"trtexec: error while loading shared libraries: {failed.what}\n")
        return 127
    command = " ".join(context.argv)
    yield Out(f"&&&& RUNNING {text.name_of(stack)} # {command}\n")
    log = _Log(context)
    try:
        asked, unknown = parse(context.argv[1:], stack.numbers)
        if asked.help:
            yield Out(text.HELP)
            return 0
        if unknown:
            raise _Fatal(*(f"Unknown option: {words}" for words in unknown))
        if asked.profile and not asked.dump_profile and stack.numbers < (8,):
            return _CRASHED  # documented for 7.x: nothing looks after a profile that is not printed
        yield from _Run(context, stack, asked, log).answer()
    except (_Fatal, ValueError) as error:
        yield log("E", *map(str, error.args))
        yield Out(f"&&&& FAILED {text.name_of(stack)} # {command}\n")
        return 1
    yield Out(f"&&&& PASSED {text.name_of(stack)} # {command}\n")
    return 0


class _Log:
    """Lines as trtexec prints them: with the time and how grave they are."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def __call__(self, severity: str, *lines: str) -> Out:
        stamp = time.strftime("%m/%d/%Y-%H:%M:%S", time.gmtime(self._context.wall()))
        return Out("".join(f"[{stamp}] [{severity}] {line}\n" for line in lines))


class _Run:
    """One run of the program."""

    def __init__(self, context: Context, stack: Stack, asked: Asked, log: _Log) -> None:
        self._context, self._stack, self._asked, self._log = context, stack, asked, log
        self._version = stack.numbers
        self._twin: Mapping[str, Any] = context.twin

    def answer(self) -> Actions:
        """Does all that was asked for. Raises _Fatal, ValueError."""
        asked = self._asked
        yield self._log("I", *text.options(asked, self._stack))
        yield Busy(_START_S, Activity(cpu_load=1.0))
        if asked.load:
            plan = yield from self._load()
        elif asked.onnx:
            plan = yield from self._build()
        else:
            raise _Fatal("Model missing or format not recognized")
        if asked.save:
            self._context.save(asked.save, plans.plan_text(plan))
        if not asked.skip:
            yield from self._infer(plan)

    def _load(self) -> Generator[Action, None, Plan]:
        began_s = self._context.now()
        try:
            plan = plans.load(self._context.load(self._asked.load), self._stack)
            take_memory(self._context, plan)
        except OSError:
            raise _Fatal(f"Error opening engine file: {self._asked.load}", "Engine set up failed") from None
        except Refused as error:
            yield self._log("E", f"[TRT] {error}")
            raise _Fatal("Engine deserialization failed", "Got invalid engine!", "Inference set up failed") from None
        except OutOfBoardMemory as error:
            raise _Fatal(f"[TRT] 2: Cuda Runtime (out of memory): {error}", "Inference set up failed") from None
        if doubt := plans.doubt(plan, self._stack):
            yield self._log("W", f"[TRT] {doubt}")
        yield Busy(load_s(plan), Activity(cpu_load=1.0))
        seconds = self._context.now() - began_s
        yield self._log("I", f"[TRT] Loaded engine size: {plan.engine_bytes // _MIB} MiB")
        yield self._log("I", f"Engine loaded in {seconds:g} sec.")
        if self._version >= (8, 5):
            yield self._log("I", f"Engine deserialized in {seconds:g} sec.")
        return plan

    def _build(self) -> Generator[Action, None, Plan]:
        asked, began_s = self._asked, self._context.now()
        yield self._log("I", "Start parsing network model")
        network, batch, typed = self._model()
        yield self._log("I", "Finish parsing network model")
        asked_for: Precision = "fp16" if asked.fp16 else "fp32"
        precision = typed if self._version >= (11,) else asked_for  # the types in the file count from then on
        engine = Engine(network, batch, precision, asked.workspace_bytes, asked.tf32)
        try:
            plan = yield from build(self._context, engine, asked.timing or None)
        except OutOfBoardMemory as error:
            raise _Fatal(
                f"[TRT] 2: [virtualMemoryBuffer.cpp::resizePhysical] Error Code 2: OutOfMemory ({error})",
                "Engine could not be created from network",
                "Building engine failed",
                "Engine set up failed",
            ) from None
        if engine.workspace_bytes < record(Costs, self._twin["protocol"]).small_workspace_bytes:
            few = "Some tactics do not have sufficient workspace memory to run."
            yield self._log("I", f"[TRT] {few} Increasing workspace size may increase performance.")
        yield self._log("I", f"Engine built in {self._context.now() - began_s:g} sec.")
        if self._version >= (10,):
            yield self._log("I", f"Created engine with size: {plan.engine_bytes / _MIB:g} MiB")
        return plan

    def _model(self) -> Model:
        asked = self._asked
        if not asked.explicit:
            raise _Fatal("[TRT] The ONNX parser only supports networks with an explicit batch dimension.")
        try:
            return onnx_model(self._context.load(asked.onnx), asked.shapes)
        except OSError:
            raise _Fatal(f"Could not open file {asked.onnx}", "Failed to parse onnx file") from None
        except UsageError as error:
            raise _Fatal(f"[TRT] ModelImporter: {error.what}", "Failed to parse onnx file") from None

    def _infer(self, plan: Plan) -> Actions:
        asked, log = self._asked, self._log
        shapes = plan.engine.network.shapes(plan.engine.batch)
        for entry in plan.engine.network.inputs:
            dims = "x".join(map(str, shapes[entry.name]))
            yield log("I", f"Using random values for input {entry.name}")
            yield log("I", f"Created input binding for {entry.name} with dimensions {dims}")
        # A profiler waits after every layer, and so for every batch. TensorRT 7 has one also for exporting times.
        watched = (asked.profiles and not asked.separate) or (bool(asked.times) and self._version < (8,))
        ahead = 0 if watched or asked.alone else 1
        physics = Physics(self._twin, plan.engine, Mode(asked.transfers, asked.spin, asked.graph, ahead))
        pace = Pace.of_tensorrt(self._context, physics)
        yield log("I", "Starting inference")
        warm: list[float] = []
        yield from pace.run(warm, 1 if asked.warmup_s else 0, asked.warmup_s)
        begin_s = self._context.now()
        done: list[float] = []
        yield from pace.run(done, max(1, asked.iterations), asked.duration_s)
        wall_s = self._context.now() - begin_s
        batch = physics.batch(pace.clocks())
        rows = list(trace.queries([*warm, *done], batch, ahead))
        timed = rows[len(warm) :]
        yield from self._report(len(warm), timed, wall_s, watched and self._version >= (8, 4))
        if asked.times:
            kept = rows if self._version < (8, 5) else timed
            self._context.save(asked.times, trace.times_json(kept, self._version).encode())
        if asked.profiles and asked.separate:
            yield from pace.run([], max(1, asked.iterations), asked.duration_s)
        yield from self._profile(layer_rows(plan.engine, physics, batch), len(done), plan.engine.network)

    def _report(self, warm: int, timed: list[trace.Query], wall_s: float, silent: bool) -> Actions:
        """Prints what was timed; a profiler makes it ``silent``."""
        asked, log, version = self._asked, self._log, self._version
        explicit = version >= (8,) or asked.explicit
        # Explicit batches count as one query, up to 7.2 as none; a batch that was given multiplies, rightly or not.
        count = 0 if version < (8,) and explicit else asked.batch or 1
        queries = len(timed) * count
        yield log("I", f"Warmup completed {warm * count} queries over {asked.warmup_s * 1e3:g} ms")
        yield log("I", f"Timing trace has {queries} queries over {wall_s:g} s", "")
        yield log("I", "=== Trace details ===", f"Trace averages of {asked.average} runs:")
        yield log("I", *text.averages(timed, asked), "")
        if silent:
            because = "since it is inaccurate due to the extra synchronizations when the profiler is enabled."
            yield log("I", f"The e2e network timing is not reported {because}")
            return
        yield log("I", *text.summary(timed, wall_s, queries / wall_s, asked, version))
        for line in text.warnings(timed, version):
            yield log("W", line)

    def _profile(self, rows: list[dict[str, Any]], count: int, network: Network) -> Actions:
        """Writes and prints what was asked for of the layers, which ran ``count`` times."""
        asked, version = self._asked, self._version
        times = [(row["name"], row["seconds"]) for row in rows]
        if asked.layer_info:
            told = [(row["name"], row["type"], row["precision"]) for row in rows]
            names = [*(entry.name for entry in network.inputs), *network.outputs]
            self._context.save(asked.layer_info, trace.layer_info_json(told, names, version).encode())
        if asked.profile:
            self._context.save(asked.profile, trace.profile_json(times, count, version).encode())
        if asked.dump_profile:
            yield self._log("I", *text.profile_table(times, count, version))
