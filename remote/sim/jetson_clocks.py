"""The program jetson_clocks as each generation of L4T has it: everything at its maximum, shown, stored, put back.

`jetson_max_l4t.sh` on R23, `jetson_clocks.sh` on R24 and R28, `jetson_clocks` from R32 on. What it sets, in which
order, and what it prints: NVIDIA's scripts of R23, R24, R28, R32.7, R35 and the shown lines of R36.4; of R38 only the
memory's part is published, the rest is assumed to be as on R36. As there, a write that fails is told and does not end
it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from pathlib import PurePosixPath
from typing import Any

from remote.sim.kernel.board import FAN_SERVICE
from remote.sim.kernel.cpu import CPU
from remote.sim.kernel.node import DEBUGFS
from remote.sim.nvpmodel import mode_name
from remote.sim.process import Action, Context, Err, Out, answered

_ROOT_ONLY = f"{CPU}/cpu0/cpufreq/cpuinfo_cur_freq"
_CLUSTER = "/sys/kernel/cluster"
_QUIET = f"{CPU}/cpuquiet/tegra_cpuquiet/enable"
_QOS = "/sys/module/qos/parameters/enable"
_CC3 = [f"{DEBUGFS}tegra_cpufreq/{cluster}_CLUSTER/cc3/enable" for cluster in "MB"]
_USAGE = """Usage: {name} [--show] [--store [file]] [--restore [file]]{fan}
  --show             what is set now
  --store [file]     keep the settings (default: {conf})
  --restore [file]   put kept settings back (default: {conf})
