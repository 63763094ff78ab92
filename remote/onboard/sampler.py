"""Samples channels on the monotonic clock, dithered so that no periodic load can hide; kept until asked for."""

import errno
import random

from remote.onboard.program import bounded
from remote.onboard.rails import TRIES

MYPY = False
if MYPY:  # the typing module is newer than the oldest Python of the boards
    from typing import Any, Callable  # novm

    from remote.onboard.system import Family, Node, System


# Of a period, to either side: then every moment is as likely as any other, and a load in step with the samples cannot
# bias them. With less, part of it would stay.
_DITHER = 0.5
_SLOWEST_HZ = 1e-3
_FASTEST_HZ = 200.0
_USER_HZ = 100.0  # the tick of /proc/stat on every Linux for boards and PCs

OWN = (("host.cpu_s", "/proc/stat"), ("job.cpu_s", "/proc"), ("clock.wall_offset_s", ""))
"""Readings that need no driver, with where they come from; all in seconds."""


def own_readings(system: "System") -> "dict[str, dict[str, Any]]":
    """Returns the readings of `OWN` that this machine has, by id.

    ``host.cpu_s``: for how long all cores together have been busy since boot, or were kept by a hypervisor.
    ``job.cpu_s``: how much of that the job, what runs beside it, and this program took.
    ``clock.wall_offset_s``: the calendar's clock minus the monotonic one; it jumps when somebody sets the clock.
    """
    found = {name: {"id": name, "path": path, "unit": "s"} for name, path in OWN}
    if not system.exists("/proc/stat"):
        del found["host.cpu_s"]
    return found


class _Gauge(object):
    """A channel whose ``value()`` is what is there now. Raises OSError or ValueError where it cannot be read."""

    def __init__(
        self, name: str, now: "Callable[[], float]", value: "Callable[[], float]", nodes: "list[Node]"
    ) -> None:
        self.name = name
        self.nodes = nodes
        self.times = []  # type: list[float]
        self.values = []  # type: list[float | None]
        self._now = now
        self._value = value

    def take(self) -> None:
        """Takes a sample, at the middle of the time that it takes to read."""
        before_s = self._now()
        value = self._read()
        self.times.append(0.5 * (before_s + self._now()))
        self.values.append(value)

    def _read(self) -> "float | None":
        for _ in range(TRIES):
            try:
                return self._value()
            except OSError as error:
                if error.errno != errno.EAGAIN:
                    return None
            except ValueError:
                return None
        return None


class _Counter(_Gauge):
    """A channel whose ``value()`` counts up, anew beyond ``wraps``: its samples are the rate between two readings."""

    wraps = 0.0
    _last = None  # type: tuple[float, float] | None

    def take(self) -> None:
        """Takes a sample, at the middle of the time since the last."""
        now_s = self._now()
        count = self._read()
        if count is None:
            self.times.append(now_s)
            self.values.append(None)
        else:
            if self._last is not None:
                then_s, before = self._last
                more = count - before if count >= before else count - before + self.wraps
                self.times.append(0.5 * (then_s + now_s))
                self.values.append(more / (now_s - then_s))
            self._last = (now_s, count)


def _product(nodes: "list[Node]", scale: float) -> "Callable[[], float]":
    """Returns what multiplies all numbers in some files: one, a voltage and a current, or both in one file."""

    def product() -> float:
        value = scale
        for node in nodes:
            for word in node.read().split() or [b""]:  # nothing is no number
                value *= float(word)
        return value

    return product


def _busy_s(stat: "Node") -> "Callable[[], float]":
    """Returns what reads the busy seconds of all cores: all columns of proc(5) but idle, iowait and the guests'."""

    def busy_s() -> float:
        words = stat.read().split(b"\n", 1)[0].split()[1:9]
        return (sum(map(int, words)) - int(words[3]) - int(words[4])) / _USER_HZ

    return busy_s


