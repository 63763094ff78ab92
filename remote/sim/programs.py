"""Programs that every simulated board has: tegrastats, and the small ones of a shell."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

from remote.sim.process import Action, Context, Err, Out, Program, Sleep
from remote.sim.rails import folder

_CPU = "/sys/devices/system/cpu"
_MB = 1 << 20


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


def tegrastats(context: Context) -> Generator[Action, None, int]:
    """Prints a line per interval, as the tool of the release does. ``--interval MS``; up to R28 a bare number too."""
    words = [word for word in context.argv[1:] if word != "--interval"]
    if words and not words[0].isdigit():
        yield Err(f"tegrastats: unknown option {words[0]}\n")
        return 1
    interval_s = max(1, int(words[0]) if words else 1000) / 1000.0
    line = {"r23": _line_r23, "r28": _line_r28, "r32": _line_r32}[str(context.twin["tegrastats"])]
    load = _CpuLoad(context)
    rails = _RailMeans(context)
    while True:
        yield Sleep(interval_s)
        yield Out(line(context, load, rails) + "\n")


class _CpuLoad:
    """Busy share per core since the last look, from /proc/stat."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._last = self._rows()

    def _rows(self) -> list[tuple[int, int]]:
        lines = self._context.read("/proc/stat").splitlines()[1:]
        return [(int(line.split()[1]), int(line.split()[4])) for line in lines]

    def percent(self) -> list[int | None]:
        """Returns a figure per core, None for one that is offline."""
        last, self._last = self._last, self._rows()
        found: list[int | None] = []
        for n, (old, new) in enumerate(zip(last, self._last, strict=True)):
            busy, idle = new[0] - old[0], new[1] - old[1]
            online = self._context.read(f"{_CPU}/cpu{n}/online").strip() == "1"
            found.append(round(100 * busy / max(1, busy + idle)) if online else None)
        return found


class _RailMeans:
    """Power rails with their mean since the program started."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._sums: dict[str, int] = {}
        self._count = 0

    def text(self) -> str:
        """Returns ``NAME now/mean`` in mW for the rails of the module; "" where the tool shows none."""
        twin: Any = self._context.twin
        if not twin["tegrastats_rails"]:
            return ""
        rails = twin["ina"]["chip"][0]["rails"]
        self._count += 1
        words = []
        for name in ("VDD_IN", "VDD_CPU", "VDD_GPU"):
            now_mw = int(self._context.read(f"{folder(twin, 0)}/in_power{rails.index(name)}_input"))
            self._sums[name] = self._sums.get(name, 0) + now_mw
            words.append(f" {name} {now_mw}/{self._sums[name] // self._count}")
        return "".join(words)


def _is_root(context: Context) -> bool:
    return bool(_try(context, f"{_CPU}/cpu0/cpufreq/cpuinfo_cur_freq"))


def _try(context: Context, path: str) -> str:
    try:
        return context.read(path).strip()
    except OSError:
        return ""


def _memory(context: Context) -> str:
    kb = {line.split(":")[0]: int(line.split()[1]) for line in context.read("/proc/meminfo").splitlines()}
    total, free = kb["MemTotal"] // 1024, kb["MemFree"] // 1024
    return f"RAM {total - free}/{total}MB (lfb {free // 8}x4MB)"


def _share(context: Context, clock_hz: float) -> int:
    """Returns the memory traffic in percent of what its clock allows."""
    return round(100 * int(context.read("/sys/kernel/actmon_avg_activity/mc_all")) * 1000 / clock_hz)


def _gpu_percent(context: Context) -> int:
    return round(int(context.read("/sys/devices/gpu.0/load")) / 10)


def _line_r23(context: Context, load: _CpuLoad, rails: _RailMeans) -> str:
    clocks = context.clocks()
    cores = ",".join(f"{percent or 0}%" for percent in load.percent())
    return (
        f"{_memory(context)} SWAP 0/0MB (cached 0MB) cpu [{cores}]@{_mhz(clocks.cpu_hz)}"
        f" EMC {_share(context, clocks.emc_hz)}%@{_mhz(clocks.emc_hz)} AVP 0%@12 VDE 0"
        f" GR3D {_gpu_percent(context)}%@{_mhz(clocks.gpu_hz)} EDP limit {context.twin['edp_limit_mhz']}"
    )


def _line_r28(context: Context, load: _CpuLoad, rails: _RailMeans) -> str:
    clocks = context.clocks()
    line = f"{_memory(context)} SWAP 0/0MB (cached 0MB) CPU [{_cores(load, clocks.cpu_hz)}]"
    if _is_root(context):
        line += f" EMC_FREQ {_share(context, clocks.emc_hz)}%@{_mhz(clocks.emc_hz)}"
        line += f" GR3D_FREQ {_gpu_percent(context)}%@{_mhz(clocks.gpu_hz)} APE 25"
    return line + _temperatures(context)


def _line_r32(context: Context, load: _CpuLoad, rails: _RailMeans) -> str:
    clocks = context.clocks()
    line = f"{_memory(context)} IRAM 0/252kB(lfb 252kB) CPU [{_cores(load, clocks.cpu_hz)}]"
    if not _is_root(context):
        return f"{line} EMC_FREQ 0% GR3D_FREQ {_gpu_percent(context)}%{_temperatures(context)}"
    line += f" EMC_FREQ {_share(context, clocks.emc_hz)}%@{_mhz(clocks.emc_hz)}"
    line += f" GR3D_FREQ {_gpu_percent(context)}%@{_mhz(clocks.gpu_hz)} APE 25"
    return line + _temperatures(context) + rails.text()


def _mhz(hz: float) -> int:
    """Returns whole megahertz, rounded down as the tool does."""
    return int(hz / 1e6)


def _cores(load: _CpuLoad, hz: float) -> str:
    return ",".join("off" if percent is None else f"{percent}%@{_mhz(hz)}" for percent in load.percent())


def _temperatures(context: Context) -> str:
    return "".join(f" {name}@{celsius:g}C" for name, celsius in _zones(context))


def _zones(context: Context) -> Iterator[tuple[str, float]]:
    twin: Any = context.twin
    short = {"PMIC-Die": "PMIC", "thermal-fan-est": "thermal"}
    for n, name in enumerate(twin["zones"]):
        milli = int(context.read(f"/sys/class/thermal/thermal_zone{n}/temp"))
        yield short.get(name, name.removesuffix("-therm")), milli / 1000


PROGRAMS: dict[str, Program] = {
    "true": true,
    "false": false,
    "echo": echo,
    "cat": cat,
    "sleep": sleep,
    "tegrastats": tegrastats,
}
