"""Toolchain ``trtexec`` on the twin: what `engines.onboard.trtexec` does around the runs of trtexec.

The file of a built-in network is the skeleton itself, which the twin's trtexec reads: nothing computes its weights.
"""

from __future__ import annotations

from typing import Any

from engines.onboard import layers
from engines.onboard.failure import Failed
from engines.onboard.times import profile, times, warmup_ms
from engines.simulated.builder import check
from engines.simulated.site import Answer, Site, say
from engines.simulated.trtexec.text import name_of
from remote.sim.process import Out

_TOOL = "/usr/src/tensorrt/bin/trtexec"
_CHUNK = 20_000


def answer(site: Site) -> Answer:
    """Does what was asked for. Raises Failed."""
    action = site.request["action"]
    if action in ("probe", "prepare"):
        yield site.hello()
    if action == "prepare":
        yield from _prepare(site)
    elif action == "seal":
        yield from _seal(site)
    elif action == "choose":
        yield from _kept(site, site.choose())
        site.remove_variants()
    elif action == "collect":
        yield from _collect(site)


def _prepare(site: Site) -> Answer:
    request, part = site.request, site.part()
    kept = site.cache.find(site.content, request["name"]) if site.variant is None else None
    said: dict[str, Any] = {
        "trtexec": (request.get("files") or {}).get("trtexec") or _TOOL,
        "version": site.stack.version,
        "banner": f"&&&& RUNNING {name_of(site.stack)} # {_TOOL} --help",
        "cached": bool(kept and kept.path),
        "plan": part if kept is None else site.path("plan"),
        "part": part,
        "why": kept.why if kept else "one of several builds",
        "timing": "" if kept is None else site.cache.timing_path(site.content["board"]),
        **{end: site.path(end) for end in ("times", "layers", "profile")},
    }
    if kept and kept.path:
        built = kept.entry["built"]
        found = {"workspace_bytes": built["workspace_bytes"], "notes": built["notes"]}
        yield say("prepared", **said, **found, onnx="", engine_bytes=kept.entry["plan_bytes"])
        return
    workspace_bytes, notes = check(site.context, request)
    onnx = request.get("model") or _write_onnx(site)
    yield say("prepared", **said, onnx=onnx, workspace_bytes=workspace_bytes, notes=notes, engine_bytes=0)


def _write_onnx(site: Site) -> str:
    path = site.path("onnx")
    typed = site.request["precision"] == "fp16" and site.stack.numbers >= (11,)
    with site.cache.usable():
        site.context.save(path, site.context.load(site.request["typed_skeleton" if typed else "skeleton"]))
    return path


def _seal(site: Site) -> Answer:
    part = site.part()
    site.cache.files.remove(site.path("onnx"))
    if not site.context.match(part):
        raise Failed("engine", f"trtexec says that it passed, but there is no engine at {part}", "run it again")
    if site.variant is None:
        yield from _kept(site, part)
    else:
        yield _built(site, part, site.cache.files.size(part))


def _kept(site: Site, part: str) -> Answer:
    entry = site.keep(part, _told(site))
    yield _built(site, site.path("plan"), entry["plan_bytes"])


def _built(site: Site, path: str, engine_bytes: int) -> Out:
    return say("built", cached=False, engine_bytes=engine_bytes, path=path, **_told(site))


def _told(site: Site) -> dict[str, Any]:
    """Returns what only the host knows of a build."""
    workspace_bytes = site.request["options"]["workspace_bytes"]
    unknown = {"seconds": 0.0, "workspace_bytes": workspace_bytes, "notes": [], "why": ""}
    return {**unknown, **(site.request.get("built") or {})}


def _collect(site: Site) -> Answer:
    request = site.request
    files = {name: request["files"].get(name, "") for name in ("times", "profile", "layers")}
    texts = {name: _text(site, path) for name, path in files.items()}
    notes, dropped = [], 0
    if files["times"]:
        major, minor = request["version"].split(".")[:2]
        found = times(texts["times"], (int(major), int(minor)), warmup_ms(request["warmup_s"]))
        dropped = found["dropped"]
        for event, seconds in (("latencies", found["compute_s"]), ("host", found["host_s"])):
            for first in range(0, len(seconds), _CHUNK):
                yield say(event, seconds=[round(value, 9) for value in seconds[first : first + _CHUNK]])
    if files["profile"]:
        try:
            yield say("layers", rows=layers.rows(texts["layers"], profile(texts["profile"])))
        except (Failed, ValueError) as error:
            notes.append(f"the times of layers are not known: {error}")
    for path in filter(None, files.values()):
        site.cache.files.remove(path)
    yield say("collected", dropped=dropped, notes=notes)


def _text(site: Site, path: str) -> str:
    try:
        return site.context.load(path).decode("utf-8", "replace")
    except OSError:
        return ""
