"""Faults of a served board are those of the matrix: `edgeperf sim serve BOARD,fault=...`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import edgeperf
from tests.matrix.rig import BOARD, Said, words_of
from tests.matrix.rows import ROWS
from tests.matrix.test_faults import check
from tests.ssh import twins


@pytest.mark.parametrize("fault", ["emc-clamp@", "rail-negative@", "rail-missing@", "sudo-asks@", "write-refused@"])
def test_a_command_over_ssh_ends_as_in_process(fault: str, tmp_path: Path) -> None:
    (row,) = (row for row in ROWS if row.fault == fault)
    with twins.served(f"sim:{BOARD},fault={row.at(0.0)}", tmp_path / "server") as one:
        command, *words = words_of("exec")
        ran = edgeperf(command, "--host", one.name, *words)
    check(Said(command, ran, ran.data()), row.cells(command)[0])
