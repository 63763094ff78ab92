from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from remote import boards
from remote.onboard import powermode
from remote.onboard.journal import KEPT, PATH, Journal
from remote.onboard.settings import Settings
from remote.onboard.system import System
from tests.remote.tree import Tree

CONF = "/etc/nvpmodel.conf"
CPUS = "/sys/devices/system/cpu"

# In the layout of the releases up to R35: a parameter per CPU cluster; no cap of the memory is 0.
PER_CLUSTER = f"""
# comment
< PARAM TYPE=FILE NAME=CPU_ONLINE >
CORE_1 {CPUS}/cpu1/online
< PARAM TYPE=FILE NAME=TPC_POWER_GATING >
TPC_PG_MASK /sys/devices/gpu.0/tpc_pg_mask
< PARAM TYPE=CLOCK NAME=CPU_ARM >
FREQ_TABLE {CPUS}/cpu0/cpufreq/scaling_available_frequencies
MAX_FREQ {CPUS}/cpu0/cpufreq/scaling_max_freq
MIN_FREQ {CPUS}/cpu0/cpufreq/scaling_min_freq
FREQ_TABLE_KNEXT {CPUS}/cpu0/cpufreq/scaling_available_frequencies
MAX_FREQ_KNEXT {CPUS}/cpu0/cpufreq/scaling_max_freq
< PARAM TYPE=CLOCK NAME=CPU_OTHER >
MAX_FREQ_KNEXT {CPUS}/cpu1/cpufreq/scaling_max_freq
MAX_FREQ {CPUS}/cpufreq/policy1/scaling_max_freq
< PARAM TYPE=CLOCK NAME=GPU >
MAX_FREQ /sys/devices/old.gpu/max_freq
MAX_FREQ_KNEXT /sys/devices/new.gpu/max_freq
< PARAM TYPE=CLOCK NAME=EMC >
MAX_FREQ /sys/kernel/nvpmodel_emc_cap/emc_iso_cap

< POWER_MODEL ID=0 NAME=EVERYTHING >
CPU_ONLINE CORE_1 1
TPC_POWER_GATING TPC_PG_MASK 0
CPU_ARM MAX_FREQ -1
CPU_OTHER MAX_FREQ -1
GPU MAX_FREQ -1
EMC MAX_FREQ 0

< POWER_MODEL ID=3 NAME=LESS_10W >
CPU_ONLINE CORE_1 0
TPC_POWER_GATING TPC_PG_MASK 0
CPU_ARM MIN_FREQ 100000
CPU_ARM MAX_FREQ 1200000
CPU_OTHER MAX_FREQ 900000
GPU MAX_FREQ 850000000
EMC MAX_FREQ 1331200000

< POWER_MODEL ID=7 NAME=HALF_GPU >
TPC_POWER_GATING TPC_PG_MASK 240
GPU MAX_FREQ 850000000

< PM_CONFIG DEFAULT=3 >
"""
# From R36: a parameter with a node per core; no cap is -1 everywhere.
PER_CORE = f"""
< PARAM TYPE=CLOCK NAME=CPU_A78_0 >
MAX_FREQ {CPUS}/cpu0/cpufreq/scaling_max_freq
< PARAM TYPE=CLOCK NAME=CPU_A78_4 >
MAX_FREQ {CPUS}/cpu4/cpufreq/scaling_max_freq
< PARAM TYPE=CLOCK NAME=EMC >
MAX_FREQ /sys/kernel/nvpmodel_clk_cap/emc
<POWER_MODEL ID=2 NAME=MAXN_SUPER>
CPU_A78_0 MAX_FREQ -1
EMC MAX_FREQ -1
< POWER_MODEL ID=0 NAME=15W >
CPU_A78_0 MAX_FREQ 1497600
CPU_A78_4 MAX_FREQ 1497600
EMC MAX_FREQ 2133000000
< PM_CONFIG DEFAULT=0 >
"""


def caps(text: str) -> dict[str, dict[str, int]]:
    paths, modes = powermode.parse(text)
    return {mode["name"]: powermode.caps(paths, mode) for mode in modes}


def test_caps_are_read_per_cluster() -> None:
    assert caps(PER_CLUSTER) == {
        "EVERYTHING": {},
        "LESS_10W": {"cpu0": 1_200_000_000, "cpu1": 900_000_000, "gpu": 850_000_000, "emc": 1_331_200_000},
        "HALF_GPU": {"gpu": 850_000_000},
    }


