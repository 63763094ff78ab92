"""What is done on the board around trtexec, which the host starts itself: before, between and after its runs.

- "prepare" says ``hello`` and ``prepared``: which trtexec there is, whether the engine is kept already, and the paths
  of all files. Where a build is needed it has checked the memory and written the ONNX file of a built-in network.
- "seal" takes the engine that trtexec built into the cache and says ``built``; what only the host knows is in the
  request's ``built``: ``seconds``, ``workspace_bytes``, ``notes`` and ``why`` a kept one was not used.
- "choose" keeps the engine number ``variant`` of several, removes the others and says ``built`` likewise.
- "collect" reads and removes the request's ``files`` ("times", "profile" and "layers"; a path may be "") and says
  ``latencies``, ``host``, ``layers`` and ``collected``; the request's ``version`` is TensorRT's, as in ``prepared``.
- "probe" only says ``hello``.

The request's ``files`` may name another "trtexec" than the one of JetPack.
"""

import os
import platform
import shutil
import subprocess
from contextlib import closing
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from engines.onboard import banner, layers, memory, onnx_file
from engines.onboard.cache import Cache, Disk
from engines.onboard.cuda import Cuda, choose
from engines.onboard.failure import Failed
from engines.onboard.key import engine_key
from engines.onboard.loop import Interrupt, Say
from engines.onboard.times import profile, times, warmup_ms

_PLACES = ("/usr/src/tensorrt/bin/trtexec", "/usr/bin/trtexec")
_LIBRARIES = ("/usr/lib/aarch64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/usr/lib", "/usr/local/lib")
_HELP_S = 120  # the libraries of TensorRT are large, and a board's disk may be slow
_CHUNK = 20000
_INSTALL = "it comes with JetPack: sudo apt-get install tensorrt (libnvinfer-bin); or use --toolchain tensorrt"

Connect = Callable[[Optional[str]], Cuda]


def answer(request: Dict[str, Any], interrupt: Interrupt, say: Say, connect: Connect = choose) -> None:
    """Does the request's action. ``connect`` finds a way to CUDA. Raises Failed."""
    if request["action"] == "collect":
        _collect(request, say)
        return
    site = _visit(request, connect)
    if request["action"] in ("probe", "prepare"):
        say(
            "hello",
            versions=site.versions,
            device=site.device,
            board=site.content["board"],
            key=site.key,
        )
    if request["action"] == "prepare" and not interrupt.seen:
        _prepare(request, site, say)
    elif request["action"] == "seal":
        _seal(request, site, say)
    elif request["action"] == "choose":
        _choose(request, site, say)


class Site(NamedTuple):
    """What there is on this board, and which engine is meant."""

    tool: str
    banner: str
    device: str
    versions: Dict[str, str]
    content: Dict[str, Any]
    key: str
    cache: Cache

    def path(self, end: str) -> str:
        """Returns where a file of this engine lies beside its plan."""
        return "%s/%s.%s" % (self.cache.folder, self.key, end)

    def part(self, variant: Optional[int]) -> str:
        """Returns where the engine is built, in a folder that exists."""
        return self.cache.part(self.key) if variant is None else self.cache.variant(self.key, variant)


def _visit(request: Dict[str, Any], connect: Connect) -> Site:
    tool = find((request.get("files") or {}).get("trtexec") or "")
    first = banner_of(tool)
    version = banner.version_in(first) or _library_version()
    with closing(connect(request["cuda"])) as cuda:
        architecture = "sm_%d%d" % cuda.compute_capability()
        count = cuda.multiprocessors()
        cuda_version = cuda.version()
    board = dict(request["content"]["board"], tensorrt=version, active_sms=str(count))
    board["gpu"] = (board.get("gpu", "") + " " + architecture).strip()
    content = dict(request["content"], board=board)
    versions = {
        "tensorrt": version,
        "cuda": cuda_version,
        "cuda access": "%s %s" % (cuda.name, cuda_version),
        "python": platform.python_version(),
    }
    cache = Cache(Disk(), request["cache"])
    device = "%s, %d multiprocessor%s" % (architecture, count, "" if count == 1 else "s")
    return Site(tool, first, device, versions, content, engine_key(content), cache)


def _prepare(request: Dict[str, Any], site: Site, say: Say) -> None:
    variant = request["variant"]
    part = site.part(variant)
    kept = site.cache.find(site.content, request["name"]) if variant is None else None
    said = {
        "trtexec": site.tool,
        "version": site.versions["tensorrt"],
        "banner": site.banner,
        "cached": bool(kept and kept.path),
        "plan": site.path("plan") if variant is None else part,
        "part": part,
        "why": kept.why if kept else "one of several builds",
        "timing": "" if kept is None else site.cache.timing_path(site.content["board"]),
        "times": site.path("times"),
        "layers": site.path("layers"),
        "profile": site.path("profile"),
    }
    if kept and kept.path:
        built = kept.entry["built"]
        found = {"onnx": "", "engine_bytes": kept.entry["plan_bytes"]}
        found.update(workspace_bytes=built.get("workspace_bytes", 0), notes=built.get("notes", []))
        say("prepared", **dict(said, **found))
        return
    workspace_bytes, notes = memory.check(request)
    onnx = request["model"] or _write_onnx(request, site)
    say("prepared", onnx=onnx, workspace_bytes=workspace_bytes, notes=notes, engine_bytes=0, **said)


