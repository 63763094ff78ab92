"""Where things lie on this machine, and which host is meant when none is named."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from remote.errors import UsageError
from remote.hosts import Host
from remote.inventory import Inventory, from_toml

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FALLBACK = "sim:tx1"


def data_folder() -> Path:
    """Returns the folder of saved results."""
    import platformdirs

    return Path(platformdirs.user_data_dir("edgeperf", appauthor=False))


def cache_folder() -> Path:
    """Returns the folder of what can be made again: emitted models, the on-board programs."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("edgeperf", appauthor=False))


def config_file() -> Path:
    """Returns where the user's settings are looked for."""
    import platformdirs

    return Path(platformdirs.user_config_dir("edgeperf", appauthor=False)) / "config.toml"


def hosts_file() -> Path:
    """Returns where the user's boards are kept."""
    return config_file().with_name("hosts.toml")


def inventory() -> Inventory:
    """Returns the user's boards by name, none when there is no file yet. Raises UsageError for one that is damaged."""
    file = hosts_file()
    try:
        text = file.read_text("utf-8")
    except FileNotFoundError:
        return Inventory()
    except (OSError, ValueError) as error:
        raise UsageError(f"{file}: {error}", "it lists your boards: is it a text file that you may read?") from error
    return from_toml(text, str(file))


def named(text: str) -> Host:
    """Returns the one host that a name or a host string means. Raises UsageError for a group."""
    found = inventory().find(text)
    if len(found) != 1:
        raise UsageError(f"{text!r} is a group of {len(found)} boards", "this command takes one: edgeperf hosts list")
    return found[0]


def configured_host() -> str:
    """Returns ``host`` of the config file, "" without one. Raises UsageError for a file that cannot be used."""
    path = config_file()
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return ""
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {error}", 'it may hold one line: host = "sim:tx1"') from error
    unknown = sorted(set(data) - {"host"})
    if unknown or not isinstance(data.get("host", ""), str):
        raise UsageError(
            f"{path}: {unknown[0] if unknown else 'host'!r} is wrong", 'it may hold one line: host = "sim:tx1"'
        )
    return str(data.get("host", ""))


@dataclass(frozen=True)
class Chosen:
    """The host to use; ``note`` tells the user when it was not named by anyone."""

    host: Host
    note: str = ""


def _unasked(environment: Mapping[str, str]) -> list[str]:
    """Returns the host that holds where no option names one, if any."""
    return list(filter(None, [environment.get("EDGEPERF_HOST") or configured_host()]))


def choose(option: str | None, environment: Mapping[str, str] = os.environ) -> Chosen:
    """Returns the host for reading and measuring: option, EDGEPERF_HOST, config file, this Tegra, else the twin."""
    wanted = [option] if option is not None else _unasked(environment)  # an empty option is a name too, a wrong one
    if wanted:
        return Chosen(named(wanted[0]))
    if Path("/etc/nv_tegra_release").exists():
        return Chosen(named("local"))
    return Chosen(named(FALLBACK), f"no --host given: using {FALLBACK}, a simulated board")


def require(options: Sequence[str] | None, environment: Mapping[str, str] = os.environ) -> tuple[Host, ...]:
    """Returns the hosts for commands that change boards, each once. Raises UsageError when nobody named one."""
    wanted = list(options or ()) or _unasked(environment)
    if not wanted:
        raise UsageError(
            "which board? this command changes something on it, so it has no default host",
            "name it: --host sim:tx1, --host local, or set EDGEPERF_HOST",
        )
    known = inventory()
    return tuple(dict.fromkeys(host for text in wanted for host in known.find(text)))
