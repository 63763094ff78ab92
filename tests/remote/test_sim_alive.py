"""What goes wrong for one who uses a simulated board leaves it there for the others, and nobody waits for nothing."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator
from functools import partial
from typing import cast

import asyncssh
import pytest

from remote import hosts
from remote.errors import HostError
from remote.hosts import Twin
from remote.sim.line import Line
from remote.sim.live import LiveBoard
from remote.sim.mount import rooted
from remote.sim.process import Action, Context, Out, Sleep
from remote.sim.serve.program import Order, ProgramSession
from tests.remote.sim_root import Shell, missing
from tests.remote.test_sim_live import within

LIMIT_S = 20.0


def wrong(context: Context) -> Generator[Action, None, int]:
    """A program with a mistake in it."""
    yield Out("so far\n")
    yield Sleep(1.0)
    raise ValueError("a mistake")


def live(text: str) -> Iterator[LiveBoard]:
    host = hosts.parse(f"sim:{text}")
    assert isinstance(host, Twin)
    board = LiveBoard(host, {"wrong": wrong})
    try:
        yield board
        assert board.ask(lambda: "here").result(LIMIT_S) == "here"
    finally:
        board.close()


@pytest.fixture(params=["max", "1"])
def board(request: pytest.FixtureRequest) -> Iterator[LiveBoard]:
    yield from live(f"nano,speed={request.param}")


def opened(board: LiveBoard, ended: list[str]) -> Line:
    return board.ask(
        lambda: board.open_line("agent", "nvidia", 0.8, lambda data: None, lambda lost, failure: ended.append(failure))
    ).result(LIMIT_S)


def runs(board: LiveBoard, line: Line, *argv: str) -> None:
    job = {"id": 1, "verb": "stream", "argv": argv, "timeout_s": 2e6}
    board.call(lambda: line.hear(json.dumps(job).encode() + b"\n"))


def running(board: LiveBoard, name: str) -> bool:
    return bool(board.call(lambda: [process for process in board.machine.processes(name) if process.due_s]))


def test_an_answer_that_nobody_waits_for_any_more_is_left_out(board: LiveBoard) -> None:
    busy = threading.Event()
    board.post(lambda: busy.wait(LIMIT_S))
    assert board.ask(lambda: None).cancel()
    busy.set()


def test_a_request_that_is_nested_too_deeply_is_its_hosts_trouble(board: LiveBoard) -> None:
    line = opened(board, [])
    board.post(lambda: line.hear(b"[" * 100_000 + b"\n"))


def test_an_act_that_fails_is_told_and_ends_nothing(board: LiveBoard, capsys: pytest.CaptureFixture[str]) -> None:
    board.post(lambda: 1 // 0)
    assert board.ask(lambda: "here").result(LIMIT_S) == "here"
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_a_mistake_in_a_program_is_told_to_who_started_it_alone(board: LiveBoard) -> None:
    ended: list[str] = []
    others: list[str] = []
    line, other = opened(board, ended), opened(board, others)
    runs(board, other, "sleep", "4" if board.real else "1000000")
    runs(board, line, "wrong")
    assert within(LIMIT_S, lambda: bool(ended))
    assert (ended, others) == (["ValueError: a mistake"], [])


def test_a_mistake_on_a_slow_line_does_not_end_the_board() -> None:
    for board in live("nano,fault=link-slow@0::3"):
        ended: list[str] = []
        runs(board, opened(board, ended), "wrong")
        assert within(LIMIT_S, partial(bool, ended))


def test_a_slow_start_does_not_hold_up_a_board_in_whose_time_something_runs() -> None:
    for board in live("nano,speed=1,fault=slow-python@0::0.3"):
        runs(board, opened(board, []), "sleep", "30")
        assert within(LIMIT_S, partial(running, board, "sleep"))
        opened(board, [])


def test_who_asks_a_board_that_has_ended_is_told() -> None:
    for board in live("nano"):
        ended = board
    with pytest.raises(HostError, match="ended"):
        ended.ask(lambda: None).result(LIMIT_S)


class Gone:
    """A channel whose client has gone."""

    def get_connection(self) -> object:
        return self

    def is_closing(self) -> bool:
        return True


def test_who_goes_while_it_looks_for_what_it_lost_is_not_taken_for_there() -> None:
    for board in live("nano"):
        line = opened(board, [])
        runs(board, line, "sleep", "1000000")
        board.call(partial(line.pause, True))

        async def come_and_go(board: LiveBoard = board, line: Line = line) -> bool:
            session = ProgramSession(board, Order("relay", "none", {"--to": "agent"}), "nvidia")
            session.connection_made(cast("asyncssh.SSHServerChannel[bytes]", Gone()))
            session.session_started()
            await asyncio.sleep(0.2)
            session.connection_lost(None)
            board.call(partial(line.hear, b""))
            board.call(partial(line.pause, False))
            until_s = time.monotonic() + LIMIT_S
            while (there := bool(board.call(lambda: len(board._residents)))) and time.monotonic() < until_s:
                await asyncio.sleep(0.1)
            return there

        assert not asyncio.run(come_and_go())


# In a root of its own


@pytest.fixture(params=["max", "1"])
def shell(request: pytest.FixtureRequest) -> Iterator[Shell]:
    if missing():
        pytest.skip(missing())
    for board in live(f"orin-nx@r36.4,speed={request.param}"):
        with rooted(board) as root:
            yield Shell(board, root)


def test_a_mistake_in_a_program_ends_it_in_a_shell_too(shell: Shell) -> None:
    ran = shell.run("wrong")
    assert (ran.returncode, ran.stdout, ran.stderr) == (1, "so far\n", "wrong: ValueError: a mistake\n")


def asked(logfile: str, then: str) -> str:
    """Returns a script that asks for tegrastats by hand."""
    request = {"argv": ["tegrastats", "--interval", "100", "--logfile", logfile][: 5 if logfile else 3], "env": {}}
    return f"""
