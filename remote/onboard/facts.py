"""What a host shall know of the board from the start, whichever program tells it."""

from remote.onboard import probe

MYPY = False
if MYPY:  # the typing module is newer than the oldest Python of the boards
    from typing import Any  # novm

    from remote.onboard.system import System


def facts(system: "System", texts: "dict[str, str]", spec: "dict[str, Any]") -> "dict[str, Any]":
    """Returns the fields of the host's ``Facts``, as seen by whoever runs this; ``texts`` are those of the identity."""
    cache = system.cache()
    return {
        "board": spec["name"],
        "model": probe.model(texts, spec),
        "l4t": probe.l4t(texts["/etc/nv_tegra_release"]),
        "kernel": texts["/proc/sys/kernel/osrelease"],
        "serial": texts["/proc/device-tree/serial-number"],
        "machine": texts["/sys/devices/soc0/machine"],
        "python": system.python(),
        "cpus": _count(texts["/sys/devices/system/cpu/present"]),
        "cpu_model": _field(texts["/proc/cpuinfo"], "model name"),
        "memory_bytes": int((_field(texts["/proc/meminfo"], "MemTotal").split() or ["0"])[0]) * 1024,
        "boot_id": texts["/proc/sys/kernel/random/boot_id"],
        "user": system.user(),
        "cache": cache,
        "cache_free_bytes": system.free_bytes(cache),
        "simulated": system.simulated,
        "twin": system.twin,
        "wall_s": system.wall(),
    }


def _count(present: str) -> int:
    """Returns how many numbers a kernel list such as ``0-3,6`` names."""
    total = 0
    for part in present.split(","):
        first, _, last = part.partition("-")
        if first.isdigit():
            total += int(last or first) - int(first) + 1
    return total


def _field(text: str, name: str) -> str:
    """Returns the value of the first ``name : value`` line."""
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""
