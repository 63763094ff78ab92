"""The commands that list and show what there is: profiles, models, boards, results."""

from __future__ import annotations

import json as json_module
from typing import Annotated

import typer

from edgeperf.ui import Ui, table
from remote.errors import UsageError

JsonOption = Annotated[bool, typer.Option("--json", help="Print as JSON.")]
NameArgument = Annotated[str, typer.Argument(metavar="NAME")]

profiles = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Clock profiles.")
models = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Networks.")
boards = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Kinds of boards.")
results = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Saved results.")


def apps() -> dict[str, typer.Typer]:
    """Returns the groups of commands by name."""
    return {"profiles": profiles, "models": models, "boards": boards, "results": results}


def _print(data: object, text: str, as_json: bool) -> None:
    Ui().result(json_module.dumps(data, allow_nan=False) if as_json else text)


@profiles.command("list")
def profiles_list(json: JsonOption = False) -> None:
    """Lists the profiles that come with edgeperf."""
    from clockprofiles import profile

    rows = [(name, profile.load(name).summary) for name in profile.names()]
    _print([{"name": n, "summary": s} for n, s in rows], table(["profile", "summary"], rows), json)


@profiles.command("show")
def profiles_show(name: NameArgument, json: JsonOption = False) -> None:
    """Shows what a profile sets, inherited settings included."""
    from clockprofiles import profile

    found = profile.load(name)
    settings = found.settings()
    body = table(["setting", "value"], list(settings.items()))
    _print({"name": found.name, "summary": found.summary, "settings": settings}, f"{found.summary}\n\n{body}", json)


@models.command("list")
def models_list(json: JsonOption = False) -> None:
    """Lists the built-in networks. A file.onnx of your own is taken wherever a name is."""
    from edgeperf.units import show_count
    from engines import cost
    from engines import models as known

    rows = []
    for name in known.names():
        network = known.load(name, 1).network
        total = cost.total(cost.cost(network, 1, "fp32"))
        (shape,) = (network.shapes(1)[item.name] for item in network.inputs)
        rows.append((name, shape, total.macs, total.parameters))
    data = [{"name": n, "input": list(s), "macs": m, "parameters": p} for n, s, m, p in rows]
    text = [(n, "x".join(map(str, s)), show_count(m), show_count(p)) for n, s, m, p in rows]
    _print(data, table(["model", "input", "MACs/image", "parameters"], text, right=(2, 3)), json)


@models.command("show")
def models_show(
    name: NameArgument,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Images per batch.")] = 1,
    fp16: Annotated[bool, typer.Option("--fp16", help="Count bytes of FP16 instead of FP32.")] = False,
    json: JsonOption = False,
) -> None:
    """Shows a network layer by layer: shapes, arithmetic, memory, and operations per byte."""
    from edgeperf.words import model_rows, model_text
    from engines import models as known

    model = known.load(name, batch)
    rows, total = model_rows(model, batch, "fp16" if fp16 else "fp32")
    _print({"name": model.name, "batch": batch, "layers": rows, "total": total}, model_text(rows, total), json)


@boards.command("list")
def boards_list(json: JsonOption = False) -> None:
    """Lists the boards that edgeperf knows, and the releases that it can simulate."""
    from remote import boards as known

    specs = {name: known.load(name) for name in (*known.names(), *known.of_user())}
    models = {
        name: s.model if name == s.name else f"{s.model}, with constants of your own" for name, s in specs.items()
    }
    rows = [(name, models[name], " ".join(spec.releases) or "-") for name, spec in specs.items()]
    data = [{"name": n, "model": models[n], "simulated_releases": list(s.releases)} for n, s in specs.items()]
    _print(data, table(["board", "model", "simulated releases"], rows), json)


@boards.command("show")
def boards_show(name: NameArgument, json: JsonOption = False) -> None:
    """Shows a board's settings, power rails and how its watt figure is formed."""
    from edgeperf.words import board_text
    from remote import boards as known

    spec = known.load(name)
    data = {
        "name": spec.name,
        "model": spec.model,
        "knobs": {row["id"]: list(row["paths"]) for row in spec.knobs},
        "rails": {row["id"]: {"parent": row.get("parent", ""), "place": row.get("place", "")} for row in spec.rails},
        "totals": [{"scope": t.scope, "rails": list(t.rails), "leaves_out": t.leaves_out} for t in spec.totals],
        "simulated_releases": list(spec.releases),
    }
    _print(data, board_text(spec), json)


@results.command("list")
def results_list(json: JsonOption = False) -> None:
    """Lists the saved results, oldest first."""
    from edgeperf import config, store
    from edgeperf.words import results_text

    saved = store.results(config.data_folder() / "results")
    summary = [{"name": item.path.stem, "path": str(item.path), "created": item.data["created"]} for item in saved]
    _print(summary, results_text(saved), json)


@results.command("show")
def results_show(
    name: Annotated[str, typer.Argument(metavar="NAME|FILE|last", help="A saved result or the start of its name.")],
    json: JsonOption = False,
) -> None:
    """Shows a saved result again."""
    from edgeperf import config, store
    from edgeperf.report import report

    found = store.find(config.data_folder() / "results", name)
    try:
        text = report(found.data, found.path)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        what = f"{found.path} is damaged, or of another edgeperf: {error or type(error).__name__}"
        raise UsageError(what, "`edgeperf report FILE` makes its figures again where enough of it is whole") from error
    _print(found.data, text, json)