def _gauge(system: "System", name: str, channel: "dict[str, Any]", family: "Family | None") -> "_Gauge":
    """Returns what samples a channel."""
    if name == "job.cpu_s" and family is not None:
        return _Gauge(name, system.now, family.cpu_s, [])
    if name == "clock.wall_offset_s":
        return _Gauge(name, system.now, lambda: system.wall() - system.now(), [])
    nodes = [system.open(str(channel[key])) for key in ("path", "times") if channel.get(key)]
    if name == "host.cpu_s":
        return _Gauge(name, system.now, _busy_s(nodes[0]), nodes)
    value = _product(nodes, float(channel.get("scale") or 1.0))
    if "wraps" not in channel:
        return _Gauge(name, system.now, value, nodes)
    counter = _Counter(name, system.now, value, nodes)
    counter.wraps = float(channel["wraps"]) * float(channel["scale"])
    return counter


class Sampler(object):
    """Reads ``gauges`` at ``rate_hz``, starting now. Series are columns of a table."""

    def __init__(self, system: "System", gauges: "list[_Gauge]", rate_hz: float, seed: int) -> None:
        self._now = system.now
        self._gauges = gauges
        self._period_s = 1.0 / rate_hz
        self._random = random.Random(seed).random
        self._start_s = self._now()
        self._slot = 0
        self._count = 0
        self._late_s = 0.0
        self._worst_s = 0.0
        self.next_s = self._start_s if gauges else None  # type: float | None

    def tick(self) -> None:
        """Takes a sample if one is due. Moments that were missed are left out and counted, not made up for."""
        now = self._now()
        if self.next_s is None or now < self.next_s:
            return
        late_s = now - self.next_s
        self._late_s += late_s
        self._worst_s = max(self._worst_s, late_s)
        for gauge in self._gauges:
            gauge.take()
        self._count += 1
        # The next one, or the first whose time is not yet over.
        now_slots = (self._now() - self._start_s) / self._period_s
        self._slot = max(self._slot + 1, int(now_slots + 1.0 - _DITHER))
        dither = _DITHER * (2.0 * self._random() - 1.0)
        self.next_s = self._start_s + (self._slot + dither) * self._period_s

    def end(self) -> "list[dict[str, Any]]":
        """Returns what was sampled, a record per channel, and closes the files."""
        for gauge in self._gauges:
            for node in gauge.nodes:
                node.close()
        late = {
            "late_s": self._late_s / max(1, self._count),
            "late_worst_s": self._worst_s,
            "missed": max(0, self._slot - self._count),
        }
        return [dict(late, id=gauge.name, times_s=gauge.times, values=gauge.values) for gauge in self._gauges]


class Samplers(object):
    """The two paces of one recording: power rails fast, clocks and temperatures slowly.

    ``asked`` has the fields of the host's ``Sampling``; ``family`` are the processes of the job that runs meanwhile.
    """

    def __init__(
        self,
        system: "System",
        rails: "dict[str, dict[str, Any]]",
        readings: "dict[str, dict[str, Any]]",
        asked: "dict[str, Any]",
        family: "Family | None" = None,
    ) -> None:
        def sampler(table: "dict[str, dict[str, Any]]", names: "Any", rate_hz: "Any", seed: int) -> "Sampler":
            pace_hz = bounded(rate_hz, _SLOWEST_HZ, _FASTEST_HZ)
            chosen = sorted(name for name in names or [] if name in table)
            return Sampler(system, [_gauge(system, name, table[name], family) for name in chosen], pace_hz, seed)

        seed = int(asked.get("seed") or 0)
        self._all = [
            sampler(rails, asked.get("rails"), asked["rate_hz"], seed),
            sampler(readings, asked.get("readings"), asked["watch_hz"], seed + 1),
        ]

    def deadline(self) -> "float | None":
        """Returns when the next sample is due."""
        due = [sampler.next_s for sampler in self._all if sampler.next_s is not None]
        return min(due) if due else None

    def tick(self) -> None:
        """Takes what is due."""
        for sampler in self._all:
            sampler.tick()

    def end(self) -> "list[dict[str, Any]]":
        """Returns all series, and closes the files."""
        return [series for sampler in self._all for series in sampler.end()]
