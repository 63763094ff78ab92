"""Faults of clock files, power monitors, NVIDIA's tools and of programs that keep the GPU busy."""

from __future__ import annotations

import errno
import re
from collections.abc import Generator

import pytest

from remote import boards
from remote.errors import UsageError
from remote.hosts import Twin
from remote.hosts import parse as host
from remote.sim.faults import FAULTS, parse
from remote.sim.link import TwinTransport
from remote.sim.machine import Machine
from remote.sim.physics import Activity
from remote.sim.process import Action, Busy, Context, Out, Sleep
from remote.sim.processes import SimProcess
from remote.types import Job, Sampling
from tests.remote.sim_board import Shell

INA = "/sys/bus/i2c/drivers/ina3221x/6-0040/iio:device0"
KINDS = ["tx1@r23.1", "tx1@r28.2", "tx2@r32.7", "xavier-nx@r35.4", "orin-nx@r36.4", "agx-thor@r38.4"]
KNOBS = {
    "gpu": r"gpu\.(min|max|rate|override)",
    "emc": r"emc\.(min|max|rate|override|cap)",
    "cpu": r"cpu\d+\.(min|max|governor|setspeed)",
}
GPU_WORK = Activity(flops_per_s=1e10, bytes_per_s=1e9, gpu_load=1.0, cpu_load=0.5)


def work(context: Context) -> Generator[Action, None, int]:
    """Prepares for two seconds, keeps the GPU busy for eight, in pieces, and says when it is done."""
    yield Busy(2.0, Activity(cpu_load=1.0))
    try:
        for _ in range(8):
            yield Busy(1.0, GPU_WORK)
            yield Out("piece\n")
    except KeyboardInterrupt:
        yield Out("interrupted\n")
        return 130
    yield Out("done\n")
    return 0


def board(*faults: str, name: str = "nano", release: str = "r32.7") -> Shell:
    spec = boards.load(name)
    return Shell(Machine(name, release, spec.twin, programs={"work": work}, faults=faults))


def opened(text: str) -> TwinTransport:
    twin = host(text)
    assert isinstance(twin, Twin)
    return TwinTransport(twin, {"work": work})


def start(shell: Shell, *argv: str) -> SimProcess:
    return shell.system.spawn(argv, {}, "")


def said(process: SimProcess) -> str:
    return process.stdout.read().decode()


def ended(process: SimProcess) -> bool:
    return process.due_s is None


# Files through which clocks are set


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("clock", list(KNOBS))
def test_every_file_that_sets_a_clock_refuses_writes_and_those_of_other_clocks_do_not(kind: str, clock: str) -> None:
    refused: list[set[str]] = []
    for fault in ("", f",fault=write-refused@0::{clock}"):
        transport = opened(f"sim:{kind}{fault}")
        with transport:
            knobs = [knob for knob in transport.found.knobs.values() if knob.text and not knob.error]
            shell = Shell(transport.machine)
        refused.append({knob.id for knob in knobs if shell.refusal(knob.path, knob.text) == errno.EINVAL})
    anyway, found = refused
    own = {knob.id for knob in knobs if re.fullmatch(KNOBS[clock], knob.id)}
    assert own
    assert own <= found
    assert found - anyway <= own


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("clock", list(KNOBS))
def test_a_write_that_is_ignored_is_taken_and_changes_nothing(kind: str, clock: str) -> None:
    transport = opened(f"sim:{kind},fault=write-ignored@0::{clock}")
    with transport:
        knobs = [knob for knob in transport.found.knobs.values() if re.fullmatch(KNOBS[clock], knob.id) and knob.text]
        shell = Shell(transport.machine)
    assert knobs
    before = shell.board.kernel.tree.settable()
    for knob in knobs:
        if not knob.error:
            assert shell.refusal(knob.path, "1") is None
    assert shell.board.kernel.tree.settable() == before


def test_a_clock_file_takes_writes_before_and_after() -> None:
    shell = board("write-refused@1s:1s:cpu", "write-ignored@3s:1s:cpu")
    path = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
    seen = []
    for word in ("performance", "powersave", "powersave", "schedutil", "userspace"):
        seen.append((shell.refusal(path, word), shell.get(path)))
        shell.sleep(1.0)
    assert seen == [
        (None, "performance"),
        (errno.EINVAL, "performance"),
        (None, "powersave"),
        (None, "powersave"),
        (None, "userspace"),
    ]


