"""The commands about simulated boards themselves."""

from __future__ import annotations

import json as json_module
from dataclasses import asdict

import typer

from edgeperf.catalog import JsonOption
from edgeperf.sim_fit import fit
from edgeperf.sim_serve import serve
from edgeperf.sim_shell import mount, shell
from edgeperf.ui import Ui, table

sim = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Simulated boards.")
sim.command("fit")(fit)
sim.command("serve")(serve)
sim.command("shell")(shell)
sim.command("mount")(mount)


@sim.command("faults")
def faults(json: JsonOption = False) -> None:
    """Lists what can go wrong on a simulated board."""
    from edgeperf.faults import FORM, kinds

    found = kinds()
    if json:
        Ui().result(json_module.dumps([asdict(kind) for kind in found]))
        return
    usual = ["-" if k.usual_argument is None else k.usual_argument for k in found]
    shown = [f"{value:g}" if isinstance(value, float) else value for value in usual]
    rows = [(kind.name, text, kind.summary) for kind, text in zip(found, shown, strict=True)]
    times = "START after the board was opened, FOR how long: 3s, 500ms, 2m; without FOR it stays"
    Ui().result(table(["fault", "ARGUMENT", "what happens"], rows, right=(1,)) + f"\n\n{FORM}\n{times}")
