"""Toolchain trtexec on the board: finds NVIDIA's program, which the host starts itself, and tells what there is.

"probe" and "prepare" say ``hello``; for what else is done see `engines.onboard.around_trtexec`. The request's ``files``
may name another "trtexec" than the one of JetPack.
"""

import os
import platform
import shutil
import subprocess
from contextlib import closing
from typing import Any, Callable, Dict, Optional

from engines.onboard import around_trtexec, banner, memory, onnx_file
from engines.onboard.around_trtexec import Site
from engines.onboard.cache import Cache, Disk
from engines.onboard.cuda import Cuda, choose
from engines.onboard.failure import Failed
from engines.onboard.key import engine_key
from engines.onboard.loop import Interrupt, Say

_PLACES = ("/usr/src/tensorrt/bin/trtexec", "/usr/bin/trtexec")
_HELP_S = 120  # the libraries of TensorRT are large, and a board's disk may be slow
_INSTALL = "it comes with JetPack: sudo apt-get install tensorrt (libnvinfer-bin); or use --toolchain tensorrt"

Connect = Callable[[Optional[str]], Cuda]


def answer(request: Dict[str, Any], interrupt: Interrupt, say: Say, connect: Connect = choose) -> None:
    """Does the request's action. ``connect`` finds a way to CUDA. Raises Failed."""
    action = request["action"]
    if action == "collect":
        around_trtexec.collect(request, Disk(), say)
        return
    site = _visit(request, connect)
    if action in ("probe", "prepare"):
        say("hello", versions=site.versions, device=site.device, board=site.content["board"], key=site.key)
    if action == "prepare" and not interrupt.seen:
        around_trtexec.prepare(request, site, say, memory.check, _write_onnx)
    elif action == "seal":
        around_trtexec.seal(request, site, say)
    elif action == "choose":
        around_trtexec.choose(request, site, say)


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


def _write_onnx(skeleton: str, path: str) -> None:
    with open(skeleton, encoding="utf-8") as file:
        text = file.read()
    with open(path, "wb") as out:
        onnx_file.write(out, text)


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
    version = banner.installed_version(Disk())
    if version:
        return version
    try:
        import tensorrt
    except ImportError as error:
        what = "trtexec does not say its version, and there is neither libnvinfer.so.X.Y.Z nor the module tensorrt"
        raise Failed("version", what, "use --toolchain tensorrt") from error
    return str(tensorrt.__version__)
