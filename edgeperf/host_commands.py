"""The commands about the user's boards: meet one, list, remove, check, and give them a sudo rule."""

from __future__ import annotations

import json as json_module
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from edgeperf.catalog import JsonOption
from edgeperf.ui import Ui, table

if TYPE_CHECKING:
    from remote.hosts import Host

hosts = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Your boards.")

NameArgument = Annotated[str, typer.Argument(metavar="NAME")]
HostArgument = Annotated[str, typer.Argument(metavar="HOST", help="NAME | user@address:port")]
AcceptOption = Annotated[
    bool, typer.Option("--accept-new-host-key", help="Trust a board that was never met before; never a changed one.")
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@hosts.command("add")
def add(
    name: NameArgument,
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="user@address:port, or an alias of ~/.ssh/config.")],
    group: Annotated[list[str] | None, typer.Option("--group", help="A group that it belongs to.")] = None,
    accept: AcceptOption = False,
    yes: YesOption = False,
) -> None:
    """Meets a board: logs in, examines it, and remembers its name."""
    from edgeperf import hosts as flow
    from edgeperf.login import access
    from edgeperf.words import doctor_text

    ui = Ui()
    allowed = access(accept_new_host_key=accept, meet=True)
    report, keyed = flow.add(
        name, address, group or (), allowed,
        lambda key: yes or ui.confirm(f"Log in without a password from now on? This adds {key} to the board's keys."),
    )  # fmt: skip
    ui.result(doctor_text(report))
    if keyed:
        ui.note("your key is on the board: no password from now on")
    ui.note(f"remembered as {name}: edgeperf status --host {name}")


@hosts.command("list")
def show(json: JsonOption = False) -> None:
    """Lists the boards and groups that are remembered."""
    from edgeperf.config import inventory

    known = inventory()
    groups = {name: " ".join(group for group, names in known.groups.items() if name in names) for name in known.hosts}
    rows = [(name, e.address, e.board, e.serial, groups[name]) for name, e in known.hosts.items()]
    data = {"hosts": {name: asdict(entry) for name, entry in known.hosts.items()}, "groups": dict(known.groups)}
    text = table(["name", "address", "board", "serial", "groups"], rows)
    Ui().result(json_module.dumps(data) if json else text if rows else "none yet: edgeperf hosts add NAME me@address")


@hosts.command("remove")
def remove(name: Annotated[str, typer.Argument(metavar="NAME|GROUP")]) -> None:
    """Forgets a board or a group. Nothing changes on the board."""
    from edgeperf import config
    from edgeperf import hosts as flow

    flow.save(config.inventory().remove(name))
    Ui().note(f"{name} is forgotten")


@hosts.command("check")
def check(
    names: Annotated[list[str] | None, typer.Argument(metavar="[HOST|GROUP]...", help="Default: all.")] = None,
    accept: AcceptOption = False,
    json: JsonOption = False,
) -> None:
    """Says which boards answer, and how they are."""
    from edgeperf import config
    from edgeperf import hosts as flow
    from edgeperf.login import access

    known = config.inventory()
    wanted = [host for name in names or known.hosts for host in known.find(name)]
    allowed = access(accept_new_host_key=accept, meet=True)

    def look(host: Host) -> flow.Checked:
        return flow.check(host, config.cache_folder(), allowed)

    with ThreadPoolExecutor(max(1, len(wanted))) as pool:
        found = list(pool.map(look, wanted))
    rows = [
        (
            c.host,
            c.board or "-",
            "-" if c.error else "root" if c.root else "no root",
            c.error.partition("\n")[0] or "; ".join(c.notes),
        )
        for c in found
    ]
    data = json_module.dumps([asdict(checked) for checked in found])
    Ui().result(data if json else table(["host", "board", "", ""], rows))
    raise typer.Exit(max((checked.exit_code for checked in found), default=0))


@hosts.command("setup")
def setup(host: HostArgument, accept: AcceptOption = False, yes: YesOption = False) -> None:
    """Installs the program that sets clocks on a board, so that no sudo password is needed any more."""
    from edgeperf import config
    from edgeperf import hosts as flow
    from edgeperf.login import access

    ui = Ui()
    board = flow.over_ssh(config.named(host))
    ui.note(flow.setup_text(board))
    if not yes and not ui.confirm("Do that?"):
        ui.note("nothing was changed")
        raise typer.Exit(2)
    flow.setup(board, access(accept_new_host_key=accept, meet=True))
    ui.note("done")


@hosts.command("unsetup")
def unsetup(host: HostArgument) -> None:
    """Removes from a board what `edgeperf hosts setup` has put there."""
    from edgeperf import config
    from edgeperf import hosts as flow
    from edgeperf.login import access

    flow.unsetup(flow.over_ssh(config.named(host)), access())
    Ui().note("removed")
