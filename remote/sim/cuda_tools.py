"""NVIDIA's programs beside TensorRT: nvcc, which tells its version, and nvidia-smi, which on a Jetson knows little.

The texts have the form that public logs of boards show (JetPack 4.6, 5.1, 6.2 and 7.0).
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Generator, Mapping
from typing import Any

from remote.sim.process import Action, Context, Err, Out

_SERIAL = "/proc/device-tree/serial-number"
_PARTS = ("timeout", "pstate", "ecc.", "fan.", "memory.", "utilization.", "temperature.", "power.", "clocks.", "mig.")
"""How those names of --query-gpu begin that a Jetson answers with [N/A]."""
_BAD_FIELD = 2  # assumed: nvidia-smi's code for an argument that it does not know

_ORIN = """\
{date}
+---------------------------------------------------------------------------------------+
| NVIDIA-SMI {driver:<22} Driver Version: {driver:<12} CUDA Version: {cuda:<8} |
|-----------------------------------------+----------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |         Memory-Usage | GPU-Util  Compute M. |
|                                         |                      |               MIG M. |
|=========================================+======================+======================|
|   0  {name:<25}     N/A  | N/A              N/A |                  N/A |
| N/A   N/A  N/A               N/A /  N/A | Not Supported        |     N/A          N/A |
|                                         |                      |                  N/A |
+-----------------------------------------+----------------------+----------------------+

+---------------------------------------------------------------------------------------+
| Processes:                                                                            |
|  GPU   GI   CI        PID   Type   Process name                            GPU Memory |
|        ID   ID                                                             Usage      |
|=======================================================================================|
|  No running processes found                                                           |
+---------------------------------------------------------------------------------------+
"""
_THOR = """\
{date}
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI {driver:<22} Driver Version: {driver:<14} CUDA Version: {cuda:<8} |
+-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
|   0  {name:<26}     Off |   00000000:01:00.0 Off |                  N/A |
| N/A   N/A  N/A             N/A  /  N/A  | Not Supported          |      0%      Default |
|                                         |                        |             Disabled |
+-----------------------------------------+------------------------+----------------------+

+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|  No running processes found                                                             |
+-----------------------------------------------------------------------------------------+
"""


def cuda_folder(twin: Mapping[str, Any]) -> str:
    """Returns the name of CUDA's folder below /usr/local, "" on a board without CUDA."""
    return f"cuda-{twin['tensorrt']['cuda']}" if "nvcc" in twin else ""


def version_file(twin: Mapping[str, Any]) -> tuple[str, str]:
    """Returns the name and the text of the file in which CUDA has its version: JSON from CUDA 11 on."""
    nvcc, toolkit = twin["nvcc"]["version"], twin["nvcc"]["toolkit"]
    if nvcc.startswith("10."):
        return "version.txt", f"CUDA Version {nvcc}\n"
    parts = {"cuda": ("CUDA SDK", toolkit), "cuda_nvcc": ("CUDA NVCC", nvcc)}
    named = {key: {"name": name, "version": version} for key, (name, version) in parts.items()}
    return "version.json", json.dumps(named, indent=3, separators=(",", " : ")) + "\n"


def nvcc(context: Context) -> Generator[Action, None, int]:
    """``--version`` and ``-V``; compiles nothing."""
    twin: Any = context.twin
    words = context.argv[1:]
    if "nvcc" not in twin or not {"--version", "-V"} & set(words):
        why = "a simulated board has no compiler, only nvcc --version" if words else "No input files specified"
        yield Err(f"nvcc fatal   : {why}\n")
        return 1
    about = twin["nvcc"]
    yield Out(
        "nvcc: NVIDIA (R) Cuda compiler driver\n"
        f"Copyright (c) 2005-{about['built'][-4:]} NVIDIA Corporation\n"
        f"Built on {about['built']}\n"
        f"Cuda compilation tools, release {twin['tensorrt']['cuda']}, V{about['version']}\n"
        f"Build {about['build']}\n"
    )
    return 0


def nvidia_smi(context: Context) -> Generator[Action, None, int]:
    """The table, ``-L``, and ``--query-gpu=NAMES --format=csv[,noheader]``. It is there from L4T R36 on."""
    words = dict(word.partition("=")[::2] for word in context.argv[1:])
    fields = words.pop("--query-gpu", "")
    form = words.pop("--format", "").split(",")
    if words.keys() == {"--query-compute-apps"} and form[0] == "csv":
        yield Out("" if "noheader" in form else ", ".join(words["--query-compute-apps"].split(",")) + "\n")
        return 0  # of the board's programs none shows (assumed)
    name, identity = _name(context), uuid.uuid5(uuid.NAMESPACE_OID, context.read(_SERIAL).strip("\0"))
    if set(words) <= {"-i", "--id", "0"} and fields and form[0] == "csv":
        return (yield from _query(context, fields.split(","), name, str(identity), "noheader" not in form))
    if set(words) <= {"-L", "--list-gpus"} and words and not fields:
        yield Out(f"GPU 0: {name} (UUID: {identity})\n")
        return 0
    if words or fields:
        yield Err("Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n")
        return 1
    yield Out(_table(context, name))
    return 0


def _name(context: Context) -> str:
    device = str(context.twin["device"])
    return f"{device} (nvgpu)" if device == "Orin" else device


def _query(context: Context, fields: list[str], name: str, identity: str, header: bool) -> Generator[Action, None, int]:
    twin: Any = context.twin
    known = {
        "name": name,
        "gpu_name": name,
        "driver_version": twin["driver"],
        "index": "0",
        "count": "1",
        "uuid": identity,
        "gpu_uuid": identity,
        "compute_cap": twin["gpu"]["sm"],
    }
    wanted = [field.strip() for field in fields]
    for field in wanted:
        if field not in known and not field.startswith(_PARTS):
            yield Out(f'Field "{field}" is not a valid field to query.\n\n')
            return _BAD_FIELD
    rows = [", ".join(wanted)] if header else []
    yield Out("\n".join([*rows, ", ".join(known.get(field, "[N/A]") for field in wanted), ""]))
    return 0


def _table(context: Context, name: str) -> str:
    """Returns what it prints without arguments. No processes are shown (assumed)."""
    twin: Any = context.twin
    date = time.strftime("%a %b %e %H:%M:%S %Y", time.gmtime(context.wall()))
    form = _ORIN if name.endswith("(nvgpu)") else _THOR
    return form.format(date=date, name=name, driver=twin["driver"], cuda=twin["tensorrt"]["cuda"])