def test_which_clock_is_a_word_and_the_first_is_the_usual_one() -> None:
    assert parse("write-refused@0") == parse("write-refused@0::gpu")
    assert parse("write-refused@0::emc") != parse("write-refused@0::gpu")
    for word in ("fan", "1", "GPU"):
        with pytest.raises(UsageError, match=f"there is no '{word}'"):
            parse(f"write-ignored@0::{word}")


# Power monitors


def test_stale_monitors_change_only_now_and_then_and_go_on_afterwards() -> None:
    shell = board("rail-stale@990ms:4s:2", "gpu-load@1500ms::0.9")
    values = []
    for _ in range(140):
        values.append(shell.get(f"{INA}/in_power0_input"))
        shell.sleep(0.05)
    changes = [n for n in range(1, 140) if values[n] != values[n - 1]]
    assert [n for n in changes if 20 < n < 100] == [60]
    assert [n for n in changes if n < 20]
    assert [n for n in changes if n > 101]


# nvpmodel


def test_nvpmodel_that_fails_changes_nothing_but_still_tells_the_mode() -> None:
    shell = board("nvpmodel-255@1s:10s", name="xavier-nx", release="r35.4")
    shell.sleep(1.0)
    before = shell.board.kernel.tree.settable()
    setting, asking = start(shell, "nvpmodel", "-m", "0"), start(shell, "nvpmodel", "-q")
    assert (setting.exit_code(), asking.exit_code()) == (255, 0)
    assert "NV Power Mode: " in said(asking)
    assert setting.stderr.read()
    assert shell.board.kernel.tree.settable() == before
    shell.sleep(10.0)
    assert start(shell, "nvpmodel", "-m", "0").exit_code() == 0
    assert shell.board.kernel.tree.settable() != before


@pytest.mark.parametrize("count", [0, 8, 12])
def test_nvpmodel_sets_part_of_a_mode_and_does_not_claim_the_rest(count: int) -> None:
    whole, half = (board(*faults, name="xavier-nx", release="r35.4") for faults in ((), (f"nvpmodel-half@0::{count}",)))
    before, mode = half.board.kernel.tree.settable(), said(start(half, "nvpmodel", "-q"))
    start(whole, "nvpmodel", "-m", "0")
    assert start(half, "nvpmodel", "-m", "0").exit_code() == 255
    after, wanted = half.board.kernel.tree.settable(), whole.board.kernel.tree.settable()
    assert after != wanted
    assert (after == before) is (count == 0)
    assert said(start(half, "nvpmodel", "-q")) == mode


# tegrastats


def test_tegrastats_dies_with_its_code_and_cannot_be_started_again() -> None:
    shell = board("tegrastats-dies@2500ms:2s:3")
    first = start(shell, "tegrastats")
    shell.sleep(10.0)
    assert (len(said(first).splitlines()), ended(first), first.exit_code()) == (2, True, 3)
    again = board("tegrastats-dies@0:2s:3")
    early = start(again, "tegrastats")
    again.sleep(3.0)
    late = start(again, "tegrastats")
    again.sleep(2.5)
    assert (ended(early), said(early), early.exit_code()) == (True, "", 3)
    assert (ended(late), len(said(late).splitlines())) == (False, 2)


def test_tegrastats_prints_garbage_in_a_share_of_its_lines_and_always_the_same() -> None:
    texts = []
    for faults in (("tegrastats-garbage@20s:20s:0.4",), ("tegrastats-garbage@20s:20s:0.4",), ()):
        shell = board(*faults)
        process = start(shell, "tegrastats", "--interval", "100")
        shell.sleep(60.05)
        texts.append(said(process).split("\n"))
    broken, same, plain = texts
    assert broken == same
    assert broken[:199] == plain[:199]
    assert broken[-199:] == plain[-199:]
    wrong = [n for n, (one, other) in enumerate(zip(broken, plain, strict=True)) if one != other]
    assert 0.3 < len(wrong) / 200 < 0.5
    assert all("\0" in broken[n] and not plain[n].startswith(broken[n]) for n in wrong)


def test_tegrastats_that_does_not_flush_prints_whole_blocks_and_loses_the_last() -> None:
    shell = board("tegrastats-silent@0::1000")
    process = start(shell, "tegrastats", "--interval", "100")
    sizes = []
    for _ in range(100):
        shell.sleep(0.1)
        sizes.append(len(said(process)))
    blocks = [size for size in sizes if size]
    assert len(blocks) > 5
    assert all(1000 <= size < 1500 for size in blocks)
    process.kill()
    assert said(process) == ""


