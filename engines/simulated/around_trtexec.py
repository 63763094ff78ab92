"""Toolchain ``trtexec`` on the twin: what is done around its runs is done by the on-board code over the twin's files.

The file of a built-in network is the skeleton itself, which the twin's trtexec reads: nothing computes its weights.
"""

from __future__ import annotations

from typing import Any

from engines.onboard import around_trtexec as onboard
from engines.simulated.builder import check
from engines.simulated.site import Answer, Site, say
from engines.simulated.trtexec.text import name_of
from remote.sim.process import Out

_TOOL = "/usr/src/tensorrt/bin/trtexec"


def answer(site: Site) -> Answer:
    """Does what was asked for. Raises Failed."""
    context, request, action = site.context, site.request, site.request["action"]
    said: list[Out] = []

    def tell(event: str, **fields: Any) -> None:
        said.append(say(event, **fields))

    def write(skeleton: str, path: str) -> None:
        context.save(path, context.load(skeleton))

    if action in ("probe", "prepare"):
        yield site.hello()
    if action == "prepare":
        onboard.prepare(request, _onboard(site), tell, lambda request: check(context, request), write)
    elif action == "seal":
        onboard.seal(request, _onboard(site), tell)
    elif action == "choose":
        onboard.choose(request, _onboard(site), tell)
    elif action == "collect":
        onboard.collect(request, site.cache.files, tell)
    yield from said


def _onboard(site: Site) -> onboard.Site:
    """Returns the board as the on-board code knows it."""
    tool = (site.request.get("files") or {}).get("trtexec") or _TOOL
    banner = f"&&&& RUNNING {name_of(site.stack)} # {tool} --help"
    return onboard.Site(tool, banner, site.device, site.stack.versions(), site.content, site.key, site.cache)
