"""Attacks on the way to a board and on it, against a real server: keys, planted files, secrets, words for a shell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from edgeperf.hosts import save
from remote import ssh, start
from remote.access import PASSWORD_VARIABLE, Access
from remote.errors import HostError
from remote.inventory import Entry, Inventory
from remote.onboard import loader
from remote.types import Apply, Job, Step
from tests.cli.command import edgeperf
from tests.contract.backends import local, tree
from tests.ssh.conftest import board
from tests.ssh.sshd import PASSWORD, USERS, Sshd

KNOWN = ".ssh/known_hosts"
EVIL = "$(touch pwned) `touch pwned`; touch pwned #'\"%s"


def address(server: Sshd, user: str) -> str:
    return f"{user}@127.0.0.1:{server.port}"


# Host keys, as a user meets them


def test_a_changed_host_key_ends_the_command_with_3_the_fingerprint_and_the_way_out(
    server: Sshd, tmp_path: Path
) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "other"], check=True)
    kind, key, *_ = (tmp_path / "other.pub").read_text().split()
    before = f"[127.0.0.1]:{server.port} {kind} {key}\n"
    (Path.home() / KNOWN).write_text(before)
    said = subprocess.run(
        ["ssh-keygen", "-lf", server.folder / "hostkey.pub"], capture_output=True, text=True, check=True
    )
    for options in ((), ("--accept-new-host-key",)):
        ran = edgeperf("status", "--host", address(server, "root"), *options)
        assert (ran.code, ran.out) == (3, "")
        assert said.stdout.split()[1] in ran.err
        assert f"ssh-keygen -R '[127.0.0.1]:{server.port}'" in ran.err
        assert "Traceback" not in ran.err
    assert (Path.home() / KNOWN).read_text() == before


def test_the_command_that_is_named_for_an_unknown_host_key_accepts_it(server: Sshd) -> None:
    (Path.home() / KNOWN).unlink()
    ran = edgeperf("status", "--host", address(server, "root"))
    assert ran.code == 3
    (command,) = (line[line.index("ssh-keyscan") :] for line in ran.err.splitlines() if "ssh-keyscan" in line)
    subprocess.run(["sh", "-c", command], check=True, capture_output=True)
    assert edgeperf("status", "--host", address(server, "root")).code == 0


@pytest.mark.parametrize("known_too", [False, True])
def test_a_revoked_host_key_is_refused_whatever_else_is_known(server: Sshd, known_too: bool) -> None:
    known = Path.home() / KNOWN
    line = known.read_text()
    known.write_text("@revoked * " + line.partition(" ")[2] + (line if known_too else ""))
    before = known.read_text()
    with pytest.raises(HostError, match="revoked"):
        ssh.connect(server.host("root"), Access(accept_new_host_key=True, confirm=lambda question: True))
    assert known.read_text() == before


@pytest.mark.parametrize(
    "line", ["@cert-authority * ssh-ed25519 AAAA", "127.0.0.1 ssh-ed25519 A", "|1|x|y ssh-rsa A", "\0"]
)
def test_lines_of_known_hosts_that_mean_nothing_here_are_passed_over(server: Sshd, line: str) -> None:
    known = Path.home() / KNOWN
    known.write_text(f"{line}\n{line.replace('127.0.0.1', f'[127.0.0.1]:{server.port}')}\n{known.read_text()}")
    ssh.connect(server.host("root"), Access()).close()


def test_a_host_that_is_known_by_a_hashed_name_is_known(server: Sshd) -> None:
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", Path.home() / KNOWN], check=True, capture_output=True)
    assert (Path.home() / KNOWN).read_text().startswith("|1|")
    ssh.connect(server.host("root"), Access()).close()


# The programs on the board


def launched(server: Sshd, user: str, sent: bytes, digest: str = "") -> list[bytes]:
    """Starts the agent as edgeperf does, over OpenSSH's own client; returns what it said to what was sent."""
    line = start.command(["agent"])
    line = line.replace(start.programs()[1], digest) if digest else line
    options = ["-o", f"UserKnownHostsFile={Path.home() / KNOWN}", "-i", str(Path.home() / ".ssh/id_ed25519"), "-T"]
    argv = ["ssh", "-F", "none", "-o", "BatchMode=yes", *options, "-p", str(server.port), f"{user}@127.0.0.1", line]
    return subprocess.run(argv, input=sent, capture_output=True, timeout=60, check=False).stdout.splitlines()


