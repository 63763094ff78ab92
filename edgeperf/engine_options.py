"""The options of TensorRT engines, for the commands that build and run them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from remote.errors import UsageError

if TYPE_CHECKING:
    from engines.spec import Options

CUDA = ("pycuda", "cuda-python", "ctypes")
_SIZE = re.compile(r"(\d{1,9})\s*(mib|m|gib|g)?", re.IGNORECASE)

WorkspaceOption = Annotated[
    str, typer.Option("--workspace", metavar="SIZE", help="Most that the builder may use: 512MiB.")
]
Tf32Option = Annotated[bool, typer.Option("--tf32", help="Let FP32 be computed in TF32 where the GPU has it.")]
BuildsOption = Annotated[int, typer.Option("--builds", min=1, max=20, help="Build that often and keep the fastest.")]
TransfersOption = Annotated[bool, typer.Option("--transfers", help="Copy input and output for every batch.")]
SpinOption = Annotated[bool, typer.Option("--spin", help="Wait busily for the GPU: quicker answers, more watts.")]
GraphOption = Annotated[bool, typer.Option("--cuda-graph", help="Start each batch as one CUDA graph.")]
CudaOption = Annotated[
    str | None, typer.Option("--cuda", metavar="NAME", help=f"Way to CUDA: {' | '.join(CUDA)}. Default: the first.")
]
ShapeOption = Annotated[
    list[str] | None, typer.Option("--shape", metavar="INPUT:DIMS", help="Shape of an input: data:1x3x224x224.")
]
ContainerOption = Annotated[
    str, typer.Option("--container", metavar="IMAGE", help="Build and run in this docker image on the board.")
]


def engine_options(
    *,
    workspace: str,
    tf32: bool,
    builds: int,
    cuda: str | None,
    shape: list[str] | None,
    container: str,
    transfers: bool = False,
    spin: bool = False,
    cuda_graph: bool = False,
) -> Options:
    """Returns the options as typed in. Raises UsageError for what none of them can be."""
    from engines.models import parse_shapes
    from engines.spec import Options, Protocol

    if cuda is not None and cuda not in CUDA:
        raise UsageError(f"--cuda {cuda!r} is not known", f"give {', '.join(CUDA)}, or leave it out")
    if container.startswith("-") or container != container.strip():
        raise UsageError(f"--container {container!r} is no image", "give its name and tag, as in l4t-tensorrt:r8.5.2")
    protocol = Protocol(transfers, spin, cuda_graph, tf32=tf32, workspace_bytes=_workspace(workspace))
    return Options(protocol, builds, cuda, parse_shapes(shape or ()), container)


def _workspace(text: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    mib = int(match[1]) << (10 if (match[2] or "m").lower().startswith("g") else 0) if match else 0
    if not 1 <= mib <= 1 << 20:
        raise UsageError(f"--workspace {text!r} is no size", "write 512MiB, 2GiB or plain MiB such as 512")
    return mib << 20
