"""sudo and su in a simulated board's own root."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.remote import sim_root
from tests.remote.sim_root import Shell


@pytest.fixture(scope="module")
def nano() -> Iterator[Shell]:
    """A Nano whose time stands while nobody waits for its programs."""
    yield from sim_root.shell("nano@r32.7")


@pytest.mark.parametrize(("user", "uid"), [("root", 0), ("nvidia", 1000)])
def test_sudo_tells_the_command_who_called_it(nano: Shell, user: str, uid: int) -> None:
    ran = nano.run("sudo sh -c 'env | grep ^SUDO_ | sort' sh there", user)
    assert ran.stdout.splitlines() == [
        "SUDO_COMMAND=/usr/bin/sh -c env | grep ^SUDO_ | sort sh there",
        f"SUDO_GID={uid}",
        f"SUDO_UID={uid}",
        f"SUDO_USER={user}",
    ]


@pytest.mark.parametrize("user", ["root", "nvidia"])
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("sudo -unvidia id -un", "nvidia"),
        ("sudo -nHu root id -un", "root"),
        ("sudo --user=nvidia -S -- id -un", "nvidia"),
        ("sudo -p 'for %u: ' -g video -A id -un", "root"),
        ("sudo -u ubuntu sh -c 'echo $USER $HOME'", "ubuntu /home/ubuntu"),
        ("cd /tmp; sudo -iu nvidia pwd", "/home/nvidia"),
        ("sudo -i pwd", "/root"),
        ("sudo -s id -un", "root"),
        ("sudo A=b sh -c 'echo $A'", "b"),
        ("A=b B=c sudo -E sh -c 'echo $A$B'", "bc"),
        ("A=b sudo --preserve-env=A,C sh -c 'echo $A$C'", "b"),
        ("sudo -l id", "/usr/bin/id"),
        ("sudo -v && sudo -k && echo done", "done"),
        ("sudo -V | cut -c-12", "Sudo version"),
        ("sudo -l | tail -n 1", "    (ALL : ALL) ALL"),
        ("sudo su -c 'id -un'", "root"),
        ("sudo su - nvidia -c 'id -un; pwd'", "nvidia\n/home/nvidia"),
        ("cd /tmp; sudo su nvidia -c pwd", "/tmp"),
        ("sudo su -l ubuntu -s /bin/sh -c 'echo $USER; pwd'", "ubuntu\n/home/ubuntu"),
        ("echo 'id -un' | sudo su -", "root"),
    ],
)
def test_sudo_and_su_know_the_options_that_scripts_use(nano: Shell, user: str, line: str, said: str) -> None:
    ran = nano.run(line, user)
    assert (ran.stdout, ran.stderr) == (f"{said}\n", "")


def test_only_what_is_asked_for_is_preserved(nano: Shell) -> None:
    assert (
        nano.run("A=b B=c sudo --preserve-env=A sh -c 'echo $A$B'; A=b sudo sh -c 'echo $A'", "nvidia").stdout
        == "b\n\n"
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("sudo nothing", "sudo: nothing: command not found\n"),
        ("sudo -u who id", "sudo: unknown user: who\n"),
        ("su who", "su: user who does not exist\n"),
        ("su -c id", "su: Authentication failure\n"),
        ("su nvidia -c id", "su: Authentication failure\n"),
    ],
)
def test_what_cannot_be_is_refused_as_on_a_board(nano: Shell, line: str, said: str) -> None:
    ran = nano.run(line, "nvidia")
    assert (ran.returncode, ran.stdout, ran.stderr) == (1, "", said)


@pytest.mark.parametrize("line", ["sudo", "sudo -z id", "sudo --nothing id", "sudo -u", "su -z"])
def test_a_line_that_is_not_understood_shows_the_usage(nano: Shell, line: str) -> None:
    ran = nano.run(line)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "usage: su" in ran.stderr


def test_root_needs_no_password_for_su(nano: Shell) -> None:
    assert nano.run("su nvidia -c 'id -un'; su -c 'exit 7'").returncode == 7
    assert nano.run("su - nvidia -c 'id -un'").stdout == "nvidia\n"