def _write_onnx(request: Dict[str, Any], site: Site) -> str:
    path = site.path("onnx")
    # From TensorRT 11 on precisions come from the types in the file; before, the same file is built as FP32 or FP16.
    typed = request["precision"] == "fp16" and int(site.versions["tensorrt"].split(".")[0]) >= 11
    with site.cache.usable():
        with open(request["typed_skeleton" if typed else "skeleton"], encoding="utf-8") as file:
            skeleton = file.read()
        with open(path, "wb") as out:
            onnx_file.write(out, skeleton)
    return path


def _seal(request: Dict[str, Any], site: Site, say: Say) -> None:
    variant = request["variant"]
    part = site.part(variant)
    site.cache.files.remove(site.path("onnx"))
    if not os.path.exists(part) or not os.path.getsize(part):
        raise Failed("engine", "trtexec says that it passed, but there is no engine at %s" % part, "run it again")
    if variant is None:
        _keep(request, site, part, say)
    else:
        say("built", cached=False, engine_bytes=os.path.getsize(part), path=part, **_built(request))


def _choose(request: Dict[str, Any], site: Site, say: Say) -> None:
    chosen = site.cache.variant(site.key, request["variant"])
    _keep(request, site, chosen, say)
    for name in site.cache.files.names(site.cache.folder):
        if name.startswith(site.key + ".v"):
            site.cache.files.remove(site.cache.folder + "/" + name)


def _keep(request: Dict[str, Any], site: Site, part: str, say: Say) -> None:
    said = _built(request)
    built = {name: said[name] for name in ("seconds", "workspace_bytes", "notes")}
    entry = site.cache.keep(site.content, request["name"], part, dict(built, versions=site.versions))
    say("built", cached=False, engine_bytes=entry["plan_bytes"], path=site.path("plan"), **said)


def _built(request: Dict[str, Any]) -> Dict[str, Any]:
    unknown = {"seconds": 0.0, "workspace_bytes": request["options"]["workspace_bytes"], "notes": [], "why": ""}
    return dict(unknown, **(request.get("built") or {}))


def _collect(request: Dict[str, Any], say: Say) -> None:
    files = {name: request["files"].get(name, "") for name in ("times", "profile", "layers")}
    texts = {name: _text(path) for name, path in files.items()}
    notes: List[str] = []
    dropped = 0
    if files["times"]:
        major, minor = request["version"].split(".")[:2]
        found = times(texts["times"], (int(major), int(minor)), warmup_ms(request["warmup_s"]))
        dropped = found["dropped"]
        for event, seconds in (("latencies", found["compute_s"]), ("host", found["host_s"])):
            for first in range(0, len(seconds), _CHUNK):
                say(event, seconds=[round(value, 9) for value in seconds[first : first + _CHUNK]])
    if files["profile"]:
        try:
            say("layers", rows=layers.rows(texts["layers"], profile(texts["profile"])))
        except (Failed, ValueError) as error:
            notes.append("the times of layers are not known: %s" % error)
    for path in filter(None, files.values()):
        Disk().remove(path)
    say("collected", dropped=dropped, notes=notes)


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""  # which none of the readers takes for a file


def find(wanted: str) -> str:
    """Returns the path of trtexec, ``wanted`` if it is not "". Raises Failed where there is none."""
    for path in (wanted,) if wanted else _PLACES + (shutil.which("trtexec") or "",):
        if path and os.path.isfile(path):
            return path
    raise Failed("missing", "there is no trtexec here%s" % (" at " + wanted if wanted else ""), _INSTALL)


def banner_of(tool: str) -> str:
    """Returns the line with which trtexec begins; asked for help it does nothing else. Raises Failed for none."""
    try:
        done = subprocess.run(
            [tool, "--help"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_HELP_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed("missing", "%s cannot be run: %s" % (tool, error), _INSTALL) from error
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    for line in lines:
        if line.startswith("&&&& RUNNING TensorRT.trtexec"):
            return line.strip()
    last = [line for line in lines if line.strip()][-5:]
    raise Failed("missing", "%s does not begin as trtexec does" % tool, _INSTALL, last)


def _library_version() -> str:
    """Returns the version of TensorRT's library; trtexec of TensorRT 7 does not say its own. Raises Failed."""
    folders = [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    for folder in folders + list(_LIBRARIES):
        for name in Disk().names(folder):
            if banner.of_library(name):
                return banner.of_library(name)
    try:
        import tensorrt
    except ImportError as error:
        what = "trtexec does not say its version, and there is neither libnvinfer.so.X.Y.Z nor the module tensorrt"
        raise Failed("version", what, "use --toolchain tensorrt") from error
    return str(tensorrt.__version__)
