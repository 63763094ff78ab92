"""How long a bench on the simulated board takes: the default one, and one of ten simulated minutes.

Runs are interleaved, so that a machine whose speed drifts slows all alike; figures are medians. Each starts with an
empty cache, as where edgeperf has never run. The last line is JSON: ``{"default_s": .., "default_ratio": ..,
"ten_minutes_s": .., "ten_minutes_ratio": ..}``; ratios are to importing the command-line library alone.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

ROUNDS = 5
EDGEPERF = str(Path(sysconfig.get_path("scripts")) / "edgeperf")
BENCH = [EDGEPERF, "bench", "alexnet", "--fp16", "--batch", "64", "--host", "sim:tx1"]
COMMANDS = {
    "import typer": [sys.executable, "-c", "import typer"],
    "default": BENCH,
    "ten minutes": [*BENCH, "--duration", "600"],
}


def wall_s(command: list[str]) -> float:
    """Seconds that one run of a command takes; raises CalledProcessError when it fails."""
    with tempfile.TemporaryDirectory() as folder:
        own = {f"XDG_{kind}_HOME": folder for kind in ("CACHE", "CONFIG", "DATA")}
        start_s = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, **own})
        return time.perf_counter() - start_s


def main() -> None:
    """Prints the median of each command, then seconds and ratios."""
    for command in COMMANDS.values():
        wall_s(command)  # Not counted: fills the file cache and writes the byte code.
    rounds = [{name: wall_s(command) for name, command in COMMANDS.items()} for _ in range(ROUNDS)]
    medians_s = {name: statistics.median(times[name] for times in rounds) for name in COMMANDS}
    for name, median_s in medians_s.items():
        print(f"{name:<14}{median_s:6.3f} s")
    bare_s = medians_s.pop("import typer")
    figures: dict[str, float] = {}
    for name, median_s in medians_s.items():
        word = name.replace(" ", "_")
        figures |= {f"{word}_s": round(median_s, 3), f"{word}_ratio": round(median_s / bare_s, 2)}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
