"""Who may log in where: host keys, the SSH config, keys and passwords, jumps."""

from __future__ import annotations

import socket
import subprocess
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from remote import hosts, ssh
from remote.access import Access
from remote.errors import HostError
from tests.ssh import sshd
from tests.ssh.conftest import board
from tests.ssh.sshd import PASSWORD, Sshd

KNOWN = ".ssh/known_hosts"


def fingerprint(server: Sshd) -> str:
    said = subprocess.run(
        ["ssh-keygen", "-lf", server.folder / "hostkey.pub"], capture_output=True, text=True, check=True
    )
    return said.stdout.split()[1]


def test_an_unknown_host_key_is_refused_with_its_fingerprint_and_the_command_to_accept_it(server: Sshd) -> None:
    (Path.home() / KNOWN).unlink()
    with pytest.raises(HostError) as refused:
        ssh.connect(board(server, "root")[0], Access())
    assert refused.value.exit_code == 3
    assert fingerprint(server) in refused.value.what
    assert f"ssh-keyscan -p {server.port} -t ed25519 127.0.0.1 >> ~/.ssh/known_hosts" in refused.value.hint
    assert not (Path.home() / KNOWN).exists()


def test_an_unknown_host_key_is_accepted_on_request_and_remembered(server: Sshd) -> None:
    host = board(server, "root")[0]
    (Path.home() / KNOWN).unlink()
    ssh.connect(host, Access(accept_new_host_key=True)).close()
    ssh.connect(host, Access()).close()


def test_the_user_is_asked_about_an_unknown_host_key_where_that_is_possible(server: Sshd) -> None:
    (Path.home() / KNOWN).unlink()
    asked: list[str] = []

    def decline(question: str) -> bool:
        asked.append(question)
        return False

    with pytest.raises(HostError, match="not known"):
        ssh.connect(board(server, "root")[0], Access(confirm=decline))
    assert fingerprint(server) in asked[0]


def test_a_changed_host_key_is_refused_even_when_new_ones_are_accepted(server: Sshd, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "other"], check=True)
    kind, key, *_ = (tmp_path / "other.pub").read_text().split()
    before = f"[127.0.0.1]:{server.port} {kind} {key}\n"
    (Path.home() / KNOWN).write_text(before)
    with pytest.raises(HostError, match="has changed") as refused:
        ssh.connect(board(server, "root")[0], Access(accept_new_host_key=True, confirm=lambda question: True))
    assert fingerprint(server) in refused.value.what
    assert f"ssh-keygen -R '[127.0.0.1]:{server.port}'" in refused.value.hint
    assert (Path.home() / KNOWN).read_text() == before


