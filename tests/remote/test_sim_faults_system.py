"""Disks that are full or take no changes, and restarts: what works then, and what is left of a simulated board."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from remote import boards
from remote.errors import BoardError, EdgeperfError, LinkLost
from remote.hosts import Twin
from remote.hosts import parse as host
from remote.sim import state
from remote.sim.link import TwinTransport
from remote.sim.machine import Machine
from remote.sim.reach import Reach
from remote.sim.system import TwinSystem
from remote.types import Apply, Blob, Job, Sampling, Step, Undo
from tests.remote.sim_board import Shell

HOME = "/home/nvidia"
MODE = "MODE_20W_6CORE"


def board(*faults: str, name: str = "nano", release: str = "r32.7") -> Shell:
    return Shell(Machine(name, release, boards.load(name).twin, faults=faults), "nvidia")


def opened(text: str, machine: Machine | None = None) -> TwinTransport:
    twin = host(text)
    assert isinstance(twin, Twin)
    return TwinTransport(twin, {}, state.Fleeting(machine) if machine else None)


def error_of(act: Callable[[], object]) -> int | None:
    try:
        act()
    except OSError as error:
        return error.errno
    return None


# A full disk


def test_a_full_disk_takes_what_fits_until_it_has_room_again() -> None:
    shell = board("disk-full@1s:2s:100")
    system = shell.system
    system.save(f"{HOME}/old", bytes(1000))
    shell.sleep(1.0)
    assert system.free_bytes(HOME) == 100
    assert error_of(lambda: system.save(f"{HOME}/new", bytes(101))) == errno.ENOSPC
    assert not system.exists(f"{HOME}/new")
    system.save(f"{HOME}/new", bytes(100))
    assert error_of(lambda: system.append(f"{HOME}/new", b"x")) == errno.ENOSPC
    assert error_of(lambda: system.make_folder(f"{HOME}/folder")) == errno.ENOSPC
    system.save(f"{HOME}/old", bytes(999))  # in place of more
    system.remove(f"{HOME}/old")
    assert system.free_bytes(HOME) == 1000
    shell.sleep(2.0)
    system.save(f"{HOME}/new", bytes(100_000))


def test_a_full_disk_is_not_the_memory() -> None:
    shell = board("disk-full@0")
    shell.sleep(0.1)
    root = Shell(shell.board).system
    root.make_folder("/run/edgeperf")
    root.save("/run/edgeperf/a", bytes(1000))
    shell.system.save("/dev/shm/a", bytes(1000))
    assert error_of(lambda: shell.system.save("/tmp/a", b"x")) == errno.ENOSPC


def test_the_room_on_a_full_disk_is_told_from_the_start() -> None:
    with closing(opened("sim:nano,fault=disk-full@0::5000")) as transport:
        assert transport.facts.cache_free_bytes == 5000


# A disk that takes no changes


def test_a_disk_that_takes_no_changes_can_be_read() -> None:
    shell = board("read-only@1s:2s")
    system = shell.system
    system.save(f"{HOME}/old", b"text")
    shell.sleep(1.0)
    refused: list[Callable[[], object]] = [
        lambda: system.save(f"{HOME}/old", b"other"),
        lambda: system.save(f"{HOME}/new", b""),
        lambda: system.append(f"{HOME}/old", b"more"),
        lambda: system.rename(f"{HOME}/old", "/dev/shm/old"),
        lambda: system.rename(f"{HOME}/old", f"{HOME}/new"),
        lambda: system.remove(f"{HOME}/old"),
        lambda: system.make_folder(f"{HOME}/folder"),
        lambda: shell.board.files.touch(f"{HOME}/old", "nvidia", 1.0),
    ]
    assert [error_of(act) for act in refused] == [errno.EROFS] * len(refused)
    assert system.load(f"{HOME}/old") == b"text"
    assert system.exists(f"{HOME}/old")
    system.save("/dev/shm/new", b"text")
    shell.sleep(2.0)
    system.save(f"{HOME}/old", b"other")


def test_writing_to_a_file_that_is_there_is_refused_too() -> None:
    shell = board("read-only@1s")
    shell.system.save(f"{HOME}/old", b"text")
    shell.sleep(1.0)
    assert error_of(lambda: shell.put(f"{HOME}/old", "other")) == errno.EROFS


@pytest.mark.parametrize(("fault", "hint"), [("disk-full", "free some space"), ("read-only", "dmesg")])
def test_a_file_that_cannot_be_put_says_what_to_do(fault: str, hint: str) -> None:
    with (
        closing(opened(f"sim:nano,fault={fault}@0")) as transport,
        pytest.raises(BoardError, match="could not be stored") as caught,
    ):
        transport.put(Blob("a", b"text"))
    assert hint in caught.value.hint


@pytest.mark.parametrize("fault", ["disk-full", "read-only"])
def test_clocks_are_set_and_put_back_whatever_the_disk(fault: str) -> None:
    with closing(opened(f"sim:nano,fault={fault}@0")) as transport:
        before = transport.found
        transport.write(Apply((Step("gpu.max", 460_800_000, None, ""),), "me", lease=True))
        done = transport.run(Job(duration_s=2.0, sampling=Sampling(rails=("POM_5V_IN",), rate_hz=10.0)))
        assert len(done.series[0].values) >= 19
        transport.write(Undo(lease="lease"))
        assert transport.read(settings=True).settings == before


@pytest.mark.parametrize(("fault", "hint"), [("disk-full", "df -h"), ("read-only", "dmesg")])
def test_no_power_mode_is_set_that_could_not_be_remembered_over_a_restart(fault: str, hint: str) -> None:
    with closing(opened(f"sim:xavier-nx,fault={fault}@0")) as transport:
        with pytest.raises(BoardError, match="nothing was changed") as caught:
            transport.write(Apply((Step("nvpmodel.mode", MODE, None, ""),), "me"))
        assert hint in caught.value.hint
        assert transport.read(settings=True).settings == transport.found


def test_a_power_mode_is_put_back_and_the_board_free_though_the_disk_takes_no_changes_any_more() -> None:
    with closing(opened("sim:xavier-nx,fault=read-only@1s")) as transport:
        transport.write(Apply((Step("nvpmodel.mode", MODE, None, ""),), "me", lease=True))
        transport.run(Job(duration_s=2.0))
        transport.write(Undo(lease="lease"))
        assert transport.read(settings=True).settings == transport.found
        with closing(transport.again()) as other:
            assert other.journal.lease is None
            assert not other.journal.notes


# Restarts


def mode_of(transport: TwinTransport) -> object:
    now = transport.read(settings=True).settings
    assert now is not None
    return now.knobs["nvpmodel.mode"].value


def test_a_mode_outlives_a_restart_and_is_put_back_by_whoever_comes_next(tmp_path: Path) -> None:
    text = f"sim:xavier-nx,state={tmp_path}/board"
    with closing(opened(f"{text},fault=reboot@5s")) as transport:
        found = transport.found
        transport.write(Apply((Step("nvpmodel.mode", MODE, None, ""),), "me", lease=True))
        with pytest.raises(LinkLost, match="restarted"):
            transport.run(Job(duration_s=60.0))
        assert transport.machine.kernel.mode is not None
        assert transport.machine.kernel.mode.name == MODE
    with closing(opened(text)) as later:
        assert later.found.knobs["nvpmodel.mode"] == found.knobs["nvpmodel.mode"]
        assert any("was left behind" in note for note in later.journal.notes)
        assert later.journal.lease is None


def test_an_applied_mode_stays_over_a_restart_and_is_still_restored(tmp_path: Path) -> None:
    text = f"sim:xavier-nx,state={tmp_path}/board"
    with closing(opened(f"{text},fault=reboot@5s")) as transport:
        before = mode_of(transport)
        transport.write(Apply((Step("nvpmodel.mode", MODE, None, ""),), "me"))
        with pytest.raises(LinkLost):
            transport.run(Job(duration_s=60.0))
    with closing(opened(text)) as later:
        assert mode_of(later) == MODE
        assert any("outlived a reboot" in note for note in later.journal.notes)
        later.write(Undo())
        assert mode_of(later) == before


def test_what_was_applied_in_memory_is_gone_after_a_restart_with_its_journal(tmp_path: Path) -> None:
    text = f"sim:nano,state={tmp_path}/board"
    with closing(opened(f"{text},fault=reboot@5s")) as transport:
        before = transport.found.nodes()
        transport.write(Apply((Step("gpu.max", 460_800_000, None, ""),), "me"))
        with pytest.raises(LinkLost):
            transport.run(Job(duration_s=60.0))
    with closing(opened(text)) as later:
        assert later.found.nodes() == before
        assert later.journal.apply is None


def test_each_restart_of_a_kept_board_is_another_boot(tmp_path: Path) -> None:
    text = f"sim:nano,state={tmp_path}/board"
    boots = []
    for _ in range(3):
        with closing(opened(f"{text},fault=reboot@1s")) as transport:
            boots.append(transport.facts.boot_id)
            with pytest.raises(LinkLost):
                transport.run(Job(duration_s=60.0))
    assert len(set(boots)) == 3


def test_a_restart_ends_no_fault_that_lies_outside_of_the_software() -> None:
    shell = board("throttle@1s::2", "emc-clamp@1s", "reboot@2s", "rail-missing@1s", "disk-full@1s")
    highest = shell.board.kernel.emc.table[-1]
    shell.sleep(3.0)
    assert shell.number("/sys/class/thermal/cooling_device0/cur_state") == 2
    assert shell.board.clocks().emc_hz <= highest / 2
    assert shell.system.free_bytes(HOME) == 0


def test_a_restart_loses_what_is_in_memory_and_keeps_the_disk() -> None:
    shell = board("reboot@1s")
    Shell(shell.board).system.make_folder("/run/edgeperf")
    places = ["/run/edgeperf/a", "/dev/shm/a", "/tmp/a", f"{HOME}/a"]
    for path in places:
        Shell(shell.board).system.save(path, b"text")
    shell.sleep(2.0)
    assert [path for path in places if shell.system.exists(path)] == [f"{HOME}/a"]
    assert not shell.system.exists("/run/edgeperf")


def test_a_restart_ends_the_programs_of_others() -> None:
    shell = board("gpu-load@1s", "reboot@2s")
    load = "/sys/devices/57000000.gpu/load"
    seen = []
    for _ in range(3):
        seen.append(shell.number(load) > 0)
        shell.sleep(1.0)
    assert seen == [False, True, False]


# All of it together

WORST = st.tuples(
    st.sampled_from(
        [
            "link-drop",
            "link-reset",
            "link-stall",
            "link-slow",
            "reboot",
            "disk-full",
            "read-only",
            "sudo-asks",
            "slow-python",
        ]
    ),
    st.integers(0, 20),
    st.none() | st.integers(1, 30),
)


@example(faults=[("reboot", 5, None)], steps=(Step("nvpmodel.mode", MODE, None, ""),))
@given(
    faults=st.lists(WORST, max_size=4),
    steps=st.sampled_from([(Step("gpu.max", 460_800_000, None, ""),), (Step("nvpmodel.mode", MODE, None, ""),)]),
)
def test_whatever_happens_to_line_disk_and_board_a_lease_leaves_it_as_it_was(
    faults: list[tuple[str, int, int | None]], steps: tuple[Step, ...]
) -> None:
    texts = [f"{name}@{start}" + (f":{span}" if span else "") for name, start, span in faults]
    machine = Machine("xavier-nx", "r35.4", boards.load("xavier-nx").twin, faults=texts)
    before = opened("sim:xavier-nx").found.nodes()
    with suppress(EdgeperfError), closing(opened("sim:xavier-nx", machine)) as transport:
        transport.write(Apply(steps, "me", lease=True))
        transport.run(Job(duration_s=10.0, sampling=Sampling(rails=("VDD_IN",), rate_hz=10.0)))
        transport.write(Undo(lease="lease"))
    assert not TwinSystem(machine, "root").exists("/run/edgeperf/journal.json")
    machine.wait(TwinSystem(machine), [], machine.now_s + 60.0)  # whatever is still to come
    machine.reach = Reach()
    machine.files.read_only = False
    machine.files.fill(None)
    with closing(opened("sim:xavier-nx", machine)) as later:
        assert later.found.nodes() == before
        assert later.journal.lease is None
