"""Who the board is: device tree, release, module, kernel, this boot. Texts have the form that they have on a board."""

from __future__ import annotations

import errno
import random
import re
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from remote.sim.kernel.cpu import Cores
from remote.sim.kernel.node import Node, Part, below, fail, fixed
from remote.sim.kernel.units import at_boot, unit_nodes

_CODENAMES = {
    "14.04": "trusty", "16.04": "xenial", "18.04": "bionic", "20.04": "focal", "22.04": "jammy", "24.04": "noble"
}  # fmt: skip
_SOC_IDS = {"tegra194": 25, "tegra234": 35, "tegra264": 38}
"""Documented: 0x19, 0x23 and 0x26 in Linux, include/soc/tegra/fuse.h, shown there as a decimal number."""
_SWAP_PRIORITY = 5  # documented: nvzramconfig, swapon -p 5
_DEVICE_TREE = "/proc/device-tree"
_FIRMWARE = "/sys/firmware/devicetree/base"  # since Linux 3.14; what lay below /proc before is a link to it


class Identity(Part):
    """Release, model, serial number, processors, services, this boot.

    ``old`` kernels (3.10) have the device tree below /proc.
    """

    keeps = ("boot_id", "units")

    def __init__(self, twin: Mapping[str, Any], seed: int, cores: Cores, old: bool) -> None:
        draw = random.Random(f"identity {seed}")
        self._twin, self._cores, self._old = twin, cores, old
        self.serial = f"{draw.randrange(10**13):013d}"
        self.boot_id = _uuid(draw)
        self.units = at_boot(twin)

    def reboot(self, number: int) -> None:
        """Draws the name of another boot."""
        self.boot_id = _uuid(random.Random(f"boot {self.serial} {number}"))

    def load(self, saved: Mapping[str, Any]) -> None:
        """Takes up a state that `save` gave. The services' files keep to the dictionary that they know."""
        units = self.units
        super().load(saved)
        units.update(self.units)
        self.units = units

    def _device_tree(self) -> dict[str, Node]:
        """Returns the root of the device tree. Its strings end in NUL."""
        twin = self._twin
        texts = {
            "model": str(twin["model"]),
            "compatible": "\0".join(twin["compatible"]),
            "serial-number": self.serial,
            **{f"nvidia,{name}": str(twin[name]) for name in ("dtsfilename", "boardids") if name in twin},
        }
        return below(_DEVICE_TREE if self._old else _FIRMWARE, {name: fixed(f"{t}\0") for name, t in texts.items()})

    def _cpuinfo(self) -> str:
        """Returns a block per core that is on, as Linux prints it for arm64."""
        block = (
            f"model name\t: {self._twin['cpu_name']}\nBogoMIPS\t: 62.50\n"
            "Features\t: fp asimd evtstrm aes pmull sha1 sha2 crc32\nCPU implementer\t: 0x41\nCPU architecture: 8\n\n"
        )
        return "".join(f"processor\t: {n}\n{block}" for n in range(self._cores.count) if self._cores.is_on(n))

    def nodes(self) -> dict[str, Node]:
        """Returns the identifying files."""
        twin = self._twin
        ubuntu = str(twin["ubuntu"])
        code = _CODENAMES[ubuntu]
        texts = {
            "/etc/nv_tegra_release": f"{twin['nv_tegra_release']}\n",
            "/etc/os-release": f'NAME="Ubuntu"\nVERSION="{ubuntu} LTS"\nID=ubuntu\nID_LIKE=debian\n'
            f'PRETTY_NAME="Ubuntu {ubuntu} LTS"\nVERSION_ID="{ubuntu}"\n'
            f"VERSION_CODENAME={code}\nUBUNTU_CODENAME={code}\n",
            "/etc/lsb-release": f"DISTRIB_ID=Ubuntu\nDISTRIB_RELEASE={ubuntu}\nDISTRIB_CODENAME={code}\n"
            f'DISTRIB_DESCRIPTION="Ubuntu {ubuntu} LTS"\n',
            "/etc/fstab": "/dev/root / ext4 defaults 0 1\n",
            "/sys/devices/soc0/machine": f"{twin['machine']}\n",
            "/sys/devices/soc0/family": f"{twin['family']}\n",
            "/proc/sys/kernel/osrelease": f"{twin['osrelease']}\n",
            "/proc/version": f"Linux version {twin['osrelease']} (buildbrain@mobile-u64) (gcc) #1 SMP PREEMPT\n",
            "/proc/cmdline": "root=/dev/mmcblk0p1 rw rootwait rootfstype=ext4 console=ttyS0,115200n8 \n",
            "/var/lib/dpkg/status": _packages(twin),
            "/proc/swaps": _swaps(twin),
            # Scripts ask whether it is there.
            f"/dev/{'nvidia0' if twin['family'] == 'tegra264' else 'nvhost-gpu'}": "",
            **twin.get("texts", {}),
        }
        if "chip_id" in twin:
            texts["/sys/devices/soc0/soc_id"] = f"{twin['chip_id']}\n"
            texts["/sys/module/tegra_fuse/parameters/tegra_chip_id"] = f"{twin['chip_id']}\n"
        elif twin["family"] in _SOC_IDS:
            texts["/sys/devices/soc0/soc_id"] = f"{_SOC_IDS[twin['family']]}\n"
        return {path: fixed(text) for path, text in texts.items()} | {
            **self._device_tree(),
            **unit_nodes(self.units),
            "/proc/cpuinfo": Node(self._cpuinfo),
            "/proc/sys/vm/drop_caches": Node(
                lambda: "0\n", lambda text: None if text.strip() in ("1", "2", "3") else fail(errno.EINVAL)
            ),
            "/proc/sys/vm/swappiness": fixed("60\n"),
            "/proc/sys/kernel/random/boot_id": Node(lambda: f"{self.boot_id}\n"),
        }

    def links(self) -> dict[str, str]:
        """Returns the device tree's other name."""
        return {} if self._old else {_DEVICE_TREE: _FIRMWARE}


