"""What setting a board's clocks over SSH costs, against OpenSSH's own client and a naive fabric script.

A real sshd on loopback (that of the tests; needs root) with a folder for a board, behind a proxy that holds bytes back
by 0, 20 and 75 ms each way. All set the same 32 nodes, as many as on a Jetson AGX Orin; edgeperf also reads each one
back and keeps the journal. Figures are medians of interleaved runs, each in a process of its own. Python programs run
from byte code, as when they are installed.

Then 64 boards at once against fabric's ThreadingGroup that runs one command on each: reading all clocks. The boards
share this machine, so their side of the work counts on both sides of the ratio.

The last line is JSON: ``{"openssh_ratio": {"0": .., "20": .., "75": ..}, "naive_speedup": {..},
"round_trips_per_request": .., "fanout_ratio": .., "fanout_peak_mb": ..}``; the ratios are edgeperf over the other, the
speedup is naive over edgeperf.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

if TYPE_CHECKING:
    from tests.ssh.sshd import Sshd

DELAYS_MS = (0, 20, 75)
CORES = 16
"""Each with clocks of its own, of which two settings are changed."""
EDGEPERF = [sys.executable, "-c", "from edgeperf.cli import main; main()"]
GOVERNOR = "/sys/devices/system/cpu/cpu{}/cpufreq/scaling_governor"
MINIMUM = "/sys/devices/system/cpu/cpu{}/cpufreq/scaling_min_freq"


def main() -> None:
    """Prints each comparison, then all figures as JSON."""
    parser = argparse.ArgumentParser(description="edgeperf over SSH against OpenSSH and a naive fabric script")
    parser.add_argument("--runs", type=int, default=7, help="of each side and delay (default: 7)")
    parser.add_argument("--boards", type=int, default=64, help="in the fan-out (default: 64)")
    parser.add_argument("--proxy", nargs=3, metavar=("PORT", "TO", "MS"), help=argparse.SUPPRESS)
    parser.add_argument("--naive", nargs=2, metavar=("PORT", "TREE"), help=argparse.SUPPRESS)
    parser.add_argument("--group", nargs=3, metavar=("PORT", "COUNT", "COMMAND"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.proxy:
        asyncio.run(proxy(int(asked.proxy[0]), int(asked.proxy[1]), float(asked.proxy[2]) / 1000))
    elif asked.naive:
        naive(int(asked.naive[0]), Path(asked.naive[1]))
    elif asked.group:
        group(int(asked.group[0]), int(asked.group[1]), asked.group[2])
    else:
        compare(asked.runs, asked.boards)


def compare(runs: int, boards: int) -> None:
    """Runs everything on a server and a client of its own."""
    from tests.ssh import sshd

    server = sshd.start()
    with tempfile.TemporaryDirectory() as home:
        try:
            os.environ.update(
                HOME=home, PYTHONPATH=str(ROOT), XDG_CONFIG_HOME=f"{home}/config", XDG_CACHE_HOME=f"{home}/cache"
            )
            os.environ.update(PYTHONPYCACHEPREFIX=f"{home}/compiled", PYTHONDONTWRITEBYTECODE="")
            server.welcome(Path(home))
            ratios, speedups = {}, {}
            for delay_ms in DELAYS_MS:
                ssh_s, naive_s, own_s = one_board(server, Path(home), delay_ms, runs)
                ratios[str(delay_ms)], speedups[str(delay_ms)] = round(own_s / ssh_s, 3), round(naive_s / own_s, 2)
                print(
                    f"{delay_ms} ms each way: OpenSSH {ssh_s:.3f} s, naive {naive_s:.3f} s, edgeperf {own_s:.3f} s",
                    flush=True,
                )
            trips = round_trips(server, 20)
            ratio, peak_mb = fan_out(server, boards)
        finally:
            sshd.stop(server)
    figures = {"openssh_ratio": ratios, "naive_speedup": speedups, "round_trips_per_request": trips}
    print(json.dumps({**figures, "fanout_ratio": ratio, "fanout_peak_mb": peak_mb}))


# One board


def one_board(server: Sshd, home: Path, delay_ms: int, runs: int) -> tuple[float, float, float]:
    """Returns the median seconds of OpenSSH, of the naive script and of edgeperf."""
    tree = make(server)
    with delayed(server, home, delay_ms) as port:
        remember(home, port, {"board": tree})
        script = "".join(f"echo {value} > {tree}{node}\n" for node, value in writes())
        options = [
            "-p",
            str(port),
            "-o",
            "BatchMode=yes",
            "-i",
            f"{home}/.ssh/id_ed25519",
            "-o",
            f"UserKnownHostsFile={home}/.ssh/known_hosts",
        ]
        sides = {
            "openssh": (["ssh", *options, "root@127.0.0.1", "sh -s"], script),
            "naive": ([sys.executable, __file__, "--naive", str(port), str(tree)], ""),
            "edgeperf": ([*EDGEPERF, "maxperf", "--host", "board"], ""),
        }
        times: dict[str, list[float]] = {name: [] for name in sides}
        for turn in range(runs + 1):
            for name, (command, stdin) in sides.items():
                reset(tree)
                began = time.perf_counter()
                done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
                took_s = time.perf_counter() - began
                assert done.returncode == 0, done.stderr
                assert [(tree / node.lstrip("/")).read_text().strip() for node, _ in writes()] == [
                    v for _, v in writes()
                ]
                if turn:  # the first turn brings the programs and warms caches
                    times[name].append(took_s)
    shutil.rmtree(tree)
    return statistics.median(times["openssh"]), statistics.median(times["naive"]), statistics.median(times["edgeperf"])


def writes() -> list[tuple[str, str]]:
    """Returns the nodes that are set, with their values, on every side."""
    found = []
    for core in range(CORES):
        found += [(GOVERNOR.format(core), "performance"), (MINIMUM.format(core), "1734000")]
    return found


def make(server: Sshd) -> Path:
    """Returns a folder that is a board's file system: four cores, each with clocks of its own."""
    from tests.contract.backends import CPUFREQ, tree

    root = server.tree("root")
    tree(root)
    cpu = root / "sys/devices/system/cpu"
    (cpu / "present").write_text(f"0-{CORES - 1}\n")
    for core in range(CORES):
        (cpu / f"cpu{core}/cpufreq").mkdir(parents=True, exist_ok=True)
        (cpu / f"cpu{core}/online").write_text("1\n")
        for name, text in {**CPUFREQ, "related_cpus": str(core)}.items():
            (cpu / f"cpu{core}/cpufreq" / name).write_text(f"{text}\n")
    return root


