"""Where things lie on this machine, and which host is meant when none is named."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from remote.errors import UsageError
from remote.hosts import Host, parse

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


def _named(option: str | None, environment: Mapping[str, str]) -> str | None:
    """Returns the host as someone named it. An empty option is a name too, and a wrong one."""
    return option if option is not None else environment.get("EDGEPERF_HOST") or configured_host() or None


def choose(option: str | None, environment: Mapping[str, str] = os.environ) -> Chosen:
    """Returns the host for reading and measuring: option, EDGEPERF_HOST, config file, this Tegra, else the twin."""
    named = _named(option, environment)
    if named is not None:
        return Chosen(parse(named))
    if Path("/etc/nv_tegra_release").exists():
        return Chosen(parse("local"))
    return Chosen(parse(FALLBACK), f"no --host given: using {FALLBACK}, a simulated board")


def require(option: str | None, environment: Mapping[str, str] = os.environ) -> Host:
    """Returns the host for commands that change a board. Raises UsageError when nobody named one."""
    named = _named(option, environment)
    if named is None:
        raise UsageError(
            "which board? this command changes clocks, so it has no default host",
            "name it: --host sim:tx1, --host local, or set EDGEPERF_HOST",
        )
    return parse(named)
