"""CUDA, nvidia-smi and the packages of a simulated board, in its own root: nothing of them is this machine's."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from remote import boards
from tests.remote import sim_root
from tests.remote.sim_root import Shell

CUDA = {
    "nano@r32.7": "10.2.300",
    "xavier-nx@r35.4": "11.4.315",
    "orin-nx@r36.4": "12.6.68",
    "agx-thor@r38.4": "13.0.48",
}
OLD = "tx1@r23.1"


@pytest.fixture(scope="module", params=CUDA)
def board(request: pytest.FixtureRequest) -> Iterator[tuple[str, Shell]]:
    """Its name and release, and its root."""
    for shell in sim_root.shell(request.param):
        yield request.param, shell


def test_cuda_has_the_version_of_the_board_s_jetpack(board: tuple[str, Shell]) -> None:
    name, shell = board
    version = CUDA[name]
    told = shell.run("/usr/local/cuda/bin/nvcc --version").stdout
    assert told.startswith("nvcc: NVIDIA (R) Cuda compiler driver\nCopyright (c) 2005-20")
    assert f"release {version.rpartition('.')[0]}, V{version}\n" in told
    assert shell.run("readlink /usr/local/cuda").stdout == f"cuda-{version.rpartition('.')[0]}\n"
    assert len(shell.run("ls /usr/local/cuda/").stdout.split()) == 2  # and nothing of this machine's
    if version.startswith("10."):
        assert shell.run("cat /usr/local/cuda/version.txt").stdout == f"CUDA Version {version}\n"
    else:
        found = json.loads(shell.run("cat /usr/local/cuda/version.json").stdout)
        assert found["cuda_nvcc"] == {"name": "CUDA NVCC", "version": version}
        assert found["cuda"]["version"].startswith(version.rpartition(".")[0])


def test_nvcc_compiles_nothing_and_says_so(board: tuple[str, Shell]) -> None:
    ran = board[1].run("/usr/local/cuda/bin/nvcc -o x x.cu")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == "nvcc fatal   : a simulated board has no compiler, only nvcc --version\n"


def test_this_machine_s_cuda_and_its_programs_are_not_there() -> None:
    ours = [str(path) for path in Path("/usr/local").glob("cuda*")] or ["/usr/local/cuda"]
    for shell in sim_root.shell(OLD):
        ran = shell.run(f"cat {' '.join(f'{path}/version.json' for path in ours)}; command -v nvcc ptxas nvidia-smi")
        assert ran.stdout == ""
        assert shell.run("nvcc --version").returncode == 127
        assert shell.run("systemctl status").returncode == 127  # Ubuntu 14.04 has none


def test_nvidia_smi_is_there_from_r36_on_and_knows_little(board: tuple[str, Shell]) -> None:
    name, shell = board
    ran = shell.run("nvidia-smi")
    if name in ("nano@r32.7", "xavier-nx@r35.4"):
        assert ran.returncode == 127
        return
    gpu, driver = ("NVIDIA Thor", "580.00") if "thor" in name else ("Orin (nvgpu)", "540.4.0")
    lines = ran.stdout.splitlines()
    assert f"| NVIDIA-SMI {driver} " in ran.stdout
    assert f"CUDA Version: {CUDA[name].rpartition('.')[0]} " in ran.stdout
    assert f"|   0  {gpu} " in ran.stdout
    assert len({len(line) for line in lines[1:] if line}) == 1
    assert shell.run("nvidia-smi -L").stdout.startswith(f"GPU 0: {gpu} (UUID: ")
    asked = "nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv"
    header = "name, driver_version, memory.total\n"
    assert shell.run(asked).stdout == f"{header}{gpu}, {driver}, [N/A]\n"
    assert shell.run(f"{asked},noheader").stdout == f"{gpu}, {driver}, [N/A]\n"
    assert shell.run("nvidia-smi --query-gpu=compute_cap --format=csv,noheader").stdout in ("8.7\n", "11.0\n")
    assert shell.run("nvidia-smi --query-gpu=nothing --format=csv").returncode == 2
    assert shell.run("nvidia-smi --query-compute-apps=pid --format=csv,noheader").stdout == ""
    assert shell.run("nvidia-smi -q -x").returncode == 1
    assert shell.run("command -v nvidia-smi").stdout == "/usr/sbin/nvidia-smi\n"


@pytest.mark.skipif(not shutil.which("dpkg-query"), reason="needs dpkg")
def test_dpkg_knows_jetpack_s_packages_as_on_the_board(board: tuple[str, Shell]) -> None:
    name, shell = board
    kind, release = name.split("@")
    packages = boards.load(kind).twin["l4t"][release]["packages"]
    assert shell.run("dpkg --print-architecture").stdout == "arm64\n"
    rows = [line.split()[:4] for line in shell.run("dpkg -l | grep ^ii").stdout.splitlines()]
    assert all(["ii", package, version, "arm64"] in rows for package, version in packages.items())
    shown = dict(line.split("\t") for line in shell.run("dpkg-query --show").stdout.splitlines())
    assert shown["tensorrt"].endswith(packages["tensorrt"])
    assert shell.run("dpkg -s nothing").returncode == 1
    for part in ("cudnn", "nvinfer", "vpi", "cuda-toolkit"):
        assert shell.run(f"dpkg -l | grep {part}").returncode == 0


def test_swap_is_a_compressed_device_per_core_and_adds_up(board: tuple[str, Shell]) -> None:
    _, shell = board
    rows = shell.run("tail -n +2 /proc/swaps").stdout.splitlines()
    total_kib = int(shell.run("grep SwapTotal /proc/meminfo").stdout.split()[1])
    cores = int(shell.board.machine.twin["cores"])
    assert sum(int(row.split()[2]) for row in rows) == total_kib
    assert [row.split()[0] for row in rows] == [f"/dev/zram{n}" for n in range(cores if total_kib else 0)]


def test_the_chip_has_its_number(board: tuple[str, Shell]) -> None:
    name, shell = board
    number = {"nano@r32.7": 33, "xavier-nx@r35.4": 25, "orin-nx@r36.4": 35, "agx-thor@r38.4": 38}[name]
    assert shell.run("cat /sys/devices/soc0/soc_id").stdout == f"{number}\n"


def test_services_and_processors_are_the_board_s(board: tuple[str, Shell]) -> None:
    _, shell = board
    ran = shell.run("service ssh status && sudo service docker stop; systemctl is-active docker; nproc --all; lscpu")
    assert "Active: active (running)" in ran.stdout
    assert "\ninactive\n" in ran.stdout
    assert f"\n{shell.board.machine.twin['cores']}\nArchitecture:        aarch64\n" in ran.stdout
