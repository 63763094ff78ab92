"""What scripts for Jetsons commonly do, in the shell of a simulated board."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from datetime import datetime, timezone

import pytest

from tests.remote import sim_root
from tests.remote.sim_root import Shell


@pytest.fixture(scope="module")
def orin() -> Iterator[Shell]:
    yield from sim_root.shell("orin-nx@r36.4,speed=1")


@pytest.fixture(scope="module")
def nano() -> Iterator[Shell]:
    yield from sim_root.shell("nano@r32.7")


def test_a_benchmark_clears_the_kernel_s_caches_first(nano: Shell) -> None:
    ran = nano.run("set -e; sync; echo 3 > /proc/sys/vm/drop_caches; cat /proc/sys/vm/drop_caches")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "0\n", "")
    assert "Invalid argument" in nano.run("echo 7 > /proc/sys/vm/drop_caches").stderr
    assert "denied" in nano.run("echo 3 > /proc/sys/vm/drop_caches", "nvidia").stderr


def test_a_command_line_is_one_of_bash(nano: Shell) -> None:
    ran = nano.run('[[ abc == a* ]] && cat <(echo "$SHELL") && source /etc/os-release && echo $VERSION_CODENAME')
    assert (ran.stdout, ran.stderr) == ("/bin/bash\nbionic\n", "")


def test_a_power_mode_may_be_written_without_a_space(nano: Shell) -> None:
    ran = nano.run("nvpmodel -m1 && nvpmodel -q; nvpmodel -m0 && nvpmodel -q")
    assert ran.stdout == "NV Power Mode: 5W\n1\nNV Power Mode: MAXN\n0\n"


def test_swap_is_half_of_the_memory_in_every_place(nano: Shell) -> None:
    ran = nano.run("grep -E 'MemTotal|SwapTotal' /proc/meminfo; tegrastats | head -n 1")
    memory, swap, line = ran.stdout.splitlines()
    memory_kb, swap_kb = int(memory.split()[1]), int(swap.split()[1])
    assert swap_kb == pytest.approx(memory_kb / 2, abs=1)
    assert f" SWAP 0/{swap_kb // 1024}MB (cached 0MB) IRAM " in line


def test_thermal_zones_have_the_numbers_that_daemons_know(nano: Shell, orin: Shell) -> None:
    types = "cat /sys/class/thermal/thermal_zone?/type"
    assert nano.run(types).stdout.split() == [
        "AO-therm", "CPU-therm", "GPU-therm", "PLL-therm", "PMIC-Die", "thermal-fan-est"
    ]  # fmt: skip
    assert orin.run(types).stdout.split()[:2] == ["cpu-thermal", "gpu-thermal"]
    assert " PLL@" in nano.run("tegrastats | head -n 1").stdout.partition("CPU@")[0]  # the tool has an order of its own


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_program_that_is_ended_by_a_signal_dies_of_it(orin: Shell, number: signal.Signals) -> None:
    script = (
        "import subprocess; p = subprocess.Popen(['tegrastats', '--interval', '100'], stdout=subprocess.PIPE);"
        f"p.stdout.readline(); p.send_signal({number}); print(p.wait())"
    )
    assert orin.python(script) == -number


def test_tegrastats_and_date_tell_the_same_time(orin: Shell) -> None:
    said = orin.run("tegrastats | head -n 1").stdout[:19]
    told = datetime.strptime(said, "%m-%d-%Y %H:%M:%S").replace(tzinfo=timezone.utc)
    assert abs(told.timestamp() - time.time()) < 60


def test_a_memory_rate_is_locked_by_the_next_line_of_a_script() -> None:
    emc = "/sys/kernel/debug/bpmp/debug/clk/emc"
    for board in sim_root.shell("tx2@r28.2"):
        locking = f"echo 1331200000 > {emc}/rate; sleep 1; echo 1 > {emc}/mrq_rate_locked; sleep 5; cat {emc}/rate"
        assert board.run(locking).stdout == "1331200000\n"


def test_what_a_user_starts_for_another_one_keeps_the_variables(nano: Shell) -> None:
    assert nano.run("FOO=1 su nvidia -c 'echo $FOO $HOME'; FOO=1 su - nvidia -c 'echo $FOO $HOME'").stdout == (
        "1 /home/nvidia\n/home/nvidia\n"
    )


def test_no_service_has_failed(nano: Shell) -> None:
    assert nano.run("systemctl is-failed ssh || echo no").stdout == "active\nno\n"


def test_a_conf_of_ones_own_that_is_wrong_is_refused(nano: Shell) -> None:
    ran = nano.run("sed 's/^GPU MAX_FREQ/NOPE MAX_FREQ/' /etc/nvpmodel.conf > own.conf; nvpmodel -f own.conf -m 0")
    assert (ran.returncode, ran.stdout) == (255, "NVPM ERROR: failed to parse power mode 0\n")


def test_a_calendar_that_steps_from_the_start_is_seen_in_real_time_too() -> None:
    for board in sim_root.shell("nano,speed=1,fault=clock-step@0s::86400000"):
        ahead_s = board.board.machine.wall_s - time.time()
        assert ahead_s == pytest.approx(86_400_000, abs=60)