without an option: CPU, GPU and memory at their maximum
"""
_WAIT_S = 90  # R24: until the boot service has set its clocks


def name_of(release: str) -> str:
    """Returns what the program is called on a release of L4T such as ``r32.7``."""
    old = {23: "jetson_max_l4t.sh", 24: "jetson_clocks.sh", 28: "jetson_clocks.sh"}
    return old.get(_major(release), "jetson_clocks")


def _major(release: str) -> int:
    return int(release[1:].partition(".")[0])


def jetson_clocks(context: Context) -> Generator[Action, None, int]:
    """Does what the options say. Ends with 1 for an unknown one, a user who is not root, and a file in the way."""
    script = _Script(context)
    action, place, fan = "set", script.conf, False
    words = list(context.argv[1:]) if script.major > 23 else []
    if script.major == 24 and context.now() < _WAIT_S:
        yield Out(f"Please run the script after {_WAIT_S - int(context.now())} Seconds\n")
        return 255
    while words:
        word = words.pop(0)
        if word == "--show":
            yield Out(script.headline())
            action = "show"
        elif word in ("--store", "--restore"):
            action = word[2:]
            place = words.pop(0) if words else place
        elif word == "--fan" and script.major >= 32:
            fan = True
        else:
            unknown = word not in ("-h", "--help")
            if unknown:
                yield Out(f"Unknown option: {word}\n")
            yield Err(_USAGE.format(name=script.name, conf=script.conf, fan=" [--fan]" if script.major >= 32 else ""))
            return 0  # also for an unknown option: the script's usage ends it so
    if not script.root:
        yield Out(f"Error: Run this script({context.argv[0]}) as a root user\n")
        return 1
    if action == "restore":
        return (yield from _restore(script, place))
    if action == "store":
        return (yield from _store(script, place))
    yield Out("".join(f"{line}\n" for line in script.shown()) if action == "show" else "")
    if action == "set":
        for path, text in script.sets(fan):
            if not script.write(path, text):
                yield Err(f"{script.name}: {path}: cannot write {text}\n")
    return 0


def _store(script: _Script, place: str) -> Generator[Action, None, int]:
    if script.file(place) is not None:
        yield Out(f"File {place} already exists. Can I overwrite it? Y/N:\n")
        if (yield from answered(script.context)) not in ("y", "Y"):
            yield Out(f"Error: file {place} already exists!\n")
            return 1
    if script.major >= 34:
        yield Out(f"Storing system configuration in {place}\n")
        script.context.save(f"{script.home}/.jetsonclocks_fan.txt", script.read(FAN_SERVICE).encode() + b"\n")
    rows = [f"{path}:{text}\n" for path in script.stored() if (text := script.read(path))]
    script.context.save(place, "".join(rows).encode())
    return 0


def _restore(script: _Script, place: str) -> Generator[Action, None, int]:
    kept = script.file(place)
    if kept is None:
        yield Out(f"Error: {place} file not found !\n")
        return 1
    if script.major >= 34:
        yield Out(f"Restoring system configuration from {place}\n")
    for row in kept.split():
        path, _, text = row.partition(":")
        same = path.endswith(("/online", "/state")) and script.read(path) == text
        if not same and not script.write(path, text) and not path.endswith(("/online", "/state", "scaling_min_freq")):
            yield Out(f"Error: Failed to restore {path}\n")
    fan = script.file(f"{script.home}/.jetsonclocks_fan.txt")
    if fan and script.major >= 34:
        script.write(FAN_SERVICE, fan.strip())
    return 0


class _Script:
    """The board as the program sees it: what it shows, stores and sets, in the order of the release."""

    def __init__(self, context: Context) -> None:
        twin: Any = context.twin
        self.context, self.twin = context, twin
        self.major = _major(context.release)
        self.name = PurePosixPath(context.argv[0]).name
        self.root = bool(self.read(_ROOT_ONLY))
        self.home = context.env.get("HOME") or "/root"
        self.conf = f"{self.home}/{'.jetsonclocks_conf.txt' if self.major >= 34 else 'l4t_dfs.conf'}"
        self._cores = range(int(twin["cores"]))
        # as the shell sorts cpu[0-9]*: cpu10 before cpu2
        self._sorted = sorted(self._cores, key=str)
        self._gpu = str(twin["devfreq"]["folders"][0]) if "devfreq" in twin else ""
        self._railgate = f"{twin['gpu_device']['folders'][0]}/railgate_enable"
        self._t186 = twin["family"] == "tegra186"

    def read(self, path: str) -> str:
        """Returns a file's text, "" where it cannot be read."""
        try:
            return self.context.read(path).strip("\0\n")
        except OSError:
            return ""

    def file(self, path: str) -> str | None:
        """Returns the content of an ordinary file, None where there is none."""
        try:
            return self.context.load(path).decode()
        except OSError:
            return None

    def write(self, path: str, text: str) -> bool:
        """Writes a file; says whether that worked."""
        try:
            self.context.write(path, f"{text}\n")
        except OSError:
            return False
        return True

    def headline(self) -> str:
        """Returns the first line of --show, which comes before the question for root."""
        machine = self.read("/sys/devices/soc0/machine" if self.major < 32 else "/proc/device-tree/model")
        return f"SOC family:{self.twin['family']}  Machine:{machine}\n"

    # What is shown

    def shown(self) -> Iterator[str]:
        """Yields the lines of --show."""
        old = self.major < 28
        order: tuple[Callable[[], Iterator[str]], ...] = (self._show_hotplug, self._show_cpu)
        for part in reversed(order) if old else order:
            yield from part()
            if part == self._show_hotplug and 24 <= self.major <= 28:
                active = self.read(f"{_CLUSTER}/active")
                yield f"CPU Cluster Switching: {f'Active Cluster {active}' if active else 'Disabled'}"
        yield self._show_clock("GPU", self._gpu_files())
        if self.major >= 36 and "processors" in self.twin["gpu_device"]:
            gated = int(self.read(f"{self.twin['gpu_device']['folders'][0]}/tpc_pg_mask")).bit_count()
            yield f"Active GPU TPCs: {self.twin['gpu_device']['processors'] - gated}"
        yield self._show_clock("EMC", self._emc_files())
        yield from self._show_engines()
        yield from self._show_fan()
        if self.major >= 32 and (mode := mode_name(self.context)):
            yield f"NV Power Mode: {mode}"

    def _show_hotplug(self) -> Iterator[str]:
        if self.major < 28:
            yield f"CPU HOTPLUG: {self.read(_QUIET)}"
        yield f"Online CPUs: {self.read(f'{CPU}/online')}"
        if self.major < 28:
            yield from (f"cpu{n}: {self._cpu(n, 'scaling_cur_freq')}" for n in self._cores if self._online(n))

    def _online(self, n: int) -> bool:
        return self.read(f"{CPU}/cpu{n}/online") == "1"

    def _cpu(self, n: int, file: str) -> str:
        return self.read(f"{CPU}/cpu{n}/cpufreq/{file}")

    def _show_cpu(self) -> Iterator[str]:
        def limits(n: int) -> str:
            low, high, now = (self._cpu(n, f"scaling_{file}_freq") for file in ("min", "max", "cur"))
            return f"MinFreq={low} MaxFreq={high} CurrentFreq={now}"

        if self.major < 28:
            yield f"CPU frequency Governor: {self._cpu(0, 'scaling_governor')}"
            yield f"CPU {limits(0)}"
            return
        for n in self._sorted if self.major >= 34 else self._cores:
            governor = self._cpu(n, "scaling_governor")
            if not governor and not self._online(n) and self.major < 32:
                continue
            if self.major < 32:
                yield f"cpu{n}: Gonvernor={governor} {limits(n)}"
                continue
            allowed = {self.read(f"{state}/name"): self.read(f"{state}/disable") == "0" for state in self._idle(n)}
            states = "".join(f"{name}={int(allowed[name])} " for name in allowed)
            gap = "  " if self.major >= 36 else " "
            online = int(self._online(n))
            yield f"cpu{n}:{gap}Online={online} Governor={governor} {limits(n)} IdleStates: {states}"

    def _idle(self, n: int) -> list[str]:
        return [f"{CPU}/cpu{n}/cpuidle/state{m}" for m in range(len(self.twin["idle_states"]))]

    def _gpu_files(self) -> dict[str, str]:
        """Returns the GPU's files: lowest, highest and present rate, what sets it, what holds it."""
        if not self._gpu:
            bus, override = f"{DEBUGFS}clock/gbus", f"{DEBUGFS}clock/override.gbus"
            return _files(f"{bus}/min", f"{bus}/max", f"{bus}/rate", f"{override}/rate", f"{override}/state")
        low = f"{self._gpu}/min_freq"
        return _files(low, f"{self._gpu}/max_freq", f"{self._gpu}/cur_freq", low)

    def _emc_files(self) -> dict[str, str]:
        """Returns the memory's files, as the GPU's."""
        if "bandwidth" in self.twin:
            folder = self.twin["bandwidth"]["folders"][0]
            return _files(*(f"{folder}/{name}_freq" for name in ("min", "max", "cur", "min")))
        if "bpmp" in self.twin:
            folder = f"{DEBUGFS}bpmp/debug/clk/emc"
            high, cap = f"{folder}/max_rate", self.twin["emc_cap"]
            if 0 < int(self.read(cap) or 0) < int(self.read(high) or 0):
                high = cap
            return _files(f"{folder}/min_rate", high, f"{folder}/rate", f"{folder}/rate", f"{folder}/mrq_rate_locked")
        if self.major < 28:
            clock, override = f"{DEBUGFS}clock/emc", f"{DEBUGFS}clock/override.emc"
            return _files(f"{clock}/min", f"{clock}/max", f"{clock}/rate", f"{override}/rate", f"{override}/state")
        manager, override = f"{DEBUGFS}tegra_bwmgr/emc", f"{DEBUGFS}clk/override.emc"
        rates = (f"{override}/clk_rate", f"{override}/clk_update_rate", f"{override}/clk_state")
        return _files(f"{manager}_min_rate", f"{manager}_max_rate", *rates)

    def _show_clock(self, name: str, files: dict[str, str]) -> str:
        low, high, now = (self.read(files[key]) for key in ("low", "high", "now"))
        lock = f" FreqOverride={self.read(files['lock'])}" if files["lock"] else ""
        return f"{name} MinFreq={low} MaxFreq={high} CurrentFreq={now}{lock}"

    def _show_engines(self) -> Iterator[str]:
        if self.major < 34:
            return
        for name, hz in self.twin.get("engines", {}).items():
            if name.startswith(("dla", "pva")):
                shown = {"pva0_vps": "pva0_vps0"}.get(name, name.replace("cpu_", ""))
                yield f"{shown.upper()}: Online=1 MinFreq=0 MaxFreq={hz} CurrentFreq={hz}"
            elif name == "cvnas":
                yield f"CVNAS MinFreq=0 MaxFreq={hz} CurrentFreq={hz}"

    def _show_fan(self) -> Iterator[str]:
        path = PurePosixPath(self.twin["fan"]["pwm"][0])
        pwm = self.read(str(path))
        if not pwm:
            yield "Can't access Fan!"
        elif self.major < 34:
            yield f"Fan: {'PWM' if self.major >= 32 else 'speed'}={pwm}"
        else:
            active = self.read(FAN_SERVICE)
            word = "control" if self.major < 36 else "Control"
            who = active if self.major < 36 or active != "active" else "nvfancontrol"
            yield f"FAN Dynamic Speed {word}={who} {path.parent.name}_{path.name}={pwm}"

    # What is stored

    def stored(self) -> Iterator[str]:
        """Yields the files whose settings are kept."""
        online = [f"{CPU}/cpu{n}/online" for n in self._cores]
        if self.major < 28:
            yield from (_QUIET, *online, f"{CPU}/cpu0/cpufreq/scaling_governor")
        else:
            yield from online
            yield from (f"{_CLUSTER}/{name}" for name in ("immediate", "force", "active"))
            yield from (_QOS, *(f"{CPU}/cpu{n}/cpufreq/scaling_min_freq" for n in self._cores))
            yield from _CC3 if self.major < 32 else (f"{state}/disable" for n in self._cores for state in self._idle(n))
        gpu, emc = self._gpu_files(), self._emc_files()
        yield from (gpu["set"], gpu["lock"] or self._railgate)
        yield from (emc["set"], emc["lock"]) if self.major < 28 else (emc["lock"] or emc["set"],)
        if self.major < 34:
            yield from (*self.twin["fan"]["pwm"], *self.twin["fan"].get("auto", ()))

    # What is set

    def sets(self, fan: bool) -> Iterator[tuple[str, str]]:
        """Yields what is written, (path, text), each found out when it is its turn."""
        if self.major == 23:
            yield from self._set_fan()
            yield _QUIET, "0"
            yield from self._set_cluster("1")
            yield from self._set_cores()
            yield from self._set_cpu_speed("scaling_available_frequencies")
        elif self.major == 24:
            yield from self._set_cpu_speed("scaling_max_freq")
            yield _QUIET, "0"
            yield from self._set_cores()
            yield from self._set_cluster("1")
        else:
            yield from self._set_cpu()
        for files in (self._gpu_files(), self._emc_files()):
            if files["set"].startswith(self._gpu or "/none") and self.read(self._railgate):
                yield self._railgate, "0"
            if files["lock"] and self.major >= 32:
                yield files["lock"], "1"
            yield files["set"], self.read(files["high"])
            if files["lock"] and self.major < 32:
                yield files["lock"], "1"
        if fan or self.major in (24, 28):
            yield from self._set_fan()

    def _set_fan(self) -> Iterator[tuple[str, str]]:
        places = self.twin["fan"]
        if places.get("hwmon"):
            yield FAN_SERVICE, "inactive"
        elif "auto" in places:
            yield places["auto"][0], "0"
        yield places["pwm"][0], "255"

    def _set_cluster(self, force: str) -> Iterator[tuple[str, str]]:
        if self.read(f"{_CLUSTER}/active"):
            yield f"{_CLUSTER}/immediate", "1"
            yield f"{_CLUSTER}/force", force
            yield f"{_CLUSTER}/active", "G"

    def _set_cores(self) -> Iterator[tuple[str, str]]:
        yield from ((f"{CPU}/cpu{n}/online", "1") for n in self._cores if not self._online(n))

    def _set_cpu_speed(self, highest: str) -> Iterator[tuple[str, str]]:
        yield f"{CPU}/cpu0/cpufreq/scaling_governor", "userspace"
        yield f"{CPU}/cpu0/cpufreq/scaling_setspeed", self._cpu(0, highest).split()[-1]

    def _set_cpu(self) -> Iterator[tuple[str, str]]:
        if self.major < 32:
            if not self._t186:
                yield from self._set_cores()
            yield from ((path, "0") for path in (_QOS, *_CC3) if self.read(path))
        for n in self._sorted:
            if self._online(n):
                yield f"{CPU}/cpu{n}/cpufreq/scaling_min_freq", self._cpu(n, "scaling_max_freq")
        if self.major >= 32:
            yield from ((f"{state}/disable", "1") for n in self._sorted for state in self._idle(n))


def _files(low: str, high: str, now: str, to_set: str, lock: str = "") -> dict[str, str]:
    return {"low": low, "high": high, "now": now, "set": to_set, "lock": lock}
