"""What a profile asks of the knobs of one board, in no order yet."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from clockprofiles.profile import Profile
from clockprofiles.rates import Rate, kind_of, nearest_point, rate_text
from remote.types import Knob, Snapshot, Value


@dataclass(frozen=True)
class Asked:
    """The rates that a profile locks, in Hz; None for a clock that is left free. CPU: of the first policy."""

    cpu_hz: int | None = None
    gpu_hz: int | None = None
    emc_hz: int | None = None


@dataclass(frozen=True)
class Target:
    """The value that a knob is to have, and a short reason."""

    value: Value
    why: str


@dataclass
class Targets:
    """Collects targets by knob; ``absent`` and ``notes`` say what could not be had (dicts: each is said once)."""

    found: Mapping[str, Knob]
    wanted: dict[str, Target] = field(default_factory=dict)
    absent: dict[str, None] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)
    asked: dict[str, int | None] = field(default_factory=dict)

    def want(self, knob: str, value: Value, why: str) -> None:
        """Sets the target of a knob, or counts the knob as absent."""
        if knob in self.found:
            self.wanted[knob] = Target(value, why)
        else:
            self.absent[knob] = None

    def lack(self, knob: str, note: str) -> None:
        """Counts a knob as absent because it cannot have what is asked; says why, and what hid it if it was hidden."""
        error = self.found[knob].error if knob in self.found else ""
        self.absent[knob] = None
        self.notes[f"{note} ({error} at {self.found[knob].path})" if error else note] = None

    def point(self, rate: Rate, knob: str) -> int | None:
        """Returns the operating point of a rate and keeps the note about it; None where there is none."""
        hz, note = nearest_point(rate, self.found[knob])
        who = self.found[knob].capped_by
        if who and hz and (rate.name == "max" or rate.hz > hz):
            self.notes[f"{kind_of(knob)}: {who} allows at most {rate_text(hz)}"] = None
        if hz is None:
            self.lack(knob, note)
        elif note:
            self.notes[note] = None
        return hz


def targets(profile: Profile, snapshot: Snapshot) -> Targets:
    """Returns what the profile asks of the knobs of a board."""
    goal = Targets(snapshot.knobs)
    _power_mode(goal, profile)
    _cores(goal, profile)
    _cpu(goal, profile)
    _idle(goal, profile)
    for domain, rate in (("gpu", profile.gpu_rate), ("emc", profile.emc_rate)):
        if rate is not None:
            goal.asked[domain] = _domain(goal, domain, rate)
    _fan(goal, profile)
    return goal


def _power_mode(goal: Targets, profile: Profile) -> None:
    mode = profile.nvpmodel_mode
    if mode is None:
        return
    knob = goal.found.get("nvpmodel.mode")
    if knob is not None and knob.error:
        goal.lack(knob.id, "the power mode in force cannot be told, so none is set")
    elif knob is not None and knob.choices and mode not in knob.choices:
        goal.lack(knob.id, f"this board has no power mode {mode}; it has {', '.join(map(str, knob.choices))}")
    else:
        goal.want("nvpmodel.mode", mode, "power mode of the profile")


def _cores(goal: Targets, profile: Profile) -> None:
    """Off, cpuquiet no longer parks cores: those it parked come back, and the fast cluster stays (as jetson_clocks).

    Without cpuquiet nobody parks cores, so one that is off was switched off by a power mode or by hand, and stays.
    How a switch of the cluster is done (immediate, force) matters only where there is one to do.
    """
    enabled = profile.cpuquiet_enabled
    if enabled is not None:
        goal.want("cpuquiet.enable", int(enabled), "parks idle cores" if enabled else "parks no cores")
    if profile.cpuquiet_governor:
        _word(goal, "cpuquiet.governor", profile.cpuquiet_governor)
    if enabled is not False or "cpuquiet.enable" not in goal.found:
        return
    for knob in goal.found:
        if re.fullmatch(r"cpu\d+\.online", knob):
            goal.want(knob, 1, "all cores on")
        elif knob in ("cluster.immediate", "cluster.force") and goal.found["cluster.active"].value != "G":
            goal.want(knob, 1, "no cluster switching")
        elif knob == "cluster.active":
            goal.want(knob, "G", "fast cluster")


def _cpu(goal: Targets, profile: Profile) -> None:
    """Governor and limits only: min = max forces the speed, and `scaling_setspeed` keeps what it was."""
    policies = _numbers(goal, r"cpu(\d+)\.(?:governor|min|max)") or [0]
    for number in policies:
        if _off(goal, number):
            goal.notes[f"cpu{number}: its cores are off, so its rate is left as it is"] = None
            continue
        if profile.cpu_governor:
            _word(goal, f"cpu{number}.governor", profile.cpu_governor)
        hz = _limits(goal, f"cpu{number}", profile.cpu_min, profile.cpu_max)
        if number == policies[0]:
            goal.asked["cpu"] = hz


def _off(goal: Targets, number: int) -> bool:
    """Says whether all cores of a policy are off, and no new power mode may switch one on."""
    mode = goal.wanted.get("nvpmodel.mode")
    if mode is not None and mode.value != goal.found["nvpmodel.mode"].value:
        return False
    core = f"cpu{number}.online"  # of the CPU that stands for the policy: one that is on, if there is one
    return core in goal.found and goal.found[core].value == 0 and core not in goal.wanted


def _idle(goal: Targets, profile: Profile) -> None:
    if profile.idle_cpu is not None:
        states = [knob for knob in goal.found if re.fullmatch(r"cpu\d+\.idle\d+", knob)]
        for knob in states or ["cpu0.idle0"]:
            goal.want(knob, int(not profile.idle_cpu), "idle state allowed" if profile.idle_cpu else "idle state off")
        for knob in goal.found:
            if knob.startswith("cc3."):
                goal.want(knob, int(profile.idle_cpu), "may be off" if profile.idle_cpu else "CPU cluster stays on")
            elif knob == "qos.enable":
                bounds = "other programs may bound the rate" if profile.idle_cpu else "no bounds by other programs"
                goal.want(knob, int(profile.idle_cpu), bounds)
    if profile.idle_gpu is not None:
        why = "may be gated" if profile.idle_gpu else "GPU stays powered"
        if "gpu.power" in goal.found:
            goal.want("gpu.power", "auto" if profile.idle_gpu else "on", why)
        else:
            goal.want("gpu.railgate", int(profile.idle_gpu), why)


def _domain(goal: Targets, domain: str, rate: Rate) -> int | None:
    """Locks a domain by equal limits, or by a rate and the bit that makes it hold. Returns the locked rate in Hz."""
    if f"{domain}.max" in goal.found or f"{domain}.min" in goal.found:
        return _limits(goal, domain, rate, rate)
    if f"{domain}.rate" not in goal.found:
        goal.absent[f"{domain}.rate"] = None
        return None
    if rate.name == "auto":
        goal.want(f"{domain}.override", 0, "not locked")
        return None
    hz = goal.point(rate, f"{domain}.rate")
    if hz is not None:
        goal.want(f"{domain}.rate", hz, f"held at {rate}")
        goal.want(f"{domain}.override", 1, "makes the rate hold")
    return hz


def _limits(goal: Targets, domain: str, low: Rate | None, high: Rate | None) -> int | None:
    """Sets min and max of a domain; where they cross, max wins. Returns the rate in Hz if they lock it.

    A limit that the profile leaves as found moves only where the kernel would refuse the other one because of it.
    """
    low_id, high_id = f"{domain}.min", f"{domain}.max"
    low_hz, high_hz = _limit(goal, low_id, low), _limit(goal, high_id, high)
    if low_hz is None and high_hz is None:
        return None
    floor, ceiling = low_hz or _found(goal, low_id), high_hz or _found(goal, high_id)
    if floor is not None and ceiling is not None and floor > ceiling:
        goal.notes[
            f"{kind_of(domain)}: min {rate_text(floor)} is above max {rate_text(ceiling)}, so min is set to max"
        ] = None
        low_hz = floor = ceiling
    if low_hz is not None:
        goal.want(low_id, low_hz, _reason(low, high, "lowest", "not below"))
    if high_hz is not None:
        goal.want(high_id, high_hz, _reason(high, low, "highest", "not above"))
    free = low is None or high is None or "auto" in (low.name, high.name)
    return floor if floor == ceiling and not free else None


def _limit(goal: Targets, knob: str, rate: Rate | None) -> int | None:
    if rate is None:
        return None
    if knob not in goal.found:
        goal.absent[knob] = None
        return None
    end = Rate(name="min" if knob.endswith(".min") else "max")
    return goal.point(end if rate.name == "auto" else rate, knob)


def _found(goal: Targets, knob: str) -> int | None:
    value = goal.found[knob].value if knob in goal.found else None
    return value if isinstance(value, int) else None


def _reason(rate: Rate | None, other: Rate | None, end: str, bound: str) -> str:
    if rate is None:
        return "may not cross the other limit"
    if rate.name == "auto":
        return f"the driver's own {end}"
    return f"held at {rate}" if rate == other else f"{bound} {rate}"


def _word(goal: Targets, knob: str, alternatives: tuple[str, ...]) -> None:
    """Takes the first alternative that the board lists; a board that lists none is asked for the first."""
    choices = goal.found[knob].choices if knob in goal.found else ()
    word = next((word for word in alternatives if not choices or word in choices), None)
    if word is None:
        listed = ", ".join(map(str, choices))
        goal.lack(knob, f"{kind_of(knob)} governor: none of {', '.join(alternatives)} is there; the board has {listed}")
    else:
        goal.want(knob, word, f"{word} governor")


def _fan(goal: Targets, profile: Profile) -> None:
    if profile.fan_pwm == "auto":
        goal.want("fan.auto", 1, "the board controls it")
    elif profile.fan_pwm is not None:
        if "fan.auto" in goal.found:
            goal.want("fan.auto", 0, "fixed speed")
        goal.want("fan.pwm", profile.fan_pwm, "speed of the profile")


def _numbers(goal: Targets, pattern: str) -> list[int]:
    """Returns the CPU numbers of the knobs that match, ascending."""
    return sorted({int(match[1]) for knob in goal.found if (match := re.fullmatch(pattern, knob))})
