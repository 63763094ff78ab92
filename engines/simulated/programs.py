"""The programs of the twin that know networks, by the name they are started under."""

from __future__ import annotations

from functools import partial

from engines.simulated import caffe, runner
from engines.simulated.docker import docker
from engines.simulated.trtexec import program as trtexec
from remote.sim.process import Program


def programs() -> dict[str, Program]:
    """Returns {basename: program} for `remote.board.open_board`."""
    plain: dict[str, Program] = {
        "runner.zip": runner.run,
        "trtexec": trtexec.run,
        "caffe": partial(caffe.time_command, precision="fp32"),
        "caffe_fp16": partial(caffe.time_command, precision="fp16"),
    }
    return {**plain, "docker": partial(docker, programs=plain)}
