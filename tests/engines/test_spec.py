"""An engine's key changes with all that an engine depends on, and with nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from engines.spec import EngineSpec

SPEC = EngineSpec("alexnet", "fp16", 64, "tensorrt", 0, "ab" * 32, ("--a", "--b"))
FACTS = {"tensorrt": "8.2.1", "l4t": "32.7", "gpu": "gm20b", "active_sms": "2", "power_mode": "0", "serial": "1"}


def test_a_key_does_not_depend_on_the_order_of_facts() -> None:
    assert SPEC.key(FACTS) == replace(SPEC).key(dict(reversed(FACTS.items())))
    assert len(SPEC.key(FACTS)) == 32


@pytest.mark.parametrize(
    "change",
    [
        {"precision": "fp32"},
        {"batch": 32},
        {"toolchain": "trtexec"},
        {"seed": 1},
        {"digest": "cd" * 32},
        {"flags": ("--a",)},
    ],
)
def test_another_engine_has_another_key(change: dict[str, Any]) -> None:
    assert replace(SPEC, **change).key(FACTS) != SPEC.key(FACTS)


@pytest.mark.parametrize("fact", ["tensorrt", "l4t", "gpu", "active_sms", "power_mode"])
def test_another_board_or_software_has_another_key(fact: str) -> None:
    assert SPEC.key({**FACTS, fact: "other"}) != SPEC.key(FACTS)


@pytest.mark.parametrize(
    ("spec", "facts"),
    [
        (replace(SPEC, model="renamed"), FACTS),
        (replace(SPEC, flags=("--b", "--a")), FACTS),
        (SPEC, {**FACTS, "serial": "2"}),
    ],
    ids=["name", "order of flags", "serial"],
)
def test_names_and_order_do_not_change_a_key(spec: EngineSpec, facts: dict[str, str]) -> None:
    assert spec.key(facts) == SPEC.key(FACTS)
