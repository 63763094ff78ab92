"""The programs of the twin that know networks, by the name they are started under."""

from __future__ import annotations

from functools import partial

from engines.simulated import caffe, runner
from remote.sim.process import Program


def programs() -> dict[str, Program]:
    """Returns {basename: program} for `remote.board.open_board`."""
    return {
        "runner.zip": runner.run,
        "caffe": partial(caffe.time_command, precision="fp32"),
        "caffe_fp16": partial(caffe.time_command, precision="fp16"),
    }