def test_what_tegrastats_held_back_comes_when_it_flushes_again() -> None:
    shell = board("tegrastats-silent@0:3s:1000000")
    process = start(shell, "tegrastats")
    shell.sleep(2.5)
    assert said(process) == ""
    shell.sleep(1.0)
    assert len(said(process).splitlines()) == 3


def test_only_tegrastats_is_touched() -> None:
    shell = board("tegrastats-dies@0", "tegrastats-silent@0", "tegrastats-garbage@0::1", "nvpmodel-255@0")
    process = start(shell, "echo", "hello")
    assert (said(process), process.exit_code()) == ("hello\n", 0)


# Programs on the GPU


def test_a_program_hangs_once_it_is_on_the_gpu_and_only_a_kill_ends_it() -> None:
    shell = board("engine-hang@1s")
    process = start(shell, "work")
    shell.sleep(100.0)
    process.interrupt()
    shell.sleep(10_000.0)
    assert (ended(process), said(process)) == (False, "")
    assert shell.number("/sys/devices/57000000.gpu/load") == 0
    process.kill()
    assert (ended(process), process.exit_code()) == (True, -9)


def test_a_hang_that_ends_costs_its_time_and_nothing_else() -> None:
    shell = board("engine-hang@4500ms:3s")
    process = start(shell, "work")
    shell.sleep(12.9)
    assert not ended(process)
    shell.sleep(0.2)
    assert (ended(process), process.exit_code()) == (True, 0)
    assert said(process) == "piece\n" * 8 + "done\n"


def test_a_program_crashes_while_it_is_on_the_gpu_and_what_it_said_is_kept() -> None:
    shell = board("engine-crash@4500ms:1s")
    process = start(shell, "work")
    shell.sleep(4.4)
    assert not ended(process)
    shell.sleep(0.2)
    assert (ended(process), process.exit_code(), said(process)) == (True, -11, "piece\n" * 2)
    assert shell.board.free_bytes() == board().board.free_bytes()
    other = start(shell, "work")
    shell.sleep(20.0)
    assert other.exit_code() == 0


@pytest.mark.parametrize("fault", ["engine-hang@0", "engine-crash@0"])
def test_a_program_that_leaves_the_gpu_alone_is_left_alone(fault: str) -> None:
    shell = board(fault)
    process = start(shell, "sleep", "5")
    shell.sleep(6.0)
    assert (ended(process), process.exit_code()) == (True, 0)


def test_ctrl_c_reaches_a_program_whose_fault_is_still_to_come() -> None:
    shell = board("engine-crash@100s", "engine-hang@100s")
    process = start(shell, "work")
    shell.sleep(3.5)
    process.interrupt()
    assert (process.exit_code(), said(process)) == (130, "piece\ninterrupted\n")


def test_a_job_that_hangs_is_ended_at_its_limit_with_all_that_was_sampled() -> None:
    sampling = Sampling(rails=("POM_5V_IN",), rate_hz=10.0)
    with opened("sim:nano,fault=engine-hang@5s") as transport:
        done = transport.run(Job(("work",), timeout_s=60.0, sampling=sampling))
        assert transport.run(Job(("sleep", "1"))).exit_code == 0
    assert done.reason == "timeout"
    assert 60.0 <= done.ended_s - done.started_s < 64.0
    assert len(done.series[0].values) >= 590


def test_a_job_that_crashes_says_by_which_signal() -> None:
    with opened("sim:nano,fault=engine-crash@5s") as transport:
        done = transport.run(Job(("work",)))
    assert (done.reason, done.exit_code) == ("signal 11", -11)
    assert [line.text for line in done.lines] == ["piece"] * 3


@pytest.mark.parametrize("name", [name for name, kind in FAULTS.items() if "ARGUMENT" in str(kind.__doc__)])
def test_without_an_argument_it_is_the_usual_one(name: str) -> None:
    kind = FAULTS[name]
    word = kind.words[0] if kind.words else f"{kind.usual:g}"
    assert parse(f"{name}@1s") == parse(f"{name}@1s::{word}")


def test_idle_programs_are_not_slowed_by_what_watches_them() -> None:
    def nap(context: Context) -> Generator[Action, None, int]:
        yield Sleep(1.25)
        yield Out(f"{context.now():.6f}\n")
        return 7

    texts = []
    for faults in ((), ("engine-hang@900s", "engine-crash@900s")):
        spec = boards.load("nano")
        shell = Shell(Machine("nano", "r32.7", spec.twin, programs={"nap": nap}, faults=faults))
        process = start(shell, "nap")
        shell.sleep(2.0)
        texts.append((said(process), process.exit_code()))
    assert texts[0] == texts[1]
    assert texts[0][1] == 7