def reset(tree: Path) -> None:
    """Makes the board one whose clocks nobody has set."""
    for core in range(CORES):
        (tree / GOVERNOR.format(core).lstrip("/")).write_text("ondemand\n")
        (tree / MINIMUM.format(core).lstrip("/")).write_text("102000\n")
    shutil.rmtree(tree / "run", ignore_errors=True)


def remember(home: Path, port: int, trees: dict[str, Path]) -> None:
    """Writes the client's inventory: boards by name, all in the group ``all``."""
    from remote.inventory import Entry, Inventory

    known = Inventory()
    for name, tree in trees.items():
        known = known.add(name, Entry(f"root@127.0.0.1:{port}", tree=str(tree)), ("all",))
    file = home / "config/edgeperf/hosts.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(known.to_toml(), "utf-8")


def naive(port: int, tree: Path) -> None:
    """A script as one writes it first: a `run` for each node."""
    import fabric

    with fabric.Connection("127.0.0.1", user="root", port=port) as board:
        for node, value in writes():
            board.run(f"echo {value} > {tree}{node}", hide=True)


def round_trips(server: Sshd, delay_ms: int) -> float:
    """Returns the median time of a request after the first, in round trips."""
    from remote import ssh
    from remote.access import Access

    times_s = []
    with delayed(server, Path(os.environ["HOME"]), delay_ms) as port:
        from dataclasses import replace

        host = replace(server.host("root", str(make(server))), port=port)
        with ssh.connect(host, Access()) as board:
            for _ in range(21):
                began = time.perf_counter()
                board.read(settings=True)
                times_s.append(time.perf_counter() - began)
    return round(statistics.median(times_s) / (2 * delay_ms / 1000), 3)


