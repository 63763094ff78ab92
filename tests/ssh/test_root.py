"""What runs as root on a board: how it gets there, what it refuses, and that nobody else can change it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import threading
import zipfile
from pathlib import Path

import pytest

from edgeperf import hosts as flow
from remote import ssh, start
from remote.access import Access
from remote.errors import BoardError, EdgeperfError, HostError
from remote.onboard.rooted import allowed
from remote.types import Apply, Job, Step
from tests.ssh import sshd
from tests.ssh.conftest import board
from tests.ssh.sshd import PASSWORD, Sshd

GOVERNOR = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
CACHE = ".cache/edgeperf"


def copy(server: Sshd, user: str) -> Path:
    """Returns where a user keeps the programs."""
    return server.home(user) / CACHE / f"onboard-{start.programs()[1]}.zip"


def forget(server: Sshd, *users: str) -> None:
    """Makes a board one that was never met."""
    for user in users:
        subprocess.run(["rm", "-rf", server.home(user) / ".cache"], check=True)


def test_without_sudo_the_readers_work_and_the_reason_is_told(server: Sshd) -> None:
    with ssh.connect(board(server, "plain")[0], Access()) as transport:
        assert transport.read(["/sys/devices/system/cpu/present"]).texts
        assert any(note.startswith("not root") for note in transport.journal.notes) or transport.facts.root


def test_a_sudo_password_that_nobody_knows_leaves_the_program_without_root(server: Sshd) -> None:
    with ssh.connect(server.host("keeper"), Access()) as transport:
        assert not transport.facts.root
        assert "password" in transport.journal.notes[0]


def test_the_user_may_decline_the_sudo_password(server: Sshd) -> None:
    with ssh.connect(server.host("keeper"), Access(ask=lambda question: "")) as transport:
        assert not transport.facts.root


def test_a_wrong_sudo_password_is_an_error_that_does_not_show_it(server: Sshd) -> None:
    with pytest.raises(HostError, match="did not accept the password") as refused:
        ssh.connect(server.host("keeper"), Access(sudo_password="hunter2 is wrong"))
    assert "hunter2" not in str(refused.value)


def test_the_programs_are_kept_privately_by_their_hash_and_sent_once(server: Sshd) -> None:
    forget(server, "root", "free")
    host = board(server, "free")[0]
    ssh.connect(host, Access()).close()
    digest = start.programs()[1]
    for user in ("root", "free"):
        kept = copy(server, user)
        assert hashlib.sha256(kept.read_bytes()).hexdigest() == digest
        assert kept.stat().st_mode & 0o777 == 0o600
        assert kept.parent.stat().st_mode & 0o777 == 0o700
        assert kept.stat().st_uid == sshd.USERS.get(user, 0)
    there = copy(server, "root").stat().st_ino
    ssh.connect(host, Access()).close()
    assert copy(server, "root").stat().st_ino == there


@pytest.mark.parametrize("user", ["root", "free"])
def test_a_copy_that_was_tampered_with_is_not_run(server: Sshd, user: str, tmp_path: Path) -> None:
    host = board(server, "free")[0]
    ssh.connect(host, Access()).close()
    mark = server.folder / f"ran-{user}"
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as evil:
        evil.writestr("remote/__init__.py", f"open({str(mark)!r}, 'w')")
    copy(server, user).write_bytes((tmp_path / "evil.zip").read_bytes())
    ssh.connect(host, Access()).close()
    assert not mark.exists()
    assert hashlib.sha256(copy(server, user).read_bytes()).hexdigest() == start.programs()[1]


@pytest.mark.parametrize("part", [".cache", ".cache/edgeperf", "zip"])
def test_a_link_planted_in_the_cache_path_is_refused(server: Sshd, part: str) -> None:
    host = board(server, "free")[0]
    forget(server, "free", "root")
    ssh.connect(host, Access()).close()
    elsewhere = server.folder / f"planted-{part.replace('/', '-')}"
    place = copy(server, "free") if part == "zip" else server.home("free") / part
    place.rename(elsewhere)
    place.symlink_to(elsewhere)
    try:
        with pytest.raises(HostError, match="symbolic link"):
            ssh.connect(host, Access())
    finally:
        place.unlink()
        forget(server, "free", "root")


@pytest.mark.parametrize("user", ["root", "free"])
def test_a_cache_folder_that_others_can_write_is_refused(server: Sshd, user: str) -> None:
    host = board(server, user)[0]
    ssh.connect(host, Access()).close()
    folder = server.home(user) / ".cache"
    folder.chmod(0o777)
    try:
        with pytest.raises(HostError, match="can be written by others") as refused:
            ssh.connect(host, Access())
        assert f"chmod go-w {folder}" in refused.value.hint
    finally:
        folder.chmod(0o700)


def test_a_cache_of_somebody_else_is_refused(server: Sshd) -> None:
    host = board(server, "free")[0]
    ssh.connect(host, Access()).close()
    folder = server.home("free") / CACHE
    os.chown(folder, sshd.USERS["plain"], sshd.USERS["plain"])
    try:
        with pytest.raises(HostError, match="belongs to somebody else"):
            ssh.connect(host, Access())
    finally:
        forget(server, "free")


def command_lines(stop: threading.Event, seen: set[bytes]) -> None:
    """Collects the command lines and environments of all processes of this machine until told to stop."""
    while not stop.is_set():
        for process in Path("/proc").glob("[0-9]*"):
            for name in ("cmdline", "environ"):
                try:
                    text = (process / name).read_bytes()
                except OSError:
                    continue
                if process.name != str(os.getpid()):
                    seen.add(text)


def test_the_sudo_password_is_in_no_process_list_file_or_message(server: Sshd) -> None:
    stop, seen = threading.Event(), set[bytes]()
    watcher = threading.Thread(target=command_lines, args=(stop, seen))
    watcher.start()
    try:
        host, root = board(server, "keeper")
        access = Access(sudo_password=PASSWORD)
        with ssh.connect(host, access) as transport:
            written = transport.write(Apply((Step("cpu0.governor", "userspace", None, ""),), "me", lease=True))
            done = transport.run(Job(argv=("env",)))
            told = repr((access, written, done, transport.facts, transport.journal, transport.found))
            journal = "".join(path.read_text("utf-8", "replace") for path in root.rglob("*") if path.is_file())
    finally:
        stop.set()
        watcher.join()
    assert any(b"sudo" in line for line in seen)
    assert not [line for line in seen if PASSWORD.encode() in line]
    assert PASSWORD not in told
    assert PASSWORD not in journal
    assert PASSWORD not in (server.folder / "log").read_text()


# The copy that a sudo rule names


@pytest.fixture
def keeper(server: Sshd) -> Sshd:
    """A server on which nothing is installed."""
    flow.unsetup(server.host("keeper"), Access(sudo_password=PASSWORD))
    return server


def test_setup_makes_the_password_unneeded_and_unsetup_undoes_it(keeper: Sshd) -> None:
    host, access = keeper.host("keeper"), Access(sudo_password=PASSWORD)
    before = sorted(str(path) for path in (keeper.folder / "local").rglob("*"))
    flow.setup(host, access)
    with ssh.connect(host, Access()) as transport:
        assert transport.facts.root
    flow.unsetup(host, access)
    with ssh.connect(host, Access()) as transport:
        assert not transport.facts.root
    assert sorted(str(path) for path in (keeper.folder / "local").rglob("*")) == before
    assert list((keeper.folder / "etc/sudoers.d").iterdir()) == []


def test_what_is_installed_is_roots_alone_and_the_rule_names_exactly_it(keeper: Sshd) -> None:
    flow.setup(keeper.host("keeper"), Access(sudo_password=PASSWORD))
    try:
        (rule,) = (keeper.folder / "etc/sudoers.d").iterdir()
        assert rule.read_text() == "keeper ALL=(root) NOPASSWD: /usr/local/lib/edgeperf/clockd\n"
        assert rule.stat().st_mode & 0o777 == 0o440
        for path in (keeper.folder / "local").rglob("*"):
            assert path.stat().st_uid == 0
            assert path.stat().st_mode & 0o022 == 0
    finally:
        flow.unsetup(keeper.host("keeper"), Access(sudo_password=PASSWORD))


def test_the_installed_program_runs_nothing_but_clockd(keeper: Sshd) -> None:
    flow.setup(keeper.host("keeper"), Access(sudo_password=PASSWORD))
    try:
        with ssh.connect(keeper.host("keeper"), Access()) as transport:
            for words in (["agent"], ["clockd", "--root", "/tmp"], ["install"], []):
                done = transport.run(Job(argv=("sudo", "-n", f"{start.INSTALLED}/clockd", *words)))
                assert done.exit_code == 2
            assert transport.run(Job(argv=("sudo", "-n", "id"))).exit_code == 1
    finally:
        flow.unsetup(keeper.host("keeper"), Access(sudo_password=PASSWORD))


@pytest.mark.parametrize(
    "words",
    ["clockd", "clockd --beat 2 --silence 10 --grace 60 --guard yes", "guard", "relay --to clockd"],
)
def test_the_orders_of_the_installed_program(words: str) -> None:
    assert allowed(words.split())


@pytest.mark.parametrize(
    "words",
    ["", "agent", "relay", "relay --to agent", "clockd --root x", "guard --root x", "clockd --beat --root x",
     "clockd x", "install", "clockd --beat", "clockd --beat --root --grace x"],
)  # fmt: skip
def test_other_orders_are_refused(words: str) -> None:
    assert not allowed(words.split())


def test_root_itself_needs_no_rule(server: Sshd) -> None:
    with pytest.raises(BoardError, match="root needs no sudo rule"):
        flow.setup(server.host("root"), Access())


def test_what_setup_does_is_shown_before(server: Sshd) -> None:
    text = flow.setup_text(server.host("keeper"))
    assert "/usr/local/lib/edgeperf/clockd" in text
    assert "/etc/sudoers.d" in text
    assert "unsetup" in text


# First contact


def test_a_board_is_met_by_password_given_the_key_and_remembered(server: Sshd) -> None:
    home = Path.home() / ".ssh"
    key = server.home("plain") / ".ssh/authorized_keys"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", home / "new"], check=True)
    (home / "id_ed25519").unlink()
    (home / "new.pub").rename(home / "id_ed25519.pub")
    asked: list[str] = []

    def answer(question: str) -> str:
        asked.append(question)
        return PASSWORD

    try:
        address = f"plain@127.0.0.1:{server.port}"
        report, keyed = flow.add("nano", address, ["desk"], Access(ask=answer), lambda question: True)
        (home / "new").rename(home / "id_ed25519")
        assert keyed
        assert report.kind == "doctor"
        assert len(asked) == 1
        with ssh.connect(server.host("plain"), Access()) as transport:
            assert transport.facts.user == "plain"
    finally:
        key.unlink(missing_ok=True)
    from edgeperf.config import inventory

    known = inventory()
    assert known.hosts["nano"].address == address
    assert known.hosts["nano"].board == "generic-linux"
    assert known.groups == {"desk": ("nano",)}


def test_a_wrong_name_is_told_before_the_board_is_bothered() -> None:
    with pytest.raises(EdgeperfError, match="cannot be the name"):
        flow.add("a b", "no-such-board.invalid", [], Access(), lambda question: True)


def test_the_loader_is_text_that_any_posix_shell_passes_on_unchanged() -> None:
    line = start.command(["agent"])
    echoed = subprocess.run(
        ["sh", "-c", line.replace("exec sh -c", "exec printf '%s\\0'", 1)], capture_output=True, check=True
    )
    script, loader, digest, size, word = echoed.stdout.decode().split("\0")[:-1]
    assert word == "agent"
    assert re.fullmatch("[0-9a-f]{64}", digest)
    assert int(size) == len(start.programs()[0])
    compile(loader, "loader", "exec")
    assert json.dumps(script)