def test_caps_are_read_per_core() -> None:
    assert caps(PER_CORE) == {
        "MAXN_SUPER": {},
        "15W": {"cpu0": 1_497_600_000, "cpu4": 1_497_600_000, "emc": 2_133_000_000},
    }


def test_modes_keep_their_own_numbers() -> None:
    assert [(mode["id"], mode["name"]) for mode in powermode.parse(PER_CORE)[1]] == [(2, "MAXN_SUPER"), (0, "15W")]


@pytest.mark.parametrize("text", ["", "no such file\n", "< POWER_MODEL >\nGPU MAX_FREQ 1\n", "< PARAM\n\0\0", "<>\n"])
def test_what_is_no_such_file_has_no_modes(text: str) -> None:
    assert powermode.parse(text)[1] == []


@dataclass
class Nvpmodel:
    """The program: tells and sets the mode in force. ``stubborn`` answers a request with a question and no change."""

    mode: str = "EVERYTHING"
    stubborn: str = ""
    asked: list[list[str]] = field(default_factory=list)

    def __call__(self, argv: Sequence[str]) -> str:
        names = {str(mode["id"]): mode["name"] for mode in powermode.parse(PER_CLUSTER)[1]}
        self.asked.append(list(argv[1:]))
        assert argv[0] == powermode.PROGRAM
        if argv[1] == "-m" and self.stubborn:
            return self.stubborn
        if argv[1] == "-m":
            self.mode = names[argv[2]]
            return ""
        number = next(key for key, name in names.items() if name == self.mode)
        return f"NVPM WARN: fan mode is not set!\nNV Power Mode: {self.mode}\n{number}\n"


GPU = "/sys/devices/17000000.gp10b/devfreq/17000000.gp10b"
FILES = {
    CONF: PER_CLUSTER,
    f"{CPUS}/cpu0/online": "1",
    f"{CPUS}/cpu0/cpufreq/related_cpus": "0",
    f"{CPUS}/cpu0/cpufreq/scaling_max_freq": "2035200",
    f"{CPUS}/cpu0/cpufreq/scaling_available_frequencies": "499200 1190400 1267200 2035200",
    f"{GPU}/max_freq": "1300500000",
    f"{GPU}/available_frequencies": "114750000 726750000 854250000 1300500000",
}


def settings(program: Nvpmodel | None) -> Settings:
    return Settings(cast(System, Tree(FILES, program)), boards.table()["tx2"]["knobs"])


def apply(found: Settings, mode: str, *, reboot: bool = False) -> tuple[str, str]:
    row = found.apply(found.check({"knob": "nvpmodel.mode", "value": mode}), reboot)
    return row["result"], row["why"]


def described(program: Nvpmodel | None) -> dict[str, dict[str, object]]:
    return {record["id"]: record for record in settings(program).describe()["knobs"]}


def test_a_mode_is_a_setting_by_name() -> None:
    record = described(Nvpmodel())["nvpmodel.mode"]
    assert (record["value"], record["choices"]) == ("EVERYTHING", ["EVERYTHING", "LESS_10W", "HALF_GPU"])


def test_a_mode_caps_what_rates_may_be() -> None:
    free, capped = described(Nvpmodel()), described(Nvpmodel("LESS_10W"))
    assert free["gpu.max"].get("capped_by") is None
    assert (capped["gpu.max"]["high"], capped["gpu.max"]["capped_by"]) == (854_250_000, "LESS_10W")
    assert capped["cpu0.max"]["high"] == 1_190_400_000  # the nearest rate that the CPU has


def test_a_mode_is_chosen_by_its_number_in_the_boards_own_file() -> None:
    program = Nvpmodel()
    assert apply(settings(program), "LESS_10W") == ("applied", "")
    assert ["-m", "3"] in program.asked


def test_a_mode_with_other_parts_of_the_gpu_needs_a_reboot_and_is_not_even_asked_for() -> None:
    program = Nvpmodel()
    result, why = apply(settings(program), "HALF_GPU")
    assert (result, "nvpmodel -m 7" in why) == ("needs-reboot", True)
    assert [argv for argv in program.asked if argv[0] == "-m"] == []


def test_a_program_that_asks_for_a_reboot_is_told_no() -> None:
    program = Nvpmodel(stubborn="NVPM WARN: Reboot required\nNVPM ERROR: bad input!\n")
    assert apply(settings(program), "LESS_10W")[0] == "needs-reboot"
    assert program.mode == "EVERYTHING"