# The proxy


@contextmanager
def delayed(server: Sshd, home: Path, delay_ms: int) -> Iterator[int]:
    """Gives a port of a proxy that delays the server by that much each way, known to the client."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    key = " ".join((server.folder / "hostkey.pub").read_text().split()[:2])
    with (home / ".ssh/known_hosts").open("a") as known:
        known.write(f"[127.0.0.1]:{port} {key}\n")
    command = [sys.executable, __file__, "--proxy", str(port), str(server.port), str(delay_ms)]
    with subprocess.Popen(command) as process:
        try:
            for _ in range(100):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.05)
            yield port
        finally:
            process.terminate()


async def proxy(port: int, to: int, delay_s: float) -> None:
    """Forwards connections until it is killed, holding every byte back by ``delay_s``."""

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        waiting: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def deliver() -> None:
            while True:
                due, data = await waiting.get()
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                if not data:
                    break
                writer.write(data)
            writer.close()

        delivering = asyncio.create_task(deliver())
        try:
            while data := await reader.read(1 << 16):
                waiting.put_nowait((time.monotonic() + delay_s, data))
        except ConnectionError:
            pass
        waiting.put_nowait((time.monotonic() + delay_s, b""))
        await delivering

    async def both(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", to)
        await asyncio.gather(carry(reader, inner_writer), carry(inner_reader, writer), return_exceptions=True)

    async with await asyncio.start_server(both, "127.0.0.1", port) as serving:
        await serving.serve_forever()


# Many boards


def fan_out(server: Sshd, boards: int) -> tuple[float, float]:
    """Returns edgeperf's wall time on many boards over that of fabric's threads, and edgeperf's peak memory in MB."""
    from remote import start

    home = Path(os.environ["HOME"])
    trees = {f"board{number}": make(server) for number in range(boards)}
    remember(home, server.port, trees)
    kept = server.home("root") / f".cache/edgeperf/onboard-{start.programs()[1]}.zip"
    reading = f"/usr/bin/python3 -I -S {kept} clockd --root {trees['board0']} </dev/null"
    own = [*EDGEPERF, "maxperf", "--host", "all"]
    threads = [sys.executable, __file__, "--group", str(server.port), str(boards), reading]
    ratios, peaks_mb = [], []
    for turn in range(4):
        for tree in trees.values():
            reset(tree)
        own_s, own_mb = timed(own)
        other_s, other_mb = timed(threads)
        if turn:
            ratios.append(own_s / other_s)
            peaks_mb.append(own_mb)
            print(
                f"{boards} boards: fabric {other_s:.2f} s, {other_mb:.0f} MB; edgeperf {own_s:.2f} s, {own_mb:.0f} MB"
            )
    return round(statistics.median(ratios), 3), round(statistics.median(peaks_mb), 1)


def group(port: int, count: int, command: str) -> None:
    """Runs one command on many connections in fabric's threads."""
    import fabric

    members = [fabric.Connection("127.0.0.1", user="root", port=port) for _ in range(count)]
    fabric.ThreadingGroup.from_connections(members).run(command, hide=True)


def timed(command: Sequence[str]) -> tuple[float, float]:
    """Runs a command; returns its wall time in seconds and its peak memory in MB."""
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        took_s = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return took_s, usage.ru_maxrss / 1024


if __name__ == "__main__":
    main()