import json, socket, time
line = socket.socket(socket.AF_UNIX)
line.connect("/.edgeperf/socket")
line.sendall(json.dumps({{**{request!r}, "folder": "/"}}).encode() + b"\\n")
first = line.recv(1000).decode()
{then}
print(json.dumps(first))
"""


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "x" * 70_000])
def test_a_name_that_no_file_can_have_does_not_end_the_root(shell: Shell, name: str) -> None:
    shell.python(asked(name, ""), "nvidia")
    assert shell.run("id -un", "nvidia").stdout == "nvidia\n"


@pytest.mark.parametrize("rubbish", ["[]", "[" * 100_000])
def test_rubbish_in_place_of_a_signal_ends_the_program_that_it_is_for(shell: Shell, rubbish: str) -> None:
    shell.python(asked("", f"line.sendall({rubbish!r}.encode() + b'\\n'); time.sleep(0.5)"), "nvidia")
    assert within(LIMIT_S, lambda: not running(shell.board, "tegrastats"))


def test_many_at_once_are_answered_when_there_are_files_again(shell: Shell) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 20, before[1]))
    try:
        shell.run("for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do sudo sleep 1 & done; wait", "nvidia")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert shell.run("sudo id -u", "nvidia").stdout == "0\n"


def test_signals_of_this_process_stay_its_own() -> None:
    if missing():
        pytest.skip(missing())
    script = (
        "import os, signal; from remote import hosts; from remote.sim.live import LiveBoard;"
        "from remote.sim.mount import rooted\n"
        "with rooted(LiveBoard(hosts.parse('sim:nano'), {})):\n"
        "    os.kill(os.getpid(), signal.SIGTERM); print('survived')"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout) == (-signal.SIGTERM, "")


SLOWLY = """
import os, sys, time
from remote.sim.mount import namespaces
setsid = os.setsid
def slow_setsid():
    os.write(1, b"forked\\n"); time.sleep(0.5); setsid()
os.setsid = slow_setsid
os._exit(namespaces.main(["enter", sys.argv[1], "root", "", "sleep", "60"]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_comes_before_the_command_runs_ends_it(number: signal.Signals) -> None:
    if missing():
        pytest.skip(missing())
    for board in live("nano"):
        with rooted(board) as root:
            words = [sys.executable, "-c", SLOWLY, str(root.pid)]
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
            with subprocess.Popen(words, **pipes) as process:  # type: ignore[call-overload]
                assert process.stdout.readline() == "forked\n"
                process.send_signal(number)
                said = process.communicate(timeout=LIMIT_S)[1]
    assert (process.returncode, said) == (128 + number, "")