def test_a_reboot_that_is_allowed_is_asked_for_and_told_of() -> None:
    program = Nvpmodel(stubborn="NVPM WARN: Reboot required\n")
    assert apply(settings(program), "HALF_GPU", reboot=True) == ("needs-reboot", "the board is rebooting")
    assert ["-m", "7"] in program.asked


def test_a_mode_without_a_reboot_is_set_as_ever_where_one_is_allowed() -> None:
    assert apply(settings(Nvpmodel()), "LESS_10W", reboot=True) == ("applied", "")


def test_a_reboot_that_the_program_refuses_is_no_reboot() -> None:
    program = Nvpmodel(stubborn="NVPM WARN: Reboot required\nNVPM ERROR: not now\n")
    assert apply(settings(program), "HALF_GPU", reboot=True) == ("refused", "NVPM ERROR: not now")


def test_a_mode_that_waits_for_a_reboot_is_put_back_after_it() -> None:
    program = Nvpmodel(stubborn="NVPM WARN: Reboot required\n")
    found = settings(program)
    layer: dict[str, Any] = {"kind": "apply", "entries": []}
    step = found.check({"knob": "nvpmodel.mode", "value": "HALF_GPU"})
    found.remember(layer, [step])
    before = found.values(layer)
    found.mark(layer, before, [found.apply(step, True)])
    after = Nvpmodel("HALF_GPU", stubborn="NVPM WARN: Reboot required\n")  # as it is after the reboot
    rows = {row["knob"]: row["result"] for row in settings(after).put_back(layer, False)}
    assert rows["nvpmodel.mode"] == "needs-reboot"  # neither forgotten nor taken for someone else's
    assert [entry["knob"] for entry in layer["entries"]] == ["nvpmodel.mode"]


def test_a_refusal_is_told_in_the_programs_own_words() -> None:
    assert apply(settings(Nvpmodel(stubborn="NVPM ERROR: no\n")), "LESS_10W") == ("refused", "NVPM ERROR: no")
    assert apply(settings(Nvpmodel()), "FASTEST")[0] == "refused"


def test_a_mode_that_nobody_tells_is_no_value() -> None:
    record = described(None)["nvpmodel.mode"]
    assert (record["value"], record["error"]) == (None, "ENOENT")
    assert apply(settings(None), "LESS_10W")[0] == "refused"


def test_what_a_mode_rewrites_is_remembered_with_it() -> None:
    found = settings(Nvpmodel())
    layer: dict[str, list[dict[str, object]]] = {"entries": []}
    found.remember(layer, [found.check({"knob": "nvpmodel.mode", "value": "LESS_10W"})])
    assert [entry["knob"] for entry in layer["entries"]] == ["gpu.max", "cpu0.max", "cpu0.online", "nvpmodel.mode"]


class Disk(Tree):
    """A tree in which files can be made and removed."""

    def load(self, path: str) -> bytes:
        return self.read(path).encode()

    def save(self, path: str, data: bytes) -> None:
        self.files[path] = data.decode()

    def remove(self, path: str) -> None:
        del self.files[path]

    def make_folder(self, path: str) -> None:
        pass

    def wall(self) -> float:
        return 0.0

    def identity(self) -> str:
        return "7@1"

    def alive(self, identity: str) -> bool:
        return identity == "7@1"


def journal(disk: Disk, boot: str) -> Journal:
    return Journal(cast(System, disk), boot)


@pytest.mark.parametrize(("kind", "due"), [("apply", []), ("lease", ["lease"])])
def test_a_mode_outlives_a_reboot_in_the_journal_and_clocks_do_not(kind: str, due: list[str]) -> None:
    disk = Disk({})
    first = journal(disk, "boot-1")
    entries = first.open_layer(kind, "me@laptop", 0.0)["entries"]
    entries += [{"knob": knob, "was": "A", "set": "B"} for knob in ("gpu.max", "nvpmodel.mode")]
    first.save()
    del disk.files[PATH]  # as /run is empty after a reboot
    after = journal(disk, "boot-2")
    assert [entry["knob"] for layer in after.layers for entry in layer["entries"]] == ["nvpmodel.mode"]
    assert "me@laptop" in after.notes[0]
    assert [layer["kind"] for layer in after.due()] == due
    after.layers[0]["entries"].clear()
    after.drop(after.layers[0])
    assert KEPT not in disk.files
    assert PATH not in disk.files
