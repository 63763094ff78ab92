"""How long `edgeperf --version` and `--help` take, against importing the command-line library alone.

Runs are interleaved, so that a machine whose speed drifts slows all three alike; figures are medians.
The last line is JSON: ``{"version_ratio": .., "help_ratio": ..}``.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

ROUNDS = 15
EDGEPERF = str(Path(sysconfig.get_path("scripts")) / "edgeperf")
COMMANDS = {
    "import typer": [sys.executable, "-c", "import typer"],
    "edgeperf --version": [EDGEPERF, "--version"],
    "edgeperf --help": [EDGEPERF, "--help"],
}


def wall_s(command: list[str]) -> float:
    """Seconds that one run of a command takes; raises CalledProcessError when it fails."""
    start_s = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start_s


def main() -> None:
    """Prints the median of each command, then the two ratios."""
    for command in COMMANDS.values():
        wall_s(command)  # Not counted: fills the file cache and writes the byte code.
    rounds = [{name: wall_s(command) for name, command in COMMANDS.items()} for _ in range(ROUNDS)]
    medians_s = {name: statistics.median(times[name] for times in rounds) for name in COMMANDS}
    for name, median_s in medians_s.items():
        print(f"{name:<20} {median_s * 1e3:6.1f} ms")
    bare_s = medians_s["import typer"]
    ratios = {
        "version_ratio": round(medians_s["edgeperf --version"] / bare_s, 3),
        "help_ratio": round(medians_s["edgeperf --help"] / bare_s, 3),
    }
    print(json.dumps(ratios))


if __name__ == "__main__":
    main()
