"""A toy board: knobs in a dict, and the few kernel rules that make the order of writes matter."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from hypothesis import strategies as st

from remote.types import Knob, Snapshot, Step, Value

CPU_HZ = (102_000_000, 510_000_000, 1_036_800_000, 1_734_000_000)
GPU_HZ = (76_800_000, 307_200_000, 614_400_000, 691_200_000, 998_400_000)
EMC_HZ = (408_000_000, 800_000_000, 1_600_000_000)
GOVERNORS = {
    "23.1": ("interactive", "ondemand", "userspace"),
    "28.2": ("interactive", "performance", "userspace"),
    "32.7": ("schedutil", "performance", "userspace", "ondemand"),
}
RELEASES = tuple(GOVERNORS)


class Refused(Exception):
    """The kernel answers EINVAL or the like."""


@dataclass
class Toy:
    """``held`` are the rates that an override made hold, in the order of time, however briefly."""

    release: str
    values: dict[str, Value]
    held: list[tuple[str, Value]] = field(default_factory=list)

    def snapshot(self) -> Snapshot:
        """Returns every knob with its choices, as an agent on the board would."""
        return Snapshot({knob: self._knob(knob, value) for knob, value in self.values.items()})

    def write(self, knob: str, value: Value) -> None:
        """Writes as the kernel lets one: some writes raise Refused, some are silently lost."""
        domain, _, setting = knob.partition(".")
        choices = choices_of(self.release, knob)
        if choices and value not in choices:
            raise Refused(f"{knob}: {value} is not listed")
        if domain.startswith("cpu") and setting != "online" and not self.values.get(f"{domain}.online", 1):
            raise Refused(f"{knob}: the core is off")
        if setting == "online" and value == 1 and self.values.get("cpuquiet.enable"):
            return  # parked again at once
        if domain == "gpu" and setting in ("min", "max") and self.values["gpu.railgate"]:
            raise Refused(f"{knob}: the GPU is gated")
        if knob == "fan.pwm" and self.values.get("fan.auto"):
            return  # the fan's own control overwrites it
        if setting == "min" and int(value) > int(self.values[f"{domain}.max"]):
            raise Refused(f"{knob}: above max")
        if setting == "max" and int(value) < int(self.values[f"{domain}.min"]):
            raise Refused(f"{knob}: below min")
        if self.release == "32.7" and setting == "rate" and not self.values[f"{domain}.override"]:
            return  # not locked: the driver goes on choosing the rate
        self.values[knob] = value
        if setting in ("rate", "override") and self.values[f"{domain}.override"]:
            self.held.append((domain, self.values[f"{domain}.rate"]))

    def _knob(self, knob: str, value: Value) -> Knob:
        return Knob(knob, f"/toy/{knob}", "hz", value, str(value), choices_of(self.release, knob))


def choices_of(release: str, knob: str) -> tuple[Value, ...]:
    """Returns what the driver lists for a knob."""
    domain, _, setting = knob.partition(".")
    if knob == "cpuquiet.governor":
        return ("balanced", "runnable", "userspace")
    if setting == "governor":
        return GOVERNORS[release]
    if setting in ("min", "max", "rate"):
        return {"gpu": GPU_HZ, "emc": EMC_HZ}.get(domain, CPU_HZ)
    return ()


def apply(board: Toy, steps: Iterable[Step], refused: Collection[str] = ()) -> tuple[Step, ...]:
    """Writes the steps in order; returns those that the kernel took. Writes of ``refused`` knobs fail."""
    done = []
    for step in steps:
        try:
            if step.knob in refused:
                raise Refused(step.knob)
            board.write(step.knob, step.value)
        except Refused:
            continue
        done.append(step)
    return tuple(done)


def _limits(rates_hz: tuple[int, ...]) -> st.SearchStrategy[list[int]]:
    return st.lists(st.sampled_from(rates_hz), min_size=2, max_size=2).map(sorted)


@st.composite
def boards(draw: st.DrawFn, releases: tuple[str, ...] = RELEASES) -> Toy:
    """Draws a board of two CPU policies in any state that its kernel could be in."""
    release = draw(st.sampled_from(releases))
    switch = st.integers(0, 1)
    values: dict[str, Value] = {}
    for core in range(4):
        values[f"cpu{core}.online"] = draw(switch) if core else 1
        values[f"cpu{core}.idle0"] = draw(switch)
    for policy in ("cpu0", "cpu2"):
        values[f"{policy}.governor"] = draw(st.sampled_from(GOVERNORS[release]))
        values[f"{policy}.min"], values[f"{policy}.max"] = draw(_limits(CPU_HZ))
    if release != "32.7":
        values["cpuquiet.enable"] = draw(switch)
        values["cpuquiet.governor"] = draw(st.sampled_from(("balanced", "runnable")))
    if release == "23.1":
        values |= {"gpu.rate": draw(st.sampled_from(GPU_HZ)), "gpu.override": draw(switch)}
        values |= {"cluster.immediate": draw(switch), "cluster.force": draw(switch), "cluster.active": "G"}
    else:
        values["gpu.railgate"] = draw(switch)
        values["gpu.min"], values["gpu.max"] = draw(_limits(GPU_HZ))
    values |= {"emc.rate": draw(st.sampled_from(EMC_HZ)), "emc.override": draw(switch)}
    values["fan.pwm"] = draw(st.integers(0, 255))
    if release == "32.7":
        values["fan.auto"] = draw(switch)
    return Toy(release, values)


def undo(steps: Iterable[Step]) -> tuple[Step, ...]:
    """Returns the steps that put back what was found: the exact reverse, without knobs that could not be read.

    It needs no second pass, also where the kernel refused some of ``steps``: either order of a pair of limits, read
    backwards, passes only through states that were already valid on the way there.
    """
    return tuple(
        Step(step.knob, step.was, step.value, "as it was found")
        for step in reversed(list(steps))
        if step.was is not None
    )
