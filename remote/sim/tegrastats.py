"""The program tegrastats, in the layouts of L4T R23 to R38.

``twin["tegrastats"]`` says which layout a release has, and what differs between boards: ``rails``, each with the tool's
name and the monitor's, ``clusters`` of the GPU, ``units`` that are listed, the audio clock ``ape``.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from remote.sim.process import Action, Context, Err, Out, Sleep
from remote.sim.rails import milliwatts

_CPU = "/sys/devices/system/cpu"
_OFF_C = -256  # what the tool shows for a sensor in a part that has no power


_USAGE = """Usage: tegrastats [--interval MS] [--logfile FILE] [--start] [--stop] [--verbose] [--readall]
--start goes on in the background until --stop.
"""


def tegrastats(context: Context) -> Generator[Action, None, int]:
    """Prints a line per interval, as the tool of the release does, or adds it to ``--logfile``.

    ``--interval MS``; up to R28 a bare number too. ``--start`` does so in the background until ``--stop``.
    """
    words, interval_ms, log = list(context.argv[1:]), 1000, ""
    while words:
        word = words.pop(0)
        if word == "--interval" and words:
            interval_ms = int(words.pop(0))
        elif word == "--logfile" and words:
            log = words.pop(0)
        elif word.isdigit():
            interval_ms = int(word)
        elif word == "--start":
            context.start([other for other in context.argv if other != word])
            return 0
        elif word == "--stop":
            context.stop(PurePosixPath(context.argv[0]).name)
            return 0
        elif word == "--help":
            yield Out(_USAGE)
            return 0
        elif word not in ("--verbose", "--readall"):
            yield Err(f"tegrastats: unknown option {word}\n")
            return 1
    look = _Look(context)
    kept = b""
    while True:
        yield Sleep(max(1, interval_ms) / 1000.0)
        line = _LAYOUTS[str(look.options["layout"])](look) + "\n"
        if log:
            kept += line.encode()
            context.save(log, kept)
        else:
            yield Out(line)


class _Look:
    """What the tool sees of the board, and remembers of what it saw."""

    def __init__(self, context: Context) -> None:
        twin: Any = context.twin
        self.context, self.twin = context, twin
        self.options: Mapping[str, Any] = twin["tegrastats"]
        self.root = bool(self._try(f"{_CPU}/cpu0/cpufreq/cpuinfo_cur_freq"))
        self._last = self._core_times()
        self._sums: dict[str, int] = {}
        self._count = 0

    def _try(self, path: str) -> str:
        try:
            return self.context.read(path).strip()
        except OSError:
            return ""

    def _core_times(self) -> list[tuple[int, int]]:
        rows = [line.split() for line in self.context.read("/proc/stat").splitlines() if re.match(r"cpu\d", line)]
        return [(int(row[1]), int(row[4])) for row in rows]

    def percents(self) -> list[int | None]:
        """Returns the busy share of each core since the last look, None for one that is offline."""
        last, self._last = self._last, self._core_times()
        found: list[int | None] = []
        for n, (old, new) in enumerate(zip(last, self._last, strict=True)):
            busy, idle = new[0] - old[0], new[1] - old[1]
            online = self.context.read(f"{_CPU}/cpu{n}/online").strip() == "1"
            found.append(round(100 * busy / max(1, busy + idle)) if online else None)
        return found

    def memory(self, iram: str = "", *, swap: bool = True) -> str:
        """Returns what is in use of the memory, and of the swap: nothing."""
        rows = {line.split(":")[0]: int(line.split()[1]) for line in self.context.read("/proc/meminfo").splitlines()}
        total, free = rows["MemTotal"] // 1024, rows["MemFree"] // 1024
        swapped = f" SWAP 0/{rows['SwapTotal'] // 1024}MB (cached 0MB)" if swap else ""
        return f"RAM {total - free}/{total}MB (lfb {free // 8}x4MB){swapped}{iram}"

    def cores(self) -> str:
        """Returns load and rate of each core."""

        def one(n: int, percent: int | None) -> str:
            if percent is None:
                return "off"
            return f"{percent}%@{int(self.context.read(f'{_CPU}/cpu{n}/cpufreq/scaling_cur_freq')) // 1000}"

        return f" CPU [{','.join(one(n, percent) for n, percent in enumerate(self.percents()))}]"

    def emc(self, name: str = "EMC_FREQ") -> str:
        """Returns the memory's traffic in percent of what its clock allows, and that clock."""
        hz = self.context.clocks().emc_hz
        traffic_hz = int(self.context.read("/sys/kernel/actmon_avg_activity/mc_all")) * 1000
        return f" {name} {round(100 * traffic_hz / hz)}%@{_mhz(hz)}"

    def gpu_percent(self) -> int:
        """Returns how busy the GPU is."""
        return round(int(self.context.read(f"{self.twin['gpu_device']['folders'][0]}/load")) / 10)

    def gpu_mhz(self) -> int:
        """Returns the GPU's clock."""
        return _mhz(self.context.clocks().gpu_hz)

    def temperatures(self) -> str:
        """Returns all zones that the tool shows; those without power as -256 up to R35, later not at all."""
        return "".join(f" {name}@{celsius:g}C" for name, celsius in self._zones())

    def _zones(self) -> Iterator[tuple[str, float]]:
        short = {"PMIC-Die": "PMIC", "thermal-fan-est": "thermal"}
        numbers = {name: n for n, (name, _) in enumerate(self.twin["zones"])}
        for name in self.twin.get("zones_shown", numbers):
            n = numbers[name]
            text = self._try(f"/sys/class/thermal/thermal_zone{n}/temp")
            shown = short.get(name) or name.removesuffix("-therm").removesuffix("-thermal").removesuffix("_tegra")
            if text or self.options.get("shows_off"):
                yield shown, int(text) / 1000 if text else _OFF_C

    def rails(self, unit: str = "") -> str:
        """Returns ``NAME now/mean`` in mW for each rail, the mean since the program started."""
        self._count += 1
        words = []
        for name, rail in self.options.get("rails", ()):
            now_mw = milliwatts(self.twin, rail, self.context.read)
            self._sums[name] = self._sums.get(name, 0) + now_mw
            words.append(f" {name} {now_mw}{unit}/{self._sums[name] // self._count}{unit}")
        return "".join(words)

    def date(self) -> str:
        """Returns the board's local time."""
        return time.strftime("%m-%d-%Y %H:%M:%S ", time.gmtime(self.context.wall()))

    def ape(self) -> str:
        """Returns the clock of the audio processor."""
        return f" APE {self.options['ape']}"