def test_a_known_host_with_a_key_of_another_kind_counts_as_changed(server: Sshd, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-f", tmp_path / "other"], check=True)
    kind, key, *_ = (tmp_path / "other.pub").read_text().split()
    (Path.home() / KNOWN).write_text(f"[127.0.0.1]:{server.port} {kind} {key}\n")
    with pytest.raises(HostError):
        ssh.connect(board(server, "root")[0], Access(accept_new_host_key=True))


def test_an_alias_of_the_ssh_config_brings_address_port_user_and_key(server: Sshd) -> None:
    home = Path.home() / ".ssh"
    (home / "id_ed25519").rename(home / "board-key")
    (home / "config").write_text(
        f"Host tx1\n HostName 127.0.0.1\n Port {server.port}\n User free\n IdentityFile {home}/board-key\n"
    )
    root = board(server, "free")[1]
    with ssh.connect(replace(hosts.ssh("tx1"), root=str(root)), Access()) as transport:
        assert transport.facts.user == "free"


def alias(server: Sshd, known: str, options: str = "") -> Path:
    """Makes ``desk`` an alias of the SSH config that has a name of its own for its host key."""
    home = Path.home() / ".ssh"
    config = f"Host desk\n HostName 127.0.0.1\n Port {server.port}\n User root\n HostKeyAlias the-desk\n {options}\n"
    (home / "config").write_text(config)
    key = " ".join((server.folder / "hostkey.pub").read_text().split()[:2])
    (home / "known_hosts").write_text(f"{known} {key}\n")
    return home / "known_hosts"


@pytest.mark.parametrize("known", ["the-desk", "other,the-*"])
def test_the_host_key_alias_of_the_ssh_config_is_the_name_that_is_looked_up(server: Sshd, known: str) -> None:
    alias(server, known)
    ssh.connect(hosts.ssh("desk"), Access()).close()


@pytest.mark.parametrize("known", ["[127.0.0.1]:{port}", "!the-desk,the-*"])
def test_a_host_with_a_key_alias_is_not_known_by_another_name(server: Sshd, known: str) -> None:
    file = alias(server, known.format(port=server.port))
    with pytest.raises(HostError, match="not known") as refused:
        ssh.connect(hosts.ssh("desk"), Access())
    (command,) = (line[line.index("ssh-keyscan") :] for line in refused.value.hint.splitlines() if "keyscan" in line)
    subprocess.run(["sh", "-c", command], check=True, capture_output=True)
    assert "\nthe-desk ssh-ed25519" in file.read_text()
    if "!" not in known:
        ssh.connect(hosts.ssh("desk"), Access()).close()


def test_a_new_key_is_remembered_under_its_alias_in_the_file_of_the_ssh_config(server: Sshd) -> None:
    alias(server, "other", "UserKnownHostsFile ~/.ssh/mine")
    ssh.connect(hosts.ssh("desk"), Access(accept_new_host_key=True)).close()
    assert (Path.home() / ".ssh/mine").read_text().startswith("the-desk ssh-ed25519 ")
    ssh.connect(hosts.ssh("desk"), Access()).close()


def test_the_key_of_a_certificate_authority_is_no_host_key_and_that_is_said(server: Sshd) -> None:
    known = Path.home() / KNOWN
    known.write_text(f"@cert-authority {known.read_text()}")
    with pytest.raises(HostError, match="not known") as refused:
        ssh.connect(server.host("root"), Access())
    assert refused.value.exit_code == 3
    assert "cannot check a @cert-authority" in refused.value.hint


def test_a_board_behind_another_host_is_reached_through_it(server: Sshd) -> None:
    (Path.home() / ".ssh/config").write_text(
        f"Host inner\n HostName 127.0.0.1\n Port {server.port}\n ProxyJump plain@localhost:{server.port}\n"
    )
    kind, key, *_ = (server.folder / "hostkey.pub").read_text().split()
    with (Path.home() / KNOWN).open("a") as known:
        known.write(f"[localhost]:{server.port} {kind} {key}\n")
    root = board(server, "root")[1]
    with ssh.connect(replace(hosts.ssh("root@inner"), root=str(root)), Access()) as transport:
        assert transport.facts.user == "root"


def test_the_host_keys_of_hosts_on_the_way_are_checked_too(server: Sshd) -> None:
    (Path.home() / ".ssh/config").write_text(
        f"Host inner\n HostName 127.0.0.1\n Port {server.port}\n ProxyJump plain@localhost:{server.port}\n"
    )
    with pytest.raises(HostError, match="localhost: its host key is not known"):
        ssh.connect(hosts.ssh("root@inner"), Access())


def test_a_key_of_the_agent_is_enough(server: Sshd, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with subprocess.Popen(["ssh-agent", "-D", "-a", tmp_path / "agent"], stdout=subprocess.DEVNULL) as agent:
        try:
            monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
            while subprocess.run(
                ["ssh-add", "-q", Path.home() / ".ssh/id_ed25519"], stderr=subprocess.DEVNULL, check=False
            ).returncode:
                pass
            (Path.home() / ".ssh/id_ed25519").unlink()
            ssh.connect(board(server, "root")[0], Access()).close()
        finally:
            agent.terminate()


def test_without_a_key_the_password_is_asked_once_and_serves_sudo_too(server: Sshd) -> None:
    (Path.home() / ".ssh/id_ed25519").unlink()
    asked: list[str] = []

    def answer(question: str) -> str:
        asked.append(question)
        return PASSWORD

    transport = ssh.connect(board(server, "keeper")[0], Access(ask=answer))
    with transport:
        assert transport.password_used
        assert transport.facts.root
    assert len(asked) == 1


def test_without_a_key_and_without_anybody_to_ask_the_login_fails_with_advice(server: Sshd) -> None:
    (Path.home() / ".ssh/id_ed25519").unlink()
    with pytest.raises(HostError, match="does not let this user in") as refused:
        ssh.connect(board(server, "keeper")[0], Access())
    assert "ssh-copy-id" in refused.value.hint


def test_a_wrong_password_is_a_host_error(server: Sshd) -> None:
    (Path.home() / ".ssh/id_ed25519").unlink()
    with pytest.raises(HostError, match="does not let this user in"):
        ssh.connect(board(server, "keeper")[0], Access(ask=lambda question: "wrong"))


def test_a_host_that_accepts_and_says_nothing_is_given_up_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(HostError):
        ssh.connect(hosts.ssh(f"root@127.0.0.1:{silent.getsockname()[1]}"), Access(connect_s=0.3))


def test_a_host_that_hangs_up_is_a_host_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as rude:
        hanging = threading.Thread(target=lambda: rude.accept()[0].close())
        hanging.start()
        with pytest.raises(HostError):
            ssh.connect(hosts.ssh(f"root@127.0.0.1:{rude.getsockname()[1]}"), Access(connect_s=1))
        hanging.join()


def test_a_closed_port_and_an_unknown_name_say_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(HostError, match="refuses connections"):
        ssh.connect(hosts.ssh(f"root@127.0.0.1:{port}"), Access())
    with pytest.raises(HostError, match="not known"):
        ssh.connect(hosts.ssh("no-such-board.invalid"), Access())


def test_what_a_login_shell_prints_first_does_no_harm(server: Sshd) -> None:
    profile = server.home("free") / ".ssh"
    profile.mkdir(exist_ok=True)
    (profile / "rc").write_text("echo '{welcome}'; echo 'to the \"board\"' >&2\n")
    try:
        ssh.connect(board(server, "free")[0], Access()).close()
    finally:
        (profile / "rc").unlink()


def test_another_module_than_the_remembered_one_is_told(server: Sshd) -> None:
    host = replace(board(server, "root")[0], serial="1422")
    with ssh.connect(host, Access()) as transport:
        assert any("another module" in note for note in transport.journal.notes)


def test_the_server_of_these_tests_is_not_the_machines_own() -> None:
    assert "edgeperf-sshd-" in str(sshd.server().folder)
