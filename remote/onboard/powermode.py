"""Power modes: what /etc/nvpmodel.conf says of them, and the program that tells and sets the one in force."""

import errno
import os
import re

MYPY = False
if MYPY:  # the typing module is newer than the oldest Python of the boards
    from typing import Any  # novm

    from remote.onboard.system import System


PROGRAM = "/usr/sbin/nvpmodel"
_PATIENCE_S = 8.0  # less than a host waits for a sign of life
_HEAD = re.compile(r"<\s*(PARAM|POWER_MODEL|PM_CONFIG)\s+([^>]*)>")


def parse(text: str) -> "tuple[dict[str, str], list[dict[str, Any]]]":
    """Returns the node of each parameter, and the modes in their order.

    A parameter is ``"GPU MAX_FREQ"``; a mode is ``{"id", "name", "values": {parameter: text}}``. What is no line of
    the format is passed over, as the program does.
    """
    paths = {}  # type: dict[str, str]
    modes = []  # type: list[dict[str, Any]]
    section, group = "", ""
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        head = _HEAD.match(" ".join(words))
        if head is not None:
            section = head.group(1)
            fields = dict(part.split("=", 1) for part in head.group(2).split() if "=" in part)
            group = fields.get("NAME", "")
            if section == "POWER_MODEL" and fields.get("ID", "").isdigit() and group:
                modes.append({"id": int(fields["ID"]), "name": group, "values": {}})
        elif section == "PARAM" and len(words) == 2:
            paths["%s %s" % (group, words[0])] = words[1]
        elif section == "POWER_MODEL" and len(words) == 3 and modes:
            modes[-1]["values"]["%s %s" % (words[0], words[1])] = words[2]
    return paths, modes


def caps(paths: "dict[str, str]", mode: "dict[str, Any]") -> "dict[str, int]":
    """Returns the highest rates that a mode allows, in hertz: ``gpu``, ``emc``, and ``cpu0`` for each CPU named.

    No cap is -1, and 0 for the memory in files up to R35. Where the kernel's driver was renamed, the parameter has a
    second node (``MAX_FREQ_KNEXT``).
    """
    found = {}  # type: dict[str, int]
    for parameter, text in mode["values"].items():
        name, _, setting = parameter.partition(" ")
        if setting != "MAX_FREQ" or not text.isdigit() or int(text) == 0:
            continue
        for path in (paths.get(parameter, ""), paths.get(parameter + "_KNEXT", "")):
            cpu = re.search(r"/(?:cpu|policy)(\d+)/", path)
            domain = "cpu" + cpu.group(1) if cpu else {"GPU": "gpu", "EMC": "emc"}.get(name)
            if domain:
                found[domain] = int(text) * (1000 if cpu else 1)
    return found


def masks(mode: "dict[str, Any]") -> "dict[str, str]":
    """Returns which parts of the GPU a mode switches off; a change of that takes a reboot."""
    return {key: text for key, text in mode["values"].items() if key.endswith("PG_MASK")}


class PowerModes(object):
    """The modes of a board, from its own ``conf``."""

    def __init__(self, system: "System", conf: str) -> None:
        self._system = system
        try:
            self.paths, modes = parse(system.read(conf))
        except OSError:
            self.paths, modes = {}, []
        self.by_name = {mode["name"]: mode for mode in reversed(modes)}
        self.names = [mode["name"] for mode in modes]

    def current(self) -> str:
        """Returns the name of the mode in force. Raises OSError where the program does not tell."""
        name = re.search(r"NV Power Mode:\s*(\S+)", self._run(["-q"], ""))
        if name is None:
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        return name.group(1)

    def choose(self, name: str, reboot: bool = False) -> "tuple[str, str]":
        """Sets a mode; returns ("", "") or ``refused`` or ``needs-reboot``, and why. Reboots only with ``reboot``."""
        if name not in self.by_name:
            return "refused", "this board has no power mode %s; it has %s" % (name, ", ".join(self.names))
        number = str(self.by_name[name]["id"])
        later = "the GPU's active parts change with this mode: nvpmodel -m %s as root, then reboot" % number
        try:
            now = self.by_name.get(self.current())
            regates = now is not None and masks(now) != masks(self.by_name[name])
            if regates and not reboot:
                return "needs-reboot", later
            said = self._run(["-m", number], "YES\n" if reboot else "NO\n")
            asks = regates or "reboot" in said.lower()
            if asks and reboot and "ERROR" not in said:
                return "needs-reboot", "the board is rebooting"
            if self.current() == name:
                return "", ""
        except OSError as error:
            return "refused", "%s: %s" % (PROGRAM, error.strerror)
        if asks and not reboot:
            return "needs-reboot", later
        return "refused", (said.strip().splitlines() or ["nvpmodel said nothing"])[-1]

    def _run(self, options: "list[str]", answer: str) -> str:
        """Returns all that the program prints. Raises OSError where it cannot be started or takes too long."""
        system = self._system
        process = system.spawn([system.path(PROGRAM)] + options, {}, answer)
        said, until_s = b"", system.now() + _PATIENCE_S
        outputs = [process.stdout, process.stderr]
        while outputs:
            ready = system.wait(outputs, until_s)
            if not ready and system.now() >= until_s:
                process.kill()
                raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
            for handle in ready:
                data = handle.read()
                said += data
                if not data:
                    outputs.remove(handle)
        process.exit_code()
        return said.decode("utf-8", "replace")
