"""Samples channels on the monotonic clock, dithered so that no periodic load can hide; kept until asked for."""

import random

from remote.onboard.program import bounded

MYPY = False
if MYPY:  # the typing module is newer than the oldest Python of the boards
    from typing import Any  # novm

    from remote.onboard.system import System


_DITHER = 0.25  # of a period, to either side
_SLOWEST_HZ = 1e-3
_FASTEST_HZ = 1e4


class Sampler(object):
    """Reads ``channels`` (id -> {path, times, scale}) at ``rate_hz``, starting now. Series are columns of a table."""

    def __init__(self, system: "System", channels: "dict[str, dict[str, Any]]", rate_hz: float, seed: int) -> None:
        self._read = system.read
        self._now = system.now
        self._columns = [
            (name, _paths(channels[name]), float(channels[name].get("scale") or 1.0), [], [])
            for name in sorted(channels)
        ]  # type: list[tuple[str, list[str], float, list[float], list[float | None]]]
        self._period_s = 1.0 / rate_hz
        self._random = random.Random(seed).random
        self._start_s = self._now()
        self._count = 0
        self._late_s = 0.0
        self.next_s = self._start_s if channels else None  # type: float | None

    def tick(self) -> None:
        """Takes a sample if one is due. Moments that were missed are left out, not made up for."""
        now = self._now()
        if self.next_s is None or now < self.next_s:
            return
        self._late_s += now - self.next_s
        for _, paths, scale, times, values in self._columns:
            times.append(self._now())
            try:
                value = scale
                for path in paths:
                    value *= float(self._read(path))
                values.append(value)
            except (OSError, ValueError):
                values.append(None)
        self._count += 1
        slot = int((now - self._start_s) / self._period_s + 0.5) + 1
        self.next_s = self._start_s + (slot + _DITHER * (2.0 * self._random() - 1.0)) * self._period_s

    def series(self) -> "list[dict[str, Any]]":
        """Returns what was sampled, a record per channel."""
        late_s = self._late_s / max(1, self._count)
        return [
            {"id": name, "times_s": times, "values": values, "late_s": late_s}
            for name, _, _, times, values in self._columns
        ]


def _paths(channel: "dict[str, Any]") -> "list[str]":
    """Returns the nodes whose product is the channel's value: one, or a voltage and a current."""
    return [path for path in (str(channel["path"]), str(channel.get("times") or "")) if path]


class Samplers(object):
    """The two paces of one recording: power rails fast, clocks and temperatures slowly."""

    def __init__(
        self,
        system: "System",
        rails: "dict[str, dict[str, Any]]",
        readings: "dict[str, dict[str, Any]]",
        asked: "dict[str, Any]",
    ) -> None:
        def chosen(table: "dict[str, dict[str, Any]]", key: str) -> "dict[str, dict[str, Any]]":
            return {name: table[name] for name in asked.get(key) or [] if name in table}

        seed = int(asked.get("seed") or 0)
        self._all = [
            Sampler(system, chosen(rails, "rails"), bounded(asked["rate_hz"], _SLOWEST_HZ, _FASTEST_HZ), seed),
            Sampler(
                system, chosen(readings, "readings"), bounded(asked["watch_hz"], _SLOWEST_HZ, _FASTEST_HZ), seed + 1
            ),
        ]

    def deadline(self) -> "float | None":
        """Returns when the next sample is due."""
        due = [sampler.next_s for sampler in self._all if sampler.next_s is not None]
        return min(due) if due else None

    def tick(self) -> None:
        """Takes what is due."""
        for sampler in self._all:
            sampler.tick()

    def series(self) -> "list[dict[str, Any]]":
        """Returns all series."""
        return [series for sampler in self._all for series in sampler.series()]
