"""Rows of a report that say why a network runs as fast as it does: what bounds it, and what would help. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_LIMITS = {"arithmetic": "arithmetic", "memory": "memory", "launches": "launch"}
_LEAST_SHARE = 0.01
_NEARLY_ALL = 0.9
_NAMED = 4


def why_rows(bounds: Mapping[str, Any] | None, no_gain: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    """Yields what bounds a run by the board's model, and which layers did not gain from FP16.

    ``no_gain`` is what a measurement in both precisions told of the latter; without it the model's word counts.
    """
    if bounds is not None:
        shares = ((name, bounds[f"{key}_share"]) for name, key in _LIMITS.items())
        yield "bound by", f"{', '.join(f'{name} {share:.0%}' for name, share in shares)} of the time (modelled)"
        if groups := bounds.get("groups"):
            yield "layers", ", ".join(_group(row) for row in groups if row["share"] >= _LEAST_SHARE)
        gains = ((name.upper(), bounds[f"gain_{name}_10pct"]) for name in ("gpu", "emc"))
        yield "10% faster", ", ".join(f"{name} clock: {gain:+.1%} img/s" for name, gain in gains)
    found = no_gain or (bounds or {}).get("no_gain")
    if found is not None:
        source = f"measured, against {no_gain['against']}" if no_gain else "modelled"
        yield "FP16", f"{_layers(found)} ({source})"


def _group(row: Mapping[str, Any]) -> str:
    mostly = "" if row["bound_share"] >= _NEARLY_ALL else "mostly "
    return f"{row['name']} {row['share']:.0%}: {mostly}{row['bound']}"


def _layers(found: Mapping[str, Any]) -> str:
    names = found["layers"]
    if not names:
        return "every layer is faster than in FP32"
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"no faster in {', '.join(names[:_NAMED])}{more}, {found['share']:.0%} of the time"
