"""What the chip does over time: load, power, heat and energy, piecewise constant between events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from math import exp, inf
from typing import Any

from remote.sim.physics import Activity, Clocks, Heat, HeatPath, PowerModel, power, record

IDLE = Activity()


def combined(activities: Iterable[Activity | None]) -> Activity:
    """Returns what several processes do together."""
    busy = [one for one in activities if one is not None]
    if not busy:
        return IDLE
    if len(busy) == 1:
        return busy[0]
    return Activity(
        flops_per_s=sum(one.flops_per_s for one in busy),
        bytes_per_s=sum(one.bytes_per_s for one in busy),
        precision=max(busy, key=lambda one: one.flops_per_s).precision,
        gpu_load=min(1.0, sum(one.gpu_load for one in busy)),
        cpu_load=sum(one.cpu_load for one in busy),
    )


def fair_share(loads: Iterable[float]) -> float:
    """Returns which share of the GPU's time is left to one more program, which could use all of it.

    Time slices go round, so who asks for less than the others gets all that, and the others share the rest alike:
    max-min fairness. Assumed: nothing published says how these boards divide it.
    """
    wanted = sorted(loads)
    left, users = 1.0, 1 + len(wanted)
    for load in wanted:
        if load * users >= left:
            break
        left, users = left - load, users - 1
    return left / users


class Silicon:
    """Integrates power into heat and energy. ``clocks`` gives the rates in effect.

    Nothing is computed between events: `settle` closes the span since the last one. Above the throttling temperature
    one operating point is taken away per check, and given back below it with some hysteresis; ``throttle`` is told.
    ``due_s`` is when the next check is due. The board starts as warm as its idle power makes it.
    """

    def __init__(
        self,
        twin: Mapping[str, Any],
        now_s: float,
        clocks: Callable[[], Clocks],
        throttle: Callable[[int], None],
    ) -> None:
        self.energy_j: dict[str, float] = {}
        self.due_s = now_s
        self._averaged_w: dict[float, Mapping[str, float]] = {}
        self._activity = IDLE
        self._steps = 0
        self._carrier_w: Mapping[str, float] = twin.get("carrier_w", {})
        self._model = PowerModel.of(twin)
        self._path = record(HeatPath, twin["heat"])
        self._limits: Mapping[str, float] = twin["throttle"]
        self._clocks, self._throttle = clocks, throttle
        self._since_s = now_s
        self._watts: Mapping[str, float] | None = None
        self._heat = Heat.settled(self._path, self.watts()["TOTAL"])

    def watts(self) -> Mapping[str, float]:
        """Returns the true power of every rail now."""
        if self._watts is None:
            self._watts = {**self._carrier_w, **power(self._activity, self._clocks(), self._model)}
        return self._watts

    def averaged_w(self, tau_s: float) -> Mapping[str, float]:
        """Returns the power of every rail as a filter of first order shows it, settled when it is first asked for.

        The caller has settled.
        """
        return self._averaged_w.setdefault(tau_s, self.watts())

    def temperature(self, stage: str) -> float:
        """Returns the temperature of ``die`` or ``board`` as of the last event, in degrees Celsius."""
        return {"die": self._heat.die_c, "board": self._heat.board_c}[stage]

    def settle(self, now_s: float) -> None:
        """Accounts for the time since the last event. Call it before anything changes."""
        span_s = now_s - self._since_s
        if span_s > 0.0:
            watts = self.watts()
            for rail, value in watts.items():
                self.energy_j[rail] = self.energy_j.get(rail, 0.0) + value * span_s
            for tau_s, means in self._averaged_w.items():
                keep = exp(-span_s / tau_s)
                self._averaged_w[tau_s] = {rail: w + keep * (means[rail] - w) for rail, w in watts.items()}
            self._heat = self._heat.after(self._path, watts["TOTAL"], span_s)
            self._since_s = now_s

    def change(self, activity: Activity) -> None:
        """Takes up what the machine does from now on, and whatever settings changed."""
        self._activity = activity
        self._watts = None
        self.due_s = self._since_s

    def check(self, now_s: float) -> None:
        """Throttles by temperature. The caller has settled."""
        die, limit = self._heat.die_c, self._limits["celsius"]
        steps = self._steps + (die > limit) - (die < limit - self._limits["hysteresis"])
        steps = min(max(0, steps), int(self._limits["most_steps"]))
        if steps != self._steps:
            self._steps = steps
            self._watts = None
            self._throttle(steps)
        # Between now and for ever the die is never warmer than the warmest of these.
        warmest = max(die, self._heat.board_c, Heat.settled(self._path, self.watts()["TOTAL"]).die_c)
        self.due_s = inf if warmest <= limit and not steps else now_s + self._limits["check_s"]

    def save(self) -> dict[str, Any]:
        """Returns heat, energy and throttling, ready for JSON."""
        return {"energy_j": self.energy_j, "steps": self._steps, "heat": asdict(self._heat)}

    def load(self, saved: Mapping[str, Any], now_s: float) -> None:
        """Takes up what `save` gave."""
        self.energy_j = dict(saved["energy_j"])
        self._steps = int(saved["steps"])
        self._heat = Heat(**saved["heat"])
        self._since_s = self.due_s = now_s
        self._watts = None
        self._throttle(self._steps)
