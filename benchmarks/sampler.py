"""What sampling costs the board: the on-board program on six rails of hwmon, a voltage and a current each.

The last line is JSON: ``{"cpu_share": .., "achieved_hz": .., "late_ms_mean": .., "late_ms_worst": ..}``; the share is
of one core, as the kernel counted it from the order to sample until all samples were handed over.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from remote import bundle
from remote.channel import Channel

RAILS = 6


def main() -> None:
    """Prints what was asked for, then the figures."""
    parser = argparse.ArgumentParser(description="the cost of sampling on the board")
    parser.add_argument("--rate", type=float, default=100.0, help="samples of each rail per second (default: 100)")
    parser.add_argument("--duration", type=float, default=10.0, help="seconds (default: 10)")
    asked = parser.parse_args()
    print(f"{RAILS} rails at {asked.rate:g} Hz for {asked.duration:g} s")
    print(json.dumps(cost(asked.rate, asked.duration)))


def cost(rate_hz: float, duration_s: float) -> dict[str, float]:
    """Samples for ``duration_s``; returns the figures of the last line."""
    with agent() as (channel, pid):
        before_s = cpu_s(pid)
        number = channel.send(
            "stream",
            argv=[],
            duration_s=duration_s,
            timeout_s=duration_s,
            sampling={"rails": list(channel.hello["rails"]), "rate_hz": rate_hz, "watch_hz": 1.0},
        )
        series = []
        while (message := channel.receive(number))["kind"] == "data":
            series.append(message["series"])
        spent_s = cpu_s(pid) - before_s
    assert len(series) == RAILS
    assert all(value == 5.0 for item in series for value in item["values"])
    times_s = series[0]["times_s"]
    return {
        "cpu_share": round(spent_s / (message["ended_s"] - message["started_s"]), 4),
        "achieved_hz": round((len(times_s) - 1) / (times_s[-1] - times_s[0]), 2),
        "late_ms_mean": round(1e3 * statistics.fmean(item["late_s"] for item in series), 3),
        "late_ms_worst": round(1e3 * max(item["late_worst_s"] for item in series), 3),
    }


@contextmanager
def agent() -> Iterator[tuple[Channel, int]]:
    """Starts the program on a tree of files; yields the conversation with it, and the number of its process."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "tree"
        make_tree(root)
        programs = Path(folder) / "onboard.zip"
        programs.write_bytes(bundle.programs().data)
        start = [sys.executable, "-I", "-S", str(programs), "agent", "--root", str(root)]
        with closing(Pipes(start)) as link:
            yield Channel(link, bundle.build_id()), link.pid


class Pipes:
    """A child process as a `remote.channel.Link` that tells its number."""

    def __init__(self, argv: list[str]) -> None:
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.pid = self._process.pid

    def send(self, data: bytes) -> None:
        """Sends all of ``data``."""
        assert self._process.stdin is not None
        self._process.stdin.write(data)

    def receive(self, timeout_s: float | None) -> bytes:
        """Returns what came."""
        assert self._process.stdout is not None
        return self._process.stdout.read(1 << 20)

    def close(self) -> None:
        """Ends the program."""
        self._process.communicate()


def make_tree(root: Path) -> None:
    """Makes the files of two monitors with three channels each."""
    for chip in range(RAILS // 3):
        folder = root / f"sys/class/hwmon/hwmon{chip + 1}"
        folder.mkdir(parents=True)
        (folder / "name").write_text("ina3221\n")
        for channel in range(1, 4):
            (folder / f"in{channel}_label").write_text(f"VDD_{chip}{channel}\n")
            (folder / f"in{channel}_input").write_text("5000\n")
            (folder / f"curr{channel}_input").write_text("1000\n")


def cpu_s(pid: int) -> float:
    """Returns the CPU seconds of a process, to the nanosecond."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) * 1e-9


if __name__ == "__main__":
    main()
