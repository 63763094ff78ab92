"""Lists and removes the engines kept on the board. Needs nothing but their side-cars."""

import re
from typing import Any, Dict, List

from engines.onboard.banner import installed_version
from engines.onboard.cache import Cache, Disk
from engines.onboard.failure import Failed
from engines.onboard.loop import Interrupt, Say

STALE_S = 30 * 86400.0
"""An engine unused for longer than this is stale."""


def answer(request: Dict[str, Any], interrupt: Interrupt, say: Say, files: "Disk | None" = None) -> None:
    """Says ``engines`` with a row for every engine, or removes some and says ``pruned``.

    Where the request's content names a board, engines for another one are called so. Raises Failed for a key that is
    not kept, and then removes nothing.
    """
    cache = Cache(files or Disk(), request["cache"])
    board = dict((request.get("content") or {}).get("board", {}))
    board.setdefault("tensorrt", installed_version(cache.files))
    with cache.usable():
        rows = [_row(cache, key, board) for key in cache.kept_keys() if not interrupt.seen]
        if request["action"] == "engines":
            say("engines", rows=rows)
        elif not interrupt.seen:
            _prune(cache, rows, request, say)


def _prune(cache: Cache, rows: List[Dict[str, Any]], request: Dict[str, Any], say: Say) -> None:
    what = request["what"]
    if what == "named":
        gone = [_named(rows, key) for key in request["keys"]]
    elif what == "all":
        gone = rows
    else:
        oldest_s = cache.files.now_s() - STALE_S
        gone = [row for row in rows if row["state"] != "ok" or row["used_s"] < oldest_s]
    freed = sum(cache.remove(key) for key in sorted({row["key"] for row in gone}))
    if what == "all":
        freed += cache.remove_leftovers(0.0) + cache.remove_timings()
    elif what == "stale":
        freed += cache.remove_leftovers()
    say("pruned", rows=gone, bytes=freed)


def _named(rows: List[Dict[str, Any]], key: str) -> Dict[str, Any]:
    """Returns the one row whose key begins with ``key``."""
    fitting = [row for row in rows if key and row["key"].startswith(key)]
    if len(fitting) != 1:
        what = "%s kept engine has a key that begins with %r" % ("more than one" if fitting else "no", key)
        raise Failed("usage", what, "see the keys: edgeperf engines list")
    return fitting[0]


def _row(cache: Cache, key: str, board: Dict[str, str]) -> Dict[str, Any]:
    good, damage = cache.check(key)
    entry = good or cache.side_car(key)[0]
    content = entry.get("content", {})
    made_on = content.get("board", {})
    state = "ok"
    if not good:
        state = "damaged: " + (damage or "its side-car is gone")
    elif _elsewhere(made_on, board):
        state = "other board or TensorRT: " + ", ".join(_elsewhere(made_on, board))
    return {
        "key": key,
        "name": entry.get("name", ""),
        "precision": content.get("precision", ""),
        "batch": content.get("batch", 0),
        "toolchain": content.get("toolchain", ""),
        "plan_bytes": cache.plan_bytes(key),
        "tensorrt": made_on.get("tensorrt", ""),
        "power_mode": made_on.get("power_mode", ""),
        "wall_s": entry.get("built", {}).get("wall_s", 0.0),
        "used_s": cache.used_s(key),
        "state": state,
    }


def _elsewhere(made_on: Dict[str, str], board: Dict[str, str]) -> List[str]:
    """Returns the facts for which an engine cannot run here. A power mode can be gone back to, so it is none."""
    facts = [(name, made_on.get(name, ""), board.get(name, "")) for name in ("gpu", "l4t", "tensorrt")]
    # What is known here may be less than the engine says: the board's name of "nano sm_53", the 8.2.1 of 8.2.1.8.
    return ["%s %s" % (name, old) for name, old, here in facts if here and not re.match(re.escape(here) + r"\b", old)]
