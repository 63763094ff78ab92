"""Programs that every simulated board has: tegrastats, nvpmodel, jetson_clocks, and the small ones of a shell."""

from __future__ import annotations

from collections.abc import Generator

from remote.sim.cuda_tools import nvcc, nvidia_smi
from remote.sim.fancontrol import nvfancontrol
from remote.sim.jetson_clocks import jetson_clocks, name_of
from remote.sim.nvpmodel import nvpmodel
from remote.sim.process import Action, Context, Err, Out, Program, Sleep
from remote.sim.services import service, systemctl
from remote.sim.tegrastats import tegrastats


def true(context: Context) -> Generator[Action, None, int]:
    """Ends well at once."""
    yield from ()
    return 0


def false(context: Context) -> Generator[Action, None, int]:
    """Ends badly at once."""
    yield from ()
    return 1


def echo(context: Context) -> Generator[Action, None, int]:
    """Prints its arguments."""
    yield Out(" ".join(context.argv[1:]) + "\n")
    return 0


def cat(context: Context) -> Generator[Action, None, int]:
    """Prints files, or its input."""
    if len(context.argv) == 1:
        yield Out(context.stdin)
    for path in context.argv[1:]:
        yield Out(context.load(path).decode("utf-8", "replace"))
    return 0


def sleep(context: Context) -> Generator[Action, None, int]:
    """Waits for simulated seconds."""
    yield Sleep(sum(float(word) for word in context.argv[1:]))
    return 0


_UNAME = {
    "-s": "Linux",
    "-n": "tegra-ubuntu",
    "-v": "#1 SMP PREEMPT",
    "-m": "aarch64",
    "-p": "aarch64",
    "-o": "GNU/Linux",
}


def uname(context: Context) -> Generator[Action, None, int]:
    """Prints the board's kernel and processor: `-s`, `-n`, `-r`, `-v`, `-m`, `-p`, `-o`, all of them with `-a`."""
    said = {"-r": context.read("/proc/sys/kernel/osrelease").strip(), **_UNAME}
    letters = {f"-{letter}" for word in context.argv[1:] for letter in word.lstrip("-")} or {"-s"}
    if letters - {*said, "-a", "-i"}:
        yield Err(f"uname: unknown option {' '.join(context.argv[1:])}\n")
        return 1
    order = ("-s", "-n", "-r", "-v", "-m", "-p", "-o")
    yield Out(" ".join(said[key] for key in order if key in letters or "-a" in letters) + "\n")
    return 0


def arch(context: Context) -> Generator[Action, None, int]:
    """Prints the processor's instruction set."""
    yield Out(f"{_UNAME['-m']}\n")
    return 0


_CPU = "/sys/devices/system/cpu"


def _numbers(text: str) -> list[int]:
    """Returns the numbers of a list of cores such as ``0-3,5``."""
    parts = [part.partition("-") for part in text.strip().split(",")]
    return [n for first, _, last in parts for n in range(int(first), int(last or first) + 1)]


def nproc(context: Context) -> Generator[Action, None, int]:
    """Prints how many cores are on, with ``--all`` how many there are; ``--ignore=N`` leaves some out."""
    words = context.argv[1:]
    less = [word.partition("=")[2] for word in words if word.startswith("--ignore=")]
    if any(word != "--all" and not word.startswith("--ignore=") for word in words) or not all(
        n.isdigit() for n in less
    ):
        yield Err(f"nproc: unknown option {' '.join(words)}\n")
        return 1
    cores = len(_numbers(context.read(f"{_CPU}/{'present' if '--all' in words else 'online'}")))
    yield Out(f"{max(1, cores - sum(map(int, less)))}\n")
    return 0


def lscpu(context: Context) -> Generator[Action, None, int]:
    """Prints the board's processors, and no more of them than the board's files say."""
    twin = context.twin
    present, online = (context.read(f"{_CPU}/{name}").strip() for name in ("present", "online"))
    off = sorted({*_numbers(present)} - {*_numbers(online)})
    khz = {name: context.read(f"{_CPU}/cpu0/cpufreq/cpuinfo_{name}_freq") for name in ("max", "min")}
    rows = {
        "Architecture": _UNAME["-m"],
        "Byte Order": "Little Endian",
        "CPU(s)": f"{len(_numbers(present))}",
        "On-line CPU(s) list": online,
        **({"Off-line CPU(s) list": ",".join(map(str, off))} if off else {}),
        "Thread(s) per core": "1",
        "Vendor ID": "ARM",  # assumed for those cores that NVIDIA made
        "Model name": f"{twin['cpu_name']}",
        **{f"CPU {name} MHz": f"{int(value) / 1000:.4f}" for name, value in khz.items()},
    }
    yield Out("".join(f"{name + ':':<21}{text}\n" for name, text in rows.items()))
    return 0


_PROGRAMS: dict[str, Program] = {
    "arch": arch,
    "lscpu": lscpu,
    "nproc": nproc,
    "service": service,
    "true": true,
    "false": false,
    "echo": echo,
    "cat": cat,
    "sleep": sleep,
    "uname": uname,
    "tegrastats": tegrastats,
    "nvpmodel": nvpmodel,
}


def programs_of(release: str) -> dict[str, Program]:
    """Returns the programs of a release of L4T such as ``r32.7``, by the names that they have there."""
    major = int(release[1:3])
    some: dict[str, Program] = {"systemctl": systemctl} if major >= 24 else {}  # Ubuntu 14.04 has none
    if major >= 32:
        some["nvcc"] = nvcc
    if major >= 36:
        some["nvidia-smi"] = nvidia_smi
    if major >= 34:
        some["nvfancontrol"] = nvfancontrol
    return {**_PROGRAMS, **some, name_of(release): jetson_clocks}
