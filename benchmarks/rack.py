"""What a rack of simulated boards costs: `sim serve --count 64`, and `maxperf` over the group of them.

The first time nothing is compiled or cached yet. ``restore`` comes between the others, so that each has all to set. The
last line is JSON: ``{"boards": .., "start_s": .., "cold_s": .., "maxperf_s": .., "server_bytes": ..}``: seconds until
the server listens, of the first ``maxperf`` and of the median one after it, and the most memory that the server took.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

BOARDS = 64
ROUNDS = 3
EDGEPERF = str(Path(sysconfig.get_path("scripts")) / "edgeperf")


@contextmanager
def server(folder: Path, environment: Mapping[str, str]) -> Iterator[tuple[int, str]]:
    """Serves the rack; yields the server's process and the lines for an SSH config. Raises RuntimeError."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "key")], check=True)
    command = [EDGEPERF, "sim", "serve", "tx1", "--count", str(BOARDS), "--port", "0"]
    command += ["--authorized-keys", str(folder / "key.pub"), "--quiet"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout
        lines = ""
        while lines.count("UserKnownHostsFile") < BOARDS:
            said = process.stdout.readline()
            if not said:
                raise RuntimeError("the server has ended")
            lines += said
        try:
            yield process.pid, lines
        finally:
            process.terminate()


def command_s(words: list[str], environment: Mapping[str, str]) -> float:
    """Seconds that a command takes. Raises CalledProcessError when it fails."""
    since_s = time.perf_counter()
    subprocess.run([EDGEPERF, *words, "--quiet"], check=True, stdout=subprocess.DEVNULL, env=environment)
    return time.perf_counter() - since_s


def most_bytes(pid: int) -> int:
    """The most memory that a process took so far; 0 where this system does not say."""
    status = Path(f"/proc/{pid}/status")
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return int(found.group(1)) * 1024 if found else 0


def main() -> None:
    """Prints how long each command took, then all as JSON."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = {**os.environ, **{f"XDG_{kind}_HOME": name for kind in ("CACHE", "CONFIG", "DATA")}}
        environment |= {
            "PYTHONPYCACHEPREFIX": str(folder / "compiled"),
            "EDGEPERF_SSH_CONFIG": str(folder / "ssh_config"),
        }
        since_s = time.perf_counter()
        with server(folder, environment) as (pid, lines):
            start_s = time.perf_counter() - since_s
            print(f"listening after {start_s:.2f} s", flush=True)
            (folder / "ssh_config").write_text(lines)
            names = re.findall(r"^Host (\S+)", lines, re.MULTILINE)
            tables = "".join(f'[{name}]\naddress = "{name}"\n' for name in names)
            (folder / "edgeperf").mkdir(exist_ok=True)
            (folder / "edgeperf/hosts.toml").write_text(f"{tables}[groups]\nrack = {json.dumps(names)}\n")
            times_s = []
            for _ in range(1 + ROUNDS):
                times_s.append(command_s(["maxperf", "--host", "rack"], environment))
                print(f"maxperf of {BOARDS} boards: {times_s[-1]:.2f} s", flush=True)
                command_s(["restore", "--host", "rack"], environment)
            taken_bytes = most_bytes(pid)
    figures = {"boards": BOARDS, "start_s": start_s, "cold_s": times_s[0], "maxperf_s": statistics.median(times_s[1:])}
    print(json.dumps({key: round(value, 2) for key, value in figures.items()} | {"server_bytes": taken_bytes}))


if __name__ == "__main__":
    main()