def test_programs_that_arrive_other_than_announced_are_neither_run_nor_kept(server: Sshd) -> None:
    subprocess.run(["rm", "-rf", server.home("free") / ".cache"], check=True)
    zipped = start.programs()[0]
    said = launched(server, "free", zipped[:-1] + bytes([zipped[-1] ^ 1]))
    assert [json.loads(line)["kind"] for line in said] == ["need", "error"]
    assert b"damaged" in said[-1]
    said = launched(server, "free", zipped[: len(zipped) // 2])
    assert [json.loads(line)["kind"] for line in said] == ["need"]
    said = launched(server, "free", zipped, "../../../evil")
    assert "hello" not in [json.loads(line)["kind"] for line in said]
    assert list((server.home("free") / ".cache/edgeperf").iterdir()) == []


@pytest.mark.parametrize("part", [".cache", ".cache/edgeperf", "zip"])
def test_a_link_planted_in_the_path_of_roots_own_copy_is_refused(server: Sshd, part: str) -> None:
    host = board(server, "root")[0]
    ssh.connect(host, Access()).close()
    kept = server.home("root") / ".cache/edgeperf" / f"onboard-{start.programs()[1]}.zip"
    place = kept if part == "zip" else server.home("root") / part
    elsewhere = server.folder / "planted"
    place.rename(elsewhere)
    place.symlink_to(elsewhere)
    try:
        with pytest.raises(HostError, match="symbolic link"):
            ssh.connect(host, Access())
    finally:
        place.unlink()
        elsewhere.rename(place)


@pytest.mark.parametrize("what", ["home", "zip"])
def test_a_copy_or_a_home_that_others_can_write_is_refused(server: Sshd, what: str) -> None:
    host = board(server, "free")[0]
    ssh.connect(host, Access()).close()
    kept = server.home("free") / ".cache/edgeperf" / f"onboard-{start.programs()[1]}.zip"
    place = kept if what == "zip" else server.home("free")
    mode = place.stat().st_mode
    place.chmod(mode | 0o022)
    try:
        with pytest.raises(HostError, match="can be written by others"):
            ssh.connect(host, Access())
    finally:
        place.chmod(mode)


def test_what_a_start_that_was_cut_off_left_is_neither_in_the_way_nor_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("mine")
    (tmp_path / f"programs.zip.{os.getpid()}").symlink_to(tmp_path / "victim")
    loader.keep(str(tmp_path / "programs.zip"), b"programs")
    assert (tmp_path / "programs.zip").read_bytes() == b"programs"
    assert (tmp_path / "victim").read_text() == "mine"


def test_other_users_can_neither_read_nor_reach_what_root_keeps(server: Sshd) -> None:
    with ssh.connect(server.host("free"), Access()) as holder, ssh.connect(server.host("plain"), Access()) as other:
        assert holder.facts.root
        holder.write(Apply((), "me", lease=True))
        for argv in (("ls", "/run/edgeperf"), ("cat", "/run/edgeperf/journal.json"), ("touch", "/run/edgeperf/lock")):
            done = other.run(Job(argv=argv))
            assert done.exit_code != 0
            assert "denied" in done.text("stderr")
        assert other.run(Job(argv=("ls", str(server.home("free") / ".cache/edgeperf")))).exit_code != 0


# Words for a shell


def test_a_folder_a_file_and_a_job_with_shell_characters_are_only_names(server: Sshd) -> None:
    root = server.tree("free") / EVIL
    tree(root)
    home = root / str(server.home("free")).lstrip("/")
    home.mkdir(parents=True)
    for path in (root, *root.rglob("*")):
        os.chown(path, USERS["free"], USERS["free"])
    with ssh.connect(server.host("free", str(root)), Access()) as transport:
        (outcome,) = transport.write(Apply((Step("cpu0.governor", "performance", None, ""),), EVIL)).outcomes
        assert outcome.result == "applied"
        done = transport.run(Job(argv=("printf", "%s", EVIL), env={"X": EVIL}))
        assert done.text("stdout").strip() == EVIL
    assert not list(server.folder.rglob("pwned"))


@pytest.mark.parametrize("user", ["-oProxyCommand=touch pwned", "$(touch pwned)", "root -v"])
def test_a_user_name_of_shell_characters_runs_nothing(
    server: Sshd, user: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(HostError):
        ssh.connect(replace(server.host("root"), user=user), Access())
    assert not (tmp_path / "pwned").exists()


# The sudo password


COMMAND = "from edgeperf.cli import main; main()"


@contextmanager
def watching() -> Iterator[list[bytes]]:
    """Collects the command lines of all processes, and the environments of all but edgeperf itself (of any test)."""
    stop, seen = threading.Event(), set[bytes]()

    def watch() -> None:
        while not stop.is_set():
            for process in Path("/proc").glob("[0-9]*"):
                try:
                    line = (process / "cmdline").read_bytes()
                    seen.update(
                        (line, b"" if COMMAND.encode() in line or not line else (process / "environ").read_bytes())
                    )
                except OSError:
                    continue

    found: list[bytes] = []
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield found
    finally:
        stop.set()
        watcher.join()
        found += seen


@pytest.mark.parametrize(
    ("words", "password"),
    [(("maxperf", "--json"), PASSWORD), (("doctor",), PASSWORD), (("maxperf",), "not the right one at all")],
)
def test_the_sudo_password_of_the_environment_shows_nowhere(
    server: Sshd, words: tuple[str, ...], password: str
) -> None:
    host, root = board(server, "keeper")
    save(Inventory().add("desk", Entry(host.text, tree=host.root)))
    argv = [sys.executable, "-c", COMMAND, *words, "--host", "desk"]
    with watching() as seen:
        ran = subprocess.run(
            argv, env={**os.environ, PASSWORD_VARIABLE: password}, capture_output=True, timeout=60, check=False
        )
    assert (ran.returncode == 3) == (password != PASSWORD), ran.stderr
    assert any(b"sudo" in line for line in seen)
    places = [server.folder / "log", *server.home("keeper").rglob("*"), *root.rglob("*"), *Path.home().rglob("*")]
    seen += [ran.stdout, ran.stderr, *(place.read_bytes() for place in places if place.is_file())]
    assert not [text for text in seen if password.encode() in text]


def test_the_commands_of_the_ssh_config_do_not_inherit_the_password(server: Sshd, tmp_path: Path) -> None:
    (Path.home() / ".ssh/config").write_text(
        f'Match host desk exec "env >> {tmp_path}/match"\n Port {server.port}\n'
        f'Host desk\n HostName 127.0.0.1\n ProxyCommand sh -c "env >> {tmp_path}/proxy"\n'
    )
    environment = {**os.environ, PASSWORD_VARIABLE: PASSWORD, "EDGEPERF_CONNECT": "0.5s"}
    argv = [sys.executable, "-c", COMMAND, "maxperf", "--host", "desk"]
    assert subprocess.run(argv, env=environment, capture_output=True, timeout=60, check=False).returncode == 3
    for name in ("match", "proxy"):
        inherited = (tmp_path / name).read_text()
        assert "EDGEPERF_CONNECT=" in inherited
        assert PASSWORD not in inherited


def test_what_opens_a_key_is_not_given_to_sudo(server: Sshd) -> None:
    key = Path.home() / ".ssh/id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "phrase of the key", "-f", key], check=True)
    asked: list[str] = []

    def answer(question: str) -> str:
        asked.append(question)
        return PASSWORD if "sudo" in question else "phrase of the key"

    transport = ssh.connect(board(server, "keeper")[0], Access(ask=answer))
    with transport:
        assert transport.facts.root
        assert not transport.password_used
    assert len(asked) == 2


def test_the_programs_on_this_machine_and_their_jobs_do_not_inherit_the_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, PASSWORD)
    with watching() as seen, local(tmp_path).connect() as transport:
        transport.write(Apply((Step("cpu0.governor", "userspace", None, ""),), "me", lease=True))
        done = transport.run(Job(argv=("env",)))
    assert "PATH=" in done.text("stdout")
    assert PASSWORD not in done.text("stdout")
    assert any(b"clockd" in line for line in seen)
    assert not [line for line in seen if PASSWORD.encode() in line]
