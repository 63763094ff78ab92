"""The programs that every simulated board has, above all tegrastats."""

from __future__ import annotations

import re
from collections.abc import Generator

import pytest

from remote.sim.physics import Activity
from remote.sim.process import Action, Busy, Context
from tests.remote.sim_board import Shell, machine, shell


def load(context: Context) -> Generator[Action, None, int]:
    """Keeps one core and the GPU busy."""
    yield Busy(100.0, Activity(flops_per_s=1e11, bytes_per_s=5.12e9, gpu_load=0.5, cpu_load=1.0))
    return 0


def _line(release: str, user: str = "root", busy: bool = True) -> str:
    board = Shell(machine(release, {"load": load}), user)
    if busy:
        board.system.spawn(["load"], {}, "")
    tool = board.system.spawn(["tegrastats"], {}, "")
    board.sleep(1.0)
    text = tool.stdout.read().decode()
    assert text.count("\n") == 1
    return text.strip()


@pytest.mark.parametrize("release", ["r23.1", "r24.2"])
def test_the_oldest_tegrastats_has_one_cpu_clock_and_an_edp_limit(release: str) -> None:
    assert re.fullmatch(
        r"RAM 277/3854MB \(lfb \d+x4MB\) SWAP 0/0MB \(cached 0MB\) cpu \[100%,0%,0%,0%\]@1734 EMC \d+%@665"
        r" AVP \d+%@12 VDE 0 GR3D 50%@691 EDP limit 1912",
        _line(release),
    )


def test_tegrastats_of_r28_shows_clocks_to_root_only_and_no_rails() -> None:
    assert re.search(
        r"CPU \[100%@1734,0%@1734,0%@1734,0%@1734\] EMC_FREQ \d+%@665 GR3D_FREQ 50%@691 APE 25 AO@", _line("r28.2")
    )
    assert "FREQ" not in _line("r28.2", "nvidia")
    assert "VDD" not in _line("r28.2")


def test_tegrastats_of_r32_shows_rails_with_their_mean_to_root_only() -> None:
    assert re.search(r" PMIC@100C .*thermal@[\d.]+C VDD_IN \d+/\d+ VDD_CPU \d+/\d+ VDD_GPU \d+/\d+$", _line("r32.7"))
    user = _line("r32.7", "nvidia")
    assert "VDD" not in user
    assert " EMC_FREQ 0% GR3D_FREQ 50% AO@" in user


def test_an_offline_core_is_off() -> None:
    board = Shell(machine("r32.7", cores=2))
    tool = board.system.spawn(["tegrastats", "--interval", "100"], {}, "")
    board.sleep(0.3)
    lines = tool.stdout.read().decode().splitlines()
    assert len(lines) == 3
    assert all("CPU [0%@102,0%@102,off,off]" in line for line in lines)


def test_tegrastats_names_an_option_that_it_does_not_know() -> None:
    board = shell("r32.7")
    tool = board.system.spawn(["tegrastats", "--colour"], {}, "")
    board.sleep(0.0)
    assert tool.stderr.read() == b"tegrastats: unknown option --colour\n"
    assert tool.exit_code() == 1


@pytest.mark.parametrize(
    ("argv", "stdin", "code", "out"),
    [
        (["true"], "", 0, b""),
        (["false"], "", 1, b""),
        (["/bin/echo", "a", "b"], "", 0, b"a b\n"),
        (["cat"], "in\n", 0, b"in\n"),
        (["cat", "/proc/sys/kernel/osrelease"], "", 0, b"4.9.253-tegra\n"),
        (["cat", "/nothing"], "", 1, b""),
    ],
)
def test_the_small_programs_of_a_shell(argv: list[str], stdin: str, code: int, out: bytes) -> None:
    board = shell("r32.7")
    process = board.system.spawn(argv, {}, stdin)
    board.sleep(0.0)
    assert (process.stdout.read(), process.exit_code()) == (out, code)


def test_sleep_takes_simulated_seconds() -> None:
    board = shell()
    start_s = board.board.now_s
    process = board.system.spawn(["sleep", "3600"], {}, "")
    assert board.system.wait([process.stdout], None) == [process.stdout]
    assert board.board.now_s - start_s == 3600.0
