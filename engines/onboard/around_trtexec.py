"""What is done with the files of a board around the runs of trtexec: before, between and after them.

- "prepare" says ``prepared``: whether the engine is kept already, and the paths of all files. Where a build is needed
  it has checked the memory and written the ONNX file of a built-in network.
- "seal" takes the engine that trtexec built into the cache and says ``built``; what only the host knows is in the
  request's ``built``: ``seconds``, ``workspace_bytes``, ``notes`` and ``why`` a kept one was not used.
- "choose" keeps the engine number ``variant`` of several, removes the others and says ``built`` likewise.
- "collect" reads and removes the request's ``files`` ("times", "profile" and "layers"; a path may be "") and says
  ``latencies``, ``host``, ``layers`` and ``collected``; the request's ``version`` is TensorRT's, as in ``prepared``.
"""

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from engines.onboard import layers
from engines.onboard.cache import Cache, Disk
from engines.onboard.failure import Failed
from engines.onboard.loop import Say
from engines.onboard.times import profile, times, warmup_ms

_CHUNK = 20000

Check = Callable[[Dict[str, Any]], Tuple[int, List[str]]]
"""Returns the workspace that fits the memory, in bytes, and what to tell of it: see `engines.onboard.memory.check`."""

Write = Callable[[str, str], None]
"""Writes the ONNX file of a skeleton: called with the paths of both."""


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


def prepare(request: Dict[str, Any], site: Site, say: Say, check: Check, write: Write) -> None:
    """Says ``prepared``. Raises Failed where the memory does not do."""
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
        "why": kept.why if kept else "",
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
    workspace_bytes, notes = check(request)
    onnx = request["model"]
    if not onnx:
        onnx = site.path("onnx")
        with site.cache.usable():
            write(request[_skeleton(request, site)], onnx)
    say("prepared", onnx=onnx, workspace_bytes=workspace_bytes, notes=notes, engine_bytes=0, **said)


def _skeleton(request: Dict[str, Any], site: Site) -> str:
    # From TensorRT 11 on precisions come from the types in the file; before, the same file is built as FP32 or FP16.
    typed = request["precision"] == "fp16" and int(site.versions["tensorrt"].split(".")[0]) >= 11
    return "typed_skeleton" if typed else "skeleton"


def seal(request: Dict[str, Any], site: Site, say: Say) -> None:
    """Says ``built``. Raises Failed where there is no engine."""
    part, files = site.part(request["variant"]), site.cache.files
    files.remove(site.path("onnx"))
    try:
        size = files.size(part)
    except FileNotFoundError:
        size = 0
    if not size:
        raise Failed("engine", "trtexec says that it passed, but there is no engine at %s" % part, "run it again")
    if request["variant"] is None:
        _keep(request, site, part, say)
    else:
        say("built", cached=False, engine_bytes=size, path=part, **_built(request))


def choose(request: Dict[str, Any], site: Site, say: Say) -> None:
    """Says ``built``. Raises Failed where the engine is not there."""
    _keep(request, site, site.cache.variant(site.key, request["variant"]), say)
    site.cache.remove_variants(site.key)


def _keep(request: Dict[str, Any], site: Site, part: str, say: Say) -> None:
    said = _built(request)
    built = {name: said[name] for name in ("seconds", "workspace_bytes", "notes")}
    entry = site.cache.keep(site.content, request["name"], part, dict(built, versions=site.versions))
    say("built", cached=False, engine_bytes=entry["plan_bytes"], path=site.path("plan"), **said)


def _built(request: Dict[str, Any]) -> Dict[str, Any]:
    unknown = {"seconds": 0.0, "workspace_bytes": request["options"]["workspace_bytes"], "notes": [], "why": ""}
    return dict(unknown, **(request.get("built") or {}))


def collect(request: Dict[str, Any], disk: Disk, say: Say) -> None:
    """Says what trtexec has written into files. Raises Failed where the times are not those of a run."""
    files = {name: request["files"].get(name, "") for name in ("times", "profile", "layers")}
    texts = {name: _text(disk, path) for name, path in files.items()}
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
        disk.remove(path)
    say("collected", dropped=dropped, notes=notes)


def _text(disk: Disk, path: str) -> str:
    try:
        return disk.load(path).decode("utf-8", "replace")
    except OSError:
        return ""  # which none of the readers takes for a file