def _mhz(hz: float) -> int:
    """Returns whole megahertz, rounded down as the tool does."""
    return int(hz / 1e6)


def _line_r23(look: _Look) -> str:
    cores = ",".join(f"{percent or 0}%" for percent in look.percents())
    return (
        f"{look.memory()} cpu [{cores}]@{_mhz(look.context.clocks().cpu_hz)}"
        f"{look.emc('EMC')} AVP 0%@12 VDE 0"
        f" GR3D {look.gpu_percent()}%@{look.gpu_mhz()} EDP limit {look.options['edp_limit_mhz']}"
    )


def _line_r28(look: _Look) -> str:
    line = look.memory() + look.cores()
    if look.root:
        line += f"{look.emc()} GR3D_FREQ {look.gpu_percent()}%@{look.gpu_mhz()}{look.ape()}"
    return line + look.temperatures() + look.rails()


def _line_r32(look: _Look) -> str:
    line = look.memory(" IRAM 0/252kB(lfb 252kB)" if look.options.get("iram") else "") + look.cores()
    if not look.root:
        return f"{line} EMC_FREQ 0% GR3D_FREQ {look.gpu_percent()}%{look.temperatures()}"
    morphing = " MTS fg 0% bg 0%" if look.options.get("morphing") else ""
    line += f"{look.emc()} GR3D_FREQ {look.gpu_percent()}%@{look.gpu_mhz()}{look.ape()}{morphing}"
    return line + look.temperatures() + look.rails()


def _line_r35(look: _Look) -> str:
    line = look.date() + look.memory() + look.cores()
    clusters = ["GR3D_FREQ", "GR3D2_FREQ"][: int(look.options["clusters"])]
    if not look.root:
        shown = "".join(f" {name} {look.gpu_percent()}%" for name in clusters)
        return f"{line} EMC_FREQ 0%{shown}{look.temperatures()}"
    shown = "".join(f" {name} {look.gpu_percent()}%@{look.gpu_mhz()}" for name in clusters)
    line += f"{look.emc()}{shown} VIC_FREQ {look.options['vic']}{look.ape()}"
    return line + look.temperatures() + look.rails("mW")


def _line_r36(look: _Look) -> str:
    line = look.date() + look.memory() + look.cores()
    if not look.root:
        return f"{line} GR3D_FREQ {look.gpu_percent()}%{look.temperatures()}{look.rails('mW')}"
    line += f"{look.emc()} GR3D_FREQ {look.gpu_percent()}%@{_clusters(look)}{_units(look)}"
    return line + look.temperatures() + look.rails("mW")


def _line_r38(look: _Look) -> str:
    line = look.date() + look.memory(swap=False) + look.cores()
    if not look.root:
        return f"{line}{look.temperatures()}{look.rails('mW')}"
    line += f"{look.emc()} GR3D_FREQ @{_clusters(look)}{_units(look)}"
    return line + look.temperatures() + look.rails("mW")


def _clusters(look: _Look) -> str:
    """Returns the GPU's clock once per cluster of processors."""
    return f"[{','.join([str(look.gpu_mhz())] * int(look.options['clusters']))}]"


def _units(look: _Look) -> str:
    return "".join(f" {name} off" for name in look.options["units"]) + look.ape()


_LAYOUTS: Mapping[str, Callable[[_Look], str]] = {
    "r23": _line_r23,
    "r28": _line_r28,
    "r32": _line_r32,
    "r35": _line_r35,
    "r36": _line_r36,
    "r38": _line_r38,
}
