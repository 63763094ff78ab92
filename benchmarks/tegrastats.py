"""Lines of tegrastats read per second: `edgeperf.tegrastats` against the parser of jetson-stats 4.3.2.

Lines are made from those of the tests, of every layout, with loads, clocks, temperatures and watts drawn anew for each,
so that no reader can live on what it remembers; only lines that both read without an error count. The two take turns,
their order alternates, and the figures are medians over the rounds. Where jetson-stats cannot be imported it is
installed into a temporary folder. The last line is JSON: ``{"lines_per_s": .., "jetson_stats_lines_per_s": ..,
"ratio": ..}``, or ``{"skipped": reason}``.
"""

from __future__ import annotations

import importlib
import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from edgeperf.tegrastats import parse

RIVAL = "jetson-stats==4.3.2"
COUNT = 4000
ROUNDS = 9
LAYOUTS = Path(__file__).resolve().parents[1] / "tests" / "golden" / "tegrastats"
Draw = Callable[[random.Random], str]
CLOCKS_MHZ = [
    102,
    204,
    306,
    408,
    510,
    611,
    729,
    806,
    918,
    998,
    1109,
    1224,
    1300,
    1420,
    1510,
    1600,
    1734,
    1907,
    2035,
    2201,
]
NUMBERS: tuple[tuple[re.Pattern[str], Draw], ...] = (
    (re.compile(r"\d+(?=/\d+[kM]B)"), lambda draw: str(draw.randrange(1000, 4000))),
    (re.compile(r"\d+(?=%)"), lambda draw: str(draw.randrange(101))),
    (re.compile(r"(?<=%@)\d+"), lambda draw: str(draw.choice(CLOCKS_MHZ))),
    (re.compile(r"(?<=@)\d+(?:\.\d+)?(?=C)"), lambda draw: f"{draw.uniform(25, 90):.3f}"),
    (re.compile(r"\d+(?=mW)"), lambda draw: str(draw.randrange(30000))),
    (re.compile(r"(?<=[A-Z] )\d+(?=/\d+(?: |$))"), lambda draw: str(draw.randrange(30000))),
)
"""What changes from line to line, and what it is replaced by. Clocks come in steps, as those of boards do."""

Reader = Callable[[str], object]


def main() -> None:
    """Prints both rates, then their ratio."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            rival = jetson_stats(Path(folder))
        except (ImportError, OSError, subprocess.SubprocessError) as error:
            said = getattr(error, "stderr", b"") or str(error).encode()
            print(json.dumps({"skipped": f"{RIVAL} is not to be had: {said.decode(errors='replace').splitlines()[0]}"}))
            return
        compare(parse, rival)


def jetson_stats(folder: Path) -> Reader:
    """Returns what jetson-stats reads a line with, installing it if need be. Raises what keeps it from that."""
    try:
        found = importlib.import_module("jtop.core.tegrastats")
    except ImportError:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*pip, "--target", str(folder), RIVAL], check=True, capture_output=True, timeout=120)
        sys.path.insert(0, str(folder))
        importlib.invalidate_caches()
        found = importlib.import_module("jtop.core.tegrastats")
    reader: Reader = found.Tegrastats(lambda stats: None, [sys.executable])._decode
    return reader


def compare(ours: Reader, theirs: Reader) -> None:
    """Times both on the lines that both can read."""
    lines = [line for line in made() if readable(ours, line) and readable(theirs, line)]
    print(f"{len(lines)} of {COUNT} lines are read by both")
    rates: dict[Reader, list[float]] = {ours: [], theirs: []}
    for n in range(ROUNDS):
        for reader in (ours, theirs) if n % 2 else (theirs, ours):
            rates[reader].append(len(lines) / seconds(reader, lines))
    mine, other = statistics.median(rates[ours]), statistics.median(rates[theirs])
    ratio = statistics.median(a / b for a, b in zip(rates[ours], rates[theirs], strict=True))
    print(f"edgeperf {mine:,.0f}, jetson-stats {other:,.0f} lines/s")
    figures = {"lines_per_s": round(mine), "jetson_stats_lines_per_s": round(other), "ratio": round(ratio, 2)}
    print(json.dumps(figures))


def made() -> list[str]:
    """Returns lines of all layouts in turn, no two alike."""
    layouts = [file.read_text("utf-8").rstrip("\n") for file in sorted(LAYOUTS.glob("*.txt"))]
    draw = random.Random(4)
    lines = []
    for n in range(COUNT):
        lines.append(changed(layouts[n % len(layouts)], draw))
    return lines


def changed(line: str, draw: random.Random) -> str:
    """Returns a line with other numbers."""
    for pattern, number in NUMBERS:
        pieces = pattern.split(line)
        line = pieces[0] + "".join(number(draw) + piece for piece in pieces[1:])
    return line


def readable(reader: Reader, line: str) -> bool:
    """Says whether a reader takes a line; what it makes of it is not looked at."""
    try:
        reader(line)
    except Exception:  # whatever the other parser raises
        return False
    return True


def seconds(reader: Reader, lines: list[str]) -> float:
    """Returns what reading all lines once takes."""
    start_s = time.perf_counter()
    for line in lines:
        reader(line)
    return time.perf_counter() - start_s


if __name__ == "__main__":
    main()