def _packages(twin: Mapping[str, Any]) -> str:
    """Returns what dpkg has noted of NVIDIA's packages, of which there are some from L4T R32 on.

    The version of L4T's own ends with the time of the build (assumed: the one of the release).
    """
    if "jetpack" not in twin:
        return ""
    told = re.search(r"R(\d+) .*REVISION: ([\d.]+),.*DATE: (.*)", str(twin["nv_tegra_release"]))
    assert told is not None
    built = datetime.strptime(told[3], "%a %b %d %H:%M:%S UTC %Y")
    versions = {
        "nvidia-l4t-core": f"{told[1]}.{told[2]}-{built:%Y%m%d%H%M%S}",
        "nvidia-jetpack": str(twin["jetpack"]),
        **twin["packages"],
    }
    return "".join(
        f"Package: {name}\nStatus: install ok installed\nPriority: optional\nSection: metapackages\n"
        f"Maintainer: NVIDIA Corporation\nArchitecture: arm64\nVersion: {version}\nDescription: from NVIDIA\n\n"
        for name, version in versions.items()
    )


def _swaps(twin: Mapping[str, Any]) -> str:
    """Returns the swaps: compressed memory, a device per core (documented: nvzramconfig). Sizes are in KiB."""
    size_kib = round(float(twin["memory_bytes"]) * float(twin["swap_share"])) // 1024
    cores = int(twin["cores"]) if size_kib else 0
    sizes = [size_kib // cores + (size_kib % cores if n == 0 else 0) for n in range(cores)]
    rows = [f"/dev/zram{n:<32}partition\t{size}\t0\t{_SWAP_PRIORITY}\n" for n, size in enumerate(sizes)]
    return "".join(["Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n", *rows])


def _uuid(draw: random.Random) -> str:
    return str(uuid.UUID(int=draw.getrandbits(128), version=4))
