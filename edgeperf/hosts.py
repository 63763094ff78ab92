"""The user's boards: first contact, remembering them, asking all of them how they are, and a sudo rule for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgeperf.config import hosts_file, inventory
from edgeperf.doctor import Examination, examine
from remote import start
from remote.errors import BoardError, EdgeperfError, UsageError
from remote.hosts import Host, Ssh
from remote.inventory import Entry, Inventory
from remote.types import Job

if TYPE_CHECKING:
    from remote.access import Access
    from remote.board import Board

_ADD_KEY = """umask 077; mkdir -p ~/.ssh; f=~/.ssh/authorized_keys; touch $f
grep -qxF "$0" $f || printf "%s\\n" "$0" >> $f"""


@dataclass(frozen=True)
class Checked:
    """What a check of a board found: ``error`` where it did not answer, ``notes`` on what is not as it should be."""

    host: str
    board: str = ""
    l4t: str = ""
    root: bool = False
    notes: tuple[str, ...] = ()
    error: str = ""
    exit_code: int = 0


def add(
    name: str, address: str, groups: Sequence[str], access: Access, offer: Callable[[str], bool]
) -> tuple[Examination, bool]:
    """Meets a board, examines it and remembers it under a name. Says whether it now has the user's key.

    ``offer`` is asked whether to install the key that is named to it; only when a password was needed to log in.
    """
    from remote import boards, ssh
    from remote.board import Board
    from remote.hosts import ssh as parse

    host = replace(parse(address), text=name)
    inventory().add(name, Entry(address), tuple(groups))  # a wrong name is told before anything is done
    transport = ssh.connect(host, access)
    with transport:
        board = Board(host, boards.met(transport.facts.board, transport.facts.twin), transport)
        report = examine(board)
        key = _public_key() if transport.password_used else None
        keyed = key is not None and offer(str(key))
        if key is not None and keyed:
            _authorize(board, key)
    known = Entry(address, report.board, transport.facts.serial)
    save(inventory().add(name, known, tuple(groups)))
    return report, keyed


def _public_key() -> Path | None:
    """Returns the public key of the user that ssh would offer first."""
    places = (Path.home() / f".ssh/id_{kind}.pub" for kind in ("ed25519", "ecdsa", "rsa"))
    return next((path for path in places if path.is_file()), None)


def _authorize(board: Board, key: Path) -> None:
    done = board.transport.run(Job(argv=("sh", "-c", _ADD_KEY, key.read_text("utf-8").strip())))
    if done.exit_code:
        raise BoardError(f"{board.host.text}: the key could not be added: {done.text('stderr').strip()}")


def save(known: Inventory) -> None:
    """Writes the user's boards at once: a reader sees the old or the new file."""
    file = hosts_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    part.write_text(known.to_toml(), "utf-8")
    part.replace(file)


def check(host: Host, cache: Path, access: Access) -> Checked:
    """Returns how a board is, also when it does not answer."""
    from remote.board import open_board

    try:
        with open_board(host, {}, cache, access) as board:
            facts = board.transport.facts
            return Checked(host.text, board.spec.name, facts.l4t, facts.root, board.transport.journal.notes)
    except EdgeperfError as error:
        return Checked(host.text, error=str(error), exit_code=error.exit_code)


def over_ssh(host: Host) -> Ssh:
    """Returns a host that is reached over SSH. Raises UsageError for another."""
    if not isinstance(host, Ssh):
        raise UsageError(f"{host.text} is not reached over SSH", "this is for boards: user@address, or a name of one")
    return host


def setup_text(host: Ssh) -> str:
    """Returns what `setup` will do, for the user to agree to."""
    return (
        f"On {host.text}, as root:\n"
        f"  {start.INSTALLED}/clockd  the program that sets clocks, changeable by root only\n"
        f"  /etc/sudoers.d/edgeperf-UID  lets you run exactly that file without a password\n"
        "It takes names of settings with values, no commands and no paths. "
        f"Undone by: edgeperf hosts unsetup {host.text}"
    )


def setup(host: Ssh, access: Access) -> None:
    """Installs the program of root with its sudo rule, and tries it. Raises HostError and BoardError."""
    _order(host, access, "install")
    from remote import ssh

    with ssh.connect(host, replace(access, sudo_password="", ask=None)) as transport:
        if not transport.facts.root:
            raise BoardError(
                f"{host.text}: installed, but it does not run as root: {'; '.join(transport.journal.notes)}",
                "does /etc/sudoers include /etc/sudoers.d?",
            )


def unsetup(host: Ssh, access: Access) -> None:
    """Removes what `setup` has installed. Raises HostError and BoardError."""
    _order(host, access, "uninstall")


def _order(host: Ssh, access: Access, word: str) -> None:
    from remote import ssh

    session = ssh.Session(host, access)
    try:
        session.order(word)
    finally:
        session.close()
