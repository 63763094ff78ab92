"""TensorRT on the board: builds engines, keeps them, and times them."""

import os
import platform
from contextlib import closing, suppress
from typing import Any, Dict, List

from engines.onboard import layers, trt_build, trt_engine, trt_library
from engines.onboard.cache import Cache, Disk
from engines.onboard.cuda import Cuda, choose
from engines.onboard.failure import Failed
from engines.onboard.key import engine_key
from engines.onboard.loop import Interrupt, Say, clock, measure
from engines.onboard.outputs import tensors
from engines.onboard.trt_run import Buffers, Pipeline


def answer(request: Dict[str, Any], interrupt: Interrupt, say: Say) -> None:
    """Does the actions "probe", "build", "bench" and "choose" (one of several engines built)."""
    trt = trt_library.load()
    # Before TensorRT is made to do anything: without a device it crashes instead of saying so.
    with closing(choose(request["cuda"], request["options"]["cuda_graph"])) as cuda:
        board = Board(trt, cuda, request, say)
        say("hello", **board.hello())
        if request["action"] == "build":
            board.build()
        elif request["action"] == "bench":
            board.bench(interrupt)
        elif request["action"] == "choose":
            board.choose()


class Board(object):
    """A request on the board that it is for: its content and key are complete."""

    def __init__(self, trt: Any, cuda: Cuda, request: Dict[str, Any], say: Say) -> None:
        self._trt, self._cuda, self._request, self._say = trt, cuda, request, say
        self._log = trt_library.Log(trt)
        if request["model"] is not None and hasattr(trt, "init_libnvinfer_plugins"):
            # The parser takes some operators for plugins.
            trt.init_libnvinfer_plugins(self._log.logger, "")
        self._cache = Cache(Disk(), request["cache"])
        self._sm = "sm_%d%d" % cuda.compute_capability()
        host = request["content"]["board"]
        facts = {
            "tensorrt": trt.__version__,
            "gpu": (host.get("gpu", "") + " " + self._sm).strip(),
            "active_sms": str(cuda.multiprocessors()),
        }
        self._content = dict(request["content"], board=dict(host, **facts))
        self._key = engine_key(self._content)

    def hello(self) -> Dict[str, Any]:
        """Returns what the ``hello`` event says."""
        count = self._cuda.multiprocessors()
        return {
            "versions": self._versions(),
            "device": "%s, %d multiprocessor%s" % (self._sm, count, "" if count == 1 else "s"),
            "board": self._content["board"],
            "key": self._key,
        }

    def build(self) -> None:
        """Finds the engine or builds it, and says ``built``."""
        begin_s = clock()
        variant = self._request["variant"]
        found = self._cache.find(self._content, self._request["name"]) if variant is None else None
        if found and found.path:
            self._say_built(clock() - begin_s, "", found.path, found.entry["built"], cached=True)
            return
        timings = self._cache.timing_path(self._content["board"]) if variant is None else ""
        plan, workspace_bytes, notes = trt_build.build(self._trt, self._log, self._request, timings)
        seconds = clock() - begin_s
        built = {
            "seconds": seconds,
            "workspace_bytes": workspace_bytes,
            "versions": self._versions(),
            "notes": notes,
        }
        path = self._cache.part(self._key) if variant is None else self._cache.variant(self._key, variant)
        _write(path, plan)
        if variant is None:
            path = self._keep(path, built)
        self._say_built(seconds, found.why if found else "", path, built)

    def choose(self) -> None:
        """Keeps one of several engines built, removes the others and says ``built``.

        The request's ``built`` may hold what was said when it was built.
        """
        chosen = self._cache.variant(self._key, self._request["variant"])
        said = self._request.get("built") or {}
        built = {
            "seconds": said.get("seconds", 0.0),
            "workspace_bytes": said.get("workspace_bytes", self._request["options"]["workspace_bytes"]),
            "versions": self._versions(),
            "notes": said.get("notes", []),
        }
        path = self._keep(chosen, built)
        self._cache.remove_variants(self._key)
        self._say_built(built["seconds"], "", path, built)

    def bench(self, interrupt: Interrupt) -> None:
        """Loads the engine, checks what it computes, times it, and then has its layers told."""
        self._cuda.schedule(self._request["options"]["spin"])
        begin_s = clock()
        with closing(trt_engine.load(self._trt, self._log, self._plan(), self._request["inputs"])) as engine:
            self._run(engine, begin_s, interrupt)

    def _run(self, engine: trt_engine.Engine, begin_s: float, interrupt: Interrupt) -> None:
        options = self._request["options"]
        buffers = Buffers(self._cuda, engine.tensors(), self._request["input_value"])
        engine.bind(buffers.addresses)
        pipeline = Pipeline(self._cuda, engine, buffers, options)
        pipeline.check()
        outputs = tensors([(name, buffers.result(name)) for name in buffers.outputs], self._request["batch"])
        refusal = pipeline.capture() if options["cuda_graph"] else ""
        graph = options["cuda_graph"] and not refusal
        notes = [refusal] if refusal else []
        self._say("loaded", seconds=clock() - begin_s, cuda_graph=graph, notes=notes)
        self._say("outputs", tensors=outputs)
        measure(pipeline, self._request, interrupt, self._say)
        if not interrupt.seen:
            self._say("layers", rows=self._layers(engine, pipeline))

    def _layers(self, engine: trt_engine.Engine, pipeline: Pipeline) -> List[Dict[str, Any]]:
        """Returns what can be told of the layers: the run itself is over, and nothing here may spoil it."""
        seconds: Dict[str, float] = {}
        with suppress(Failed):
            seconds = pipeline.profile(trt_library.profiler(self._trt))
        try:
            return layers.rows(engine.description(), seconds)
        except ValueError:
            return layers.rows("", seconds)

    def _plan(self) -> str:
        """Returns the path of the engine to time. Raises Failed where it is not there."""
        if self._request["variant"] is not None:
            return self._cache.variant(self._key, self._request["variant"])
        found = self._cache.find(self._content, self._request["name"])
        if not found.path:
            raise Failed("engine", "there is no engine to run: %s" % found.why, "build it first: edgeperf build")
        return found.path

    def _keep(self, part: str, built: Dict[str, Any]) -> str:
        self._cache.keep(self._content, self._request["name"], part, built)
        return "%s/%s.plan" % (self._cache.folder, self._key)

    def _say_built(self, seconds: float, why: str, path: str, built: Dict[str, Any], cached: bool = False) -> None:
        self._say(
            "built",
            seconds=seconds,
            cached=cached,
            why=why,
            engine_bytes=os.path.getsize(path),
            workspace_bytes=built.get("workspace_bytes", 0),
            notes=built.get("notes", []),
            path=path,
        )

    def _versions(self) -> Dict[str, str]:
        import numpy

        release = self._cuda.version()
        return {
            "tensorrt": self._trt.__version__,
            "cuda": release,
            "cuda access": "%s %s" % (self._cuda.name, release),
            "python": platform.python_version(),
            "numpy": numpy.__version__,
        }


def _write(path: str, plan: Any) -> None:
    """Writes a plan that only its owner may read. Raises Failed where the disk is full."""
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(plan)
    except OSError as error:
        raise Failed("engine", "writing the engine to %s: %s" % (path, error), "edgeperf engines prune") from error
